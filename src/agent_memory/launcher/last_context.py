"""The last known context of a project, for a session that starts while no daemon answers.

The launcher loads this module only then. The daemon writes the files, through
`features/hooks/services/last_contexts.py`, with the names and marks that are defined here.
"""

import _json  # the parser of `json`, which would load `re` as well: 6 to 30 ms
import binascii
import os
import stat

from .command_client import DEFAULT_AGENT, data_folder, hook_name, option, working_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = "last-contexts"
MAX_BYTES = 64 << 10
SESSION_START = "SessionStart"
SESSION_START_COMMAND = "session-start"
HOOK_SETTINGS = "MEMORY_HOOKS__"  # the variables that can switch hooks off
COPILOT = "copilot"  # reads the context at the top level of an answer
PROJECT_FILE = "memory.toml"
IGNORE_FILE = ".memoryignore"
SWITCHES = (b"exclude", b"opt-in", b"enabled")  # words of settings that can switch hooks off
PAUSE_FILE = "paused"
MAX_PAUSE_BYTES = 4_096
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"))


class _ParserOptions:
    strict = False
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


class SessionPlace:
    """Where a session starts, and for whom: it may have no context of another place.

    `simple` is the contract of `memory hook session-start`, for callers that are no agent.
    """

    def __init__(self, folder: str, agent: str, *, simple: bool) -> None:
        self.folder = "/" + os.path.normpath(folder or "/").lstrip("/")
        self.agent = agent
        self.simple = simple

    def build_key(self) -> str:
        return "\0".join((self.find_root(), self.agent, "simple" if self.simple else "agent"))

    def name_file(self) -> str:
        """Return the name of the file. Two keys may share one: the file has its key inside."""
        return f"{binascii.crc32(os.fsencode(self.build_key())):08x}.json"

    def find_root(self) -> str:
        """Return the folder with `.git` at or above the session's folder, or that folder itself."""
        for folder in climb(self.folder):
            if os.path.lexists(os.path.join(folder, ".git")):
                return folder
        return self.folder

    def list_settings(self, environ: "Mapping[str, str]") -> list[str]:
        """List the settings files that can switch hooks off here, whether they exist or not."""
        root, settings = self.find_root(), [config_file(environ)]
        for folder in climb(self.folder):
            settings.append(os.path.join(folder, PROJECT_FILE))
            if folder == root:
                break
        return settings

    def list_ignore_files(self) -> list[str]:
        """List every `.memoryignore` that counts here, whether it exists or not: those above the
        repository too, and those where a link in the folder's name leads."""
        folders = (*climb(self.folder), *climb(os.path.realpath(self.folder)))
        return [os.path.join(folder, IGNORE_FILE) for folder in dict.fromkeys(folders)]

    def may_be_off(self, environ: "Mapping[str, str]", config: str | None, now_ms: int) -> bool:
        """Tell whether hooks may be paused or off here. Then no daemon is started for this session
        before another process has read the settings: a daemon writes files."""
        if is_paused(now_ms) or any(map(os.path.lexists, self.list_ignore_files())):
            return True
        if any(name.upper().startswith(HOOK_SETTINGS) for name in environ):
            return True
        for path in [*self.list_settings(environ), *([config] if config else [])]:
            try:
                text = read_beginning(path, MAX_BYTES)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                return True
            if any(word in text for word in SWITCHES):
                return True
        return False

    def read_marks(self, environ: "Mapping[str, str]") -> list[str]:
        """Describe the repository and the settings of hooks. If one changes, the context may belong
        to another project, or may not be given any more."""
        marks = [_identify(os.path.join(self.find_root(), ".git"), changes=False)]
        files = [*self.list_settings(environ), *self.list_ignore_files()]
        marks += [_identify(path, changes=True) for path in files]
        marks += sorted(
            f"{name}={value}"
            for name, value in environ.items()
            if name.upper().startswith(HOOK_SETTINGS)
        )
        return [mark for mark in marks if mark]


def climb(folder: str) -> "Iterator[str]":
    """Yield the folder and all above it."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def read_beginning(path: str, size: int) -> bytes:
    """Read the first bytes of a regular file. Raises OSError for anything else: a repository may
    have a FIFO there, which would make us wait."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{path} is not a regular file")
        return os.read(file, size)
    finally:
        os.close(file)


