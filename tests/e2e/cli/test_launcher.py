"""The launcher passes input and signals to the command, and its answer back."""

import fcntl
import random
import signal
import socket
import sys
import termios
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_memory import __version__
from agent_memory.launcher import command_client
from tests.command_runner import SECONDS, Answer, Home, ProgramServer, patch_launcher, wait_until
from tests.e2e.command_programs import PATTERN

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def programs() -> Iterator[ProgramServer]:
    with Home(forks=False) as home, ProgramServer(home) as server:
        yield server


@pytest.fixture
def home() -> Iterator[Home]:
    with Home(forks=False) as created:
        yield created


@pytest.fixture
def own_programs() -> Iterator[ProgramServer]:
    """A server for one test, which may stop it."""
    with Home(forks=False) as home, ProgramServer(home) as server:
        yield server


def _pattern(size: int) -> bytes:
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def _say(programs: ProgramServer, word: str = "here") -> Answer:
    return programs.run("say", word, "", "0")


@pytest.mark.parametrize("code", [0, 1, 2, 42, 255])
def test_output_errors_and_exit_code_arrive_as_they_were(
    programs: ProgramServer, code: int
) -> None:
    answer = programs.run("say", "to out\n", "to err", str(code))

    assert answer == Answer(code, b"to out\n", b"to err")


def test_input_from_a_pipe_reaches_the_command(programs: ProgramServer) -> None:
    given = random.Random(1).randbytes(3 * MEGABYTE)

    answer = programs.run("cat", given=given)

    assert answer == Answer(0, given, b"")


def test_a_command_that_reads_no_input_leaves_it_to_the_next_program(
    programs: ProgramServer,
) -> None:
    answer = programs.home.run_shell(
        'while read -r line; do $RUN_memory say "$line;" "" 0; done', given=b"one\ntwo\nthree\n"
    )

    assert answer == Answer(0, b"one;two;three;", b"")


def test_a_question_takes_one_line_and_leaves_the_rest(programs: ProgramServer) -> None:
    answer = programs.home.run_shell("$RUN_memory prompt; cat", given=b"first\nsecond\nthird\n")

    assert answer == Answer(0, b"<first>\nsecond\nthird\n", b"Word: ")


def test_a_question_at_the_end_of_input_cancels_the_command(programs: ProgramServer) -> None:
    answer = programs.run("prompt")

    assert answer == Answer(130, b"", b"Word: ")


@pytest.mark.parametrize(
    "words",
    [
        [b"two words", b"", b" "],
        ["naïve ünïcödé 日本語 🙂".encode()],
        [b"a\nb", b"tab\t", b"'\"$(id)`"],
        [b"\xff\xfe not utf-8 \x80"],
        [b"--", b"--help", b"-x"],
        [b"x" * 100_000],
    ],
    ids=["spaces", "unicode", "newlines and quotes", "not utf-8", "options after --", "long"],
)
def test_arguments_arrive_byte_for_byte(programs: ProgramServer, words: list[bytes]) -> None:
    answer = programs.run("echo", *words)

    expected = words[1:] if words[0] == b"--" else words
    assert answer == Answer(0, b"".join(word + b"\0" for word in expected), b"")


def test_the_command_sees_the_callers_folder_and_environment(programs: ProgramServer) -> None:
    folder = programs.home.work / "a folder"
    folder.mkdir(exist_ok=True)
    secrets = {"SECRET_TOKEN": "s3cret", "MEMORY_KEY": "am_s3cret", "MEMORY_ENDPOINT": "s3cret:1"}
    env = {"GIT_AUTHOR_NAME": "Ada L.", "MEMORY_CLI__PAGER": "false", **secrets}

    found = programs.run("facts", "--format", "json", env=env, cwd=folder).json()

    assert found["cwd"] == str(folder)
    assert found["environ"]["GIT_AUTHOR_NAME"] == "Ada L."
    assert found["environ"]["MEMORY_CLI__PAGER"] == "false"
    assert found["environ"]["HOME"] == str(programs.home.folder)
    assert not secrets.keys() & found["environ"].keys()
    assert found["terminals"] == [False, False, False]


def test_a_folder_that_is_gone_does_not_stop_a_command(programs: ProgramServer) -> None:
    script = "mkdir gone && cd gone && rmdir ../gone && $RUN_memory say here '' 0"

    assert programs.home.run_shell(script) == Answer(0, b"here", b"")


def test_a_folder_that_is_gone_does_not_stop_a_command_without_a_daemon() -> None:
    with Home(forks=False) as home:
        script = "mkdir gone && cd gone && rmdir ../gone && $RUN_daemon status"

        answer = home.run_shell(script)

    assert answer == Answer(1, b"Daemon Status: Not running\n", b"")


