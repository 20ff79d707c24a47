"""Settings, read from files, the environment and flags into frozen values.

Later layers win: defaults, the user's config.toml, memory.toml at the project's root, MEMORY_*
variables, flags. The daemon reads its settings once, at its start and without a project. Each
command of a caller reads them again. A project's file may only tighten the user's settings, because
anybody may have written it. `project` of a setting says how; a setting without it is the user's
alone. A repository can also choose the variables with which an agent starts commands and hooks: so
a variable may tighten what a project's file may. Any other counts only if its setting is marked
`variable`, and only for a daemon that a person starts with `memory-daemon start`.
"""

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from agent_memory.kernel import spelling, toml_lines
from agent_memory.kernel.errors import ConfigError
from agent_memory.kernel.text import globs
from agent_memory.launcher.environment import find_runtime
from agent_memory.platform import time_zone
from agent_memory.platform.files import read_regular

PROJECT_FILE = "memory.toml"
ENVIRONMENT_PREFIX = "MEMORY_"
DEFAULT = "default"  # the source of a value that nobody has set
LEVELS = ("trace", "debug", "info", "warn", "error")
DETAILS = ("minimal", "standard", "detailed")
RECORDING = ("all", "opt-in")
PUSH = ("off", "start", "all")

MAX_FILE_BYTES = 1 << 20
MAX_PROJECT_FILE_BYTES = 64 << 10
MAX_PROJECT_DOTS = 100  # in a line: the time to read a dotted key grows with its square
MAX_PROJECT_ITEMS = 100  # of a list
MAX_QUOTED_CHARS = 200  # of a file's text, in a message

Applies = Literal["restart", "live", "personal"]


class BrokenConfigFile(ConfigError):
    """A config file is not valid TOML."""


