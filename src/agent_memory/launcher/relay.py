"""The launcher: hands argv, stdin and terminal to the daemon and relays the answer.

Starting Python is most of what a command costs, so this module imports `sys`, `os` and `_socket`
only, and nothing of the package. `launch.py` and the installed commands run it as a module: a
script is compiled anew at every start. Rare paths (no daemon yet, a hidden prompt, a pager) import
what they need where they need it: the measured saving that allows imports inside functions here.

Frames both ways: kind (1 byte), length (4 bytes, big-endian), payload.
"""

import _socket
import os
import sys

TYPE_CHECKING = False  # what `typing` says too, and costs a start to ask
if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "0.1.0"  # of the package; the daemon gives way to a newer one
PROTOCOL = b"1"

# From us.
HELLO, INPUT, LINE, CANCEL, HOOK_INPUT = b"H", b"I", b"L", b"C", b"G"
# From the daemon.
OUT, ERR, ASK, ASK_HIDDEN, READ, PAGE, EXIT, UPGRADE, BRIDGE, BEAT = (
    b"O", b"E", b"A", b"S", b"R", b"P", b"X", b"U", b"B", b"T",
)  # fmt: skip

PROGRAMS = ("memory", "memory-daemon", "kontekst")
ENVIRONMENT = (
    "HOME", "USER", "PATH", "TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR",
    "CLICOLOR", "CLICOLOR_FORCE", "LANG", "TZ", "EDITOR", "VISUAL", "SSH_AUTH_SOCK", "SSH_ASKPASS",
    "COMP_WORDS", "COMP_CWORD", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME",
)  # fmt: skip
ENVIRONMENT_PREFIXES = ("MEMORY_", "XDG_", "LC_", "GIT_", "_MEMORY_", "_KONTEKST_")
# Of commands with --endpoint and of clients, which run in a process of their own: no daemon's.
NOT_SENT = ("MEMORY_KEY", "MEMORY_ENDPOINT")

# All that a daemon inherits of whoever happens to start it.
DAEMON_ENVIRONMENT = ("HOME", "USER", "LOGNAME", "PATH", "LANG", "TZ", "TMPDIR", "SHELL")
DAEMON_ENVIRONMENT_PREFIXES = ("LC_", "XDG_", "MEMORY_")

CHUNK = 1 << 16
CONNECT_SECONDS = 5
# A daemon that works on a command says so every few seconds (BEAT): after this long without a
# frame it is stopped, or hangs.
SILENT_SECONDS = 12.0
START_MILLIS = 20_000
POLL_SECONDS = 0.02
INTERRUPTED = 130
BROKEN_PIPE = 141
CONFIG_ERROR = 3
STORAGE_ERROR = 4
LONGEST_WAIT = 60
OLDER = "the next command replaces it once it is idle"
NEWER = "it is newer than this command, and answers it"
CANCEL_SECONDS = 5.0  # for a command to end that was cancelled, however alive its daemon is

# Hooks: how many seconds one waits for its input; for an answer, and then for the spool. Some have
# their own, by a word in the input: agents allow a second for the end of a session, and ten and
# more for all else.
HOOK_READ_SECONDS = 2.0
HOOK_READ_ALARMS = 50  # after that, for as long as more keeps coming
HOOK_SECONDS = (1.0, 3.0)
HOOKS_OWN_SECONDS = (
    (b'"SessionEnd"', (0.5, 0.4)),
    (b'"SessionStart"', (2.0, 3.0)),
    (b'"Stop"', (2.0, 3.0)),
)
HOOK_TRIES = 3
MAX_HOOK_BYTES = 8 << 20
# MCP: in place of a program; after the daemon's BRIDGE both sides are bytes and nothing else.
MCP = "mcp"
STDIO = "stdio"
SERVE_OPTIONS = frozenset(
    ("--transport", "-l", "--log-level", "-v", "--verbose", "-q", "--quiet", "--format")
)  # fmt: skip
PIECE = 4096  # what a pipe that has any room takes at once

