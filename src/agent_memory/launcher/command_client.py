"""The client of the daemon's command socket: sends a command or a hook, and writes the answer.

Starting Python takes most of a command's time. So this module imports only `sys`, `os`,
`_socket` and `environment`, and the code that few commands need is in modules of its own, imported
inside functions: a measured saving. These imports are relative because the package has two names:
installed commands import it as `agent_memory.launcher`, `launch.py` as `launcher`.

Frames in both directions: kind (1 byte), length (4 bytes, big-endian), payload.
"""

import _socket
import os
import sys

from . import environment

TYPE_CHECKING = False  # importing it from `typing` would slow the start
if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "0.1.0"  # of the package; an older daemon makes way for it
PROTOCOL = b"1"

# Sent by the launcher.
HELLO, INPUT, LINE, CANCEL, HOOK_INPUT = b"H", b"I", b"L", b"C", b"G"
# Sent by the daemon.
OUT, ERR, ASK, ASK_HIDDEN, ASK_KEY, READ, PAGE, EDIT, EXIT, UPGRADE, BRIDGE, BEAT = (
    b"O", b"E", b"A", b"S", b"K", b"R", b"P", b"D", b"X", b"U", b"B", b"T",
)  # fmt: skip

PROGRAMS = ("memory", "memory-daemon", "kontekst")
# Set in the shells of agents, which may not accept what waits for the user's review.
AGENT_MARKS = (
    "AI_AGENT", "CLAUDECODE", "CODEX_CI", "CODEX_SANDBOX", "CODEX_THREAD_ID", "GEMINI_CLI",
    "OPENCODE", "CURSOR_AGENT", "COPILOT_CLI", "CLINE_ACTIVE", "QWEN_CODE", "AUGMENT_AGENT",
)  # fmt: skip
ENVIRONMENT = (
    "HOME", "USER", "PATH", "TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR",
    "CLICOLOR", "CLICOLOR_FORCE", "LANG", "TZ", "EDITOR", "VISUAL", "SSH_AUTH_SOCK", "SSH_ASKPASS",
    "COMP_WORDS", "COMP_CWORD", "CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "CODEX_HOME",
    "GEMINI_CLI_HOME", "OPENCODE_CONFIG_DIR", "COPILOT_HOME", "CLINE_DIR", "CLINE_DATA_DIR",
    # `memory ui` opens a browser with these.
    "BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS",
    *AGENT_MARKS,
)  # fmt: skip
ENVIRONMENT_PREFIXES = ("MEMORY_", "XDG_", "LC_", "GIT_", "_MEMORY_", "_KONTEKST_")
# All that the daemon learns of the environment of hooks and MCP servers, which a repository can
# choose: nothing that names a program, a folder or another repository.
AGENT_ENVIRONMENT = (
    "HOME", "USER", "LANG", "TZ", "SSH_AUTH_SOCK", "CLAUDE_PROJECT_DIR", *AGENT_MARKS
)  # fmt: skip
AGENT_PREFIXES = ("MEMORY_HOOKS__", "GIT_AUTHOR_", "GIT_COMMITTER_")
# A repository can also choose the variables of an agent's shell. Commands there do not pass on what
# git would run or read; the rest is for the terminal and the agent's own folders.
NOT_FROM_AGENTS = ("GIT_", "XDG_", "SSH_ASKPASS")

SERVED = "data"  # beside the socket, a link to the data folder

CHUNK = 1 << 16
CONNECT_SECONDS = 5
# A daemon that runs a command sends a BEAT every few seconds. One that sends no frame for this long
# is stopped or hangs.
SILENT_SECONDS = 12.0
POLL_SECONDS = 0.02
INTERRUPTED = 130
BROKEN_PIPE = 141
FORBIDDEN = "this sandbox forbids connections to the daemon"
STORAGE_ERROR = 4
DAEMON_ERROR = "DaemonUnavailable"  # the name of an error without a daemon's answer
CANCEL_SECONDS = 5.0  # how long a cancelled command may take to end

