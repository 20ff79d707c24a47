"""The last known context: whose it is, when it may be given, and how it tells its age."""

import json
import os
from pathlib import Path

import pytest

from agent_memory.features.hooks.model.hooks import HookKind
from agent_memory.interfaces.hooks import inputs, outputs
from agent_memory.interfaces.hooks.inputs import Delivery
from agent_memory.launcher import last_context
from agent_memory.launcher.last_context import SessionPlace, parse_start

HOUR = 3_600_000
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
        monkeypatch.setenv("XDG_DATA_HOME", str(repository.parent / "data"))
        config = repository.parent / "agent-memory/config.toml"
        paused = repository.parent / "data/agent-memory/paused"
        for folder in (config.parent, paused.parent):
            folder.mkdir(parents=True)
        environ = {"XDG_CONFIG_HOME": str(repository.parent)}
        place = SessionPlace(f"{repository}/src", "codex", simple=False)
        config.write_text("[grpc]\nport = 0\n")
        assert not place.may_be_off(environ, None)
        assert place.may_be_off({**environ, "MEMORY_HOOKS__ENABLED": "false"}, None)
        for file, text in (
            (config, '[hooks]\nexclude = ["~/clients"]\n'),
            (config, '[hooks]\nmode = "opt-in"\n'),
            (repository / "memory.toml", "[hooks]\nenabled = false\n"),
            (repository / ".memoryignore", "*.pem\n"),
            (paused, ""),
        ):
            before = file.read_text() if file.exists() else None
            file.write_text(text)
            assert place.may_be_off(environ, None), text
            if before is None:
                file.unlink()
            else:
                file.write_text(before)
        assert not place.may_be_off(environ, None)
        other = repository.parent / "other.toml"
        other.write_text('[hooks]\nmode = "opt-in"\n')
        assert place.may_be_off(environ, str(other))

    def test_changed_settings_may_have_switched_hooks_off(self, repository: Path) -> None:
        config = repository.parent / "agent-memory/config.toml"
        config.parent.mkdir()
        environ = {"XDG_CONFIG_HOME": str(repository.parent), "MEMORY_KEY": "am_secret"}
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
    @pytest.mark.parametrize("simple", [False, True])
    def test_it_has_the_form_of_the_daemons_own(self, simple: bool) -> None:
        fields = {"hook": "SessionStart"} if simple else {"hook_event_name": "SessionStart"}
        delivery = Delivery.parse(
            ["hook", "session-start"], folder="/", environ={}, nonce="n", at_ms=1,
            data=encode(**fields),
        )  # fmt: skip
        text = 'quotes " and \\ and\nlines, \u706f and \ud800'
        expected = outputs.render_answer(inputs.parse_delivery(delivery), text)
        assert last_context.render_answer(text, simple=simple) == expected

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
        monkeypatch.setenv("XDG_DATA_HOME", str(repository.parent))
        place = SessionPlace(str(repository), "codex", simple=False)
        folder = repository.parent / "agent-memory" / last_context.FOLDER
        folder.mkdir(parents=True)
        assert last_context.read_answer(place, 1) is None
        (folder / place.name_file()).write_bytes(content)
        assert last_context.read_answer(place, 1) is None

    def test_a_link_is_not_followed_and_a_pause_holds(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", str(repository.parent))
        place = SessionPlace(str(repository), "codex", simple=False)
        folder = repository.parent / "agent-memory" / last_context.FOLDER
        folder.mkdir(parents=True)
        kept = {
            "key": place.build_key(),
            "marks": place.read_marks(os.environ),
            "text": CONTEXT,
        }
        target = folder / place.name_file()
        target.write_text(json.dumps(kept))
        assert last_context.read_answer(place, 1) is not None
        (folder.parent / last_context.PAUSE_FILE).touch()
        assert last_context.read_answer(place, 1) is None
        (folder.parent / last_context.PAUSE_FILE).unlink()
        target.rename(folder / "elsewhere")
        target.symlink_to("elsewhere")
        assert last_context.read_answer(place, 1) is None