START_DAEMON = "start-daemon"  # in place of a hook's name: what no hook waits for

# What is answered without a daemon when none runs, by first word; and what is always done here, by
# the first word or two.
WITHOUT_DAEMON = {
    "memory": ("completion",),
    "memory-daemon": ("status", "completion"),
    "kontekst": ("completion",),
}
NEVER_RELAYED = {
    "memory": ("doctor",),
    "memory-daemon": ("start", "stop", "service", "admin restore"),
    "kontekst": ("start", "stop"),
}
OPTIONS_WITH_VALUE = (
    "-c", "--config", "-l", "--log-level", "-e", "--endpoint", "--format", "--db-path",
    "--input", "--output", "--agent", "-a", "--transport", "--host", "--port", "--session", "-s",
    "--dir", "--to",
)  # fmt: skip


class ConnectionLost(Exception):
    """The connection to the daemon ended before its answer did."""


class CallUnread(ConnectionLost):
    """It ended, and the daemon has not read what we sent last."""


class HookTimeout(Exception):
    """Something has taken longer than an agent may be kept waiting."""


class DaemonSilent(Exception):
    """The daemon has accepted the connection, and shows no sign of life."""


class HookDeadline:
    """How long a hook may still wait. Late is raised only while it does wait: an alarm that goes
    off in between is kept for the next wait, so it cannot keep the hook from being recorded."""

    def __init__(self) -> None:
        self.waiting = self.over = False

    def alarm(self, _number: int, _frame: object) -> None:
        self.over = True
        if self.waiting:
            self.waiting = False
            raise HookTimeout

    def wait(self, work: "Callable[[], bytes | None]") -> bytes | None:
        """The result of the work; None where it fails, or takes too long."""
        try:
            try:
                self.waiting = True
                return None if self.over else work()
            finally:  # within the other: an alarm may still go off before this is done
                self.waiting = False
        except (HookTimeout, ConnectionLost, OSError):
            return None


class HookInput:
    """The input of a hook. An alarm ends it where nothing more has come, or no end is to be seen:
    whoever writes it may never close their end. It does not raise, because what has been read
    must not be lost."""

    def __init__(self, source: int) -> None:
        self.source = source
        self.alarms = 0

    def alarm(self, _number: int, _frame: object) -> None:
        import select

        self.alarms += 1
        poll = select.poll()
        poll.register(self.source, select.POLLIN)
        if self.alarms > HOOK_READ_ALARMS or not poll.poll(0):
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, self.source)
            os.close(null)

    def all(self) -> bytes:
        """What is too long for any agent is read, so that nobody is left writing, and not kept."""
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
    """End at once: taking an interpreter down properly costs as much as half the answer."""
    os._exit(main())


