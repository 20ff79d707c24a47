"""Transcripts: how the parser of every format handles files, whatever they contain."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.features.hooks.adapters.transcripts import files
from agent_memory.features.hooks.adapters.transcripts.files import JsonLines, TranscriptFiles
from agent_memory.features.hooks.model.transcripts import CUT, Chunk, TranscriptEntry
from agent_memory.features.hooks.ports import Transcripts
from agent_memory.features.log.model.events import MAX_TEXT_BYTES
from agent_memory.kernel.errors import InvalidInput
from agent_memory.platform.worker.process import ProcessWorker
from tests.transcript_files import PARSERS, SAMPLES, Line, write

FORMATS = sorted(PARSERS)


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessWorker]:
    created = ProcessWorker()
    yield created
    created.close()


@pytest.fixture(params=FORMATS)
def agent(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def reading(agent: str, worker: ProcessWorker) -> Transcripts:
    return TranscriptFiles(
        worker, lambda source: PARSERS[agent](Path(source.path).stem), JsonLines()
    )


@pytest.fixture
def sample(agent: str) -> list[Line]:
    return SAMPLES[agent]()


def read(reading: Transcripts, path: Path) -> list[Chunk]:
    return [chunk for _, chunk in reading.read_chunks(reading.list_sources(str(path)))]


def list_entries(chunks: list[Chunk]) -> list[TranscriptEntry]:
    return [each for chunk in chunks for each in chunk.recorded]


class TestSources:
    def test_a_folder_has_all_that_is_below_it(self, reading: Transcripts, tmp_path: Path) -> None:
        for name in ("b/two.jsonl", "a.jsonl", "a/subagents/agent-1.jsonl", "a/notes.txt"):
            write(tmp_path / name, ["{}"])
        names = [
            str(Path(each.path).relative_to(tmp_path))
            for each in reading.list_sources(str(tmp_path))
        ]
        assert names == ["a.jsonl", "a/subagents/agent-1.jsonl", "b/two.jsonl"]

    def test_links_in_a_folder_are_not_followed(self, reading: Transcripts, tmp_path: Path) -> None:
        outside = write(tmp_path / "outside.jsonl", ["{}"])
        inside = write(tmp_path / "all/a.jsonl", ["{}"])
        (tmp_path / "all/b.jsonl").symlink_to(outside)
        assert [each.path for each in reading.list_sources(str(inside.parent))] == [str(inside)]
        assert reading.list_sources(str(inside.parent / "b.jsonl")) != []

    def test_a_file_that_became_a_pipe_is_refused(
        self, reading: Transcripts, tmp_path: Path
    ) -> None:
        path = write(tmp_path / "a.jsonl", ["{}"])
        sources = reading.list_sources(str(path))
        path.unlink()
        os.mkfifo(path)
        ((_, chunk),) = reading.read_chunks(sources)
        assert "not a regular file" in chunk.refused[0].reason

    def test_a_file_brings_its_subagents(self, reading: Transcripts, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", ["{}"])
        inner = write(tmp_path / "a/subagents/agent-1.jsonl", ["{}", "{}"])
        found = reading.list_sources(str(path))
        assert [(each.path, each.size) for each in found] == [(str(path), 3), (str(inner), 6)]

    def test_what_is_not_there_is_refused(self, reading: Transcripts, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="No such file"):
            reading.list_sources(str(tmp_path / "nothing"))

    def test_a_pipe_is_never_waited_for(self, reading: Transcripts, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.jsonl")
        assert reading.list_sources(str(tmp_path)) == []
        with pytest.raises(InvalidInput, match="neither a file nor a folder"):
            reading.list_sources(str(tmp_path / "pipe.jsonl"))


class TestReading:
    def test_every_line_is_accounted_for(
        self, reading: Transcripts, sample: list[Line], tmp_path: Path
    ) -> None:
        path = write(tmp_path / "a.jsonl", [*sample, "not json", "[1]", "", b"\xff\xfe"])
        (chunk,) = read(reading, path)
        assert chunk.lines == len(sample) + 4
        assert chunk.size == path.stat().st_size
        assert [each.line - len(sample) for each in chunk.refused] == [1, 2, 4]
        assert len([each for each in chunk.recorded if each.text]) == 4

    def test_broken_lines_change_nothing_about_the_others(
        self, reading: Transcripts, sample: list[Line], tmp_path: Path
    ) -> None:
        whole = list_entries(read(reading, write(tmp_path / "a.jsonl", sample)))
        torn = [part for line in sample for part in (line, '{"type": "us', b"\x00", "[" * 100_000)]
        found = list_entries(read(reading, write(tmp_path / "b.jsonl", torn)))
        assert [each.event_id for each in found] == [each.event_id for each in whole]

    def test_deep_nesting_does_no_harm(
        self, reading: Transcripts, sample: list[Line], tmp_path: Path
    ) -> None:
        lines: list[Line | str | bytes] = []
        for depth in range(940, 1_000, 2):  # about what can be parsed, but not written again
            deep = '{"a":' * depth + "1" + "}" * depth
            for line in sample:
                for name in ("toolUseResult", "content", "metadata", "output"):
                    whole = json.dumps(_replaced_at(line, name, "DEEP"))
                    if "DEEP" in whole:
                        lines.append(whole.replace('"DEEP"', deep))
        assert lines
        chunks = read(reading, write(tmp_path / "a.jsonl", lines))
        assert sum(chunk.lines for chunk in chunks) == len(lines)

    def test_a_line_that_is_still_being_written_is_left_for_later(
        self, reading: Transcripts, sample: list[Line], tmp_path: Path
    ) -> None:
        path = write(tmp_path / "a.jsonl", [*sample, '{"half": '], end=b"")
        (chunk,) = read(reading, path)
        assert (chunk.lines, chunk.refused) == (len(sample), ())

    def test_a_last_line_without_a_newline_counts(
        self, reading: Transcripts, sample: list[Line], tmp_path: Path
    ) -> None:
        (chunk,) = read(reading, write(tmp_path / "a.jsonl", sample, end=b""))
        assert chunk.lines == len(sample)

    def test_pieces_are_bounded_and_nothing_is_lost_between_them(
        self, reading: Transcripts, sample: list[Line], tmp_path: Path
    ) -> None:
        whole = list_entries(read(reading, write(tmp_path / "a.jsonl", sample)))
        filler: list[Line | str | bytes] = ["no JSON"] * (files.CHUNK_RECORDS // 2)
        lines = [part for line in sample for part in (line, *filler)]
        chunks = read(reading, write(tmp_path / "b.jsonl", lines))
        assert len(chunks) > 1
        assert all(
            len(chunk.recorded) + len(chunk.refused) <= files.CHUNK_RECORDS for chunk in chunks
        )
        assert sum(chunk.lines for chunk in chunks) == len(lines)
        assert [each.event_id for each in list_entries(chunks)] == [each.event_id for each in whole]

    def test_an_endless_line_is_passed_over(
        self, reading: Transcripts, sample: list[Line], tmp_path: Path
    ) -> None:
        path = write(tmp_path / "a.jsonl", [b"x" * (files.MAX_LINE_BYTES + 5), *sample])
        chunks = read(reading, path)
        assert [each.reason for chunk in chunks for each in chunk.refused] == ["longer than 32 MiB"]
        assert len([each for each in list_entries(chunks) if each.text]) == 4

    def test_a_file_of_line_ends_takes_few_steps(
        self, reading: Transcripts, sample: list[Line], tmp_path: Path
    ) -> None:
        blanks = b"\n" * 3_000_000
        path = write(tmp_path / "a.jsonl", [sample[0], blanks, *sample[1:]])
        records = list(files.JsonLines().read_records(reading.list_sources(str(path))[0], 0))
        assert len(records) < len(sample) + 1_000
        chunks = read(reading, path)
        assert sum(chunk.lines for chunk in chunks) == len(sample) + 3_000_001
        assert sum(chunk.size for chunk in chunks) == path.stat().st_size
        assert len([each for each in list_entries(chunks) if each.text]) == 4

    def test_what_is_no_transcript_is_given_up(self, reading: Transcripts, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", ["x"] * (3 * files.MAX_REFUSED))
        other = write(tmp_path / "b.jsonl", ["y"])
        sources = [source for each in (path, other) for source in reading.list_sources(str(each))]
        chunks = list(reading.read_chunks(sources))
        refused = [rejected for _, chunk in chunks for rejected in chunk.refused]
        assert len(refused) == files.MAX_REFUSED + 2  # the last says why it is the last
        assert "the rest is left out" in refused[-2].reason
        assert chunks[-1][0].path == str(other)

    def test_a_file_that_has_gone_is_told_of(self, reading: Transcripts, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", ["{}"])
        sources = reading.list_sources(str(path))
        path.unlink()
        ((_, chunk),) = reading.read_chunks(sources)
        assert "No such file" in chunk.refused[0].reason

    def test_long_texts_are_cut_and_say_so(
        self, agent: str, reading: Transcripts, tmp_path: Path
    ) -> None:
        lines = SAMPLES[agent]()
        long = "é" * MAX_TEXT_BYTES
        words = {
            "claude-code": "Why does the lamp of the lighthouse flicker?",
            "codex": "Which lock gates leak?",
            "jsonl": "Is the mill open?",
        }[agent]
        path = write(tmp_path / "a.jsonl", [_replaced(line, words, long) for line in lines])
        found = [each for each in list_entries(read(reading, path)) if each.text]
        assert len(found) == 4
        assert found[0].text.endswith(CUT)
        assert len(found[0].text.encode()) <= MAX_TEXT_BYTES


def _replaced_at(value: Line, key: str, new: str) -> Line:
    """Return the line with another value under a key at any depth, or else at the top."""

    def put(found: object) -> object:
        if isinstance(found, dict):
            return {name: new if name == key else put(each) for name, each in found.items()}
        return [put(each) for each in found] if isinstance(found, list) else found

    changed = {name: new if name == key else put(each) for name, each in value.items()}
    return changed if changed != value else {**value, key: new}


def _replaced(value: Line, old: str, new: str) -> Line:
    def put(found: object) -> object:
        if isinstance(found, dict):
            return {name: put(each) for name, each in found.items()}
        if isinstance(found, list):
            return [put(each) for each in found]
        return new if found == old else found

    return {name: put(each) for name, each in value.items()}
