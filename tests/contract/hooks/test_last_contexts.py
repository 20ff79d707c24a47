"""The last contexts: kept privately and within bounds, read by the launcher, cleared for good."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from stat import S_IMODE

import pytest

from agent_memory.features.hooks.model.last_contexts import LastContext
from agent_memory.features.hooks.services import last_contexts
from agent_memory.features.hooks.services.last_contexts import ContextKeeping, LastContextFolder
from agent_memory.features.secrets.adapters.factory import build_filter
from agent_memory.launcher import last_context
from agent_memory.launcher.last_context import SessionPlace

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
TEXT = "<memory_context>\n  <project>lantern</project>\n</memory_context>"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(last_context.HOOK_SETTINGS):
            monkeypatch.delenv(name)
    return tmp_path / ".local/share/agent-memory" / last_context.FOLDER


@pytest.fixture
def contexts(folder: Path) -> LastContextFolder:
    return LastContextFolder(folder)


def build(project: Path, text: str = TEXT) -> LastContext:
    project.mkdir(exist_ok=True)
    return LastContext(
        folder=str(project), environ=os.environ, agent="codex", simple=False, text=text
    )


def read(context: LastContext) -> str | None:
    """Return the context that the launcher gives to the next session, an hour later."""
    place = SessionPlace(context.folder, context.agent, simple=context.simple)
    answer = last_context.read_answer(place, time.time_ns() // 1_000_000 + 3_600_000)
    if answer is None:
        return None
    text: str = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    return text


def test_the_next_session_of_a_project_is_given_the_last_one(
    contexts: LastContextFolder, folder: Path, tmp_path: Path
) -> None:
    one, other = build(tmp_path / "one"), build(tmp_path / "other", TEXT.replace("lantern", "x"))
    for context in (one, other, replace(one, text=TEXT.replace("lantern", "newer"))):
        contexts.keep(context, contexts.get_epoch())
    assert "newer" in (read(one) or "")
    assert "<as_of>1 hour ago: " in (read(one) or "")
    assert "<project>x</project>" in (read(other) or "")
    assert read(replace(one, agent="gemini")) is None
    assert read(build(tmp_path / "third")) is None
    assert S_IMODE(folder.stat().st_mode) == 0o700
    assert {S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_an_empty_or_too_long_one_replaces_it_by_none(
    contexts: LastContextFolder, tmp_path: Path
) -> None:
    for text in ("", "x" * last_context.MAX_BYTES):
        contexts.keep(build(tmp_path / "one"), contexts.get_epoch())
        contexts.keep(build(tmp_path / "one", text), contexts.get_epoch())
        assert read(build(tmp_path / "one")) is None


def test_the_oldest_make_room(
    contexts: LastContextFolder, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_contexts, "MAX_FILES", 3)
    stored = [build(tmp_path / str(number)) for number in range(5)]
    for number, context in enumerate(stored):
        contexts.keep(context, contexts.get_epoch())
        place = SessionPlace(context.folder, context.agent, simple=False)
        file = folder / place.name_file()
        if file.exists():
            os.utime(file, (number, number))
    assert [read(context) is not None for context in stored][-1]
    assert len(list(folder.iterdir())) == 3


def test_none_is_left_after_a_clear_not_even_one_that_is_being_built(
    contexts: LastContextFolder, folder: Path, tmp_path: Path
) -> None:
    context = build(tmp_path / "one")
    contexts.clear()  # nothing is there yet
    epoch = contexts.get_epoch()
    contexts.keep(context, epoch)
    (folder / ".draft.0123.part").write_text("of a daemon that was killed")
    contexts.clear()
    assert list(folder.iterdir()) == []
    contexts.keep(context, epoch)
    assert read(context) is None
    contexts.keep(context, contexts.get_epoch())
    assert read(context) is not None


def test_a_clear_is_on_disk(
    contexts: LastContextFolder, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts.keep(build(tmp_path / "one"), contexts.get_epoch())
    synced: list[bool] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            synced.append(not list(folder.iterdir()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    contexts.clear()
    assert synced[-1:] == [True]


@pytest.mark.parametrize(("mode", "shown"), [("redact", "[REDACTED"), ("block", None)])
def test_a_secret_is_not_kept(
    contexts: LastContextFolder, folder: Path, tmp_path: Path, mode: str, shown: str | None
) -> None:
    keeping = ContextKeeping(contexts=contexts, secrets=build_filter(mode, ()))
    context = build(tmp_path / "one", TEXT.replace("lantern", TOKEN))
    keeping.keep(context, keeping.get_epoch())
    text = read(context)
    assert (shown is None and text is None) or (shown is not None and shown in (text or ""))
    if folder.exists():
        assert TOKEN not in "".join(file.read_text() for file in folder.iterdir())