def main() -> int:
    open_standard_streams()
    program, arguments = command(sys.argv)
    try:
        return run(program, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; nothing may be written to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except OSError as exc:  # a full disk behind the output, for one
        complain(f"error: {exc.strerror or exc}\n")
        return STORAGE_ERROR


def open_standard_streams() -> None:
    """Where the caller has closed one, our own descriptors must not take its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def command(argv: list[str]) -> tuple[str, list[str]]:
    """Which command this is: by our own name, or, run as launch.py, by the first argument."""
    name = os.path.basename(argv[0])
    if name in PROGRAMS:
        return name, argv[1:]
    if len(argv) > 1 and argv[1] in PROGRAMS:
        return argv[1], argv[2:]
    return "memory", argv[1:]


def run(program: str, arguments: list[str]) -> int:
    if asks_version(arguments) and not is_completing(program):
        return tell_version(program)
    words, flags = split_arguments(arguments)
    first = words[0] if words else ""
    remote = any(flag == "--endpoint" or flag.startswith("-e") for flag in flags)
    if program == "memory" and first == "hook" and flags.isdisjoint(("-h", "--help")):
        return hook(arguments)
    if first in NEVER_RELAYED[program] or " ".join(words[:2]) in NEVER_RELAYED[program] or remote:
        run_here(program, arguments)
    if (
        program == "memory"
        and words == ["serve"]
        and flags <= SERVE_OPTIONS
        and option(arguments, "--transport") in (None, STDIO)
    ):
        return serve(arguments)

    def alone() -> None:
        """Where no daemon runs, some commands need none."""
        if (
            (not words and not has_prompt(program, arguments))
            or first in WITHOUT_DAEMON[program]
            or words[:2] == ["config", "path"]
            or (words[:2] == ["admin", "verify"] and "--repair" in flags)
            or not flags.isdisjoint(("-h", "--help", "-V", "--version", "--db-path"))
            or is_completing(program)
        ):
            run_here(program, arguments)

    call = hello(program, arguments)
    return converse(arguments, lambda connection: relay(connection, call), alone)


def asks_version(arguments: list[str]) -> bool:
    """Whether the first option of the program itself is that for its version."""
    for argument in arguments:
        if argument in ("-V", "--version"):
            return True
        if not argument.startswith("-") or argument in ("--", *OPTIONS_WITH_VALUE):
            break
    return False


def tell_version(program: str) -> int:
    """Say our version, and that of a daemon where it differs. No daemon is started or replaced."""
    folder = data_folder()
    connection = connect(folder)
    told = f"{program} {VERSION}"
    if connection is not None:
        connection.close()
        running = daemon_version(folder)
        if running and running != VERSION:
            told += f" (daemon {running} is running{outlook(running)})"
    write(1, f"{told}\n".encode())
    return 0


def outlook(running: str) -> str:
    """What becomes of a daemon of another version: it makes way for a newer release only."""
    if release(running) == release(VERSION):
        return ""
    return f"; {OLDER if release(running) < release(VERSION) else NEWER}"


def release(version: str) -> tuple[int, ...]:
    """1.2.3 as numbers; what follows a release number does not count."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def daemon_version(folder: str) -> str:
    """The version that the daemon has announced; empty where that cannot be read."""
    import json

    try:
        with open(os.path.join(folder, "daemon.json"), encoding="utf-8") as file:
            return str(json.load(file)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def converse(
    arguments: list[str],
    talk: "Callable[[_socket.socket], int | None]",
    alone: "Callable[[], None]",
) -> int:
    """Talk to the daemon; to one that we start, if none runs after we have been left `alone`, or
    the one that runs makes way for ours."""
    folder = data_folder()
    for _ in range(3):
        seen = read_announcement(folder)
        connection = connect(folder)
        if connection is None:
            alone()
            code = start(config_file(arguments), by_hand=False)
            if code:
                return code
            seen = read_announcement(folder)
            connection = connect(folder)
        if connection is None:
            continue
        try:
            answer = talk(connection)
        except CallUnread:
            continue  # it was stopping and has not seen our call: the next one shall
        except DaemonSilent:
            complain(silence(folder))
            return STORAGE_ERROR
        finally:
            connection.close()
        if answer is not None:
            return answer
        # An older daemon is on its way out: start ours as soon as it has let go.
        code = start(config_file(arguments), by_hand=False, replace=seen)
        if code:
            return code
    complain("error: the daemon does not answer; `memory-daemon status` may tell why\n")
    return STORAGE_ERROR


def silence(folder: str) -> str:
    """What to say of a daemon that shows no sign of life."""
    try:
        with open(os.path.join(folder, "daemon.lock"), "rb") as lock:
            number = lock.read(20).strip().decode("ascii", "replace")
    except OSError:
        number = ""
    process = f" (process {number})" if number else ""
    act = f"`kill -CONT {number}` lets it go on if it was stopped" if number else "look at its log"
    return (
        f"error: the daemon{process} has not answered for {SILENT_SECONDS:g} s: {act},"
        " `memory-daemon stop` ends it; what you asked for may still be done then\n"
    )


def serve(arguments: list[str]) -> int:
    """Be the way between an MCP client and the daemon, until one of them ends it."""
    if os.isatty(0):
        try_write_error(
            b"note: an MCP client runs this, and speaks to it in JSON; Ctrl-D ends it\n"
        )
    call = hello(MCP, arguments)
    return converse(arguments, lambda connection: bridge(connection, call), lambda: None)


def bridge(connection: _socket.socket, call: bytes) -> int | None:
    """The exit code, or None where the daemon makes way for ours."""
    folder = data_folder()
    seen = read_announcement(folder)
    bridged = False
    connection.settimeout(SILENT_SECONDS)
    try:
        send(connection, call)
        wait_for_frame(connection)
        while True:
            kind, payload = receive(connection)
            if kind == ERR:
                try_write_error(payload)
            elif kind == EXIT:
                return payload[0]
            elif kind == UPGRADE:
                return None
            elif kind == BRIDGE:
                connection.settimeout(None)
                bridged = True
                break
    except ConnectionLost as exc:
        if isinstance(exc, CallUnread) and not bridged:
            raise
    # A daemon that stops takes its announcement back first; one that crashed could not.
    if not bridged or (not copy_both_ways(connection) and read_announcement(folder) == seen):
        try_write_error(b"error: the daemon was lost\n")
        return 1
    return 0


def copy_both_ways(connection: _socket.socket) -> bool:
    """Bytes both ways, each as fast as it is taken. Whether it was our side that ended it."""
    import select

    ended = select.POLLERR | select.POLLHUP | select.POLLNVAL
    line = connection.fileno()
    up = down = b""  # to the daemon, to the client
    more, said_all = True, False  # whether more may come from the client
    while True:
        poll = select.poll()
        if more and not up:
            poll.register(0, select.POLLIN)
        # What has hung up would wake us for ever: it is only looked at with something in mind.
        if up or not down:
            poll.register(line, (select.POLLOUT if up else 0) | (0 if down else select.POLLIN))
        # Not asked for, and told all the same: that nobody reads there any more.
        poll.register(1, select.POLLOUT if down else 0)
        ready = dict(poll.poll())
        try:
            if ready.get(1, 0) & ended:
                raise BrokenPipeError
            if down and 1 in ready:
                down = down[os.write(1, down[:PIECE]) :]
            if more and not up and 0 in ready:
                up = os.read(0, CHUNK)
                if not up:
                    more, said_all = False, True
                    connection.shutdown(_socket.SHUT_WR)
        except BlockingIOError:  # someone else's end, and set so by them
            pass
        try:
            if up and line in ready:
                up = up[connection.send(up, _socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            pass
        except OSError:  # nobody hears it; what was said before is still to be read
            up, more = b"", False
        try:
            if not down and line in ready:
                down = connection.recv(CHUNK, _socket.MSG_DONTWAIT)
                if not down:
                    return said_all
        except BlockingIOError:
            pass
        except OSError:
            return said_all


def hook(arguments: list[str]) -> int:
    """Tell the daemon what an agent's hook was given, and the agent what the daemon answers.

    Never in the way: whatever happens, there is an answer in time, it is valid JSON, and the exit
    code is 0. Where no daemon answers, the input is left in the spool for the next one.
    """
    if hook_name(arguments) == START_DAEMON:
        return start(config_file(arguments), by_hand=False)
    given = b""
    answer: bytes | None = None
    try:
        import _signal  # type: ignore[import-not-found]  # `signal` without enum
        import time

        patience = HookDeadline()

        def allow(seconds: float) -> None:
            patience.over = False
            _signal.setitimer(_signal.ITIMER_REAL, seconds)

        call = arguments, os.urandom(16).hex(), time.time_ns() // 1_000_000
        reading = HookInput(input_descriptor(option(arguments, "--input")))
        _signal.signal(_signal.SIGALRM, reading.alarm)
        # Again and again: an alarm just before a read begins would not interrupt it.
        _signal.setitimer(_signal.ITIMER_REAL, HOOK_READ_SECONDS, POLL_SECONDS)
        given = reading.all()
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        _signal.signal(_signal.SIGALRM, patience.alarm)
        answering, keeping = next(
            (own for word, own in HOOKS_OWN_SECONDS if word in given), HOOK_SECONDS
        )
        allow(answering)
        answer = patience.wait(lambda: ask_daemon(*call, given))
        if answer is None and given:
            allow(keeping)
            leave_in_spool(*call, given, patience)
        allow(0)
    except BaseException as exc:
        try_write_error(
            f"error: the hook was not recorded: {exc}\n".encode(errors="surrogateescape")
        )
    try:
        put_answer(answer or no_answer(given), option(arguments, "--output"))
    except BaseException as exc:  # an agent must not take it for a veto
        try_write_error(
            f"error: the hook's answer was not written: {exc}\n".encode(errors="replace")
        )
    return 0


def try_write_error(data: bytes) -> None:
    """Complain, if anyone listens."""
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


def ask_daemon(arguments: list[str], nonce: str, at_ms: int, given: bytes) -> bytes | None:
    """The daemon's answer; None where no daemon is there, or it makes way for ours."""
    call = hello("hook", arguments, nonce) + frame(HOOK_INPUT, b"%d\n" % at_ms + given)
    folder = data_folder()
    for _ in range(HOOK_TRIES):
        connection = connect(folder)
        if connection is None:
            return None
        try:
            return exchange(connection, call)
        except ConnectionLost:
            continue  # it has stopped; the same again is the same to the next one
        finally:
            connection.close()
    return None


def exchange(connection: _socket.socket, call: bytes) -> bytes | None:
    send(connection, call)
    said = b""
    while True:
        kind, payload = receive(connection)
        if kind == OUT:
            said += payload
        elif kind == ERR:
            try_write_error(payload)
        elif kind == EXIT:
            return said or None
        elif kind == UPGRADE:
            return None


def no_answer(given: bytes) -> bytes:
    if b'"hook"' in given and b'"hook_event_name"' not in given:
        return b'{"additionalContext": "", "suppressSystemPrompt": false}\n'
    return b"{}\n"


def put_answer(answer: bytes, path: str | None) -> None:
    if path is None:
        write(1, answer)
        return
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write(target, answer)
    finally:
        os.close(target)


def leave_in_spool(
    arguments: list[str], nonce: str, at_ms: int, given: bytes, patience: HookDeadline
) -> None:
    """Have another process clean the input and keep it, and a daemon started that records it.

    It is started however late we are, and goes on alone where we cannot wait for it: it has all
    that it needs, and holds nothing that our caller waits for.
    """
    source = make_input_file(given)
    complaints, complaining = os.pipe()
    command = [
        sys.executable,
        "-I",
        "-m",
        "agent_memory.daemon.hook_fallback",
        nonce,
        str(at_ms),
        *arguments,
    ]
    null = os.open(os.devnull, os.O_WRONLY)
    child = os.posix_spawn(
        sys.executable,
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, source, 0),
            (os.POSIX_SPAWN_DUP2, null, 1),
            (os.POSIX_SPAWN_DUP2, complaining, 2),
        ],
        setsid=True,
    )
    for descriptor in (source, complaining, null):
        os.close(descriptor)

    def listen() -> None:
        while part := os.read(complaints, CHUNK):
            try_write_error(part)
        os.waitpid(child, 0)

    patience.wait(listen)


def make_input_file(given: bytes) -> int:
    """A file that nobody else can open, with these bytes: a pipe would make us wait for its end."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("hook")
    else:
        import tempfile

        file, path = tempfile.mkstemp()
        os.unlink(path)
    write(file, given)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def split_arguments(arguments: list[str]) -> tuple[list[str], set[str]]:
    """The words that are no options, and the options' names."""
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
    """The value of -c/--config, absolute: a daemon that we start must read it too."""
    for position, argument in enumerate(arguments):
        if argument in ("-c", "--config") and position + 1 < len(arguments):
            return os.path.abspath(arguments[position + 1])
        if argument.startswith("--config="):
            return os.path.abspath(argument[9:])
        if argument.startswith("-c") and len(argument) > 2:
            return os.path.abspath(argument[2:])
    return None


def has_prompt(program: str, arguments: list[str]) -> bool:
    """Whether an agent is asked for without a word: what it is to do comes over a pipe, or behind
    a `--`."""
    return program == "kontekst" and ("--" in arguments or not os.isatty(0))


def is_completing(program: str) -> bool:
    return f"_{program.upper().replace('-', '_')}_COMPLETE" in os.environ


def run_here(program: str, arguments: list[str]) -> None:
    """Run the command in this process, with the whole package: slower, needs no daemon."""
    python = sys.executable
    os.execv(python, [python, "-I", "-m", "agent_memory.daemon.standalone", program, *arguments])


def data_folder() -> str:
    base = os.environ.get("XDG_DATA_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(os.environ.get("HOME") or "/", ".local/share")
    return os.path.join(base, "agent-memory")


def connect(folder: str) -> _socket.socket | None:
    """A connection to the daemon of this data folder, or None. The folder records where it is."""
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
            connection.settimeout(None)
            return connection
        except BlockingIOError:  # many call at once: its queue is full, and Linux does not wait
            tries -= 1
            if tries > 0:
                import time

                time.sleep(POLL_SECONDS)
                continue
        except OSError:
            pass
        connection.close()
        return None


def read_announcement(folder: str) -> tuple[int, int]:
    """Tells one daemon's announcement from the next one's."""
    try:
        found = os.lstat(os.path.join(folder, "daemon.sock"))
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def hello(program: str, arguments: list[str], nonce: str = "") -> bytes:
    """The first frame: who calls, from where, and with what terminal."""
    terminals = [b"1" if os.isatty(fd) else b"0" for fd in (0, 1, 2)]
    columns = lines = 0
    for fd in (1, 2, 0):
        if terminals[fd] == b"1":
            try:
                columns, lines = os.get_terminal_size(fd)
                break
            except OSError:
                continue
    environment = [
        f"{name}={value}"
        for name, value in os.environ.items()
        if (name in ENVIRONMENT or name.startswith(ENVIRONMENT_PREFIXES)) and name not in NOT_SENT
    ]
    fields: list[str | bytes] = [
        PROTOCOL,
        VERSION,
        program,
        working_folder(),
        b"".join(terminals),
        str(columns),
        str(lines),
    ]
    fields += [nonce or os.urandom(16).hex(), str(len(arguments)), *arguments, *environment]
    encoded = [os.fsencode(each) for each in fields]
    return frame(HELLO, b"".join(len(each).to_bytes(4, "big") + each for each in encoded))


def working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed: never take another for it
        folder = os.environ.get("PWD", "")
        return folder if folder.startswith("/") else ""


def frame(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload


def relay(connection: _socket.socket, call: bytes) -> int | None:
    """Send the call, do what the daemon asks. The exit code, or None if it makes way for us.

    Raises Unread where the daemon has not even seen the call, Silent where it hangs.
    """
    answered = False
    whole = False  # false while a part of a frame may be on its way
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
                given = os.read(0, CHUNK)
                whole = False
                send(connection, frame(INPUT, given))
            elif kind in (ASK, ASK_HIDDEN):
                answer = ask(payload, hidden=kind == ASK_HIDDEN)
                whole = False
                send(connection, frame(LINE, answer))
            elif kind == PAGE:
                page(payload)
            elif kind == EXIT:
                return payload[0]
            elif kind == UPGRADE:
                return None
    except KeyboardInterrupt:
        # In the middle of a frame nothing more can be said: hanging up cancels the command too.
        return cancel(connection) if whole else INTERRUPTED
    except ConnectionLost as exc:
        if isinstance(exc, CallUnread) and not answered:
            raise
        write(2, b"error: the daemon stopped before it had answered\n")
        return 1


def cancel(connection: _socket.socket) -> int:
    """Ask the daemon to stop the command and show what it still says, for a few seconds: not every
    command can be stopped. A second Ctrl-C ends us."""
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
    try:
        if not connection.recv(1, _socket.MSG_PEEK):
            raise ConnectionLost
    except ConnectionError as exc:  # closed with our words unread; otherwise it just ends
        raise CallUnread from exc
    except TimeoutError as exc:
        raise DaemonSilent from exc


def receive(connection: _socket.socket) -> tuple[bytes, bytes]:
    head = receive_exactly(connection, 5)
    return head[:1], receive_exactly(connection, int.from_bytes(head[1:], "big"))


def receive_exactly(connection: _socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        try:
            part = connection.recv(min(size, CHUNK))
        except ConnectionError as exc:
            raise CallUnread from exc
        except TimeoutError as exc:
            raise DaemonSilent from exc
        if not part:
            raise ConnectionLost
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def complain(text: str) -> None:
    write(2, text.encode(errors="surrogateescape"))


def write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def ask(prompt: bytes, hidden: bool) -> bytes:
    """One line from the user, with its newline; empty at the end of input. On a terminal, what was
    typed before the question is no answer to it."""
    if not os.isatty(0):
        write(2, prompt)
        return read_line()
    import termios

    termios.tcflush(0, termios.TCIFLUSH)
    write(2, prompt)
    if not hidden:
        return read_line()
    shown = termios.tcgetattr(0)
    silent = list(shown)
    silent[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(0, termios.TCSAFLUSH, silent)
        return read_line()
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, shown)
        write(2, b"\n")


def read_line() -> bytes:
    """Byte by byte: what follows the line belongs to whoever reads next."""
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1)
        if not more:
            break
        line += more
    return line


def page(text: bytes) -> None:
    """Show in the user's pager; plainly if there is none. Ctrl-C meanwhile is the pager's."""
    import signal

    words = os.environ.get("PAGER", "").split() or ["less"]
    readable, writable = os.pipe()
    environment = {"LESS": "FRX", **os.environ}
    ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = os.posix_spawnp(
            words[0],
            words,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, readable, 0), (os.POSIX_SPAWN_CLOSE, writable)],
            setsigdef=(signal.SIGINT, signal.SIGPIPE),
        )
        os.close(readable)
        try:
            write(writable, text)
        except BrokenPipeError:
            pass  # the user has seen enough
        os.close(writable)
        os.waitpid(child, 0)
        return
    except OSError:
        pass  # there is no such program
    finally:
        signal.signal(signal.SIGINT, ours)
    write(1, text)


def start(
    config: str | None,
    by_hand: bool,
    replace: tuple[int, int] | None = None,
    options: tuple[str, ...] = (),
) -> int:
    """Start a daemon and wait until it serves. 0, or an exit code after saying why.

    `replace` is what an outdated daemon had announced: it is on its way out.
    One starts, the others wait for it: a hundred commands at once must not load a hundred daemons.
    A start that failed a moment ago is not tried again by a command, only by hand.
    """
    folder = data_folder()
    path = os.path.join(folder, "start.lock")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        complain(f"error: cannot use the data folder {folder}: {exc.strerror}\n")
        return STORAGE_ERROR
    try:
        if not acquire_lock(lock):
            seconds = START_MILLIS // 1000
            complain(
                f"error: another command has held {path} for {seconds} s, and starts nothing\n"
            )
            return STORAGE_ERROR
        running = None if read_announcement(folder) == replace else connect(folder)
        if running is not None:
            running.close()
            return 0
        marker = os.path.join(folder, "start-failed")
        failures, code, message = read_failed_start(marker)
        if message and not by_hand:
            complain(message)
            return code
        code, reason = spawn(config, by_hand, replace is not None, options)
        if not code:
            if failures:
                os.unlink(marker)
            return 0
        complain(reason)
        if code == CONFIG_ERROR:
            return code  # cheap to find, and perhaps only in this caller's settings
        try:
            if os.path.lexists(marker):  # a link, or a file with another name too: not ours
                os.unlink(marker)
            record = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                write(record, f"{failures + 1} {code}\n{reason}".encode())
            finally:
                os.close(record)
        except OSError:
            pass  # a full or read-only disk: then every command tries, and says why it fails
        return code
    finally:
        os.close(lock)


def acquire_lock(lock: int) -> bool:
    """Whether we have got the lock, within the time that a start may take."""
    import fcntl
    import time

    deadline = time.monotonic() + START_MILLIS / 1000
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)


def read_failed_start(marker: str) -> tuple[int, int, str]:
    """How often starts have failed in a row and the last one's exit code; why, and when commands
    will try again, if that is still ahead."""
    import time

    try:
        with open(marker, encoding="utf-8") as record:
            failures, code = (int(each) for each in record.readline().split())
            reason = record.read()
        wait = os.stat(marker).st_mtime + min(2**failures, LONGEST_WAIT) - time.time()
    except (OSError, ValueError):
        return 0, 0, ""
    # Longer than the longest: the clock was set back since.
    if not 0 < wait <= LONGEST_WAIT:
        return failures, code, ""
    return failures, code, f"{reason}(next try in {wait:.0f} s; by hand: memory-daemon start)\n"


def daemon_environment(environ: "os._Environ[str]") -> dict[str, str]:
    """What a daemon may keep of its caller's environment: it outlives the caller."""
    return {
        name: value
        for name, value in environ.items()
        if (name in DAEMON_ENVIRONMENT or name.startswith(DAEMON_ENVIRONMENT_PREFIXES))
        and name not in NOT_SENT
    }


def spawn(
    config: str | None, by_hand: bool, replace: bool, options: tuple[str, ...]
) -> tuple[int, str]:
    """A daemon in the background: its exit code and message, or 0 once it says that it serves."""
    import select

    readable, writable = os.pipe()
    arguments = [sys.executable, "-I", "-m", "agent_memory.daemon.standalone"]
    if config:
        arguments += ["memory-daemon", "--config", config, "start"]
    else:
        arguments += ["memory-daemon", "start"]
    arguments += ["--foreground", "--ready-fd", "3", *options]
    if not by_hand:
        arguments += ["--auto"]
    if replace:
        arguments += ["--replace"]
    null = os.open(os.devnull, os.O_RDWR)
    if writable == 3:
        os.set_inheritable(3, True)
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1)]
    actions += [(os.POSIX_SPAWN_DUP2, writable, fd) for fd in (2, 3) if fd != writable]
    # Without that, gRPC itself writes to stderr about a busy port.
    environment = {**daemon_environment(os.environ), "GRPC_VERBOSITY": "NONE"}
    child = os.posix_spawn(
        sys.executable, arguments, environment, file_actions=actions, setsigmask=()
    )
    os.close(writable)
    os.close(null)
    said = b""
    poll = select.poll()
    poll.register(readable, select.POLLIN)
    try:
        while poll.poll(START_MILLIS):
            more = os.read(readable, CHUNK)
            said += more
            if b"\0" in said:  # the daemon serves; what it said before are warnings
                write(2, said.partition(b"\0")[0])
                return 0, ""
            if not more:
                _, status = os.waitpid(child, 0)
                code = os.waitstatus_to_exitcode(status)
                text = said.decode(errors="replace") or "error: the daemon ended at its start\n"
                return code if code > 0 else 1, text
        return 1, f"error: the daemon did not serve within {START_MILLIS // 1000} s\n"
    finally:
        os.close(readable)