def test_megabytes_of_output_arrive_whole(programs: ProgramServer) -> None:
    size = 5 * MEGABYTE + 17

    answer = programs.run("flood", str(size))

    assert answer.code == 0
    assert answer.out == _pattern(size)


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(programs: ProgramServer) -> None:
    answer = programs.home.run_shell(
        f"$RUN_memory flood {20 * MEGABYTE} | head -1; echo ${{PIPESTATUS[0]}}"
    )

    assert answer == Answer(0, PATTERN + b"141\n", b"")
    assert _say(programs).code == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_caller_has_closed_is_as_good_as_empty(
    programs: ProgramServer, closed: str
) -> None:
    answer = programs.home.run_shell(
        f"$RUN_memory say out err 7 {closed}; echo $?; $RUN_memory cat {closed}; echo $?"
    )

    out = b"" if ">&- " in f"{closed} ".replace("2>&-", "") else b"out"
    err = b"" if "2>&-" in closed else b"err"
    assert answer == Answer(0, out + b"7\n0\n", err)


def test_a_command_that_nobody_knows_is_a_usage_error(programs: ProgramServer) -> None:
    answer = programs.run("no-such-command")

    assert (answer.code, answer.out) == (2, b"")
    assert "no-such-command" in answer.errors


def test_a_program_that_this_daemon_does_not_have_is_a_usage_error(
    programs: ProgramServer,
) -> None:
    answer = programs.home.run("kontekst", "anything")

    assert answer == Answer(2, b"", b"error: unknown program 'kontekst'\n")


def test_run_as_a_file_of_another_name_it_is_the_memory_command(programs: ProgramServer) -> None:
    words = programs.home.command("memory", "say", "out", "", "3")
    words.remove("memory")

    assert programs.home.run_words(words) == Answer(3, b"out", b"")


def test_a_fault_in_a_command_is_told_without_its_traceback(programs: ProgramServer) -> None:
    answer = programs.run("crash")

    assert (answer.code, answer.out) == (1, b"")
    assert answer.errors == "error: the command failed in the daemon; its log says why\n"
    assert _say(programs).code == 0


def test_an_interrupt_cancels_the_command_in_the_daemon(
    programs: ProgramServer, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    command = programs.begin("work", str(record))
    with command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"working\n"

        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=SECONDS)

    assert (command.returncode, err) == (130, b"")
    assert record.read_text() == "cancelled"


def test_an_interrupt_ends_a_command_that_cannot_be_cancelled(
    own_programs: ProgramServer, tmp_path: Path
) -> None:
    """The beats of the daemon do not keep it alive."""
    hasty = patch_launcher(tmp_path, "CANCEL_SECONDS = 5.0", "CANCEL_SECONDS = 0.5")
    words = own_programs.home.command("memory", "ignore", "600", launcher=hasty)
    with own_programs.home.begin_words(words) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"working\n"

        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=SECONDS)

    assert (command.returncode, err) == (130, b"")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_command_whose_caller_dies_is_cancelled(
    programs: ProgramServer, tmp_path: Path, number: signal.Signals
) -> None:
    record = tmp_path / "record"
    if number is not signal.SIGKILL:  # it may be ignored here, as under nohup
        signal.signal(number, signal.SIG_DFL)
    command = programs.begin("work", str(record))
    with command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"working\n"

        command.send_signal(number)
        command.wait(SECONDS)

    assert command.returncode == -number
    wait_until(
        lambda: record.exists() and record.read_text() == "cancelled", "the command was told"
    )


def test_a_stalled_reader_holds_up_neither_other_commands_nor_the_stop(
    own_programs: ProgramServer,
) -> None:
    stalled = own_programs.begin("flood", str(20 * MEGABYTE))
    with stalled:
        assert stalled.stdout is not None
        assert stalled.stdout.read(1) == PATTERN[:1]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda n: _say(own_programs, f"{n}"), range(20)))
        assert answers == [Answer(0, f"{n}".encode(), b"") for n in range(20)]
        assert stalled.poll() is None

        assert own_programs.stop() == b"stopped\n"

        out, err = stalled.communicate(timeout=SECONDS)
    assert err == b"error: the daemon stopped before it had answered\n"
    assert stalled.returncode == 1
    assert PATTERN[:1] + out == _pattern(1 + len(out))


def test_a_stalled_terminal_holds_up_neither_other_commands_nor_the_stop(
    own_programs: ProgramServer,
) -> None:
    with own_programs.on_terminal("flood", str(20 * MEGABYTE)) as screen:
        screen.read_until("!")
        for number in range(3):
            assert _say(own_programs, f"{number}").out == f"{number}".encode()

        assert own_programs.stop() == b"stopped\n"


