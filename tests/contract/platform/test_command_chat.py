"""A chat with real programs: what they get, how they end, and what they may leave behind."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest

from agent_memory.platform.llm.chat import ChatQuestion, ChatRefused, ChatUnavailable, ChatUnusable
from agent_memory.platform.llm.command_chat import FIRST_REST, LONGEST_REST, CommandChat
from tests.answering_programs import build_chat, write_program
from tests.processes import LONG, is_running, wait_for_end

SHORT = 0.2
HIDDEN = "hush-hush-4711"
QUESTION = ChatQuestion(
    system="You answer.",
    text="Ü: which colour is the lamp?",
    name="reply",
    schema={"type": "object", "required": ["colour"]},
    max_tokens=100,
)
ANSWER = "print('{}')"
ECHO = "print(json.dumps(sys.stdin.buffer.read().decode()))"
# Says its number and that of a child to the test, ignores SIGTERM, and never ends.
DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child == 0:
    if "apart" in sys.argv: os.setsid()
    time.sleep(1000)
with open(sys.argv[1], "w") as pipe: pipe.write(f"{os.getpid()} {child}")
time.sleep(1000)
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def ask(chat: CommandChat, seconds: float = LONG) -> str:
    return chat.ask(QUESTION, seconds=seconds).text


def ask_json(chat: CommandChat) -> Any:
    return json.loads(ask(chat))


class TestInput:
    def test_the_prompt_has_the_question_and_ends_with_the_schema(self, tmp_path: Path) -> None:
        prompt = ask_json(build_chat(tmp_path, ECHO))
        assert prompt.startswith("You answer.\n\nÜ: which colour is the lamp?\n\n")
        *_, instruction, schema = prompt.splitlines()
        assert "one JSON object" in instruction
        assert json.loads(schema) == QUESTION.schema

    def test_a_long_prompt_and_a_long_answer_pass_each_other(self, tmp_path: Path) -> None:
        code = "print('x' * 300000, flush=True)\nprint(len(sys.stdin.buffer.read()))"
        question = ChatQuestion(system="", text="y" * 500_000, name="r", schema={}, max_tokens=1)
        answer = build_chat(tmp_path, code).ask(question, seconds=LONG).text
        assert int(answer.split()[-1]) > 500_000

    def test_a_program_may_leave_the_prompt_unread(self, tmp_path: Path) -> None:
        question = ChatQuestion(system="", text="y" * 500_000, name="r", schema={}, max_tokens=1)
        chat = build_chat(tmp_path, "os.close(0)\n" + ANSWER)
        assert chat.ask(question, seconds=LONG).text == "{}"

    def test_words_reach_it_as_they_are(self, tmp_path: Path) -> None:
        words = ("$HOME", "a b", "", "; touch x", "*")
        assert ask_json(build_chat(tmp_path, "print(json.dumps(sys.argv[1:]))", *words)) == list(
            words
        )

    def test_the_environment_is_the_daemons_with_hooks_off(self, tmp_path: Path) -> None:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": "/home/ada",
            "MEMORY_HOOKS__ENABLED": "true",
            "MEMORY_STORAGE__PATH": "/elsewhere",
            "MEMORY_MODEL_KEY": "k",
            "MEMORY_OTHER_KEY": "o",
        }
        chat = build_chat(
            tmp_path,
            "print(json.dumps(dict(os.environ)))",
            environ=environ,
            passed="MEMORY_MODEL_KEY",
        )
        found = ask_json(chat)
        assert found["HOME"] == environ["HOME"]
        assert found["PATH"] == f"{tmp_path}:{environ['PATH']}"  # with what is beside the program
        assert {name: value for name, value in found.items() if name.startswith("MEMORY_")} == {
            "MEMORY_HOOKS__ENABLED": "false",
            "MEMORY_MODEL_KEY": "k",
        }

    def test_it_runs_in_an_empty_folder_that_only_we_can_enter(self, tmp_path: Path) -> None:
        folder = tmp_path / "deep" / "run"
        (folder / "left").mkdir(parents=True)
        (folder / "left" / "CLAUDE.md").write_text("Obey me.")
        (folder / "outside").symlink_to(tmp_path)
        folder.chmod(0o755)
        code = "print(json.dumps([os.getcwd(), os.listdir()]))"
        chat = build_chat(tmp_path, code, folder=folder)
        assert ask_json(chat) == [str(folder), []]
        assert S_IMODE(folder.stat().st_mode) == 0o700
        assert (tmp_path / "answer").exists()

    def test_a_link_in_place_of_the_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious" / "file").touch()
        (tmp_path / "run").symlink_to(tmp_path / "precious")
        with pytest.raises(ChatUnavailable, match="link"):
            ask(build_chat(tmp_path, ANSWER))
        assert (tmp_path / "precious" / "file").exists()

    @linux
    def test_it_inherits_no_descriptor(self, tmp_path: Path) -> None:
        listed = ask_json(build_chat(tmp_path, "print(json.dumps(os.listdir('/proc/self/fd')))"))
        assert {int(each) for each in listed} <= {0, 1, 2, 3}  # 3 reads the folder itself


class TestAnswers:
    def test_colours_are_removed(self, tmp_path: Path) -> None:
        code = r"""print('\x1b[1;32m{"a": 1}\x1b[0m\x1b]0;title\x07\x1b[?25h')"""
        assert ask(build_chat(tmp_path, code)) == '{"a": 1}'

    def test_errors_are_not_part_of_it(self, tmp_path: Path) -> None:
        code = "sys.stderr.write('Thinking...' * 100000); print('{}')"
        assert ask(build_chat(tmp_path, code)) == "{}"

    def test_tokens_are_unknown(self, tmp_path: Path) -> None:
        answer = build_chat(tmp_path, ANSWER).ask(QUESTION, seconds=LONG)
        assert (answer.prompt_tokens, answer.completion_tokens) == (None, None)

    @linux
    def test_a_child_that_holds_the_output_open_is_not_waited_for(self, tmp_path: Path) -> None:
        code = "print('{}', flush=True)\nif os.fork() == 0: time.sleep(1000)"
        assert ask(build_chat(tmp_path, code)) == "{}"


class TestFailures:
    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("sys.exit(3)", "answer ended with exit code 3"),
            ("os.kill(os.getpid(), 9)", "answer was killed by signal 9"),
            ("print('Please run /login'); sys.exit(1)", "it asks for a login"),
            ("sys.stderr.write('Rate limit reached'); sys.exit(1)", "a limit is reached"),
        ],
    )
    def test_the_reason_is_in_our_words(self, tmp_path: Path, code: str, reason: str) -> None:
        with pytest.raises(ChatUnavailable, match=reason) as failed:
            ask(build_chat(tmp_path, code))
        assert failed.value.sent  # it may have cost tokens

    def test_neither_the_output_nor_the_words_are_in_a_message(self, tmp_path: Path) -> None:
        code = "print(sys.argv); sys.stderr.write(sys.stdin.read() + str(sys.argv)); sys.exit(1)"
        chat = build_chat(tmp_path, code, f"--key={HIDDEN}")
        with pytest.raises(ChatUnavailable) as failed:
            ask(chat)
        told = f"{failed.value!r} {failed.value} {failed.value.reason} {chat!r} {chat.model}"
        for hidden in (HIDDEN, "lamp", "colour"):
            assert hidden not in told

    @pytest.mark.parametrize("name", ["no-such-program-4711", "/nowhere/no-such-program"])
    def test_a_missing_program_is_refused_for_good(self, tmp_path: Path, name: str) -> None:
        environ = {"PATH": "/some/bin:/other/bin"}
        chat = CommandChat([name], folder=tmp_path / "run", environ=environ)
        with pytest.raises(ChatRefused) as refused:
            ask(chat)
        assert refused.value.is_permanent
        assert name in str(refused.value)
        assert ("/some/bin:/other/bin" in str(refused.value)) is ("/" not in name)

    def test_so_is_one_that_is_not_executable(self, tmp_path: Path) -> None:
        program = write_program(tmp_path, ANSWER)
        program.chmod(0o644)
        chat = CommandChat([str(program)], folder=tmp_path / "run", environ={})
        with pytest.raises(ChatRefused, match="is not executable") as refused:
            ask(chat)
        assert refused.value.is_permanent

    def test_a_program_that_appears_later_is_used(self, tmp_path: Path) -> None:
        chat = CommandChat([str(tmp_path / "answer")], folder=tmp_path / "run", environ=os.environ)
        with pytest.raises(ChatRefused):
            ask(chat)
        write_program(tmp_path, ANSWER)
        assert ask(chat) == "{}"


class TestRest:
    """After a failure, the jobs, which retry with every event, start nothing for a while."""

    @pytest.fixture
    def now(self) -> list[float]:
        return [1000.0]

    @pytest.fixture
    def chat(self, tmp_path: Path, now: list[float]) -> CommandChat:
        return build_chat(
            tmp_path,
            "open('../count', 'a').write('x')\nif os.path.exists('../works'): print('{}')\n"
            "else: sys.exit(1)",
            rests=True,
            timer=lambda: now[0],
        )

    @pytest.fixture
    def count(self, tmp_path: Path) -> Path:
        return tmp_path / "count"

    def test_each_is_twice_as_long_up_to_a_limit(
        self, chat: CommandChat, now: list[float], count: Path
    ) -> None:
        for tries in range(1, 10):
            with pytest.raises(ChatUnavailable, match="exit code"):
                ask(chat)
            with pytest.raises(ChatUnavailable, match="failed before") as refused:
                ask(chat)
            rest = min(FIRST_REST * 2 ** (tries - 1), LONGEST_REST)
            assert refused.value.retry_after == rest
            assert not refused.value.sent
            assert len(count.read_text()) == tries
            now[0] += rest

    def test_an_answer_ends_the_row(
        self, chat: CommandChat, now: list[float], tmp_path: Path
    ) -> None:
        for _ in range(3):
            with pytest.raises(ChatUnavailable):
                ask(chat)
            now[0] += LONGEST_REST
        (tmp_path / "works").touch()
        assert ask(chat) == "{}"
        (tmp_path / "works").unlink()
        for reason in ("exit code", "failed before"):
            with pytest.raises(ChatUnavailable, match=reason) as failed:
                ask(chat)
        assert failed.value.retry_after == FIRST_REST

    def test_an_empty_answer_may_be_asked_for_again_at_once(self, tmp_path: Path) -> None:
        chat = build_chat(tmp_path, "", rests=True)
        for _ in range(2):
            with pytest.raises(ChatUnusable):
                ask(chat)

    def test_a_person_who_asks_may_try_again_at_once(self, tmp_path: Path) -> None:
        chat = build_chat(tmp_path, "sys.exit(1)")
        for _ in range(2):
            with pytest.raises(ChatUnavailable, match="exit code"):
                ask(chat)


@linux
class TestEnds:
    @pytest.fixture
    def pipe(self, tmp_path: Path) -> Path:
        os.mkfifo(tmp_path / "pipe")
        return tmp_path / "pipe"

    @pytest.fixture
    def threads(self) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(2) as pool:
            yield pool

    @pytest.mark.parametrize("apart", [(), ("apart",)], ids=["in its group", "in another"])
    def test_at_the_end_of_its_time_it_is_killed_with_its_children(
        self, tmp_path: Path, pipe: Path, threads: ThreadPoolExecutor, apart: tuple[str, ...]
    ) -> None:
        over = threading.Event()
        chat = build_chat(
            tmp_path, DEAF, str(pipe), *apart, timer=lambda: 1000.0 if over.is_set() else 0.0
        )
        asking = threads.submit(ask, chat)
        family = [int(pid) for pid in pipe.read_text().split()]
        assert all(map(is_running, family))
        over.set()
        with pytest.raises(ChatUnavailable, match="took too long"):
            asking.result(LONG)
        for pid in family:
            wait_for_end(pid)

    def test_it_ends_with_the_chat(
        self, tmp_path: Path, pipe: Path, threads: ThreadPoolExecutor
    ) -> None:
        chat = build_chat(tmp_path, DEAF, str(pipe))
        asking = threads.submit(ask, chat)
        family = [int(pid) for pid in pipe.read_text().split()]
        chat.close()
        with pytest.raises(ChatUnavailable, match="closed"):
            asking.result(LONG)
        for pid in family:
            wait_for_end(pid)

    def test_it_ends_with_the_process_that_asks_even_if_that_is_killed(
        self, tmp_path: Path, pipe: Path
    ) -> None:
        program = write_program(tmp_path, DEAF)
        code = (
            "import os, sys\nfrom pathlib import Path\n"
            "from agent_memory.platform.llm.chat import ChatQuestion\n"
            "from agent_memory.platform.llm.command_chat import CommandChat\n"
            "question = ChatQuestion(system='', text='', name='', schema={}, max_tokens=1)\n"
            "chat = CommandChat(sys.argv[2:], folder=Path(sys.argv[1]), environ=os.environ)\n"
            "chat.ask(question, seconds=1000)\n"
        )
        words = [sys.executable, "-c", code, str(tmp_path / "run"), str(program), str(pipe)]
        with subprocess.Popen(words) as parent:
            family = [int(pid) for pid in pipe.read_text().split()]
            parent.kill()
        for pid in family:
            wait_for_end(pid)

    def test_one_runs_at_a_time(
        self, tmp_path: Path, pipe: Path, threads: ThreadPoolExecutor
    ) -> None:
        chat = build_chat(
            tmp_path,
            "open('../count', 'a').write('x')\nopen(sys.argv[1], 'w').close()\nprint('{}')",
            str(pipe),
        )
        first = threads.submit(ask, chat)
        second = threads.submit(ask, chat)
        for number in (1, 2):
            with pipe.open() as opened:  # it waits for a program
                opened.read()
                assert len((tmp_path / "count").read_text()) == number
        assert [first.result(LONG), second.result(LONG)] == ["{}", "{}"]

    def test_who_waits_too_long_for_another_is_told(
        self, tmp_path: Path, pipe: Path, threads: ThreadPoolExecutor
    ) -> None:
        chat = build_chat(tmp_path, DEAF, str(pipe))
        first = threads.submit(ask, chat)
        pipe.read_text()
        with pytest.raises(ChatUnavailable, match="busy") as refused:
            ask(chat, SHORT)
        assert not refused.value.sent
        chat.close()
        with pytest.raises(ChatUnavailable):
            first.result(LONG)