# A hook waits this many seconds for its input, for an answer, and for the spool. A word in the
# input selects other limits: agents allow one second at the end of a session, and ten or more for
# other hooks. A call before a tool is not recorded: without an answer, the tool waits no longer.
HOOK_READ_SECONDS = 2.0
HOOK_READ_ALARMS = 50  # after the first, while more input arrives
HOOK_SECONDS = (1.0, 3.0)
HOOKS_OWN_SECONDS = (
    (b'"hook_event_name":"PreToolUse"', (0.5, 0.0)),
    (b'"hook_event_name": "PreToolUse"', (0.5, 0.0)),
    (b'"SessionEnd"', (0.5, 0.4)),
    (b'"SessionStart"', (2.0, 3.0)),
    (b'"Stop"', (2.0, 3.0)),
)
HOOK_TRIES = 3
MAX_HOOK_BYTES = 8 << 20
DEFAULT_AGENT = "claude-code"  # the agent of hooks that name none
READ_ONLY = "--read-only"  # of the standalone module: read the store of a running daemon

# The tables below repeat parts of the command trees, which take too long to load here.
# tests/unit/launcher/test_command_tables.py compares them with the trees.
STDIO = "stdio"
# `memory serve` with other options serves no MCP client. `memory` has no -l any more; clients that
# still pass it are served.
SERVE_OPTIONS = frozenset(
    ("--transport", "-l", "--log-level", "-v", "--verbose", "-q", "--quiet", "--format",
     "--no-pager")
)  # fmt: skip
# Commands that run in this process if no daemon runs, and those that always do.
LOCAL_WITHOUT_DAEMON = {
    "memory": ("completion", "config", "help"),
    "memory-daemon": ("status", "completion", "help"),
    "kontekst": ("completion",),
}
ALWAYS_LOCAL = {
    "memory": ("doctor", "config set", "config unset", "uninstall"),
    "memory-daemon": (
        "start", "stop", "restart", "service", "serve-team", "admin restore", "admin migrate",
    ),
    "kontekst": ("start", "stop"),
}  # fmt: skip
REPAIR = ("admin verify", "--repair")  # runs here without a daemon, too
# Options with a value that may precede a word of a command's name.
OPTIONS_WITH_VALUE = (
    "-c", "--config", "-l", "--log-level", "-e", "--endpoint", "--format", "--db-path",
    "--input", "--output", "--agent", "-a", "--transport", "--host", "--port", "--session", "-s",
    "--dir", environment.OPTION,
)  # fmt: skip


class ConnectionLost(Exception):
    """The connection to the daemon ended before its answer did."""


class ConnectionForbidden(OSError):
    """A sandbox forbids this process to connect to the daemon."""


class CallUnread(ConnectionLost):
    """The connection ended before the daemon read the last frame."""


class HookTimeout(Exception):
    """A hook has used up its time."""


class DaemonSilent(Exception):
    """The daemon accepts connections but sends nothing."""


class HookDeadline:
    """The time that a hook may still wait. The alarm raises HookTimeout only during `wait`: one
    that goes off earlier ends the next wait, so it cannot prevent the recording of the hook."""

    def __init__(self) -> None:
        self.waiting = self.over = False

    def alarm(self, _number: int, _frame: object) -> None:
        self.over = True
        if self.waiting:
            self.waiting = False
            raise HookTimeout

    def wait(self, work: "Callable[[], bytes | None]") -> bytes | None:
        """Return the result of the work, or None if it fails or takes too long."""
        try:
            try:
                self.waiting = True
                return None if self.over else work()
            finally:  # inside the outer `try`: an alarm may go off before this line has run
                self.waiting = False
        except (HookTimeout, ConnectionLost, OSError):
            return None


class HookInput:
    """The input of a hook. An alarm ends it when no more input waits, or after too many alarms:
    the writer may never close its end. The alarm does not raise, so the bytes read so far stay.
    `rest` is then the descriptor of what may still come."""

    def __init__(self, source: int) -> None:
        self.source = source
        self.rest: int | None = None
        self.alarms = 0

    def alarm(self, _number: int, _frame: object) -> None:
        import select

        self.alarms += 1
        poll = select.poll()
        poll.register(self.source, select.POLLIN)
        if self.rest is None and (self.alarms > HOOK_READ_ALARMS or not poll.poll(0)):
            self.rest = os.dup(self.source)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, self.source)
            os.close(null)

    def read_all(self) -> bytes:
        """Read all input. Input over the limit is read too, so that the writer can finish, and
        then refused."""
        parts: list[bytes] = []
        size = 0
        while part := os.read(self.source, CHUNK):
            size += len(part)
            if size <= MAX_HOOK_BYTES:
                parts.append(part)
        if size > MAX_HOOK_BYTES:
            raise OSError(f"its input has {size:,} bytes; the limit is {MAX_HOOK_BYTES:,}")
        return b"".join(parts)