def test_a_command_that_runs_when_the_server_stops_is_cancelled_and_answered(
    own_programs: ProgramServer, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    command = own_programs.begin("work", str(record))
    with command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"working\n"

        assert own_programs.stop() == b"stopped\n"
        _, err = command.communicate(timeout=SECONDS)

    assert (command.returncode, err) == (130, b"")
    assert record.read_text() == "cancelled"


def test_a_stop_lets_a_command_finish_that_is_about_to(own_programs: ProgramServer) -> None:
    with own_programs.on_terminal("prompt") as screen:
        screen.read_until("Word: ")
        stopping = threading.Thread(target=own_programs.stop)
        stopping.start()
        link = own_programs.home.data / "daemon.sock"
        wait_until(lambda: not link.is_symlink(), "the server is stopping")

        screen.type("ready\n")

        assert screen.finish() == 0
        assert "<ready>" in screen.text
        stopping.join(SECONDS)


def test_many_commands_at_once_each_get_their_own_answer(programs: ProgramServer) -> None:
    def ask(number: int) -> Answer:
        return programs.run("cat", given=f"{number}\n".encode() * 1000)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(40)))

    assert answers == [Answer(0, f"{n}\n".encode() * 1000, b"") for n in range(40)]


def test_a_connection_that_sends_nonsense_harms_nobody(programs: ProgramServer) -> None:
    link = programs.home.data / "daemon.sock"
    for nonsense in (b"", b"H", b"GET / HTTP/1.1\r\n\r\n", b"H\xff\xff\xff\xff", b"H\0\0\0\x01x"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(link.readlink()))
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(SECONDS)
            assert connection.recv(1) == b""
    assert _say(programs).code == 0
    assert programs.runs


def test_a_connection_that_says_nothing_is_not_kept(programs: ProgramServer) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str((programs.home.data / "daemon.sock").readlink()))
        silent.settimeout(SECONDS)
        assert silent.recv(1) == b""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_answers_that_nobody_asked_for_do_not_pile_up(
    own_programs: ProgramServer, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str((own_programs.home.data / "daemon.sock").readlink()))
        connection.settimeout(SECONDS)
        connection.sendall(command_client.hello("memory", ["work", str(record)]))
        assert command_client.receive(connection) == (command_client.OUT, b"working\n")
        before = own_programs.resident_bytes()
        unasked = command_client.frame(command_client.INPUT, bytes(MEGABYTE))
        for _ in range(128):
            connection.sendall(unasked)
        assert own_programs.resident_bytes() - before < 64 * MEGABYTE
    wait_until(lambda: record.read_text() == "cancelled", "the command was told")


@pytest.mark.skipif(sys.platform != "linux", reason="asks the socket what is still unread")
def test_an_interrupt_in_the_middle_of_a_frame_hangs_up_and_says_nothing_more(
    home: Home,
) -> None:
    home.data.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home.data / "half.sock"))
        server.listen()
        server.settimeout(SECONDS)
        (home.data / "daemon.sock").symlink_to(home.data / "half.sock")
        with home.begin("memory", "config", "list") as command:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(SECONDS)
                assert command_client.receive(connection)[0] == command_client.HELLO
                connection.sendall(command_client.frame(command_client.OUT, bytes(1000))[:100])
                wait_until(lambda: _unread(connection) == 0, "the half frame is read")

                command.send_signal(signal.SIGINT)

                assert connection.recv(100) == b""
            _, err = command.communicate(timeout=SECONDS)
    assert (command.returncode, err) == (130, b"")


def _unread(connection: socket.socket) -> int:
    """Return the bytes that the other side has not read yet, with their overhead in the kernel."""
    size = bytearray(4)
    fcntl.ioctl(connection, termios.TIOCOUTQ, size)
    return int.from_bytes(size, sys.byteorder)


def test_an_older_launcher_is_served_by_a_newer_daemon(
    programs: ProgramServer, tmp_path: Path
) -> None:
    older = patch_launcher(tmp_path, f'VERSION = "{__version__}"', 'VERSION = "0.0.1"')

    answer = programs.run("say", "out", "", "0", launcher=older)

    assert answer == Answer(0, b"out", b"")


def test_a_launcher_of_another_protocol_is_refused_with_a_reason(
    programs: ProgramServer, tmp_path: Path
) -> None:
    other = patch_launcher(tmp_path, 'PROTOCOL = b"1"', 'PROTOCOL = b"0"')

    answer = programs.run("say", "out", "", "0", launcher=other)

    assert (answer.code, answer.out) == (1, b"")
    assert "are not compatible" in answer.errors


def test_a_daemon_killed_under_a_command_is_told_of(own_programs: ProgramServer) -> None:
    command = own_programs.begin("work", str(own_programs.home.work / "record"))
    with command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"working\n"

        own_programs.kill()
        _, err = command.communicate(timeout=SECONDS)

    assert (command.returncode, err) == (1, b"error: the daemon stopped before it had answered\n")


def test_completion_is_answered_from_the_commands_of_the_daemon(programs: ProgramServer) -> None:
    env = {"_MEMORY_COMPLETE": "bash_complete", "COMP_WORDS": "memory fl", "COMP_CWORD": "1"}

    assert programs.run(env=env) == Answer(0, b"plain,flood\n", b"")
