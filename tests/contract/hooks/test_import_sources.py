"""Import: what the reader of every source does, whatever its format."""

import json
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_memory.features.hooks.adapters.transcripts import archives, json_files
from agent_memory.features.hooks.adapters.transcripts import files as transcript_files
from agent_memory.features.hooks.adapters.transcripts.readers import build_readers
from agent_memory.features.hooks.model.import_sources import ImportSource
from agent_memory.features.hooks.model.transcripts import Chunk
from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.kernel.errors import InvalidInput
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import unexpected
from tests.inline_worker import InlineWorker
from tests.memory_engine import MemoryEngine
from tests.past_conversations import FORMATS, SECOND, WORDS, build_chatgpt, pack
from tests.transcript_files import START_MS, ImportHarness

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
INJECTED = "<memory_context>\n  <project>lighthouse</project>\n</memory_context>\n"
# Aider has the time of a session only, and an activity of Google that of the prompt.
INEXACT = ("aider", "gemini-apps")


@pytest.fixture
def importing(tmp_path: Path) -> Iterator[ImportHarness]:
    store = CommittedStore(MemoryEngine(), unexpected)
    yield ImportHarness(store, tmp_path / "data")
    store.close()


@pytest.fixture(params=sorted(FORMATS))
def form(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def read(source: str, path: Path) -> list[Chunk]:
    reader = build_readers(InlineWorker())[source]
    return [chunk for _, chunk in reader.read_chunks(reader.list_sources(str(path)))]


def list_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())


def test_every_source_has_a_reader() -> None:
    assert set(build_readers(InlineWorker())) == {source.value for source in ImportSource}
    assert {source for source, _ in FORMATS.values()} == {source.value for source in ImportSource}