def run_and_exit() -> None:
    """Run the command and exit at once: a regular shutdown of the interpreter takes half as long as
    the answer."""
    os._exit(main())


def main() -> int:
    open_standard_streams()
    program, arguments = identify_program(sys.argv)
    try:
        return run(program, environment.enter(arguments))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Standard output has no reader, and Python must not write to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except OSError as exc:  # for example, the disk that holds the output is full
        complain(f"error: {exc.strerror or exc}\n", STORAGE_ERROR)
        return STORAGE_ERROR


def open_standard_streams() -> None:
    """Open the null device for each standard stream that the caller has closed, so that no file or
    socket of ours gets its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def identify_program(argv: list[str]) -> tuple[str, list[str]]:
    """Return the program and its arguments. The program is the name of the script or, for
    launch.py, the first argument."""
    name = os.path.basename(argv[0])
    if name in PROGRAMS:
        return name, argv[1:]
    if len(argv) > 1 and argv[1] in PROGRAMS:
        return argv[1], argv[2:]
    return "memory", argv[1:]


def run(program: str, arguments: list[str]) -> int:
    if asks_version(arguments) and not is_completing(program):
        from . import versions

        return versions.print_version(program)
    words, flags = split_arguments(arguments)
    first = words[0] if words else ""
    names = {first, " ".join(words[:2])}
    remote = any(flag == "--endpoint" or flag.startswith("-e") for flag in flags)
    if program == "memory" and first == "hook" and flags.isdisjoint(("-h", "--help")):
        return run_hook(arguments)
    if remote or not names.isdisjoint(ALWAYS_LOCAL[program]):
        run_here(program, arguments)
    if (
        program == "memory"
        and words == ["serve"]
        and flags <= SERVE_OPTIONS
        and option(arguments, "--transport") in (None, STDIO)
    ):
        from . import mcp_bridge

        return mcp_bridge.serve(arguments)

    def run_without_daemon() -> None:
        if (
            (not words and not has_prompt(program, arguments))
            or not names.isdisjoint(LOCAL_WITHOUT_DAEMON[program])
            or (REPAIR[0] in names and REPAIR[1] in flags)
            or not flags.isdisjoint(("-h", "--help", "-V", "--version", "--db-path"))
            or is_completing(program)
        ):
            run_here(program, arguments)

    call = hello(program, arguments)
    try:
        return converse(arguments, lambda connection: forward(connection, call), run_without_daemon)
    except ConnectionForbidden:  # in the sandbox of Codex, for example, but files can be read
        run_here(program, arguments, READ_ONLY)
        raise


def asks_version(arguments: list[str]) -> bool:
    """Tell whether the arguments begin with the program's own option for its version."""
    for argument in arguments:
        if argument in ("-V", "--version"):
            return True
        if not argument.startswith("-") or argument in ("--", *OPTIONS_WITH_VALUE):
            break
    return False


def converse(
    arguments: list[str],
    talk: "Callable[[_socket.socket], int | None]",
    run_without_daemon: "Callable[[], None]",
) -> int:
    """Talk to the daemon and return the exit code.

    Start a daemon if none runs, unless `run_without_daemon` runs the command here and so does not
    return. Start one also if the running daemon makes way for this version.
    """
    folder = data_folder()
    for _ in range(3):
        seen = read_announcement(folder)
        connection = reach_daemon(folder)
        if connection is None:
            run_without_daemon()
            code = start(arguments)
            if code:
                return code
            seen = read_announcement(folder)
            connection = reach_daemon(folder)
        if connection is None:
            continue
        try:
            code_or_none = talk(connection)
        except CallUnread:
            continue  # the daemon was stopping and did not read the call: repeat it
        except DaemonSilent:
            complain(describe_silence(folder), STORAGE_ERROR)
            return STORAGE_ERROR
        finally:
            connection.close()
        if code_or_none is not None:
            return code_or_none
        # An older daemon is stopping: start ours when it releases the data folder.
        code = start(arguments, replace=seen)
        if code:
            return code
    complain("error: the daemon does not answer; see `memory-daemon status`\n", STORAGE_ERROR)
    return STORAGE_ERROR


