"""Properties of records: what is written is read again, and no file does harm."""

import json
import pickle
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.adapters.memory_store import StoredMemories
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, Memory, MemoryStatus
from agent_memory.features.memories.model.name_changes import NameChange
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.transfer import Transfer
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.interfaces import memory_files
from agent_memory.interfaces.memory_files import FORMATS, RejectedRecord
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, USER, Domain, Millis
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import unexpected
from tests.memory_engine import MemoryEngine
from tests.recall_parts import NOW, FixedClock

# All that UTF-8 can hold, and more often what one of the formats has a meaning for.
_WICKED = (
    *"\n\r\t :#-'\"|>{}[]&*!%@`\\,~?\0\x07\x1b\x7f\x85\xa0",
    *"\u2028\u2029\ufeff\ufffe\uffff\U0001f600é",
    *("---\n", "\n---\n", "...\n", "- ", "  ", "\r\n", "null", "length: 3\n", "## a\n"),
    "\n---\nnamespace: decisions\nsummary: inner\nlength: 4\n---\nbody\n",
)
_characters = st.characters(codec="utf-8")
_texts = st.lists(st.sampled_from(_WICKED) | _characters, max_size=12).map("".join)
_contents = _texts | st.text(_characters)
_line_characters = st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"))
_SAID = ("null", "yes", "1.10", "2026-01-01", "~", "- a", "a: b", "# x", "'", "---", "{", "<<", "=")
_lines = (st.sampled_from(_SAID) | st.text(_line_characters, max_size=20)).map(str.strip)
_tags = _lines.map(lambda text: text.replace(",", "").strip()).filter(bool)
_millis = st.integers(0, MAX_MILLIS).map(Millis)
_related = st.sampled_from(
    ["decisions:abc1234:0", "subcog://project:my-app/learnings/abc123def456:1"]
)
_domains = st.sampled_from([USER, Domain("project:my-app"), Domain("org:acme")])

FEWER = settings(max_examples=20)  # the files are long


@st.composite
def _memories(draw: st.DrawFn) -> Memory:
    namespace = draw(st.sampled_from(memories.NAMESPACES))
    summary, content, spec = draw(_lines.filter(bool)), draw(_contents), draw(_lines)
    return Memory(
        digest=memories.compute_digest(namespace, summary, content, spec),
        namespace=namespace,
        domain=draw(_domains),
        summary=summary,
        content=content,
        created_ms=draw(_millis),
        updated_ms=draw(_millis),
        spec=spec,
        tags=draw(st.frozensets(_tags, max_size=2)),
        relates_to=tuple(draw(st.lists(_related, max_size=2))),
        status=draw(
            st.sampled_from([each for each in MemoryStatus if each is not MemoryStatus.TOMBSTONE])
        ),
        commit=draw(st.sampled_from(["", "1e10" + "0" * 36, "0" * 40])),
        superseded_by=draw(st.sampled_from(["", "decisions:abc1234:0"])),
        index=draw(st.integers(0, 3)),
        event_id=draw(st.sampled_from(["", "01KH7AFAJ2MPHT", "null"])),
        session_id=draw(_lines.filter(str.isprintable)),
        author=draw(_lines.filter(str.isprintable)),
        agent=draw(st.sampled_from(["", "claude-code"])),
        interface=draw(st.sampled_from(["", "cli"])),
        tag_changes=draw(_changes(_tags)),
        relation_changes=draw(_changes(_related)),
    )


def _changes(names: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[NameChange, ...]]:
    return st.dictionaries(names, _millis, max_size=2).map(
        lambda times: tuple(NameChange(name, times[name]) for name in sorted(times))
    )


def _drafted(memory: Memory) -> Draft:
    return Draft(
        namespace=memory.namespace,
        summary=memory.summary,
        content=memory.content,
        spec=memory.spec,
        tags=memory.tags,
        relates_to=memory.relates_to,
        created_ms=memory.created_ms,
        status=memory.status,
        domain=memory.domain,
        event_id=memory.event_id,
        session_id=memory.session_id,
        agent=memory.agent,
        interface=memory.interface,
        author=memory.author,
        commit=memory.commit,
        updated_ms=memory.updated_ms,
        superseded_by=memory.superseded_by,
        tag_changes=memory.tag_changes,
        relation_changes=memory.relation_changes,
    )


