"""Settings: files, environment and flags become frozen values, read once and handed on.

Later layers win: defaults, the user's config.toml, memory.toml at the project's root, MEMORY_*
variables, flags. The daemon reads at its start, without a project. A caller's command reads each
time, and there the project's file may not touch what belongs to the daemon.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from agent_memory.domain import spelling, toml_text
from agent_memory.domain.errors import ConfigError

PROJECT_FILE = "memory.toml"
ENVIRONMENT_PREFIX = "MEMORY_"
LEVELS = ("trace", "debug", "info", "warn", "error")

Applies = Literal["restart", "live", "personal"]


def setting(default: Any, doc: str, *, applies: Applies = "restart", **limits: Any) -> Any:
    """A field of a section. `limits`: `minimum`, `maximum`, `choices`."""
    metadata = {"doc": doc, "applies": applies, **limits}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def live(default: Any, doc: str, **limits: Any) -> Any:
    """A setting that acts on each command and hook, and that a project may set."""
    return setting(default, doc, applies="live", **limits)


def personal(default: Any, doc: str) -> Any:
    """A setting that acts on each command and hook, and that no project may set: what a repository
    brings along must not send anything anywhere."""
    return setting(default, doc, applies="personal")


def port(default: int, doc: str) -> Any:
    return setting(default, doc, minimum=0, maximum=65535)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    path: str = setting(
        "", "Folder of the database, in the data folder unless absolute; empty: `db`."
    )
    url: str = setting("", "A server database in place of `storage.path`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grpc:
    host: str = setting("localhost", "Address to serve on; `localhost` is IPv4 and IPv6 loopback.")
    port: int = port(50051, "Port of all gRPC services; 0 picks a free one.")
    require_key: bool = setting(False, "Ask for a bearer key on `memory.*` too.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    host: str = setting("localhost", "Address to serve on; `localhost` is IPv4 and IPv6 loopback.")
    port: int = port(8000, "Port of REST, streams and MCP; 0 picks a free one.")
    allowed_hosts: list[str] = setting(
        [], "Names by which this machine may be asked, besides loopback and `http.host`."
    )
    allowed_origins: list[str] = setting(
        [], "Web pages that may ask, by their origin: `https://dashboard.example`."
    )
    rate: int = setting(
        100, "Requests a second that a key may make; 0 is no limit.", minimum=0, maximum=1_000_000
    )
    burst: int = setting(
        1000, "Requests that it may make at once; 0 is no limit.", minimum=0, maximum=1_000_000
    )
    max_body_bytes: int = setting(
        16 << 20, "The most bytes of a request's body.", minimum=1024, maximum=1 << 30
    )
    tls_cert: str = setting(
        "", "File of the certificate and its chain (PEM): HTTPS in place of HTTP."
    )
    tls_key: str = setting("", "File of its private key (PEM), for its owner's eyes only.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    level: str = setting("info", "Least severe level that is logged.", choices=LEVELS)
    max_bytes: int = setting(10 << 20, "Size at which the log file is rotated.", minimum=1 << 16)
    files: int = setting(5, "How many rotated log files are kept.", minimum=1, maximum=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    otlp_endpoint: str = setting(
        "", "Where traces are sent, as http://localhost:4318/v1/traces; needs the extra `otel`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    enabled: bool = setting(True, "Run background jobs.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    path: str = setting("", "Folder of the scheduled backups; on another disk if you can.")
    schedule: str = setting(
        "", "When to take one, as cron with seconds, in UTC: `0 0 3 * * *`; empty: never."
    )
    keep: int = setting(7, "How many of the newest stay.", minimum=1, maximum=10_000)
    keep_weekly: int = setting(
        4, "For how many weeks the newest of each week stays too.", minimum=0, maximum=10_000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    secrets: str = setting(
        "redact",
        "What happens to a secret: `redact` it, `block` the content, `warn`, or `off`.",
        choices=("redact", "block", "warn", "off"),
    )
    allow: list[str] = setting(
        [], "What is no secret: as it is, or as a /regular expression/ for all of it."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    remote: str = live("origin", "The remote through which a project's memories are shared.")
    user_remote: str = setting("", "Address of a repository that keeps the user's own memories.")
    org: str = setting("", "Name of the organisation whose memories are shared.")
    org_repository: str = setting(
        "", "Its repository: an absolute path, or the address of a remote."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cli:
    default_format: str = live(
        "text",
        "Output format where `--format` is not given.",
        choices=("text", "json", "yaml", "markdown", "quiet"),
    )
    color: bool = live(True, "Colour on a terminal.")
    progress: bool = live(True, "Progress bars on a terminal.")
    pager: bool = live(True, "Page what is longer than the terminal.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toc:
    time_gap_ms: int = setting(1_800_000, "A pause this long ends a segment.", minimum=1)
    max_tokens: int = setting(4096, "Size at which a segment is cut.", minimum=1)
    overlap_ms: int = setting(300_000, "How far back a segment's context reaches.", minimum=0)
    overlap_tokens: int = setting(500, "The most context a segment takes over.", minimum=0)
    max_tool_result_chars: int = setting(2000, "How much of a tool result counts.", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizer:
    provider: str = setting(
        "extractive",
        "Who writes the table of contents; all but `extractive` need a model.",
        choices=("extractive", "llama", "openai", "anthropic"),
    )
    base_url: str = setting("", "Address of the provider's API; empty: its own.")
    model: str = setting("", "The provider's name of the model.")
    api_key_env: str = setting(
        "", "Environment variable with the API key; a daemon keeps those that start with MEMORY_."
    )
    daily_token_budget: int = setting(500_000, "Tokens a day; 0 is no limit.", minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedder:
    provider: str = setting(
        "minilm",
        "Who embeds: the packaged MiniLM, an OpenAI-compatible endpoint, or `none`.",
        choices=("minilm", "openai", "none"),
    )
    model: str = setting("", "The provider's name of the model; empty: its default.")
    base_url: str = setting("", "Address of the provider's API; empty: its own.")
    api_key_env: str = setting(
        "", "Environment variable with the API key; a daemon keeps those that start with MEMORY_."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama:
    server: str = setting("", "The llama-server program; empty: found on PATH.")
    model_dir: str = setting("~/models", "Folder of GGUF models.")
    model: str = setting(
        "", "The model: a file of `llama.model_dir`, or the endpoint's name of it; empty: the one."
    )
    context_size: int = setting(4096, "Tokens of context.", minimum=256, maximum=1 << 24)
    parallel: int = setting(1, "Answers that are written at once.", minimum=1, maximum=64)
    args: list[str] = setting([], "Further arguments of llama-server, one for each.")
    start_seconds: int = setting(180, "How long it may take to load its model.", minimum=1)
    idle_minutes: int = setting(
        15, "It is ended when nobody has asked for so long; 0: never.", minimum=0
    )
    endpoint: str = setting("", "An OpenAI-compatible server to use; none is started then.")
    api_key_env: str = setting(
        "", "Environment variable with its key; a daemon keeps those that start with MEMORY_."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    max_turns: int = setting(
        25, "How often a run asks the model, unless its agent says.", minimum=1, maximum=1000
    )
    max_runs: int = setting(64, "Runs that go on at once.", minimum=1, maximum=1000)
    turn_seconds: int = setting(
        600, "How long the model may take to begin an answer, or to go on with it.", minimum=1
    )
    tool_seconds: int = setting(120, "How long a tool may take.", minimum=1)
    commands: list[str] = setting(
        [], "What `run_command` may run, by the words they begin with: `git status`, `pytest`."
    )
    web_private: list[str] = setting(
        [], "Hosts of private networks that `web_fetch` may ask: `localhost:3000`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mcp:
    server_name: str = setting("memory", "Name told to MCP clients.")
    subscriptions: bool = setting(True, "Offer resource subscriptions.")
    prompts_enabled: bool = setting(True, "Offer prompts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming:
    sse_keepalive_seconds: int = setting(15, "Pause between SSE keep-alives.", minimum=1)
    ws_ping_seconds: int = setting(30, "Pause between WebSocket pings.", minimum=1)
    max_connections: int = setting(100, "Connections per transport.", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStartHook:
    enabled: bool = live(True, "Record when a session starts, and give it context.")
    fetch_remote: bool = personal(False, "Fetch the team's memories first.")
    context_token_budget: int = live(
        2000, "The most tokens of context; agents take 2,450.", minimum=0
    )
    include_guidance: bool = live(True, "Tell the agent how to use its memory.")
    guidance_detail: str = live(
        "standard", "How much of that.", choices=("minimal", "standard", "detailed")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPromptHook:
    enabled: bool = live(True, "Record prompts, and look for signals in them.")
    signal_patterns: list[str] = live(
        ["[decision]", "[learned]", "[blocker]", "[progress]"], "Markers that ask for a capture."
    )
    recall: bool = live(False, "Add up to three related memories.")
    auto_capture: bool = live(False, "Capture what has a marker, without asking.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToolUseHook:
    enabled: bool = live(True, "Record what tools do, and give related memories.")
    trigger_tools: list[str] = live(["Read", "Edit", "Write"], "The tools that do so.")
    exclude_patterns: list[str] = live(["*.lock", "node_modules/*"], "Files that do not.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreCompactHook:
    enabled: bool = live(True, "Capture what matters before compaction.")
    confidence_threshold: float = live(0.8, "How sure it must be.", minimum=0, maximum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopHook:
    enabled: bool = live(True, "Record answers, and look back when a session ends.")
    push_remote: bool = personal(False, "Sync with the remote when a session ends.")
    session_analysis: bool = live(True, "Capture then what asks to be remembered.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    enabled: bool = live(True, "Record and answer hooks.")
    session_start: SessionStartHook = field(default_factory=SessionStartHook)
    user_prompt: UserPromptHook = field(default_factory=UserPromptHook)
    post_tool_use: PostToolUseHook = field(default_factory=PostToolUseHook)
    pre_compact: PreCompactHook = field(default_factory=PreCompactHook)
    stop: StopHook = field(default_factory=StopHook)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    storage: Storage = field(default_factory=Storage)
    grpc: Grpc = field(default_factory=Grpc)
    http: Http = field(default_factory=Http)
    log: Log = field(default_factory=Log)
    toc: Toc = field(default_factory=Toc)
    summarizer: Summarizer = field(default_factory=Summarizer)
    embedder: Embedder = field(default_factory=Embedder)
    llama: Llama = field(default_factory=Llama)
    runs: Runs = field(default_factory=Runs)
    scheduler: Scheduler = field(default_factory=Scheduler)
    backup: Backup = field(default_factory=Backup)
    telemetry: Telemetry = field(default_factory=Telemetry)
    security: Security = field(default_factory=Security)
    memories: Memories = field(default_factory=Memories)
    cli: Cli = field(default_factory=Cli)
    mcp: Mcp = field(default_factory=Mcp)
    streaming: Streaming = field(default_factory=Streaming)
    hooks: Hooks = field(default_factory=Hooks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One known setting."""

    name: str
    type: Any
    default: Any
    doc: str
    applies: Applies
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()

    def expects(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type is bool:
            return "true or false"
        if self.type in (int, float):
            kind = "a whole number" if self.type is int else "a number"
            if self.maximum is not None:
                return f"{kind} from {self.minimum} to {self.maximum}"
            return f"{kind} of at least {self.minimum}"
        if get_origin(self.type) is list:
            return "a list of strings"
        return "a string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings in force, and for each key that is not at its default, where it came from."""

    settings: Settings
    sources: Mapping[str, str]
    ignored: tuple[str, ...] = ()

    def value(self, name: str) -> Any:
        key = known(name)
        found: Any = self.settings
        for part in key.name.split("."):
            found = getattr(found, part)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where everything lives, by the XDG variables."""

    config: Path
    data: Path
    cache: Path
    runtime: Path

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"


def folders(environ: Mapping[str, str]) -> Folders:
    home = Path(environ.get("HOME") or "/")

    def base(name: str, fallback: str) -> Path:
        # The XDG rules: a relative path is to be ignored.
        value = environ.get(name, "")
        return (Path(value) if value.startswith("/") else home / fallback) / "agent-memory"

    runtime = environ.get("XDG_RUNTIME_DIR", "")
    cache = base("XDG_CACHE_HOME", ".cache")
    return Folders(
        config=base("XDG_CONFIG_HOME", ".config"),
        data=base("XDG_DATA_HOME", ".local/share"),
        cache=cache,
        runtime=Path(runtime) / "agent-memory" if runtime.startswith("/") else cache / "run",
    )


def load(
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    project_dir: Path | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Loaded:
    """All layers that apply. `file` replaces the user's config.toml and must exist."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    ignored: list[str] = []

    def overlay(name: str, value: Any, source: str) -> None:
        values[name] = value
        sources[name] = source

    user_file = file or folders(environ).config_file
    if file is not None or user_file.exists():
        for name, value in _read(user_file):
            overlay(name, value, str(user_file))
    project_file = None if project_dir is None else find_project_file(project_dir)
    if project_file is not None:
        for name, value in _read(project_file):
            if KEYS[name].applies == "live":
                overlay(name, value, str(project_file))
            else:
                ignored.append(f"{name} in {project_file}: only the user may set it")
    for variable, name, text in _variables(environ):
        overlay(name, _from_text(KEYS[name], text, variable), variable)
    for name, value in (flags or {}).items():
        if value is not None:
            overlay(name, _checked(known(name), value, "the command line"), "flag")
    return Loaded(settings=_build(Settings, "", values), sources=sources, ignored=tuple(ignored))


def parse(name: str, text: str) -> Any:
    """The value that `text` gives for this key."""
    return _from_text(known(name), text, "the value")


def known(name: str) -> Key:
    """The key of this name, or an error that names the nearest."""
    try:
        return KEYS[name]
    except KeyError:
        raise ConfigError(f"unknown setting {name!r}{_nearest(name)}") from None


def find_project_file(start: Path) -> Path | None:
    """memory.toml in this folder or the nearest above it, up to the repository's root.

    Outside a repository only this folder counts: what lies above may be anyone's.
    """
    folders = [start, *start.parents]
    depth = next((n for n, each in enumerate(folders) if (each / ".git").exists()), 0)
    candidates = [folder / PROJECT_FILE for folder in folders[: depth + 1]]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _keys(section: type, prefix: str) -> Iterator[Key]:
    for item in fields(section):
        name = prefix + item.name
        if is_dataclass(item.type):
            yield from _keys(item.type, name + ".")  # type: ignore[arg-type]  # a section class
            continue
        default = item.default_factory() if callable(item.default_factory) else item.default
        yield Key(name=name, type=item.type, default=default, **item.metadata)


@cache
def _default(section: type) -> Any:
    return section()


def _build(section: type, prefix: str, values: Mapping[str, Any]) -> Any:
    if not any(name.startswith(prefix) for name in values):
        return _default(section)  # it is frozen, and made anew for every hook it would cost
    chosen: dict[str, Any] = {}
    for item in fields(section):
        name = prefix + item.name
        if is_dataclass(item.type):
            chosen[item.name] = _build(item.type, name + ".", values)  # type: ignore[arg-type]
        elif name in values:
            chosen[item.name] = values[name]
    return section(**chosen)


def _read(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text()
        table = tomllib.loads(text)
    except OSError as exc:
        raise ConfigError(f"cannot read {path}: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}") from exc
    for name, value in _flatten(table, ""):
        where = f"{path}:{toml_text.line_of(text, name)}"
        if name not in KEYS:
            raise ConfigError(f"{where}: unknown setting {name!r}{_nearest(name)}")
        yield name, _checked(KEYS[name], value, where)


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict) and name not in KEYS:
            if not value and not _is_section(name):
                yield name, value
            yield from _flatten(value, name + ".")
        else:
            yield name, value


def _variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """MEMORY_GRPC__PORT is grpc.port. Variables outside the known sections are someone else's."""
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or "__" not in variable:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
        if name in KEYS:
            yield variable, name, text
        elif _is_section(name.split(".", maxsplit=1)[0]):
            raise ConfigError(f"{variable}: unknown setting {name!r}{_nearest(name)}")


def _is_section(name: str) -> bool:
    return any(key.startswith(name + ".") for key in KEYS)


def _from_text(key: Key, text: str, where: str) -> Any:
    if key.type is bool:
        value: Any = {"true": True, "1": True, "yes": True, "on": True}.get(text.lower())
        if value is None and text.lower() in ("false", "0", "no", "off"):
            value = False
        return _checked(key, text if value is None else value, where)
    if key.type is int:
        return _checked(key, int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text, where)
    if key.type is float:
        return _checked(key, float(text) if re.fullmatch(r"\d*\.?\d+", text) else text, where)
    if get_origin(key.type) is list:
        return _checked(key, [part.strip() for part in text.split(",") if part.strip()], where)
    return _checked(key, text, where)


def _checked(key: Key, value: Any, where: str) -> Any:
    if not _fits(key, value):
        raise ConfigError(f"{where}: {key.name} must be {key.expects()}, not {value!r}")
    return value


def _fits(key: Key, value: Any) -> bool:
    if get_origin(key.type) is list:
        (member,) = get_args(key.type)
        return isinstance(value, list) and all(type(each) is member for each in value)
    if type(value) is not key.type and not (key.type is float and type(value) is int):
        return False
    if key.choices:
        return value in key.choices
    if key.minimum is not None and value < key.minimum:
        return False
    return key.maximum is None or value <= key.maximum


def _nearest(name: str) -> str:
    return spelling.nearest(name, KEYS) or "; `memory config list` shows all"


KEYS: Mapping[str, Key] = {key.name: key for key in _keys(Settings, "")}
