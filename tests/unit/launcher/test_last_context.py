"""The last known context: whose it is, when it may be given, and how it tells its age."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_memory.features.hooks.adapters.pause_file import PauseFile
from agent_memory.features.hooks.adapters.project_folders import ProjectFolders
from agent_memory.features.hooks.model.hooks import HookKind
from agent_memory.features.hooks.model.installations import Agent
from agent_memory.interfaces.hooks import inputs, outputs
from agent_memory.interfaces.hooks.inputs import Contract, Delivery
from agent_memory.launcher import last_context
from agent_memory.launcher.last_context import SessionPlace, parse_start

HOUR = 3_600_000
NOW = 1_790_000_000_000
CONTEXT = "<memory_context>\n  <project>lantern</project>\n</memory_context>"
AUTO = ["hook", "auto", "--agent", "codex"]


def encode(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "lantern/.git").mkdir(parents=True)
    (tmp_path / "lantern/src/deep").mkdir(parents=True)
    return tmp_path / "lantern"


class TestWhichHook:
    @pytest.mark.parametrize(
        ("words", "fields", "agent", "simple"),
        [
            (AUTO, {"hook_event_name": "SessionStart"}, "codex", False),
            (["hook", "auto"], {"hook_event_name": "SessionStart"}, "claude-code", False),
            ([*AUTO[:2], "--agent=gemini"], {"hook_event_name": "SessionStart"}, "gemini", False),
            ([*AUTO[:2], "--agent=copilot"], {"hookEventName": "SessionStart"}, "copilot", False),
            (["hook", "session-start"], {"hook": "SessionStart"}, "", True),
            (["hook", "session-start"], {"session_id": "s"}, "", True),
        ],
    )  # fmt: skip
    def test_the_start_of_a_session_is_recognized(
        self, words: list[str], fields: dict[str, str], agent: str, simple: bool, tmp_path: Path
    ) -> None:
        place = parse_start(words, encode(**fields, cwd=str(tmp_path)))
        assert place is not None
        assert (place.folder, place.agent, place.simple) == (str(tmp_path), agent, simple)

    @pytest.mark.parametrize(
        "data",
        [
            encode(hook_event_name="UserPromptSubmit", prompt='say "SessionStart"'),
            encode(hook="Stop", text="SessionStart"),
            encode(hook_event_name="SessionStart", conversation_id="cursor takes no context"),
            b'["SessionStart"]',
            b'{"hook_event_name": "SessionStart"} {}',
            b'{"hook_event_name": "SessionStart"',
            b"[" * 100_000,
            b"",
        ],
    )
    def test_every_other_input_is_not(self, data: bytes) -> None:
        assert parse_start(["hook", "auto"], data) is None

    @pytest.mark.parametrize(
        "fields",
        [
            {"hook_event_name": "SessionStart", "cwd": "/"},
            {"hook_event_name": "SessionStart", "cwd": "relative"},
            {"hook_event_name": "SessionStart", "cwd": "/nowhere\0", "project_path": "/"},
            {"hook_event_name": "SessionStart", "workspace_roots": ["/usr", "/"]},
            {"hook": "SessionStart", "project_path": "/usr"},
            {"hook": "SessionStart", "cwd": 7},
        ],
    )
    def test_its_folder_is_the_one_that_the_daemon_finds(
        self, fields: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        words = ["hook", "session-start" if "hook" in fields else "auto"]
        place = parse_start(words, encode(**fields))
        delivery = Delivery.parse(
            words, folder=str(tmp_path), environ={}, nonce="n", at_ms=1, data=encode(**fields)
        )
        call = inputs.parse_delivery(delivery).call
        assert call.kind is HookKind.SESSION_START
        assert place is not None
        assert place.folder == call.folder


class TestProjects:
    def test_all_folders_of_a_repository_share_a_context(self, repository: Path) -> None:
        top = SessionPlace(str(repository), "codex", simple=False)
        deep = SessionPlace(f"{repository}/src/deep/", "codex", simple=False)
        assert deep.build_key() == top.build_key()
        assert deep.read_marks({}) == top.read_marks({}) != []

    def test_another_project_agent_or_contract_has_its_own(self, repository: Path) -> None:
        keys = {
            SessionPlace(str(folder), agent, simple=simple).build_key()
            for folder in (repository, repository.parent, repository.parent.parent)
            for agent in ("codex", "gemini")
            for simple in (False, True)
        }
        assert len(keys) == 12

    def test_a_repository_in_the_same_place_is_another_one(self, repository: Path) -> None:
        place = SessionPlace(str(repository), "codex", simple=False)
        before = place.read_marks({})
        (repository / ".git").rename(repository.parent / "old")
        (repository / ".git").mkdir()
        assert place.read_marks({}) != before

    def test_no_daemon_starts_where_hooks_may_be_off(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(repository.parent))
        config = repository.parent / ".config/agent-memory/config.toml"
        paused = repository.parent / ".local/share/agent-memory/paused"
        for folder in (config.parent, paused.parent):
            folder.mkdir(parents=True)
        environ = {"HOME": str(repository.parent)}
        place = SessionPlace(f"{repository}/src", "codex", simple=False)
        config.write_text("[grpc]\nport = 0\n")
        assert not place.may_be_off(environ, None, NOW)
        assert place.may_be_off({**environ, "MEMORY_HOOKS__ENABLED": "false"}, None, NOW)
        for file, text in (
            (config, '[hooks]\nexclude = ["~/clients"]\n'),
            (config, '[hooks]\nmode = "opt-in"\n'),
            (repository / "memory.toml", "[hooks]\nenabled = false\n"),
            (repository / ".memoryignore", "*.pem\n"),
            (paused, ""),
        ):
            before = file.read_text() if file.exists() else None
            file.write_text(text)
            assert place.may_be_off(environ, None, NOW), text
            if before is None:
                file.unlink()
            else:
                file.write_text(before)
        assert not place.may_be_off(environ, None, NOW)
        other = repository.parent / "other.toml"
        other.write_text('[hooks]\nmode = "opt-in"\n')
        assert place.may_be_off(environ, str(other), NOW)

    @pytest.mark.parametrize("name", ["memory.toml", ".memoryignore"])
    def test_a_fifo_of_a_repository_is_not_waited_for(self, name: str, repository: Path) -> None:
        os.mkfifo(repository / name)
        place = SessionPlace(str(repository), "codex", simple=False)
        assert place.may_be_off({"HOME": str(repository.parent)}, None, NOW)

    @pytest.mark.parametrize(
        "make",
        [
            lambda file: file.write_text("lantern/\n"),
            lambda file: file.symlink_to("nowhere"),
        ],
    )
    @pytest.mark.parametrize("above", ["link", "real"])
    def test_an_ignore_file_counts_wherever_consent_finds_it(
        self, above: str, make: Callable[[Path], None], repository: Path
    ) -> None:
        for folder in ("link", "real"):
            (repository.parent / folder).mkdir()
        repository = repository.rename(repository.parent / "real/lantern")
        link = repository.parents[1] / "link/lantern"
        link.symlink_to(repository)
        environ = {"HOME": str(link.parent)}
        place = SessionPlace(f"{link}/src", "codex", simple=False)
        before = place.read_marks(environ)
        assert not place.may_be_off(environ, None, NOW)
        make(repository.parents[1] / above / ".memoryignore")
        names = ProjectFolders().list_names(place.folder).own
        assert any(ProjectFolders().read_ignore_rules(name) for name in names)
        assert place.may_be_off(environ, None, NOW)
        assert place.read_marks(environ) != before

    @pytest.mark.parametrize(
        "content",
        [
            b'{"until_ms": null}', b'{"until_ms": %d}' % (NOW - 1), b'{"until_ms": %d}' % NOW,
            b'{"until_ms": %d}' % (NOW + 1), b'{"until_ms": -1}', b'{"until_ms": true}',
            b'{"until_ms": 1.0}', b'{"until_ms": "1"}', b"{}", b"[1]", b"", b"\xff",
            b'{"until_ms": 1}' + b" " * last_context.MAX_PAUSE_BYTES,
        ],
    )  # fmt: skip
    def test_a_pause_ends_as_the_daemon_has_it(
        self, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        data = tmp_path / ".local/share/agent-memory"
        data.mkdir(parents=True)
        (data / last_context.PAUSE_FILE).write_bytes(content)
        pause = PauseFile(data).read()
        assert pause is not None
        assert last_context.is_paused(NOW) is not pause.is_over(NOW)

    def test_without_a_regular_file_it_is_paused_only_if_something_is_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        assert not last_context.is_paused(NOW)
        paused = tmp_path / ".local/share/agent-memory" / last_context.PAUSE_FILE
        paused.parent.mkdir(parents=True)
        assert not last_context.is_paused(NOW)
        (tmp_path / "other").write_bytes(b'{"until_ms": 1}')
        paused.symlink_to(tmp_path / "other")
        assert last_context.is_paused(NOW)
        paused.unlink()
        os.mkfifo(paused)
        assert last_context.is_paused(NOW)

    def test_changed_settings_may_have_switched_hooks_off(self, repository: Path) -> None:
        config = repository.parent / ".config/agent-memory/config.toml"
        config.parent.mkdir(parents=True)
        environ = {"HOME": str(repository.parent), "MEMORY_KEY": "am_secret"}
        place = SessionPlace(f"{repository}/src", "codex", simple=False)
        seen = [place.read_marks(environ)]
        for change in (
            lambda: config.write_text("[hooks]\n"),
            lambda: config.write_text("[hooks]\nenabled = false\n"),
            lambda: (repository / "memory.toml").write_text(""),
            lambda: (repository / "src/memory.toml").write_text(""),
            lambda: (repository / ".memoryignore").write_text("*"),
            lambda: environ.update(MEMORY_HOOKS__ENABLED="false"),
        ):
            change()
            seen.append(place.read_marks(environ))
        assert len({tuple(marks) for marks in seen}) == 7
        assert "am_secret" not in str(seen)


class TestAnswers:
    @pytest.mark.parametrize("event", ["hook", "hook_event_name", "hookEventName"])
    @pytest.mark.parametrize("agent", ["", *Agent])
    def test_it_has_the_form_of_the_daemons_own(self, agent: str, event: str) -> None:
        words = ["hook", "session-start", *([f"--agent={agent}"] if agent else [])]
        data = encode(**{event: "SessionStart"}, cwd="/")
        delivery = Delivery.parse(words, folder="/", environ={}, nonce="n", at_ms=1, data=data)
        request = inputs.parse_delivery(delivery)
        place = parse_start(words, data)
        assert place is not None
        assert place.simple is (request.contract is Contract.SIMPLE)
        if outputs.get_format(request.contract).is_kept:
            assert place.agent == request.call.about["agent"]
            text = 'quotes " and \\ and\nlines, \u706f and \ud800'
            expected = outputs.render_answer(request, text)
            assert last_context.render_answer(place, text) == expected

    def test_only_contracts_that_it_can_answer_are_kept(self) -> None:
        stored = {each for each in Contract if outputs.get_format(each).is_kept}
        assert stored == {Contract.SIMPLE, Contract.AGENT, Contract.COPILOT}

    @pytest.mark.parametrize(
        ("age_ms", "words"),
        [
            (-5, "less than a minute ago"),
            (59_999, "less than a minute ago"),
            (60_000, "1 minute ago"),
            (3 * HOUR + 59, "3 hours ago"),
            (24 * HOUR, "1 day ago"),
            (400 * 24 * HOUR, "400 days ago"),
        ],
    )
    def test_its_age_stands_inside(self, age_ms: int, words: str) -> None:
        marked = last_context.mark_age(CONTEXT, age_ms)
        assert marked.startswith("<memory_context>\n  <project>")
        assert f"<as_of>{words}: " in marked
        assert marked.endswith("</memory_context>")

    @pytest.mark.parametrize(
        "content", [b"", b"[]", b'{"text": 1}', b"\xff", b"x" * (last_context.MAX_BYTES + 9)]
    )
    def test_a_damaged_file_is_none(
        self, content: bytes, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(repository.parent))
        place = SessionPlace(str(repository), "codex", simple=False)
        folder = repository.parent / ".local/share/agent-memory" / last_context.FOLDER
        folder.mkdir(parents=True)
        assert last_context.read_answer(place, 1) is None
        (folder / place.name_file()).write_bytes(content)
        assert last_context.read_answer(place, 1) is None

    def test_a_link_is_not_followed_and_a_pause_holds(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(repository.parent))
        place = SessionPlace(str(repository), "codex", simple=False)
        folder = repository.parent / ".local/share/agent-memory" / last_context.FOLDER
        folder.mkdir(parents=True)
        stored = {
            "key": place.build_key(),
            "marks": place.read_marks(os.environ),
            "text": CONTEXT,
        }
        target = folder / place.name_file()
        target.write_text(json.dumps(stored))
        assert last_context.read_answer(place, 1) is not None
        (folder.parent / last_context.PAUSE_FILE).touch()
        assert last_context.read_answer(place, 1) is None
        (folder.parent / last_context.PAUSE_FILE).unlink()
        target.rename(folder / "elsewhere")
        target.symlink_to("elsewhere")
        assert last_context.read_answer(place, 1) is None