def _reimport(found: list[Memory], format_: str) -> list[Memory]:
    """Write these memories, import the file into an empty store, and read that."""
    with closing(CommittedStore(MemoryEngine(), watch=unexpected)) as store:
        memories_ = StoredMemories(store)
        capture = Capture(
            memories=memories_,
            log=StoredEventLog(store),
            secrets=PassThrough(),
            clock=FixedClock(NOW),
            on_capture=lambda: None,
        )
        drafts = memory_files.parse(_written(found, format_).encode("utf-8"), format_)
        result = Transfer(
            memories=memories_, repositories=GitRepositories(Path("/nowhere")), capture=capture
        ).import_drafts(
            [draft for draft in drafts if isinstance(draft, Draft)],
            lambda draft: MemoryLocation(
                domain=Domain(draft.domain), home=NOWHERE, commit="b" * 40, author="Somebody else"
            ),
            dry_run=False,
            on_progress=lambda _: None,
        )
        assert result.refused == ()
        return [
            memory
            for domain in memories_.list_domains()
            for memory in memories_.list_domain(domain, after=None, limit=100)
        ]


def _in_order(found: list[Memory]) -> list[Memory]:
    return sorted(found, key=lambda memory: (memory.created_ms, memory.urn))


def _written(found: list[Memory], format_: str) -> str:
    return "".join(memory_files.dump(found, format_))


@pytest.mark.parametrize("format_", FORMATS)
class TestWhatIsWrittenIsReadAgain:
    @FEWER
    @given(found=st.lists(_memories(), max_size=4, unique_by=lambda each: each.key))
    def test_and_an_export_of_the_import_has_the_same_bytes(
        self, format_: str, found: list[Memory]
    ) -> None:
        found = _in_order([replace(each, index=0) for each in found])
        stored = _in_order(_reimport(found, format_))
        assert stored == found
        assert _written(stored, format_) == _written(found, format_)

    @FEWER
    @given(found=st.lists(_memories(), max_size=3))
    def test_as_it_was(self, format_: str, found: list[Memory]) -> None:
        data = _written(found, format_).encode("utf-8")
        assert memory_files.parse(data, format_) == [_drafted(each) for each in found]

    @FEWER
    @given(found=st.lists(_memories(), min_size=1, max_size=3), data=st.data())
    def test_though_a_forgotten_one_is_among_them(
        self, format_: str, found: list[Memory], data: st.DataObject
    ) -> None:
        place = data.draw(st.integers(0, len(found) - 1))
        with_gone = list(found)
        with_gone[place] = memories.build_tombstone(found[place], Millis(5))
        items = memory_files.parse(_written(with_gone, format_).encode("utf-8"), format_)
        assert isinstance(items[place], RejectedRecord)
        del items[place], found[place]
        assert items == [_drafted(each) for each in found]

    @FEWER
    @given(found=st.lists(_memories(), min_size=1, max_size=3))
    def test_and_known_by_how_it_begins(self, format_: str, found: list[Memory]) -> None:
        data = _written(found, format_).encode("utf-8")
        guessed = memory_files.guess_format(None, data)
        one_line = (format_, len(found)) == ("jsonl", 1)
        assert guessed == ("json" if one_line else format_)
        assert memory_files.parse(data, guessed) == [_drafted(each) for each in found]

    @FEWER
    @given(memory=_memories())
    def test_also_as_a_content(self, format_: str, memory: Memory) -> None:
        """A whole export within a memory stays its content."""
        content = _written([memory], "markdown")
        digest = memories.compute_digest("research", "outer", content, "")
        outer = Memory(
            digest=digest,
            namespace="research",
            domain=USER,
            summary="outer",
            content=content,
            created_ms=Millis(0),
            updated_ms=Millis(0),
        )
        data = _written([outer, memory, outer], format_).encode("utf-8")
        expected = [_drafted(outer), _drafted(memory), _drafted(outer)]
        assert memory_files.parse(data, format_) == expected


_body_words = st.lists(
    st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8), max_size=4
).map(" ".join)


class TestMarkdownOfPeople:
    @given(
        before=_body_words,
        sections=st.lists(
            st.tuples(st.sampled_from(["# ", "## "]), _body_words.filter(bool), _body_words),
            min_size=1,
            max_size=5,
        ),
    )
    @example(before="An introduction", sections=[("## ", "First", "One")])
    @example(before="", sections=[("# ", "All", "Intro"), ("## ", "First", "")])
    def test_no_text_is_lost(self, before: str, sections: list[tuple[str, str, str]]) -> None:
        written = [before] + [f"{mark}{title}\n\n{body}" for mark, title, body in sections]
        items = memory_files.parse("\n\n".join(written).encode(), "markdown", "research")
        drafts = [item for item in items if isinstance(item, Draft)]
        assert len(drafts) == len(items)
        deepest = max(mark for mark, _, _ in sections)
        expected = [(title, body) for mark, title, body in sections if body or mark == deepest]
        found = [(draft.summary, draft.content) for draft in drafts]
        assert found[bool(before) :] == expected
        assert [content for _, content in found[: bool(before)]] == ([before] if before else [])


