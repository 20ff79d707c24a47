"""`kontekst` in pipes and on a real terminal, with a scripted model."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_runner import Answer, Home, Screen, Word, wait_until
from tests.contract.scripted_llm import Gate, Hang, ScriptedLlm, error, say, scripted

OK, WRONG, USAGE, NOT_ENABLED, LLM, NOT_FOUND, INVALID, CANCELLED = 0, 1, 2, 3, 6, 10, 11, 130
WRITES = say("I write it.", calls=[("write_file", {"path": "a.txt", "content": "one\n"})])


@dataclass(frozen=True)
class Desk:
    home: Home
    model: ScriptedLlm

    def run(self, *words: Word, given: bytes = b"", **more: Any) -> Answer:
        return self.home.run("kontekst", *words, given=given, **more)

    def screen(self, *words: Word, **more: Any) -> Screen:
        return self.home.on_terminal("kontekst", *words, **more)

    def asked(self, number: int = -1) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.model.received[number].payload["messages"]
        return messages

    def file(self, name: str = "a.txt") -> Path:
        return self.home.work / name


@pytest.fixture(scope="module")
def running() -> Iterator[Desk]:
    with scripted() as model, Home() as home:
        home.settings["llama.endpoint"] = model.url
        home.serve()
        yield Desk(home, model)


@pytest.fixture
def desk(running: Desk) -> Desk:
    running.model.plays()
    running.file().unlink(missing_ok=True)
    return running


class TestInAPipe:
    def test_the_answer_is_all_of_standard_output(self, desk: Desk) -> None:
        desk.model.plays(say("All is well.", reasoning="Let me see."))
        answer = desk.run("How is it?")
        assert (answer.code, answer.text, answer.errors) == (OK, "All is well.\n", "")
        assert desk.asked()[-1]["content"] == "How is it?"

    def test_words_need_no_quotes(self, desk: Desk) -> None:
        desk.model.plays(say("Fine."))
        assert desk.run("prompt", "me", "again").code == OK
        assert desk.asked()[-1]["content"] == "prompt me again"

    def test_the_prompt_may_come_over_standard_input(self, desk: Desk) -> None:
        desk.model.plays(say("Fine."), say("Fine."))
        assert desk.run(given=b"How is it?\n").text == "Fine.\n"
        assert desk.asked()[-1]["content"] == "How is it?"
        assert desk.run("-", "what is wrong here?", given=b"+ one\n- two\n").code == OK
        assert desk.asked()[-1]["content"] == "what is wrong here?\n\n+ one\n- two"

    def test_options_may_stand_anywhere(self, desk: Desk) -> None:
        desk.model.plays(*[say("Fine.")] * 4)
        session = ("--session", "s-anywhere")
        for words in (
            (*session, "one"),
            ("two", *session),
            ("--agent=default", *session, "three"),
            (*session, "--", "stop"),
        ):
            assert desk.run(*words).code == OK, words
        said = [each["content"] for each in desk.asked() if each["role"] == "user"]
        assert said == ["one", "two", "three", "stop"]

    def test_as_json_it_is_one_object(self, desk: Desk) -> None:
        desk.model.plays(WRITES, say("Done."))
        told = desk.run("Go", "--auto-approve", "--format", "json").json()
        assert (told["outcome"], told["content"], told["agent"]) == (
            "completed",
            "Done.",
            "default",
        )
        (use,) = told["tools"]
        assert (use["name"], use["outcome"]) == ("write_file", "completed")
        assert use["arguments"] == {"path": "a.txt", "content": "one\n"}
        assert "a.txt" in use["result"]
        assert told["context"]["used"] + told["context"]["remaining"] == told["context"]["size"]
        assert desk.file().read_text() == "one\n"
        assert told["session_id"] == f"run-{told['run_id']}"

    def test_quiet_is_the_answer_alone(self, desk: Desk) -> None:
        desk.model.plays(WRITES, say("Done."))
        answer = desk.run("-q", "Go", "--auto-approve")
        assert (answer.code, answer.text, answer.errors) == (OK, "Done.\n", "")

    def test_as_yaml_it_is_the_same(self, desk: Desk) -> None:
        desk.model.plays(say(calls=[("list_files", {})]), say("Done."))
        told = yaml.safe_load(desk.run("Go", "--auto-approve", "--format", "yaml").text)
        assert (told["outcome"], told["tools"][0]["outcome"]) == ("completed", "completed")
        assert told["tools"][0]["arguments"] == {}

    def test_a_folder_that_is_gone_is_not_taken_for_another(self, desk: Desk) -> None:
        """It used to be the root folder of the machine."""
        gone = desk.home.work / "gone"
        for pwd in (str(gone), ""):
            gone.mkdir()
            script = f'cd {gone}; rmdir {gone}; PWD="{pwd}" exec $RUN_kontekst Go'
            answer = desk.home.run_shell(script)
            assert answer.code == INVALID
        assert desk.model.received == []

    def test_decisions_are_read_from_standard_input(self, desk: Desk) -> None:
        desk.model.plays(WRITES, say("Done."))
        answer = desk.run("Go", given=b"what?\ny\n")
        assert (answer.code, answer.text) == (OK, "I write it.\nDone.\n")
        assert "+one" in answer.errors
        assert answer.errors.count("[y]es, [n]o, [a]lways write_file: ") == 2
        assert desk.file().read_text() == "one\n"

    def test_where_nobody_can_be_asked_nothing_is_done(self, desk: Desk) -> None:
        desk.model.plays(WRITES)
        answer = desk.run("Go")
        assert answer.code == WRONG
        assert (
            "write_file was denied, because there is no terminal to ask for approval"
            in answer.errors
        )
        assert "--auto-approve" in answer.errors
        assert not desk.file().exists()

    def test_a_reader_that_goes_away_ends_the_run(self, desk: Desk) -> None:
        gate = Gate()
        desk.model.plays(say("one two three " * 10, gate=gate))
        with desk.home.begin("kontekst", "Count") as process:
            assert process.stdout is not None
            gate.let(2)
            assert process.stdout.read(3) == b"one"
            process.stdout.close()
            gate.let(2)
            assert desk.model.received[0].gone.wait(20), "the model still works on it"

    def test_the_folder_is_that_of_the_caller_or_another(self, desk: Desk) -> None:
        inner = desk.home.work / "inner"
        inner.mkdir(exist_ok=True)
        desk.model.plays(WRITES, say("Done."), WRITES, say("Done."))
        assert desk.run("Go", "--auto-approve", cwd=inner).code == OK
        assert (inner / "a.txt").read_text() == "one\n"
        assert desk.run("Go", "--auto-approve", "--dir", ".", cwd=desk.home.work).code == OK
        assert desk.file().read_text() == "one\n"
        answer = desk.run("Go", "--dir", "missing")
        assert answer.code == INVALID
        assert "missing" in answer.errors


class TestOnATerminal:
    def test_a_change_is_shown_and_approved(self, desk: Desk) -> None:
        desk.model.plays(WRITES, say("Done."))
        with desk.screen("Go", env={"NO_COLOR": "1"}) as screen:
            screen.read_until("[a]lways write_file: ")
            assert "I write it.\nwrite_file path=a.txt" in screen.text
            assert "  +one\n" in screen.text
            assert not desk.file().exists(), "not before it is approved"
            screen.type("y\n")
            assert screen.finish() == OK
        assert "Done.\n" in screen.text
        assert "session run-" in screen.text
        assert desk.file().read_text() == "one\n"

    def test_a_denial_has_a_reason_and_ends_the_run(self, desk: Desk) -> None:
        desk.model.plays(WRITES, say("I see."))
        with desk.screen("Go", "--session", "s-denied") as screen:
            screen.read_until("write_file: ")
            screen.type("n, not there\n")
            assert screen.finish() == CANCELLED
        assert not desk.file().exists()
        assert desk.run("And now?", "--session", "s-denied").code == OK
        assert any("not there" in str(each["content"]) for each in desk.asked())

    def test_always_is_for_that_tool_and_no_other(self, desk: Desk) -> None:
        twice = say(calls=[("list_files", {}, "x"), ("list_files", {}, "y")])
        desk.model.plays(twice, twice, WRITES, say("Done."))
        with desk.screen("Go") as screen:
            screen.read_until("[a]lways list_files: ")
            screen.type("a\n")
            screen.read_until("[a]lways write_file: ")
            screen.type("yes\n")
            assert screen.finish() == OK
        assert screen.text.count("[a]lways list_files") == 1

    def test_ctrl_c_ends_the_run_and_not_the_session(self, desk: Desk) -> None:
        gate = Gate()
        desk.model.plays(say("one two three", gate=gate), say("Fine."))
        with desk.screen("Count", "--session", "s-interrupted") as screen:
            gate.let(2)
            screen.read_until("one ")
            screen.interrupt()
            assert screen.finish() == CANCELLED
        assert "cancelled" in screen.text
        assert desk.model.received[0].gone.wait(20), "the model still works on it"
        assert desk.run("Go on", "--session", "s-interrupted").code == OK
        said = [str(each["content"]) for each in desk.asked()]
        assert [each.strip() for each in said[1:]] == ["Count", "one", "Go on"]

    def test_ctrl_c_while_a_decision_is_awaited(self, desk: Desk) -> None:
        desk.model.plays(WRITES)
        with desk.screen("Go") as screen:
            screen.read_until("write_file: ")
            screen.interrupt()
            assert screen.finish() == CANCELLED
        assert not desk.file().exists()

    def test_what_a_model_writes_does_not_steer_the_terminal(self, desk: Desk) -> None:
        name = "\x1b]0;x\x07\u202etool"
        desk.model.plays(say("\x1b[2Jgone", calls=[(name, {"\x1b[31m": "\x1b[0m"})]), say("Done."))
        with desk.screen("Go", env={"NO_COLOR": "1"}) as screen:
            screen.read_until("[a]lways")
            screen.type("y\n")
            screen.finish()
        assert "\x1b" not in screen.text.replace("\r\x1b[K", "")
        assert "\x07" not in screen.text
        assert "\u202e" not in screen.text

    def test_who_wants_quiet_sees_what_is_decided_on(self, desk: Desk) -> None:
        desk.model.plays(WRITES, say("Done."))
        with desk.screen("-q", "Go") as screen:
            screen.read_until("[a]lways")
            assert "a.txt" in screen.text
            assert "+one" in screen.text
            screen.type("y\n")
            assert screen.finish() == OK
        assert screen.text.endswith("Done.\n")

    def test_what_was_typed_before_the_question_is_no_answer(self, desk: Desk) -> None:
        gate = Gate()
        desk.model.plays(say("Now", calls=[("list_files", {})], gate=gate), say("Done."))
        with desk.screen("Go") as screen:
            gate.let(2)
            screen.read_until("Now")
            screen.type("y\ny\n")
            screen.read_until("y\ny\n")  # as the terminal echoes it
            gate.open()
            screen.read_until("[a]lways list_files: ")
            (found,) = desk.run("ps", "--format", "json").json()["runs"]
            assert found["doing"] == "waits for a decision"
            screen.type("\x04")  # Ctrl-D
            assert screen.finish() == CANCELLED

    def test_thoughts_stay_out_of_the_answer(self, desk: Desk, tmp_path: Path) -> None:
        desk.model.plays(
            say(reasoning="Hm.", calls=[("list_files", {})]), say("42", reasoning="So.")
        )
        with (
            (tmp_path / "out").open("wb") as out,
            desk.screen("Go", "--auto-approve", stdout=out) as screen,
        ):
            assert screen.finish() == OK
        assert (tmp_path / "out").read_bytes() == b"42\n"
        desk.model.plays(say("42", reasoning="So."))
        with desk.screen("Go", env={"NO_COLOR": "1"}) as screen:
            screen.finish()
        assert "So.\n42\n" in screen.text

    def test_who_decides_sees_all_of_it(self, desk: Desk) -> None:
        long = "word " * 60 + "the end"
        desk.model.plays(say(calls=[("remember", {"key": "k", "value": long})]), say("Done."))
        with desk.screen("Go", columns=500) as screen:
            screen.read_until("[a]lways")
            assert "the end" in screen.text
            screen.type("n\n")
            screen.finish()

    def test_reasoning_is_shown_to_who_looks_on(self, desk: Desk) -> None:
        desk.model.plays(say("Fine.", reasoning="Let me see."))
        with desk.screen("How is it?") as screen:
            assert screen.finish() == OK
        assert screen.text.index("see.") < screen.text.index("Fine.")

    def test_without_a_prompt_there_is_help(self, desk: Desk) -> None:
        with desk.screen() as screen:
            assert screen.finish() == USAGE
        assert "PROMPT | COMMAND" in screen.text
        with desk.screen("--agent", "default") as screen:
            assert screen.finish() == USAGE
        assert "give a prompt" in screen.text


class TestAgentsAndSkills:
    def test_a_skill_is_invoked_with_its_words(self, desk: Desk) -> None:
        folder = desk.home.config_file.parent / "skills/greet"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(
            "---\nname: greet\ndescription: Greets two.\n---\nGreet $1, then $2. All: $ARGUMENTS"
        )
        desk.model.plays(say("Hello."), say("Hello."))
        assert desk.run("/greet", "Ann Lee", "Bob").code == OK
        assert desk.asked()[-1]["content"].startswith("Greet Ann Lee, then Bob.")
        assert desk.run("/greet Ann Bob").code == OK
        assert desk.asked()[-1]["content"] == "Greet Ann, then Bob. All: Ann Bob"
        assert [each["name"] for each in desk.run("skills", "--format", "json").json()] == ["greet"]

    def test_agents_are_listed_with_what_is_wrong(self, desk: Desk) -> None:
        folder = desk.home.config_file.parent / "agents/broken"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agent.toml").write_text('description = "Reviews"\nmax_turn = 3\n')
        listed = {each["name"]: each for each in desk.run("agents", "--format", "json").json()}
        assert listed["default"]["built_in"]
        assert "agents/broken/agent.toml:2" in listed["broken"]["problem"]
        assert "max_turns" in listed["broken"]["problem"]
        text = desk.run("agents").text
        assert "error: agents/broken/agent.toml:2" in text
        answer = desk.run("Go", "--agent", "broken")
        assert answer.code == NOT_ENABLED
        assert "agent.toml:2" in answer.errors

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (("Go", "--agent", "defalt"), "did you mean 'default'"),
            (("/unknown", "x"), "there is no skill 'unknown'"),
        ],
    )
    def test_what_is_not_there_is_10(self, desk: Desk, words: tuple[str, ...], told: str) -> None:
        answer = desk.run(*words)
        assert answer.code == NOT_FOUND
        assert told in answer.errors
        assert desk.model.received == []


class TestLists:
    def test_ps_shows_what_goes_on(self, desk: Desk) -> None:
        gate = Gate()
        desk.model.plays(say("one two", gate=gate), WRITES)
        with desk.screen("Count", "--session", "s-seen") as screen:
            gate.wait_until_held()
            told = desk.run("ps", "--format", "json").json()
            (found,) = told["runs"]
            assert (found["session_id"], found["prompt"], found["doing"]) == (
                "s-seen",
                "Count",
                "thinks",
            )
            assert found["working_dir"] == str(desk.home.work)
            assert told["model"]["endpoint"] == desk.model.url
            assert told["model"]["healthy"]
            assert not told["model"]["running"]
            text = desk.run("ps").text
            assert found["run_id"] in text
            assert "thinks, for" in text
            gate.open()
            assert screen.finish() == OK
        with desk.screen("Write") as screen:
            screen.read_until("write_file: ")
            (found,) = desk.run("ps", "--format", "json").json()["runs"]
            assert found["doing"] == "waits for a decision"
            screen.interrupt()
            screen.finish()
        wait_until(lambda: desk.run("ps").text.startswith("No run is active"), "it has ended")

    def test_sessions_are_listed_the_last_one_first(self, desk: Desk) -> None:
        desk.model.plays(say("Fine."), say("Fine."), error(500))
        for prompt, session in (("First", "s-a"), ("Second", "s-b"), ("Third", "s-a")):
            desk.run(prompt, "--session", session)

        def listed() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = desk.run("sessions", "--format", "json").json()
            return found

        wait_until(
            lambda: [each["session_id"] for each in listed()[:2]] == ["s-a", "s-b"], "listed"
        )
        wait_until(
            lambda: listed()[0]["runs"] == 2 and listed()[0]["outcome"] == "failed", "counted"
        )
        assert listed()[0]["summary"] == "First"
        assert "2 runs, failed" in desk.run("sessions").text
        assert desk.run("-q", "sessions", "-l", "1").text == "s-a\n"


class TestFailures:
    def test_a_model_that_fails_is_6(self, desk: Desk) -> None:
        desk.model.plays(error(500, "out of memory"))
        answer = desk.run("Go")
        assert (answer.code, answer.text) == (LLM, "")
        assert "out of memory" in answer.errors

    def test_nothing_to_do_is_11(self, desk: Desk) -> None:
        answer = desk.run(given=b"\n")
        assert answer.code == INVALID
        assert "the prompt is empty" in answer.errors

    @pytest.mark.parametrize("given", [b"\xff\xfe", b"x" * (1 << 21)])
    def test_input_that_is_no_prompt_is_11(self, desk: Desk, given: bytes) -> None:
        assert desk.run(given=given).code == INVALID

    def test_words_that_are_no_text_are_11(self, desk: Desk) -> None:
        answer = desk.run(b"\xff\xfe")
        assert answer.code == INVALID
        assert "not valid UTF-8" in answer.errors

    def test_without_a_model_it_says_what_to_install(self) -> None:
        with Home() as home:
            home.environ["PATH"] = "/usr/bin:/bin"
            home.serve()
            assert "the next run starts it" in home.run("kontekst", "ps").text
            answer = home.run("kontekst", "Go")
            assert "Model: not running; cannot run a model" in home.run("kontekst", "ps").text
        assert answer.code == NOT_ENABLED
        assert "llama-server" in answer.errors
        assert "llama.endpoint" in answer.errors

    def test_a_wrong_option_is_a_usage_error(self, desk: Desk) -> None:
        answer = desk.run("Go", "--nope")
        assert answer.code == USAGE
        assert answer.errors.startswith("Usage: kontekst [OPTIONS] PROMPT...\n")
        assert desk.model.received == []

    def test_help_needs_no_daemon_and_tells_of_prompts(self) -> None:
        with Home() as home:
            answer = home.run("kontekst", "--help")
            assert answer.code == OK
            assert "--auto-approve" in answer.text
            assert home.pid() is None


class TestOverGrpc:
    def test_another_daemon_runs_it_for_who_has_its_key(self, desk: Desk) -> None:
        desk.model.plays(WRITES, say("Done."))
        port = json.loads((desk.home.data / "daemon.json").read_text())["grpc_port"]
        words = ("Go", "-e", f"http://127.0.0.1:{port}")
        elsewhere = {"HOME": str(desk.home.folder / "elsewhere")}
        answer = desk.run(*words, env=elsewhere)
        assert answer.code == WRONG
        assert "key" in answer.errors
        assert desk.model.received == []
        key = {"MEMORY_KEY": (desk.home.data / "key").read_text().strip()}
        answer = desk.run(*words, "--dir", ".", given=b"y\n", env=key)
        assert (answer.code, answer.text) == (OK, "I write it.\nDone.\n")
        assert desk.file().read_text() == "one\n"

    def test_a_port_of_your_own_daemon_needs_none(self, desk: Desk) -> None:
        desk.model.plays(say("Done."))
        port = json.loads((desk.home.data / "daemon.json").read_text())["grpc_port"]
        answer = desk.run("Go", "-e", f"http://[::1]:{port}")
        assert (answer.code, answer.text) == (OK, "Done.\n")

    def test_ctrl_c_ends_it_though_the_other_side_hangs(self, desk: Desk) -> None:
        with scripted(Hang(True)) as model, Home() as other:
            other.settings["llama.endpoint"] = model.url
            pid = other.serve()
            port = json.loads((other.data / "daemon.json").read_text())["grpc_port"]
            key = {"MEMORY_KEY": (other.data / "key").read_text().strip()}
            with desk.screen("Count", "-e", f"127.0.0.1:{port}", env=key) as screen:
                model.wait_for_requests(1)
                os.kill(pid, signal.SIGSTOP)
                try:
                    screen.interrupt()
                    assert screen.finish() == CANCELLED
                finally:
                    os.kill(pid, signal.SIGCONT)

    def test_ctrl_c_reaches_it(self, desk: Desk) -> None:
        gate = Gate()
        desk.model.plays(say("one two three", gate=gate))
        port = json.loads((desk.home.data / "daemon.json").read_text())["grpc_port"]
        key = {"MEMORY_KEY": (desk.home.data / "key").read_text().strip()}
        with desk.screen("Count", "-e", f"127.0.0.1:{port}", env=key) as screen:
            gate.let(2)
            screen.read_until("one ")
            screen.interrupt()
            assert screen.finish() == CANCELLED
        assert "cancelled\n" in screen.text
        assert "session run-" in screen.text
        assert desk.model.received[0].gone.wait(20), "the model still works on it"

    def test_a_daemon_that_is_not_there_is_5(self, desk: Desk) -> None:
        answer = desk.run("Go", "-e", "http://127.0.0.1:1")
        assert answer.code == 5
        assert "cannot reach the daemon" in answer.errors