class TestEverySource:
    def test_is_imported_in_order_and_at_its_times(
        self, form: str, importing: ImportHarness, tmp_path: Path
    ) -> None:
        source, write = FORMATS[form]
        result = importing(source, write(tmp_path, WORDS))
        assert result.refused == 0
        said = [event for event in importing.events() if event.role is not EventRole.SYSTEM]
        assert tuple(event.text for event in said) == WORDS
        times = [event.at_ms - START_MS for event in said]
        assert times == sorted(set(times))
        if form not in INEXACT:
            assert times == [number * SECOND for number in range(len(WORDS))]
        assert 0 <= times[0] <= times[-1] <= 4 * SECOND

    def test_belongs_to_a_project_and_an_agent(
        self, form: str, importing: ImportHarness, tmp_path: Path
    ) -> None:
        source, write = FORMATS[form]
        importing(source, write(tmp_path, WORDS))
        projects = {event.metadata.get("project", "") for event in importing.events()}
        assert len(projects) == 1
        assert projects != {""}
        if source != "jsonl":
            assert all(event.metadata["agent"] for event in importing.events())

    def test_is_imported_once(self, form: str, importing: ImportHarness, tmp_path: Path) -> None:
        source, write = FORMATS[form]
        path = write(tmp_path, WORDS)
        rehearsed = importing(source, path, dry_run=True)
        assert importing.events() == []
        first = importing(source, path)
        stored = len(importing.events())
        assert first.created + first.described == stored
        assert (rehearsed.created, rehearsed.described) == (first.created, first.described)
        again = importing(source, path)
        assert (again.created, again.described, again.known) == (0, 0, stored)

    # A history of Aider that begins otherwise is another one, as is a note elsewhere.
    @pytest.mark.parametrize("form", sorted(FORMATS.keys() - {"aider", "obsidian"}))
    def test_grows_by_what_is_new(
        self, form: str, importing: ImportHarness, tmp_path: Path
    ) -> None:
        """A later export has the same conversation with more in it."""
        source, write = FORMATS[form]
        importing(source, write(tmp_path / "first", ("", "", *WORDS[2:])))
        path = write(tmp_path / "second", WORDS)
        result = importing(source, path)
        assert result.created == 2
        texts = [event.text for event in importing.events() if event.role is not EventRole.SYSTEM]
        assert sorted(texts) == sorted(WORDS)

    def test_has_neither_secrets_nor_what_we_injected(
        self, form: str, importing: ImportHarness, tmp_path: Path
    ) -> None:
        source, write = FORMATS[form]
        context = INJECTED.replace("\n", " ") if form in ("aider", "gemini-apps") else INJECTED
        words = (f"{context}The key is {TOKEN}", *WORDS[1:])
        importing(source, write(tmp_path, words))
        said = [event.text for event in importing.events() if event.type is EventType.USER_MESSAGE]
        assert said[0] == "The key is [REDACTED:github-token]"
        assert not any(TOKEN in str(event) for event in importing.events())

    def test_survives_files_that_are_cut_short(self, form: str, tmp_path: Path) -> None:
        source, write = FORMATS[form]
        path = write(tmp_path, WORDS)
        whole = sum(len(chunk.recorded) for chunk in read(source, path))
        for file in list_files(path):
            data = file.read_bytes()
            for part in range(20):
                file.write_bytes(data[: len(data) * part // 20])
                assert _count(source, path) <= whole
            file.write_bytes(data)
        assert _count(source, path) == whole

    def test_survives_bytes_that_are_changed(self, form: str, tmp_path: Path) -> None:
        source, write = FORMATS[form]
        path = write(tmp_path, WORDS)
        for file in list_files(path):
            data = file.read_bytes()
            for number, junk in enumerate((b"\x00", b"\xff\xfe", b'"', b"[" * 50, b"}]", b"\n# ")):
                for part in range(1, 6):
                    at = len(data) * part // 6 + number
                    file.write_bytes(data[:at] + junk + data[at + 1 :])
                    _count(source, path)
            file.write_bytes(data)

    def test_survives_values_of_any_type(self, form: str, tmp_path: Path) -> None:
        source, write = FORMATS[form]
        path = write(tmp_path, WORDS)
        for file in list_files(path):
            for changed in _vary(file):
                file.write_bytes(changed)
                _count(source, path)

    # People keep the folders of the others behind links, or there is one file only.
    @pytest.mark.parametrize(
        "form",
        ["aider", "cline", "gemini", "gemini-apps", "obsidian", "opencode", "opencode-tree", "roo"],
    )
    def test_follows_no_links_out_of_a_folder(self, form: str, tmp_path: Path) -> None:
        source, write = FORMATS[form]
        path = write(tmp_path / "elsewhere", WORDS)
        inner = tmp_path / "given"
        inner.mkdir()
        for file in list_files(path):
            place = inner / file.relative_to(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(file)
        assert _count(source, inner) == 0


def _count(source: str, path: Path) -> int:
    """Count what can be read. A file that is no longer of its kind may be refused."""
    try:
        return sum(len(chunk.recorded) for chunk in read(source, path))
    except InvalidInput:
        return 0


def _vary(file: Path) -> Iterator[bytes]:
    """Yield a JSON file with other values in each of its places, and one nested very deeply."""
    try:
        data = file.read_bytes()
        is_lines = file.suffix == ".jsonl"
        value = json.loads(b"[" + data.strip().replace(b"\n", b",") + b"]" if is_lines else data)
    except ValueError:
        return
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    for other in (None, -1e300, "x", [7, "x", None], {"x": 7}, deep):
        for changed in _replace_each(value, other):
            if is_lines:
                yield b"\n".join(json.dumps(line).encode() for line in changed) + b"\n"
            else:
                yield json.dumps(changed).encode()


def _replace_each(value: Any, other: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {**value, name: other}
            for changed in _replace_each(inner, other):
                yield {**value, name: changed}
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield [*value[:number], other, *value[number + 1 :]]
            for changed in _replace_each(inner, other):
                yield [*value[:number], changed, *value[number + 1 :]]


class TestArchives:
    def refuse(self, path: Path, match: str) -> None:
        with pytest.raises(InvalidInput, match=match):
            read("chatgpt", path)

    def test_split_files_and_other_members(self, tmp_path: Path) -> None:
        second = {**build_chatgpt(), "conversation_id": "other"}
        members: dict[str, str | bytes] = {
            "conversations-000.json": json.dumps([build_chatgpt()]),
            "conversations-001.json": json.dumps([second]),
            "user.json": "{}",
            "dalle-generations/x.webp": b"RIFF",
            "../../escape.json": "[]",
        }
        chunks = read("chatgpt", pack(tmp_path / "a.zip", members))
        sessions = {entry.session_id for chunk in chunks for entry in chunk.recorded}
        assert sessions == {"8f3a2b1c-1", "other"}

    def test_a_bomb(self, tmp_path: Path) -> None:
        self.refuse(
            pack(tmp_path / "a.zip", {"conversations.json": b" " * (8 << 20)}), "250 times its size"
        )

    def test_another_archive_inside(self, tmp_path: Path) -> None:
        inner = pack(tmp_path / "inner.zip", {"conversations.json": "[]"})
        path = pack(tmp_path / "a.zip", {"inner.zip": inner.read_bytes()})
        self.refuse(path, "other archives")

    def test_a_link(self, tmp_path: Path) -> None:
        link = zipfile.ZipInfo("conversations.json")
        link.external_attr = 0o120777 << 16
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr(link, "/etc/passwd")
        self.refuse(tmp_path / "a.zip", "is a link")

    def test_an_encrypted_member(self, tmp_path: Path) -> None:
        path = pack(tmp_path / "a.zip", {"conversations.json": "[]"})
        data = bytearray(path.read_bytes())
        at = data.index(b"PK\x01\x02")
        data[at + 8] |= 1
        path.write_bytes(data)
        self.refuse(path, "encrypted")

    def test_an_uncommon_packing(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("conversations.json", "[]")
        self.refuse(tmp_path / "a.zip", "uncommon way")

    def test_a_list_of_members_that_is_too_long(self, tmp_path: Path) -> None:
        path = pack(tmp_path / "a.zip", {"conversations.json": "[]"})
        data = bytearray(path.read_bytes())
        at = data.rindex(b"PK\x05\x06")
        data[at + 12 : at + 16] = struct.pack("<L", archives.MAX_DIRECTORY_BYTES + 1)
        path.write_bytes(data)
        self.refuse(path, "too many files")

    def test_too_many_members(self, tmp_path: Path) -> None:
        members: dict[str, str | bytes] = {
            f"conversations-{number}.json": "[]" for number in range(1_001)
        }
        self.refuse(pack(tmp_path / "a.zip", members), "more than 1,000 files")

    def test_a_size_that_is_not_true(self, tmp_path: Path) -> None:
        path = pack(tmp_path / "a.zip", {"conversations.json": json.dumps([build_chatgpt()])})
        data = bytearray(path.read_bytes())
        at = data.index(b"PK\x01\x02")
        data[at + 24 : at + 28] = struct.pack("<L", 10)
        path.write_bytes(data)
        chunks = read("chatgpt", path)
        assert sum(len(chunk.recorded) for chunk in chunks) == 0
        assert [each.reason for chunk in chunks for each in chunk.refused] != []

    def test_a_member_is_unpacked_once_for_its_owner_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unpacked = tmp_path / "unpacked"
        unpacked.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(unpacked))
        monkeypatch.setattr(transcript_files, "CHUNK_BYTES", 9)
        talks = [{**build_chatgpt(), "conversation_id": f"c{number}"} for number in range(3)]
        path = pack(tmp_path / "a.zip", {"conversations.json": json.dumps(talks)})
        reader = build_readers(InlineWorker())["chatgpt"]
        chunks = reader.read_chunks(reader.list_sources(str(path)))
        assert next(chunks)[1].recorded[0].session_id == "c0"
        path.unlink()
        (copy,) = unpacked.iterdir()
        assert copy.stat().st_mode & 0o777 == 0o600
        assert [chunk.recorded[0].session_id for _, chunk in chunks] == ["c1", "c2"]
        assert list(unpacked.iterdir()) == []

    def test_an_import_that_is_stopped_leaves_no_copy(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unpacked = tmp_path / "unpacked"
        unpacked.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(unpacked))
        path = pack(tmp_path / "a.zip", {"conversations.json": json.dumps([build_chatgpt()])})
        reader = build_readers(InlineWorker())["chatgpt"]
        chunks = reader.read_chunks(reader.list_sources(str(path)))
        next(chunks)
        assert len(list(unpacked.iterdir())) == 1
        del chunks
        assert list(unpacked.iterdir()) == []

    def test_an_archive_that_was_replaced_by_a_bomb(self, tmp_path: Path) -> None:
        path = pack(tmp_path / "a.zip", {"conversations.json": json.dumps([build_chatgpt()])})
        reader = build_readers(InlineWorker())["chatgpt"]
        sources = reader.list_sources(str(path))
        pack(path, {"conversations.json": b" " * (8 << 20)})
        ((_, chunk),) = reader.read_chunks(sources)
        assert "250 times its size" in chunk.refused[0].reason


class TestLongFiles:
    def test_chunks_lose_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        talks = [{**build_chatgpt(), "conversation_id": f"c{number}"} for number in range(40)]
        path = pack(tmp_path / "a.zip", {"conversations.json": json.dumps(talks, indent=1)})
        whole = read("chatgpt", path)
        monkeypatch.setattr("agent_memory.features.hooks.adapters.transcripts.files.CHUNK_BYTES", 9)
        chunks = read("chatgpt", path)
        assert (len(whole), len(chunks)) == (1, 40)
        assert [entry.event_id for chunk in chunks for entry in chunk.recorded] == [
            entry.event_id for chunk in whole for entry in chunk.recorded
        ]

    def test_one_record_that_is_too_long_costs_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(json_files, "MAX_ELEMENT_BYTES", 10_000)
        monkeypatch.setattr(json_files, "_BLOCK", 1_000)
        huge = [{"x": '\\"' * 20_000}, {"x": [[1]] * 9_000}]
        path = tmp_path / "conversations.json"
        path.write_text(json.dumps([huge[0], build_chatgpt(), huge[1], build_chatgpt()]))
        chunks = read("chatgpt", path)
        assert [each.reason for chunk in chunks for each in chunk.refused] == [
            "longer than 64 MiB",
            "longer than 64 MiB",
        ]
        assert [each.line for chunk in chunks for each in chunk.refused] == [1, 3]
        assert sum(len(chunk.recorded) for chunk in chunks) == 2 * 6