def start(arguments: list[str], replace: tuple[int, int] | None = None) -> int:
    from . import starting

    return starting.start(config_file(arguments), by_hand=False, replace=replace)


def describe_silence(folder: str) -> str:
    """Return the error message for a daemon that sends nothing."""
    try:
        with open(os.path.join(folder, "daemon.lock"), "rb") as lock:
            number = lock.read(20).strip().decode("ascii", "replace")
    except OSError:
        number = ""
    process = f" (process {number})" if number else ""
    act = f"if it was stopped, resume it with `kill -CONT {number}`" if number else "see its log"
    return (
        f"error: the daemon{process} has not answered for {SILENT_SECONDS:g} s: {act};"
        " `memory-daemon stop` ends it; your command may still take effect then\n"
    )


def run_hook(arguments: list[str]) -> int:
    """Send an agent's hook to the daemon and write the answer for the agent.

    A hook must never block its agent: it always answers in time, with exit code 0 and valid JSON,
    or with an empty line where the agent would show the JSON. If no daemon answers, the input goes
    to the spool for the next one, and so does input that comes late. The start of a session also
    starts a daemon and waits for it; if that takes too long, it gets the last known context.
    """
    data = b""
    answer: bytes | None = None
    try:
        import _signal  # type: ignore[import-not-found]  # `signal` without enum
        import time

        deadline = HookDeadline()

        def allow(seconds: float) -> None:
            deadline.over = False
            _signal.setitimer(_signal.ITIMER_REAL, seconds)

        call = arguments, os.urandom(16).hex(), time.time_ns() // 1_000_000
        source = HookInput(input_descriptor(option(arguments, "--input")))
        _signal.signal(_signal.SIGALRM, source.alarm)
        # The alarm repeats: one just before a read begins would not interrupt it.
        _signal.setitimer(_signal.ITIMER_REAL, HOOK_READ_SECONDS, POLL_SECONDS)
        data = source.read_all()
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        if source.rest is not None:
            from . import late_input

            if not late_input.is_whole(data):
                late_input.store_later(*call, data, source.rest)
                return write_hook_answer(arguments, data, None)
        # An agent that ends its hooks while they wait ends only the wait.
        for number in (_signal.SIGALRM, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT):
            _signal.signal(number, deadline.alarm)
        answer_seconds, spool_seconds = next(
            (own for word, own in HOOKS_OWN_SECONDS if word in data), HOOK_SECONDS
        )
        allow(answer_seconds)
        answer = deadline.wait(lambda: ask_daemon(*call, data, connect))
        place = None
        if answer is None and may_start_session(arguments, data):
            from . import last_context, starting

            config = config_file(arguments)
            place = last_context.parse_start(arguments, data)

            def start_and_ask(place: last_context.SessionPlace) -> bytes | None:
                if place.may_be_off(os.environ, config, call[2]):
                    from . import hook_spool

                    if not hook_spool.ask_consent(*call, data):
                        return None
                return ask_daemon(*call, data, starting.Starter(config).connect)

            if place is not None:
                answer = deadline.wait(lambda: start_and_ask(place))
        if answer is None and data and spool_seconds:
            allow(spool_seconds)
            from . import hook_spool

            hook_spool.store(*call, data, deadline)
            if place is not None:
                answer = last_context.read_answer(place, call[2])
        allow(0)
    except BaseException as exc:
        try_write_error(
            f"error: the hook was not recorded: {exc}\n".encode(errors="surrogateescape")
        )
    return write_hook_answer(arguments, data, answer)


def write_hook_answer(arguments: list[str], data: bytes, answer: bytes | None) -> int:
    """Write the answer, or an empty one, and return the exit code: another than 0 could block the
    agent."""
    try:
        empty = empty_answer(data, option(arguments, "--agent"))
        write_answer(answer or empty, option(arguments, "--output"))
    except BaseException as exc:
        try_write_error(
            f"error: the hook's answer was not written: {exc}\n".encode(errors="replace")
        )
    return 0