@dataclass(frozen=True, slots=True)
class ProjectOverride:
    """A change that a project may make to a setting. `combine` returns the value for the user's and
    the project's."""

    words: str
    combine: Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a text, or each text of a list, must be, in words, and the test for it."""

    words: str
    holds: Callable[[str], bool]


TIME_ZONE = Rule("empty or the name of a time zone, such as Europe/Berlin", time_zone.is_zone)
FOLDERS = Rule(
    "a list of folders that begin with /, ~ or **/, such as ~/clients/*", globs.is_folder_glob
)

TENANT = Rule(
    "1 to 63 letters, digits, dots, dashes or underscores",
    lambda name: re.fullmatch(r"[A-Za-z0-9._-]{1,63}", name) is not None,
)

DATABASE_ADDRESS = Rule(
    "empty, or an address of PostgreSQL, such as postgresql://me@db.example/memory",
    lambda url: not url or url.startswith(("postgresql://", "postgres://")),
)

SERVER_ADDRESS = Rule(
    "empty, or an address that begins with https:// (http:// only for this machine)",
    lambda url: not url or url.startswith(("https://", "http://")),
)

SHARED_REPOSITORIES = Rule(
    "a list of repositories: remotes, such as git.example/acme/my-app, or folders; `user` are your"
    " own memories",
    # Earlier versions had names here. Those are valid and share nothing: two repositories may have
    # one name.
    lambda entry: (
        entry.strip().isprintable()
        and re.fullmatch(r"/.+|[^\s/@-][^\s/@]*(?:/.+)?", entry.strip()) is not None
    ),
)

SWITCH_OFF = ProjectOverride("switch it off", lambda users, own: users and own)
LOWER = ProjectOverride("lower it", min)
CHOOSE_LESS = ProjectOverride("choose less", lambda users, own: min(users, own, key=DETAILS.index))
PUSH_LESS = ProjectOverride("choose less", lambda users, own: min(users, own, key=PUSH.index))
RAISE = ProjectOverride("raise it", max)
OPT_IN = ProjectOverride("choose opt-in", lambda users, own: max(users, own, key=RECORDING.index))
SHORTEN = ProjectOverride(
    "leave some out", lambda users, own: [value for value in users if value in own]
)
EXTEND = ProjectOverride("add some", lambda users, own: list(dict.fromkeys((*users, *own))))


def setting(default: Any, doc: str, *, applies: Applies = "restart", **limits: Any) -> Any:
    """Define a setting. `limits`: `minimum`, `maximum`, `choices`, `rule`; `words`, for a list that
    may be written as one line; `file`, for the path of a file; `private`, for a value that may hold
    a password and is not quoted; `project`, a ProjectOverride; `variable`, for a setting whose
    variable counts for a daemon that is started by hand. Mark none that says where data goes or
    comes from, which program runs, or who is let in."""
    metadata = {"doc": doc, "applies": applies, **limits}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def live(default: Any, doc: str, **limits: Any) -> Any:
    """Define a setting that takes effect with the next command or hook. With `project`, a project
    may tighten it."""
    return setting(default, doc, applies="live", **limits)


def personal(default: Any, doc: str, **limits: Any) -> Any:
    """Define a setting that takes effect with the next command or hook, and that no project or
    agent can change: it lets data leave or enter this machine."""
    return setting(default, doc, applies="personal", **limits)


def consent(default: Any, doc: str, **limits: Any) -> Any:
    """Define a setting that says what may be recorded. It takes effect with the next hook. Agents
    cannot change it; projects and variables can only tighten it."""
    return personal(default, doc, **limits)


def port(default: int, doc: str) -> Any:
    return setting(default, doc, minimum=0, maximum=65535, variable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    path: str = setting("", "Folder of the database, relative to the data folder; empty: `db`.")
    url: str = setting(
        "",
        "Address of a PostgreSQL database to use instead of `storage.path`, such as"
        " `postgresql://me@db.example/memory`; needs the extra `postgres`. It works only in"
        " config.toml: your data goes there.",
        rule=DATABASE_ADDRESS,
        private=True,
    )
    tenant: str = setting(
        "default",
        "Whose memory this is in the database of `storage.url`; several daemons may share it.",
        rule=TENANT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSettings:
    enabled: bool = setting(
        False,
        "Serve a team: every request needs a key or a token of a person, whose role and projects"
        " count. It works only in config.toml.",
    )
    audit_reads: bool = setting(
        False, "Enter reads into the audit log too, not only writes, refusals and administration."
    )
    audit_days: int = setting(
        90, "How long entries of the audit log are kept.", minimum=1, maximum=3650
    )
    oidc_issuer: str = setting(
        "",
        "OpenID Connect: the issuer whose tokens count beside keys, such as https://login.example;"
        " needs the extra `team`.",
    )
    oidc_audience: str = setting("", "The audience that tokens must be for.")
    oidc_client_id: str = setting(
        "", "The client with which people log in on their machines (device flow)."
    )
    oidc_person_claim: str = setting(
        "sub", "The claim that names the person; a path with dots goes into others."
    )
    oidc_role_claim: str = setting("", "The claim with roles or groups, for `team.oidc_roles`.")
    oidc_roles: list[str] = setting(
        [], "What they mean here: `engineers=writer`. The highest counts."
    )
    oidc_default_role: str = setting(
        "",
        "The role of people who have none of these; empty refuses them.",
        choices=("", "reader", "writer"),
    )
    oidc_project_claim: str = setting(
        "", "The claim that lists the only projects a person sees; empty: all."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    host: str = setting("localhost", "Address to listen on; `localhost` is IPv4 and IPv6 loopback.")
    port: int = port(50051, "Port of all gRPC services; 0 picks a free one.")
    require_key: bool = setting(
        True,
        "Require a bearer key for `memory.*` over TCP, unless the caller is verified to be the"
        " daemon's own user. `false` lets in everyone on this machine, and works only in"
        " config.toml.",
    )
    tls_cert: str = setting(
        "",
        "Certificate with its chain (PEM file). If set, gRPC needs TLS, and `grpc.host` may be an"
        " address that other machines reach.",
        file=True,
        variable=True,
    )
    tls_key: str = setting(
        "",
        "Private key of the certificate (PEM file). Only its owner may have access to it.",
        file=True,
        variable=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    host: str = setting("localhost", "Address to listen on; `localhost` is IPv4 and IPv6 loopback.")
    port: int = port(8000, "Port of REST, streams and MCP; 0 picks a free one.")
    allowed_hosts: list[str] = setting(
        [], "Host names that requests may use for this machine, besides loopback and `http.host`."
    )
    allowed_origins: list[str] = setting(
        [], "Origins of web pages that may send requests: `https://dashboard.example`."
    )
    rate: int = setting(
        100, "Requests per second of one key; 0: no limit.", minimum=0, maximum=1_000_000
    )
    burst: int = setting(
        1000, "Requests that one key may make at once; 0: no limit.", minimum=0, maximum=1_000_000
    )
    max_body_bytes: int = setting(
        16 << 20, "Largest body of a request, in bytes.", minimum=1024, maximum=1 << 30
    )
    tls_cert: str = setting(
        "",
        "Certificate with its chain (PEM file). If set, HTTPS is served instead of HTTP.",
        file=True,
        variable=True,
    )
    tls_key: str = setting(
        "",
        "Private key of the certificate (PEM file). Only its owner may have access to it.",
        file=True,
        variable=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    level: str = setting("info", "Lowest level that is logged.", choices=LEVELS, variable=True)
    max_bytes: int = setting(
        10 << 20, "Size at which the log file is rotated, in bytes.", minimum=1 << 16
    )
    files: int = setting(5, "Rotated log files to keep.", minimum=1, maximum=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    otlp_endpoint: str = setting(
        "", "Where to send traces, such as http://localhost:4318/v1/traces; needs the extra `otel`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    enabled: bool = setting(True, "Run background jobs.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSettings:
    path: str = setting("", "Folder of the scheduled backups, on another disk if possible.")
    schedule: str = setting(
        "", "When to back up, as cron with seconds in UTC: `0 0 3 * * *`; empty: never."
    )
    keep: int = setting(7, "Newest backups to keep.", minimum=1, maximum=10_000)
    keep_weekly: int = setting(
        4, "Weeks for which the newest backup of each week is also kept.", minimum=0, maximum=10_000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    secrets: str = setting(
        "redact",
        "What to do with a secret: `redact` it, `block` the content, `warn`, or `off`: store it.",
        choices=("redact", "block", "warn", "off"),
    )
    allow: list[str] = setting(
        [], "Texts that are not secrets, or a /regular expression/ that matches the whole text."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoriesSettings:
    remote: str = personal("origin", "Git remote that shares the memories of a project.")
    user_remote: str = setting("", "Address of a repository that shares your own memories.")
    org: str = setting("", "Name of the organization whose memories you share.")
    org_repository: str = setting(
        "", "Repository of the organization: an absolute path, or the address of a remote."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    url: str = personal(
        "",
        "Address of your team's server, such as `https://memory.example`: `memory remote add` sets"
        " it. It works only in config.toml.",
        rule=SERVER_ADDRESS,
    )
    name: str = personal("team", "What your team's server is called in output.", rule=TENANT)
    projects: list[str] = personal(
        [],
        "Repositories whose memories and facts go to your team's server: remotes, such as"
        " `git.example/acme/my-app`, or folders; `user` are your own memories, which nobody else"
        " gets. Empty: nothing leaves. `memory remote add --project FOLDER` adds one. It works only"
        " in config.toml.",
        rule=SHARED_REPOSITORIES,
    )
    conversations: list[str] = personal(
        [],
        "Those of these repositories whose conversations go to your team's server too: what you and"
        " agents said and did there. A conversation leaves when its session has ended and nothing"
        " that was noted in it awaits review. `memory remote add --project FOLDER --conversations`"
        " adds one. It works only in config.toml.",
        rule=SHARED_REPOSITORIES,
    )
    delay_minutes: int = personal(
        10,
        "Minutes that a conversation still waits here after its last word, so that you can forget"
        " it.",
        minimum=0,
        maximum=10_080,
    )
    recall: bool = personal(
        True, "Ask your team's server too when you or an agent recall something."
    )
    review: bool = personal(
        False,
        "Let memories of colleagues await your review (`memory review`) before agents are given"
        " them. Facts of colleagues, which cannot be reviewed, then stay on the server.",
    )
    certificates: str = personal(
        "",
        "PEM file with the certificate authority of your team's server, if it has its own.",
        file=True,
    )
    erase_hours: int = personal(
        24,
        "How many hours an erasure waits here that another machine asks for: on a team's server one"
        " of its people, on a machine the server. `memory team` shows what waits, keeps it, or"
        " erases it at once. 0: nothing waits. It works only in config.toml.",
        minimum=0,
        maximum=2_160,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CliSettings:
    default_format: str = live(
        "text",
        "Output format without `--format`.",
        choices=("text", "json", "yaml", "markdown", "quiet"),
    )
    color: bool = live(True, "Use colors on a terminal.", project=SWITCH_OFF)
    progress: bool = live(True, "Show progress bars on a terminal.", project=SWITCH_OFF)
    pager: bool = live(
        True, "Use a pager for output that is longer than the terminal.", project=SWITCH_OFF
    )
    timezone: str = setting(
        "",
        "Time zone of dates in questions, options and output, such as `Europe/Berlin`; empty: the"
        " system's.",
        rule=TIME_ZONE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TocSettings:
    time_gap_ms: int = setting(
        1_800_000, "Pause between events that ends a segment, in milliseconds.", minimum=1
    )
    max_tokens: int = setting(4096, "Size at which a segment ends, in tokens.", minimum=1)
    overlap_ms: int = setting(
        300_000, "Time before a segment from which it takes context, in milliseconds.", minimum=0
    )
    overlap_tokens: int = setting(500, "Most context that a segment takes, in tokens.", minimum=0)
    max_tool_result_chars: int = setting(
        2000, "Characters of a tool result that are used.", minimum=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizerSettings:
    provider: str = setting(
        "extractive",
        "What writes the table of contents; all except `extractive` need a model.",
        choices=("extractive", "llama", "openai", "anthropic", "command"),
    )
    command: list[str] = setting(
        [],
        "Program of the provider `command`, with its arguments: it reads a prompt on standard input"
        " and writes the answer to standard output, such as `claude -p --model haiku`. It works"
        " only in config.toml, and runs without a shell.",
        words=True,
    )
    base_url: str = setting("", "Address of the API; empty: the provider's own.")
    model: str = setting("", "Name of the model.")
    api_key_file: str = setting("", "File with the API key and nothing else.", file=True)
    api_key_env: str = setting(
        "",
        "Environment variable with the API key, without `api_key_file`; it reaches only a daemon"
        " that you start with `memory-daemon start`, and only if it begins with MEMORY_.",
    )
    daily_token_budget: int = setting(500_000, "Most tokens per day; 0: no limit.", minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSettings:
    provider: str = setting(
        "bge",
        "What embeds texts: the packaged bge-small, an OpenAI-compatible endpoint, or `none`."
        " `minilm` is an older name of `bge`.",
        choices=("bge", "openai", "none", "minilm"),
    )
    model: str = setting("", "Name of the model; empty: the provider's default.")
    base_url: str = setting("", "Address of the API; empty: the provider's own.")
    api_key_file: str = setting("", "File with the API key and nothing else.", file=True)
    api_key_env: str = setting(
        "",
        "Environment variable with the API key, without `api_key_file`; it reaches only a daemon"
        " that you start with `memory-daemon start`, and only if it begins with MEMORY_.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSettings:
    server: str = setting("", "Path of the llama-server program; empty: search PATH.", file=True)
    model_dir: str = setting("~/models", "Folder of GGUF models.")
    model: str = setting(
        "", "File in `llama.model_dir`, or name of the model at the endpoint; empty: the only one."
    )
    context_size: int = setting(
        4096, "Size of the context, in tokens.", minimum=256, maximum=1 << 24
    )
    parallel: int = setting(
        1, "Answers that the model writes at the same time.", minimum=1, maximum=64
    )
    args: list[str] = setting([], "Further arguments of llama-server, one per item.")
    start_seconds: int = setting(180, "Time limit for loading the model, in seconds.", minimum=1)
    idle_minutes: int = setting(
        15, "Stop llama-server when it is unused for this long; 0: never.", minimum=0
    )
    endpoint: str = setting(
        "", "Address of an OpenAI-compatible server to use instead of starting llama-server."
    )
    api_key_file: str = setting("", "File with the API key and nothing else.", file=True)
    api_key_env: str = setting(
        "",
        "Environment variable with the API key, without `api_key_file`; it reaches only a daemon"
        " that you start with `memory-daemon start`, and only if it begins with MEMORY_.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsSettings:
    max_turns: int = setting(
        25,
        "Most calls of the model in one run, unless its agent sets a number.",
        minimum=1,
        maximum=1000,
    )
    max_runs: int = setting(64, "Most runs at the same time.", minimum=1, maximum=1000)
    turn_seconds: int = setting(
        600, "Longest wait for the model to begin or continue an answer, in seconds.", minimum=1
    )
    tool_seconds: int = setting(120, "Time limit of a tool, in seconds.", minimum=1)
    commands: list[str] = setting(
        [], "Commands that `run_command` may run, by their first words: `git status`, `pytest`."
    )
    web_private: list[str] = setting(
        [], "Hosts in private networks that `web_fetch` may access: `localhost:3000`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    server_name: str = setting("memory", "Name of this server in MCP clients.")
    subscriptions: bool = setting(True, "Offer resource subscriptions.")
    prompts_enabled: bool = setting(True, "Offer prompts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingSettings:
    sse_keepalive_seconds: int = setting(15, "Time between SSE keep-alives, in seconds.", minimum=1)
    ws_ping_seconds: int = setting(30, "Time between WebSocket pings, in seconds.", minimum=1)
    max_connections: int = setting(100, "Most connections per transport.", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStartHookSettings:
    enabled: bool = live(
        True, "Record the start of a session, and give the agent context.", project=SWITCH_OFF
    )
    fetch_remote: bool = personal(False, "Fetch memories from the remote first.")
    context_token_budget: int = live(
        700,
        "Size of the context, in tokens; agents accept at most 2,450.",
        minimum=0,
        project=LOWER,
    )
    include_guidance: bool = live(
        True, "Explain to the agent how to use its memory.", project=SWITCH_OFF
    )
    guidance_detail: str = live(
        "standard", "Length of that explanation.", choices=DETAILS, project=CHOOSE_LESS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPromptHookSettings:
    enabled: bool = live(
        True,
        "Record prompts, and look in them for signals, such as a decision.",
        project=SWITCH_OFF,
    )
    signal_patterns: list[str] = live(
        ["[decision]", "[learned]", "[blocker]", "[progress]"],
        "Markers that ask for a capture.",
        project=SHORTEN,
    )
    recall: bool = live(False, "Add up to three related memories to a prompt.", project=SWITCH_OFF)
    auto_capture: bool = live(
        False, "Capture prompts with a marker without asking.", project=SWITCH_OFF
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToolUseHookSettings:
    enabled: bool = live(
        True, "Record the use of tools, and add related memories.", project=SWITCH_OFF
    )
    trigger_tools: list[str] = live(
        ["Read", "Edit", "Write"], "Tools whose use adds related memories.", project=SHORTEN
    )
    exclude_patterns: list[str] = live(
        ["*.lock", "node_modules/*"], "Files for which none are added.", project=EXTEND
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreCompactHookSettings:
    enabled: bool = live(
        True, "Capture memories before the agent compacts its context.", project=SWITCH_OFF
    )
    confidence_threshold: float = live(
        0.8, "Least confidence of a captured memory.", minimum=0, maximum=1, project=RAISE
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopHookSettings:
    enabled: bool = live(
        True, "Record answers, and analyze a session when it ends.", project=SWITCH_OFF
    )
    push_remote: bool = personal(False, "Sync with the remote when a session ends.")
    session_analysis: bool = live(
        True, "Capture memories from the session when it ends.", project=SWITCH_OFF
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksSettings:
    enabled: bool = consent(True, "Record and answer hook calls.", project=SWITCH_OFF)
    mode: str = consent(
        "all",
        "Where hooks record: in `all` folders, or, with `opt-in`, only in those of"
        " `hooks.projects`.",
        choices=RECORDING,
        project=OPT_IN,
    )
    projects: list[str] = consent(
        [],
        "Folders that are recorded with `opt-in`, each with everything below it; `memory on` adds"
        " one.",
        rule=FOLDERS,
        project=SHORTEN,
    )
    exclude: list[str] = consent(
        [],
        "Folders that are never recorded, each with everything below it; `memory off` adds one.",
        rule=FOLDERS,
        project=EXTEND,
    )
    review: bool = personal(
        True,
        "Let what was captured by a signal wait for your review (`memory review`) before it counts"
        " as settled and is shared. `false` works only in config.toml.",
    )
    push: str = live(
        "all",
        "What agents are given unasked: nothing (`off`), a context when a session starts (`start`),"
        " or also what helps with a prompt, before and after the use of a tool (`all`). Other"
        " settings of hooks can only switch off parts of it.",
        choices=PUSH,
        project=PUSH_LESS,
    )
    session_start: SessionStartHookSettings = field(default_factory=SessionStartHookSettings)
    user_prompt: UserPromptHookSettings = field(default_factory=UserPromptHookSettings)
    post_tool_use: PostToolUseHookSettings = field(default_factory=PostToolUseHookSettings)
    pre_compact: PreCompactHookSettings = field(default_factory=PreCompactHookSettings)
    stop: StopHookSettings = field(default_factory=StopHookSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    storage: StorageSettings = field(default_factory=StorageSettings)
    team: TeamSettings = field(default_factory=TeamSettings)
    grpc: GrpcSettings = field(default_factory=GrpcSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)
    toc: TocSettings = field(default_factory=TocSettings)
    summarizer: SummarizerSettings = field(default_factory=SummarizerSettings)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    llama: LlamaSettings = field(default_factory=LlamaSettings)
    runs: RunsSettings = field(default_factory=RunsSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    backup: BackupSettings = field(default_factory=BackupSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    memories: MemoriesSettings = field(default_factory=MemoriesSettings)
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    cli: CliSettings = field(default_factory=CliSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    streaming: StreamingSettings = field(default_factory=StreamingSettings)
    hooks: HooksSettings = field(default_factory=HooksSettings)


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
    rule: Rule | None = None
    variable: bool = False
    words: bool = False
    file: bool = False
    private: bool = False
    project: ProjectOverride | None = None

    def expects(self) -> str:
        """Describe a valid value in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.rule is not None:
            return self.rule.words
        if self.type is bool:
            return "true or false"
        if self.type in (int, float):
            kind = "a whole number" if self.type is int else "a number"
            if self.maximum is not None:
                return f"{kind} from {self.minimum} to {self.maximum}"
            return f"{kind} of at least {self.minimum}"
        if get_origin(self.type) is list:
            return "a list of strings" + (", or one line of words" if self.words else "")
        return "a string"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """The settings in effect, the source of each value that is not the default, and the values that
    were ignored."""

    settings: Settings
    sources: Mapping[str, str]
    ignored: tuple[str, ...] = ()

    def value(self, name: str) -> Any:
        key = find_key(name)
        value: Any = self.settings
        for part in key.name.split("."):
            value = getattr(value, part)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsSource:
    """The settings as they are now, the file whose change makes it worth reading them, and those
    that the daemon started with."""

    load: Callable[[], LoadedSettings]
    file: Path
    running: LoadedSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folders of the user."""

    config: Path
    data: Path
    cache: Path
    runtime: Path

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"


def folders(environ: Mapping[str, str]) -> Folders:
    """Return the folders below HOME, which `launcher.environment` has made safe."""
    home = environ.get("HOME") or "/"
    cache = Path(home, ".cache/agent-memory")
    runtime = find_runtime(home)
    return Folders(
        config=Path(home, ".config/agent-memory"),
        data=Path(home, ".local/share/agent-memory"),
        cache=cache,
        runtime=Path(runtime, "agent-memory") if runtime else cache / "run",
    )


def load(
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    project_dir: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    started_by_hand: bool = False,
) -> LoadedSettings:
    """Load the layers that apply. `file` replaces the user's config.toml and must exist. Only a
    daemon that is `started_by_hand` follows the variables of marked settings."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    ignored: list[str] = []

    def overlay(name: str, value: Any, source: str) -> None:
        values[name] = value
        sources[name] = source

    def tighten(key: Key, rule: ProjectOverride, value: Any, source: str) -> bool:
        """Combine a value with the user's, and tell whether it takes effect in full."""
        users = values.get(key.name, key.default)
        tightened = rule.combine(users, value)
        if tightened != users:
            overlay(key.name, tightened, source)
        return _is_honored(tightened, value)

    user_file = file or folders(environ).config_file
    if file is not None or user_file.exists():
        for name, value in _read(user_file):
            overlay(name, value, str(user_file))
    project_file = None if project_dir is None else find_project_file(project_dir)
    if project_file is not None:
        for name, value in _read(project_file, project=True):
            key = KEYS[name]
            if key.project is None:
                ignored.append(f"{name} in {project_file}: only the user may set it")
            elif not tighten(key, key.project, value, str(project_file)):
                ignored.append(f"{name} in {project_file}: a project may only {key.project.words}")
    for variable, name, text in _variables(environ):
        known = KEYS.get(name)
        if known is not None and known.project is not None:
            value = _from_text(known, text, variable)
            if not tighten(known, known.project, value, variable):
                ignored.append(f"{variable}: a variable may only {known.project.words}")
        elif known is not None and known.variable and started_by_hand:
            overlay(name, _from_text(known, text, variable), variable)
        elif known is None:
            ignored.append(f"{variable}: unknown setting {name!r}{_nearest(name)}")
        elif known.variable:
            ignored.append(f"{variable}: it counts only for `memory-daemon start`: set {name}")
        else:
            ignored.append(f"{variable}: variables do not count here: set {name} in {user_file}")
    ignored += _list_moved(environ)
    for name, value in (flags or {}).items():
        if value is not None:
            overlay(name, _check_value(find_key(name), value, "the command line"), "flag")
    return LoadedSettings(
        settings=_build(Settings, "", values), sources=sources, ignored=tuple(ignored)
    )