class TestStandardReadersReadWhatIsWritten:
    @FEWER
    @given(st.lists(_memories(), max_size=3))
    def test_json(self, found: list[Memory]) -> None:
        value = json.loads(_written(found, "json"))
        assert [each["content"] for each in value["memories"]] == [each.content for each in found]

    @FEWER
    @given(st.lists(_memories(), max_size=3))
    def test_jsonl_whatever_ends_a_line_for_them(self, found: list[Memory]) -> None:
        values = [json.loads(line) for line in _written(found, "jsonl").splitlines()]
        assert [each["content"] for each in values] == [each.content for each in found]

    @FEWER
    @given(st.lists(_memories(), max_size=3))
    def test_yaml(self, found: list[Memory]) -> None:
        (memory_list,) = yaml.safe_load(_written(found, "yaml")).values()
        assert [each["content"] for each in memory_list] == [each.content for each in found]
        assert [each["summary"] for each in memory_list] == [each.summary for each in found]
        assert [each["id"] for each in memory_list] == [each.id for each in found]

    @FEWER
    @given(_memories())
    def test_markdown(self, memory: Memory) -> None:
        _, front, body = _written([memory], "markdown").split("---\n", 2)
        values = yaml.safe_load(front)
        assert (values["summary"], values["uri"]) == (memory.summary, memory.urn)
        assert body.encode("utf-8")[: values["length"]].decode("utf-8") == memory.content


_snippets = st.sampled_from(
    [
        *(
            b"---\n",
            b"summary: a\n",
            b"namespace: decisions\n",
            b"type: x\n",
            b"length: 5\n",
            b"- ",
        ),
        *(
            b"memories:\n",
            b"results:\n",
            b"  ",
            b"&a ",
            b"*a",
            b"!!binary ",
            b"!x ",
            b"<<: ",
            b"? ",
        ),
        *(b"[", b"]", b"{", b"}", b'"', b":", b",", b"\n", b"\r\n", b"\t", b"# h\n", b"## h\n"),
        *(
            b'"summary": "x"',
            b'"namespace": "decisions"',
            b'"\\ud800"',
            b"NaN",
            b"-1e999",
            b"```\n",
        ),
        *(b"timestamp: ", b'"timestamp":', b"9" * 20, b"9" * 5000, b"2026-01-01", b"tags: [a,1]\n"),
        *(b"\xff", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\0", b"%YAML 1.1\n", b"|\n", b"%TAG ! x\n"),
    ]
)
_files = st.binary(max_size=60) | st.lists(_snippets | st.binary(max_size=3), max_size=25).map(
    b"".join
)
_KEYS = (
    *("memories", "results", "summary", "content", "body", "namespace", "type", "tags", "id"),
    *("timestamp", "timestamp_ms", "status", "relates_to", "spec", "kind", "truncated"),
)
_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_KEYS),
            inner | st.sampled_from(["decisions", "x", "active", "memory"]),
            max_size=6,
        )
    ),
    max_leaves=12,
)


def _read(data: bytes, format_: str) -> None:
    """As a worker does it: what comes out is sent to another process."""
    outcome: list[Draft | RejectedRecord] | InvalidInput
    try:
        outcome = memory_files.parse(data, format_, "decisions")
    except InvalidInput as exc:
        outcome = exc
    sent = pickle.loads(pickle.dumps(outcome))  # noqa: S301
    if isinstance(outcome, InvalidInput):
        assert re.match(r"line [0-9]+, column [0-9]+: ", str(outcome))
        assert str(sent) == str(outcome)
    else:
        assert sent == outcome


@pytest.mark.parametrize("format_", FORMATS)
class TestNoFileDoesHarm:
    @settings(max_examples=settings().max_examples)
    @given(data=_files)
    @example(data=b'{"timestamp": -1e308, "summary": "a"}')
    @example(data=b"timestamp: 0001-01-01T00:00:00+14:00\nsummary: a")
    def test_be_it_any_bytes(self, format_: str, data: bytes) -> None:
        assert memory_files.guess_format(None, data) in FORMATS
        _read(data, format_)

    @FEWER
    @given(value=_json_values)
    def test_be_it_any_values(self, format_: str, value: object) -> None:
        _read(json.dumps(value).encode("utf-8"), format_)

    @FEWER
    @given(found=st.lists(_memories(), min_size=1, max_size=3), data=st.data())
    def test_be_it_cut_or_changed(
        self, format_: str, found: list[Memory], data: st.DataObject
    ) -> None:
        whole = _written(found, format_).encode("utf-8")
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, len(whole)))
        _read(whole[:start] + data.draw(_snippets | st.just(b"")) + whole[end:], format_)