def is_paused(now_ms: int) -> bool:
    """Tell whether recording is paused. A pause that cannot be read is one without an end, as in
    `features/hooks/adapters/pause_file.py`."""
    path = os.path.join(data_folder(), PAUSE_FILE)
    try:
        data = b"" if os.path.islink(path) else read_beginning(path, MAX_PAUSE_BYTES + 1)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    until = parse_object(data).get("until_ms")
    is_over = type(until) is int and 0 <= until <= now_ms
    return not is_over or len(data) > MAX_PAUSE_BYTES


def config_file(environ: "Mapping[str, str]") -> str:
    return os.path.join(environ.get("HOME") or "/", ".config/agent-memory/config.toml")


def _identify(path: str, *, changes: bool) -> str:
    """Return a text that differs for another file and, if its content matters, another content;
    empty if there is none."""
    try:
        # A `.memoryignore` that is a link ignores everything, wherever it leads.
        status = os.lstat(path) if path.endswith(IGNORE_FILE) else os.stat(path)
    except OSError:
        return ""
    content = f" {status.st_mtime_ns} {status.st_size}" if changes else ""
    return f"{path} {status.st_dev} {status.st_ino}{content}"


def parse_start(arguments: list[str], data: bytes) -> SessionPlace | None:
    """Return where a session starts, or None if this hook is another one or takes no context."""
    fields = parse_object(data)
    event = fields.get("hook_event_name") or fields.get("hookEventName")  # VS Code has the second
    simple = not (isinstance(event, str) and event)
    if simple:
        event = fields.get("hook") or hook_name(arguments)
    if event not in (SESSION_START, SESSION_START_COMMAND) or "conversation_id" in fields:
        return None
    roots = fields.get("workspace_roots")
    folders = [fields.get("cwd"), fields.get("project_path")]
    folders += roots[:1] if isinstance(roots, list) else []
    named = next((folder for folder in folders if isinstance(folder, str) and folder), "")
    if not (named.startswith("/") and "\0" not in named and os.path.isdir(named)):
        named = working_folder()
    agent = option(arguments, "--agent") or ("" if simple else DEFAULT_AGENT)
    return SessionPlace(named, agent, simple=simple)


def parse_object(data: bytes) -> "dict[str, object]":
    """Parse a JSON object; return an empty one for anything else."""
    text = data.decode("utf-8-sig", "replace").strip(" \t\r\n")
    try:
        value, end = _json.make_scanner(_ParserOptions)(text, 0)  # type: ignore[arg-type]
    except (StopIteration, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and end == len(text) else {}


def read_answer(place: SessionPlace, now_ms: int) -> bytes | None:
    """Return the last known context as the answer to a hook, with its age; None if there is none
    that this session may have."""
    path = os.path.join(data_folder(), FOLDER, place.name_file())
    if is_paused(now_ms):
        return None
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            kept = parse_object(os.read(file, MAX_BYTES + 1))
            at_ms = os.fstat(file).st_mtime_ns // 1_000_000
        finally:
            os.close(file)
    except OSError:
        return None
    text = kept.get("text")
    if (
        kept.get("key") != place.build_key()
        or kept.get("marks") != place.read_marks(os.environ)
        or not isinstance(text, str)
    ):
        return None
    return render_answer(place, mark_age(text, now_ms - at_ms))


def mark_age(text: str, age_ms: int) -> str:
    """Write the age into a context, before the end of its outermost element."""
    inside, _, end = text.rpartition("\n")
    age = describe_age(age_ms)
    return f"{inside}\n  <as_of>{age} ago: memory did not answer in time</as_of>\n{end}"


def describe_age(age_ms: int) -> str:
    for length, unit in _UNITS:
        if age_ms >= length:
            count = age_ms // length
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "less than a minute"


def render_answer(place: SessionPlace, context: str) -> bytes:
    """Render the answer as `interfaces/hooks/outputs.py` does."""
    quoted = _json.encode_basestring_ascii(context).encode()
    if place.simple:
        return b'{"additionalContext": %b, "suppressSystemPrompt": false}\n' % quoted
    top = b'"additionalContext": %b, ' % quoted if place.agent == COPILOT else b""
    return b'{%b"hookSpecificOutput": {"hookEventName": "%b", "additionalContext": %b}}\n' % (
        top,
        SESSION_START.encode(),
        quoted,
    )