def parse(name: str, text: str) -> Any:
    """Parse the text of a value for this key."""
    return _from_text(find_key(name), text, "the value")


def find_key(name: str) -> Key:
    """Return the key of this name. Raise ConfigError, with the nearest name, if there is none."""
    try:
        return KEYS[name]
    except KeyError:
        raise ConfigError(f"unknown setting {name!r}{_nearest(name)}") from None


def find_variable(environ: Mapping[str, str], key: Key) -> str:
    """Return the variable that tightens what is in the user's file, or an empty text."""
    variable = ENVIRONMENT_PREFIX + key.name.upper().replace(".", "__")
    return variable if variable in environ and key.project is not None else ""


def find_project_file(start: Path) -> Path | None:
    """Return memory.toml in this folder or the nearest one above it, up to the repository's root.

    Outside a repository, look only in this folder: those above may belong to others. Return
    anything of that name but a folder, so that `load` reports a file that it cannot read.
    """
    folders = [start, *start.parents]
    depth = next((n for n, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    candidates = [folder / PROJECT_FILE for folder in folders[: depth + 1]]
    present = (path for path in candidates if os.path.lexists(path))
    return next((path for path in present if path.is_symlink() or not path.is_dir()), None)


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
        return _default(section)  # cached, because every hook reads the settings
    known: dict[str, Any] = {}
    for item in fields(section):
        name = prefix + item.name
        if is_dataclass(item.type):
            known[item.name] = _build(item.type, name + ".", values)  # type: ignore[arg-type]
        elif name in values:
            known[item.name] = values[name]
    return section(**known)


class _Line(NamedTuple):
    """The line of a file that sets a key. It is looked for only if an error names it."""

    path: Path
    text: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{toml_lines.find_line(self.text, self.name)}"


def _read(path: Path, *, project: bool = False) -> Iterator[tuple[str, Any]]:
    text = read_text(path, project=project)
    try:
        settings = list(_flatten(tomllib.loads(text), ""))
    except RecursionError as exc:
        raise BrokenConfigFile(f"{path} is not valid TOML: it is nested too deeply") from exc
    except ValueError as exc:  # not TOMLDecodeError for a number with too many digits
        raise BrokenConfigFile(f"{path} is not valid TOML: {_cut(str(exc))}") from exc
    for name, value in settings:
        where = _Line(path, text, name)
        if name not in KEYS:
            unknown = _cut(name)
            raise ConfigError(f"{where}: unknown setting {unknown!r}{_nearest(unknown)}")
        if project and isinstance(value, list) and len(value) > MAX_PROJECT_ITEMS:
            raise ConfigError(f"{where}: {name} has more than {MAX_PROJECT_ITEMS} values")
        yield name, _check_value(KEYS[name], value, where)


def read_text(path: Path, *, project: bool = False) -> str:
    """Read a file whole, within limits. A project's file must not be a link."""
    if str(path) == os.devnull:
        return ""
    limit = MAX_PROJECT_FILE_BYTES if project else MAX_FILE_BYTES
    try:
        if project and path.is_symlink():
            raise ConfigError(f"cannot read {path}: it is a link, and not a file of the project")
        text = read_regular(path, limit, follow_link=not project).decode("utf-8")
    except OSError as exc:
        raise ConfigError(f"cannot read {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc.reason} at byte {exc.start}") from exc
    if project and any(line.count(".") > MAX_PROJECT_DOTS for line in text.split("\n")):
        raise ConfigError(f"{path} has a line with more than {MAX_PROJECT_DOTS} dots")
    return text


def _is_honored(tightened: Any, own: Any) -> bool:
    """Tell whether the project's own value takes effect in full."""
    if isinstance(own, list):
        return set(own) <= set(tightened)
    return bool(tightened == own)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "..."


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
    """Yield each variable with its setting and text: MEMORY_GRPC__PORT is grpc.port. Leave out
    those outside the known sections, which belong to other programs."""
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or "__" not in variable:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
        if _is_section(name.split(".", maxsplit=1)[0]):
            yield variable, name, text


def _list_moved(environ: Mapping[str, str]) -> Iterator[str]:
    """Describe each folder of ours that an XDG variable names, if it is there and not used."""
    places = folders(environ)
    for variable, used in (("XDG_DATA_HOME", places.data), ("XDG_CONFIG_HOME", places.config)):
        named = Path(environ.get(variable, ""), used.name)
        if named.is_absolute() and named.exists() and named.resolve() != used.resolve():
            yield f"{variable}: to use {named}, move it to {used}, or link it there: `ln -s`"


def _is_section(name: str) -> bool:
    return any(key.startswith(name + ".") for key in KEYS)


def _from_text(key: Key, text: str, where: str) -> Any:
    if key.type is bool:
        value: Any = {"true": True, "1": True, "yes": True, "on": True}.get(text.lower())
        if value is None and text.lower() in ("false", "0", "no", "off"):
            value = False
        return _check_value(key, text if value is None else value, where)
    if key.type is int:
        return _check_value(key, int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text, where)
    if key.type is float:
        return _check_value(key, float(text) if re.fullmatch(r"\d*\.?\d+", text) else text, where)
    if get_origin(key.type) is list and not key.words:
        return _check_value(key, [part.strip() for part in text.split(",") if part.strip()], where)
    return _check_value(key, text, where)


def _check_value(key: Key, value: Any, where: "str | _Line") -> Any:
    if key.words and isinstance(value, str):
        value = _split_words(key, value, where)
    if not _fits(key, value):
        found = "" if key.private else f", not {_cut(repr(value))}"
        raise ConfigError(f"{where}: {key.name} must be {key.expects()}{found}")
    return value


def _split_words(key: Key, line: str, where: "str | _Line") -> list[str]:
    """Split a line as a shell does."""
    try:
        words = shlex.split(line)
    except ValueError as exc:
        raise ConfigError(f"{where}: {key.name} cannot be split into words: {exc}") from exc
    return words


def _fits(key: Key, value: Any) -> bool:
    if get_origin(key.type) is list:
        (member,) = get_args(key.type)
        return isinstance(value, list) and all(
            type(item) is member and (key.rule is None or key.rule.holds(item)) for item in value
        )
    if type(value) is not key.type and not (key.type is float and type(value) is int):
        return False
    if key.choices:
        return value in key.choices
    if key.rule is not None:
        return key.rule.holds(value)
    if key.minimum is not None and value < key.minimum:
        return False
    return key.maximum is None or value <= key.maximum


def _nearest(name: str) -> str:
    return spelling.suggest_nearest(name, KEYS) or "; `memory config list` shows all"


KEYS: Mapping[str, Key] = {key.name: key for key in _keys(Settings, "")}