def try_write_error(data: bytes) -> None:
    """Write to standard error, and ignore a failure."""
    try:
        write(2, data)
    except OSError:
        pass


def hook_name(arguments: list[str]) -> str:
    words, _ = split_arguments(arguments)
    return words[1] if len(words) > 1 else ""


def option(arguments: list[str], name: str) -> str | None:
    for position, argument in enumerate(arguments):
        if argument == name and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(f"{name}="):
            return argument[len(name) + 1 :]
    return None


def input_descriptor(path: str | None) -> int:
    if path is not None:
        return os.open(path, os.O_RDONLY)
    if os.isatty(0):
        try_write_error(b"note: a hook reads JSON from standard input, or from --input FILE\n")
    return 0


def may_start_session(arguments: list[str], data: bytes) -> bool:
    """Tell whether it is worth loading what parses the input."""
    return b'"SessionStart"' in data or hook_name(arguments) == "session-start"


def ask_daemon(
    arguments: list[str],
    nonce: str,
    at_ms: int,
    data: bytes,
    open_connection: "Callable[[str], _socket.socket | None]",
) -> bytes | None:
    """Return the daemon's answer, or None if no daemon runs or it makes way for this version."""
    call = hello("hook", arguments, nonce, by_agent=True)
    call += frame(HOOK_INPUT, b"%d\n" % at_ms + data)
    folder = data_folder()
    for _ in range(HOOK_TRIES):
        connection = open_connection(folder)
        if connection is None:
            return None
        try:
            return exchange(connection, call)
        except ConnectionLost:
            continue  # the daemon has stopped; the nonce makes the call safe to repeat
        finally:
            connection.close()
    return None


def exchange(connection: _socket.socket, call: bytes) -> bytes | None:
    """Send the call of a hook and return the answer, or None if it is empty."""
    send(connection, call)
    answer = b""
    while True:
        kind, payload = receive(connection)
        if kind == OUT:
            answer += payload
        elif kind == ERR:
            try_write_error(payload)
        elif kind == EXIT:
            return answer or None
        elif kind == UPGRADE:
            return None


def empty_answer(data: bytes, agent: str | None) -> bytes:
    """Return an answer without content, in the format of the agent that sent the data."""
    if b'"hook"' in data and b'"hook_event_name"' not in data:
        return b'{"additionalContext": "", "suppressSystemPrompt": false}\n'
    if agent in (None, DEFAULT_AGENT) and (b'"PreCompact"' in data or b'"PostCompact"' in data):
        return b"\n"  # it would show an answer
    return b"{}\n"


def write_answer(answer: bytes, path: str | None) -> None:
    if path is None:
        write(1, answer)
        return
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write(target, answer)
    finally:
        os.close(target)


def split_arguments(arguments: list[str]) -> tuple[list[str], set[str]]:
    """Return the words that are not options, and the names of the options."""
    words: list[str] = []
    flags: set[str] = set()
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == "--":
            break
        elif argument.startswith("-") and len(argument) > 1:
            name = argument.partition("=")[0]
            flags.add(name)
            skip = argument in OPTIONS_WITH_VALUE
        else:
            words.append(argument)
    return words, flags


def config_file(arguments: list[str]) -> str | None:
    """Return the absolute path of -c/--config: a daemon that we start reads the file too."""
    for position, argument in enumerate(arguments):
        if argument in ("-c", "--config") and position + 1 < len(arguments):
            return os.path.abspath(arguments[position + 1])
        if argument.startswith("--config="):
            return os.path.abspath(argument[9:])
        if argument.startswith("-c") and len(argument) > 2:
            return os.path.abspath(argument[2:])
    return None


def has_prompt(program: str, arguments: list[str]) -> bool:
    """Tell whether arguments without words have a prompt: behind `--`, or in a pipe."""
    return program == "kontekst" and ("--" in arguments or not os.isatty(0))


def is_completing(program: str) -> bool:
    return f"_{program.upper().replace('-', '_')}_COMPLETE" in os.environ


def run_here(program: str, arguments: list[str], *options: str) -> None:
    """Run the command in this process, with the whole package: slower, but without a daemon."""
    python = sys.executable
    module = "agent_memory.daemon.standalone"
    words = [*options, program, *environment.home_option(), *arguments]
    os.execv(python, [python, "-I", "-m", module, *words])


def data_folder() -> str:
    return os.path.join(os.environ["HOME"], ".local/share/agent-memory")


def connect(folder: str) -> _socket.socket | None:
    """Connect to the daemon. Return None if none runs that we can connect to."""
    try:
        return reach_daemon(folder)
    except ConnectionForbidden:
        return None


def reach_daemon(folder: str) -> _socket.socket | None:
    """Connect to the daemon of this data folder, which has a link to its socket. Return None if no
    daemon runs, or if the link leads to another's. Raises ConnectionForbidden in a sandbox."""
    try:
        address = os.readlink(os.path.join(folder, "daemon.sock"))
    except OSError:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    tries = CONNECT_SECONDS / POLL_SECONDS
    while True:
        try:
            connection.connect(address)
            if is_of_folder(connection, address, folder):
                connection.settimeout(None)
                return connection
        except BlockingIOError:  # the daemon's queue is full, and Linux does not wait for room
            tries -= 1
            if tries > 0:
                import time

                time.sleep(POLL_SECONDS)
                continue
        except PermissionError as exc:
            connection.close()
            raise ConnectionForbidden(exc.errno, FORBIDDEN) from exc
        except OSError:
            pass
        connection.close()
        return None


def is_of_folder(connection: _socket.socket, address: str, folder: str) -> bool:
    """Tell whether who listens may learn what we are asked: the link may be in a copy of a data
    folder, or planted there. Raises OSError if the folder is gone."""
    ours = os.stat(folder)
    if hasattr(_socket, "SO_PEERCRED"):  # process, user and group, on Linux
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        # The administrator may use the memory of another user.
        if int.from_bytes(peer[4:8], sys.byteorder) != (os.getuid() or ours.st_uid):
            return False
    try:
        served = os.stat(os.path.join(os.path.dirname(address), SERVED))
    except OSError:  # of an earlier version, or it names the folder as another container sees it
        return True
    return os.path.samestat(served, ours)


def read_announcement(folder: str) -> tuple[int, int]:
    """Return the identity of the link to the daemon's socket, which differs from daemon to
    daemon."""
    try:
        link = os.lstat(os.path.join(folder, "daemon.sock"))
    except OSError:
        return 0, 0
    return link.st_ino, link.st_mtime_ns


def hello(program: str, arguments: list[str], nonce: str = "", *, by_agent: bool = False) -> bytes:
    """Return the first frame: the caller's version, command, folder, terminal and environment."""
    terminals = [b"1" if os.isatty(fd) else b"0" for fd in (0, 1, 2)]
    columns, lines = terminal_size()
    names = AGENT_ENVIRONMENT if by_agent else ENVIRONMENT
    prefixes = AGENT_PREFIXES if by_agent else ENVIRONMENT_PREFIXES
    variables = [
        f"{name}={value}"
        for name, value in os.environ.items()
        if (name in names or name.startswith(prefixes)) and name not in environment.NOT_INHERITED
    ]
    if not by_agent and any(os.environ.get(mark) for mark in AGENT_MARKS):
        variables = [
            each
            for each in variables
            if each.startswith(AGENT_PREFIXES) or not each.startswith(NOT_FROM_AGENTS)
        ]
    if by_agent:
        variables.append(f"PATH={environment.build_path(os.environ['HOME'])}")
    fields: list[str | bytes] = [
        PROTOCOL,
        VERSION,
        program,
        working_folder(),
        b"".join(terminals),
        str(columns),
        str(lines),
    ]
    fields += [nonce or os.urandom(16).hex(), str(len(arguments)), *arguments, *variables]
    encoded = [os.fsencode(field) for field in fields]
    return frame(HELLO, b"".join(len(field).to_bytes(4, "big") + field for field in encoded))


def terminal_size() -> tuple[int, int]:
    """Return the columns and lines of the caller's terminal, or zeros."""
    for fd in (1, 2, 0):
        try:
            columns, lines = os.get_terminal_size(fd)
            return columns, lines
        except OSError:
            continue
    return 0, 0


def working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed; its name is the only substitute
        folder = os.environ.get("PWD", "")
        return folder if folder.startswith("/") else ""


def frame(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload


def forward(connection: _socket.socket, call: bytes) -> int | None:
    """Send the call and serve the daemon's requests. Return the exit code, or None if the daemon
    makes way for this version.

    Raise CallUnread if the daemon has not read the call, DaemonSilent if it hangs.
    """
    answered = False
    file = None  # of the user's editor
    whole = False  # False while part of a frame may be in transit
    connection.settimeout(SILENT_SECONDS)
    try:
        send(connection, call)
        while True:
            whole = True
            wait_for_frame(connection)
            whole = False
            kind, payload = receive(connection)
            whole = answered = True
            if kind == OUT:
                write(1, payload)
            elif kind == ERR:
                write(2, payload)
            elif kind == READ:
                data = os.read(0, CHUNK)
                whole = False
                send(connection, frame(INPUT, data))
            elif kind in (ASK, ASK_HIDDEN):
                from . import terminal

                line = terminal.ask(payload, hidden=kind == ASK_HIDDEN)
                whole = False
                send(connection, frame(LINE, line))
            elif kind == ASK_KEY:
                from . import terminal

                key = terminal.ask_key(payload)
                whole = False
                send(connection, frame(LINE, key))
            elif kind == PAGE:
                from . import terminal

                terminal.page(payload)
            elif kind == EDIT:
                from . import terminal

                file = file or terminal.EditorFile()
                text = file.edit(payload)
                whole = False
                send(connection, frame(LINE, text))
            elif kind == EXIT:
                if file is not None and not payload[0]:
                    file.is_saved = True
                return payload[0]
            elif kind == UPGRADE:
                return None
    except KeyboardInterrupt:
        # Inside a frame no other can be sent. Closing the connection cancels the command too.
        return cancel(connection) if whole else INTERRUPTED
    except ConnectionLost as exc:
        if isinstance(exc, CallUnread) and not answered:
            raise
        complain("error: the daemon stopped before it had answered\n", 1)
        return 1
    finally:
        if file is not None:
            file.close()


def cancel(connection: _socket.socket) -> int:
    """Ask the daemon to cancel the command, and write its output for a few seconds: not every
    command can be cancelled. A second Ctrl-C ends the launcher."""
    import time

    deadline = time.monotonic() + CANCEL_SECONDS
    try:
        connection.settimeout(CANCEL_SECONDS)
        send(connection, frame(CANCEL, b""))
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            kind, payload = receive(connection)
            if kind in (OUT, ERR):
                write(1 if kind == OUT else 2, payload)
            elif kind == EXIT:
                break
    except (ConnectionLost, DaemonSilent, OSError, KeyboardInterrupt):
        pass
    return INTERRUPTED


def send(connection: _socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except ConnectionError as exc:
        raise CallUnread from exc
    except TimeoutError as exc:
        raise DaemonSilent from exc


def wait_for_frame(connection: _socket.socket) -> None:
    receive_part(connection, 1, _socket.MSG_PEEK)


def receive(connection: _socket.socket) -> tuple[bytes, bytes]:
    head = receive_exactly(connection, 5)
    return head[:1], receive_exactly(connection, int.from_bytes(head[1:], "big"))


def receive_exactly(connection: _socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = receive_part(connection, min(size, CHUNK))
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive_part(connection: _socket.socket, size: int, flags: int = 0) -> bytes:
    try:
        part = connection.recv(size, flags)
    except ConnectionError as exc:  # a reset: the daemon closed without reading our frame
        raise CallUnread from exc
    except TimeoutError as exc:
        raise DaemonSilent from exc
    if not part:
        raise ConnectionLost
    return part


def complain(text: str, code: int | None = None) -> None:
    """Write to standard error. With an exit code it is an error, which is JSON if the caller asked
    for that."""
    if code is not None and option(sys.argv[1:], "--format") == "json":
        import json

        message = text.strip().removeprefix("error: ")
        error = {"name": DAEMON_ERROR, "message": message, "exit_code": code}
        text = json.dumps({"error": error}) + "\n"
    write(2, text.encode(errors="surrogateescape"))


def write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
