"""Records: what files hold, what is refused and where, and how an export looks."""

import json
import pickle
from collections.abc import Iterator

import msgspec
import pytest

from agent_memory.features.index.model.queries import Hit, RecallResult
from agent_memory.features.memories.model import memories, memory_documents
from agent_memory.features.memories.model.memories import Draft, Memory, MemoryStatus
from agent_memory.features.recall.search_operations import SearchPage
from agent_memory.interfaces import memory_files
from agent_memory.interfaces.memory_files import RejectedRecord
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Domain, Millis

_AT = Millis(1_774_951_200_123)  # 2026-03-31T10:00:00.123Z


def _memory(summary: str = "Use PostgreSQL", content: str = "", spec: str = "") -> Memory:
    return Memory(
        digest=memories.compute_digest("decisions", summary, content, spec),
        namespace="decisions",
        domain=Domain("project:my-app"),
        summary=summary,
        content=content,
        created_ms=_AT,
        updated_ms=_AT,
        spec=spec,
    )


def _parse(text: str, format_: str = "yaml", namespace: str | None = "decisions") -> list[object]:
    return list(memory_files.parse(text.encode("utf-8"), format_, namespace))


def _draft(text: str, format_: str = "yaml", namespace: str | None = "decisions") -> Draft:
    (draft,) = _parse(text, format_, namespace)
    assert isinstance(draft, Draft), draft
    return draft


def _refused(
    text: str, format_: str = "yaml", namespace: str | None = "decisions"
) -> RejectedRecord:
    (refused,) = _parse(text, format_, namespace)
    assert isinstance(refused, RejectedRecord), refused
    return refused


def _summaries(text: str, format_: str = "yaml") -> list[str]:
    """Of drafts; of what was refused, where."""
    items = memory_files.parse(text.encode("utf-8"), format_, "decisions")
    return [one.summary if isinstance(one, Draft) else one.place for one in items]


def _recalled(memory: Memory, detail: str) -> str:
    (document,) = memory_documents.from_memory(memory)
    hit = Hit(document=document, score=0.5, parts={}, uri=memory.urn)
    page = SearchPage.from_result(RecallResult(hits=(hit,), total=1))
    return msgspec.json.encode(page.show(detail)).decode()


class TestTheFormatOfAFile:
    @pytest.mark.parametrize(
        ("name", "format_"),
        [
            ("a.yml", "yaml"),
            ("a.yaml", "yaml"),
            ("a.json", "json"),
            ("a.jsonl", "jsonl"),
            ("a.ndjson", "jsonl"),
            ("NOTES.MD", "markdown"),
            ("a.b.markdown", "markdown"),
        ],
    )
    def test_is_told_by_its_name(self, name: str, format_: str) -> None:
        assert memory_files.guess_format(name, b'{"summary": "a"}\n{}') == format_

    @pytest.mark.parametrize(
        ("head", "format_"),
        [
            (b'{"memories": []}', "json"),
            (b'\xef\xbb\xbf {"memories": []}', "json"),
            (b'[\n  {"summary": "a"}\n]', "json"),
            (b'{\n  "summary": "a"\n}\n', "json"),
            (b'{"summary": "a"}\n', "json"),
            (b'{"summary": "a"}\n{"summary": "b"}\n', "jsonl"),
            (b"{summary: a}", "yaml"),
            (b"[{summary: a}]", "yaml"),
            (b"memories:\n- summary: a\n", "yaml"),
            (b"# ours\n\n- summary: a\n", "yaml"),
            (b"summary: a\nnamespace: decisions\n", "yaml"),
            (b"---\nsummary: a\n", "yaml"),
            (b"---\nsummary: a\n---\nsummary: b\n", "yaml"),
            (b"---\n- summary: a\n---\n- summary: b\n", "yaml"),
            (b"---\nsummary: a\n---\nThe body.\n", "markdown"),
            (b"---\nsummary: a\n---\n", "markdown"),
            (b"---\nsummary: a\nlength: 10\n---\nsummary: b\n", "markdown"),
            (b"# Decisions\n\n## One\n\ntext\n", "markdown"),
            (b"just words", "markdown"),
            (b"", "markdown"),
        ],
    )
    @pytest.mark.parametrize("name", [None, "-", "memories.txt"])
    def test_else_by_how_it_begins(self, name: str | None, head: bytes, format_: str) -> None:
        assert memory_files.guess_format(name, head) == format_

    def test_that_nobody_knows_is_refused_with_those_that_are(self) -> None:
        with pytest.raises(InvalidInput, match="'toml'; it must be one of yaml, json, jsonl"):
            memory_files.parse(b"", "toml")
        with pytest.raises(InvalidInput, match="markdown"):
            memory_files.dump([], "toml")


class TestShapes:
    @pytest.mark.parametrize(
        ("text", "format_"),
        [
            ("- summary: a\n- summary: b", "yaml"),
            ("memories:\n- summary: a\n- summary: b", "yaml"),
            ("results:\n- summary: a\n- {kind: memory, summary: b}", "yaml"),
            ("summary: a\n---\nsummary: b", "yaml"),
            ("---\n- summary: a\n---\n---\nmemories: [{summary: b}]\n...", "yaml"),
            ('[{"summary": "a"}, {"summary": "b"}]', "json"),
            ('{"memories": [{"summary": "a"}, {"summary": "b"}], "total": 2}', "json"),
            ('{"summary": "a"}\n\n{"summary": "b"}\r\n', "jsonl"),
            ("---\nsummary: a\n---\n---\nsummary: b\n---\n", "markdown"),
        ],
    )
    def test_of_two_records(self, text: str, format_: str) -> None:
        assert _summaries(text, format_) == ["a", "b"]

    @pytest.mark.parametrize(
        ("text", "format_"),
        [
            ("summary: a", "yaml"),
            ('{"summary": "a"}', "json"),
            ('{"summary": "a"}', "jsonl"),
            ('{"summary": "a", "results": "good"}', "json"),
        ],
    )
    def test_of_one(self, text: str, format_: str) -> None:
        assert _summaries(text, format_) == ["a"]

    @pytest.mark.parametrize("format_", memory_files.FORMATS)
    @pytest.mark.parametrize("data", [b"", b" \n\r\n", b"\xef\xbb\xbf"])
    def test_of_none(self, data: bytes, format_: str) -> None:
        assert memory_files.parse(data, format_) == []
        assert memory_files.parse("".join(memory_files.dump([], format_)).encode(), format_) == []

    def test_of_none_in_yaml(self) -> None:
        assert _parse("# nothing yet") == _parse("memories:") == _parse("---\n---\n") == []

    @pytest.mark.parametrize(
        ("text", "format_", "message"),
        [
            ("just words", "yaml", "line 1, column 1: the file holds text"),
            ("5", "json", "line 1, column 1: the file holds a number"),
            ("- a\n- b: [", "yaml", "line 3, column 1: not valid YAML"),
            ("a: 1\nb: é: c", "yaml", "line 2, column 5: .* mapping values are not allowed"),
            ("a: é\nbé: \x07", "yaml", "line 2, column 5: .* control characters"),
            ('{"a": 1,\n  b}', "json", "line 2, column 3: not valid JSON"),
            ('{"a": 1}\n{"a": 2}', "json", "line 2, column 1: .* the format is jsonl"),
            ("1" * 5000, "json", "too many digits"),
            ("just words", "markdown", "line 1, column 1: there are no entries"),
        ],
    )
    def test_that_cannot_be_read_say_where(self, text: str, format_: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            _parse(text, format_)

    @pytest.mark.parametrize("format_", memory_files.FORMATS)
    def test_and_so_do_other_encodings(self, format_: str) -> None:
        with pytest.raises(InvalidInput, match="line 2, column 4: the file is not UTF-8"):
            memory_files.parse("é\n12é".encode() + b"\xff", format_)

    def test_errors_and_items_can_be_sent_to_another_process(self) -> None:
        assert pickle.loads(pickle.dumps(memory_files.parse)) is memory_files.parse  # noqa: S301
        assert pickle.loads(pickle.dumps(memory_files.dump)) is memory_files.dump  # noqa: S301


class TestABadRecord:
    @pytest.mark.parametrize(
        ("text", "format_", "place"),
        [
            ("- summary: a\n- 5\n- summary: c", "yaml", "record 2"),
            ("summary: a\n---\nwords\n---\nsummary: c", "yaml", "record 2"),
            ('{"memories": [{"summary": "a"}, null, {"summary": "c"}]}', "json", "record 2"),
            ('{"summary": "a"}\n\n{"summary\n{"summary": "c"}', "jsonl", "line 3"),
            (
                "---\nsummary: a\n---\n\n---\nsummary: b: b\n---\n---\nsummary: c\n---",
                "markdown",
                "line 5",
            ),
            ("## a\n## \n## c", "markdown", "line 2"),
        ],
    )
    def test_does_not_lose_the_others(self, text: str, format_: str, place: str) -> None:
        assert _summaries(text, format_) == ["a", place, "c"]

    @pytest.mark.parametrize(
        ("record", "reason"),
        [
            ({"summary": "x" * 101}, "101 characters; the limit is 100"),
            ({"summary": "a\nb"}, "must be one line"),
            ({"summary": 5}, "summary must be text, and is a number"),
            ({"content": ["a"]}, "content must be text, and is a list"),
            ({}, "the summary is empty"),
            ({"summary": "a", "namespace": "dreams"}, "'dreams'; it must be one of decisions"),
            ({"summary": "a", "tags": {"b": "c"}}, "tags must be a list, or text with commas"),
            ({"summary": "a", "tags": ["b", None, True]}, "each of tags must be text"),
            ({"summary": "a", "tags": ["b,c"]}, "no comma"),
            ({"summary": "a", "relates_to": "elsewhere"}, "'elsewhere'; use an id such as"),
            (
                {"summary": "a", "status": "done"},
                "'done'; it must be pending, active, resolved or archived",
            ),
            ({"status": "tombstone"}, "forgotten"),
            ({"summary": "a", "timestamp": "yesterday"}, "'yesterday'; write it as 2026-"),
            ({"summary": "a", "timestamp": "2026-01-01" + " " * 60 + "x"}, "write it as"),
            ({"summary": "a", "timestamp": True}, "must be a date, or a number"),
            ({"summary": "a", "timestamp": -1}, "from 0 on"),
            ({"summary": "a", "timestamp": 1e300}, "timestamp"),
            ({"summary": "a", "timestamp": "1969-12-31"}, "must be Unix milliseconds from 0"),
            ({"summary": "a", "timestamp_ms": "soon"}, "timestamp_ms must be a date, or a number"),
            ({"summary": "a", "timestamp_ms": " "}, "timestamp_ms must be a date, or a number"),
            ({"summary": "a", "timestamp_ms": "."}, "timestamp_ms must be a date, or a number"),
            ({"summary": "a", "timestamp_ms": "-"}, "timestamp_ms must be a date, or a number"),
            ({"summary": "a", "content": "\ud800"}, "not valid UTF-8"),
            ({"summary": "a", "content": "x" * 102_401}, "the limit is 102,400"),
        ],
    )
    def test_says_why(self, record: dict[str, object], reason: str) -> None:
        refused = _refused(json.dumps([record]), "json")
        assert refused.place == "record 1"
        assert reason in refused.reason

    def test_without_a_namespace_says_how_to_give_one(self) -> None:
        assert "--namespace" in _refused("summary: a", namespace=None).reason


class TestARecord:
    def test_has_all_that_a_draft_has(self) -> None:
        text = """
            namespace: learnings
            summary: "  Ports are small  "
            content: |
              Six methods.

              No more.
            spec: ports
            tags: [design, 2024, on, 1.10]
            relates_to: [decisions:abc1234:0]
            timestamp: 2026-03-31T10:00:00.123Z
            status: resolved
        """
        assert _draft(text) == Draft(
            namespace="learnings",
            summary="Ports are small",
            content="Six methods.\n\nNo more.\n",
            spec="ports",
            tags=frozenset({"design", "2024", "on", "1.10"}),
            relates_to=("decisions:abc1234:0",),
            created_ms=_AT,
            status=MemoryStatus.RESOLVED,
        )

    def test_may_have_other_names_for_its_parts(self) -> None:
        text = """
            {"type": "blockers", "body": "b", "summary": "a", "tags": "x, y,", "relates_to":
            "decisions:a:0,decisions:b:0", "timestamp_ms": 1774951200123, "timestamp": "soon"}
        """
        assert _draft(text, "json", None) == Draft(
            namespace="blockers",
            summary="a",
            content="b",
            tags=frozenset({"x", "y"}),
            relates_to=("decisions:a:0", "decisions:b:0"),
            created_ms=_AT,
        )

    def test_may_have_much_that_nobody_asks_for(self) -> None:
        text = """
            {"summary": "a", "id": 5, "uri": "x", "domain": "mars", "commit": [], "score": 0.5,
            "kind": "memory", "tier": "hot", "event_id": "e", "updated_at": "-", "x": {"y": [1]},
            "superseded_by": null, "spec": null, "tags": null, "content": null, "status": null}
        """
        assert _draft(text, "json") == Draft(namespace="decisions", summary="a", domain="mars")

    @pytest.mark.parametrize(
        "written",
        [
            "2026-03-31T10:00:00.123Z",
            "2026-03-31T10:00:00.123",
            "2026-03-31 10:00:00.123",
            "2026-03-31 12:00:00.123 +0200",
            "2026-03-31T12:00:00.123+02:00",
            "2026-03-31T10:00:00.123999 Z",
            "1774951200123",
            "1774951200.123",
        ],
    )
    def test_has_a_time_in_many_spellings(self, written: str) -> None:
        assert _draft(f"summary: a\ntimestamp: {written}").created_ms == _AT
        assert _draft(f"summary: a\ntimestamp: '{written}'").created_ms == _AT
        assert _draft(f'{{"summary": "a", "timestamp": "{written}"}}', "json").created_ms == _AT

    @pytest.mark.parametrize("number", ["1774951200123", "1774951200.123", "1.774951200123e12"])
    def test_has_a_time_in_numbers(self, number: str) -> None:
        assert _draft(f'{{"summary": "a", "timestamp": {number}}}', "json").created_ms == _AT

    def test_has_a_day(self) -> None:
        assert _draft("summary: a\ntimestamp: 1970-01-02").created_ms == 86_400_000
        assert _draft("summary: a\ntimestamp: 19700102").created_ms == 86_400_000

    def test_of_small_milliseconds_is_taken_at_its_word(self) -> None:
        assert _draft("summary: a\ntimestamp_ms: 5").created_ms == 5
        assert _draft('{"summary": "a", "timestamp": 5}', "json").created_ms == 5000
        assert _draft('{"summary": "a", "timestamp_ms": " 5 "}', "json").created_ms == 5

    def test_left_empty_is_now(self) -> None:
        assert _draft('{"summary": "a", "timestamp_ms": ""}', "json").created_ms is None

    @pytest.mark.parametrize(
        ("content", "summary"),
        [
            ("\n\n##  The title \nmore", "The title"),
            ("###\n\nfirst\tline\x07here\r\nmore", "first line here"),
            ("word " * 30, ("word " * 20).strip()),
            ("x" * 150, "x" * 100),
            ("x" * 95 + " whole words", "x" * 95),
            ("x" * 94 + " whole words", "x" * 94 + " whole"),
        ],
    )
    def test_without_a_summary_takes_the_first_line(self, content: str, summary: str) -> None:
        draft = _draft(json.dumps({"content": content}), "json")
        assert (draft.summary, draft.content) == (summary, content)


class TestYaml:
    @pytest.mark.parametrize("said", ["yes", "1.10", "0x10", "2026-01-01", "1e3", "=", ".inf"])
    def test_text_stays_as_it_was_written(self, said: str) -> None:
        assert _draft(f"summary: {said}").summary == said

    @pytest.mark.parametrize("nothing", ["", "~", "null"])
    def test_nothing_is_nothing_unless_quoted(self, nothing: str) -> None:
        assert _draft(f"summary: a\ncontent: {nothing}").content == ""
        assert _draft(f"summary: a\ncontent: '{nothing}'").content == nothing

    def test_defaults_may_be_shared(self) -> None:
        text = "- &d {summary: a, tags: [x], spec: s}\n- {<<: *d, summary: b}\n- *d"
        first, second, third = memory_files.parse(text.encode(), "yaml", "decisions")
        assert isinstance(second, Draft)
        assert first == third != second
        assert (second.summary, second.spec, second.tags) == ("b", "s", frozenset({"x"}))

    @pytest.mark.parametrize(
        "tag", ["!!python/object:os.system", "!x", "!!binary", "!!set", "!<tag:x>"]
    )
    def test_no_tag_builds_anything(self, tag: str) -> None:
        with pytest.raises(InvalidInput, match=r"line 2, column 8: the tag .* is not allowed"):
            _parse(f"summary: a\nother: {tag} {{a: b}}")

    def test_a_billion_laughs_are_cut_short(self) -> None:
        levels = [f"- &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
        with pytest.raises(InvalidInput, match=r"line 6, .* aliases repeat too much text"):
            _parse("\n".join(["- &l0 lol lol lol", *levels]))

    def test_one_long_text_is_not_repeated_for_ever(self) -> None:
        text = "- &a {summary: a, content: " + "x" * 100_000 + "}\n" + "- *a\n" * 1000
        with pytest.raises(InvalidInput, match="line 12, column 3: aliases repeat too much"):
            _parse(text)

    def test_nothing_holds_itself(self) -> None:
        with pytest.raises(InvalidInput, match="the alias 'a' has no anchor"):
            _parse("&a [*a]")

    @pytest.mark.parametrize("part", ["[", "- ", "{a: ", "? "])
    def test_nesting_without_end_is_refused(self, part: str) -> None:
        with pytest.raises(InvalidInput, match="nested too deeply"):
            _parse(part * 100_000)

    def test_nesting_without_end_is_refused_in_json_too(self) -> None:
        with pytest.raises(InvalidInput, match="nested too deeply"):
            _parse("[" * 100_000, "json")
        assert "nested too deeply" in _refused("[" * 100_000, "jsonl").reason

    def test_keys_that_are_no_text_are_passed_over(self) -> None:
        assert _draft("? [a, b]\n: c\n~: d\nsummary: a").summary == "a"


class TestHits:
    @pytest.mark.parametrize("content", ["", "It has JSON.\n"])
    def test_of_our_recall_are_memories(self, content: str) -> None:
        memory = _memory(content=content, spec="storage")
        draft = _draft(_recalled(memory, "full"), "json", None)
        assert (draft.summary, draft.content, draft.spec) == (memory.summary, content, "storage")
        assert draft.created_ms == _AT

    def test_that_were_recalled_without_their_content_are_refused(self) -> None:
        assert _draft(_recalled(_memory(), "summary"), "json", None).summary == "Use PostgreSQL"
        for detail in ("summary", "minimal"):
            refused = _refused(_recalled(_memory(content="It has JSON."), detail), "json")
            assert "the content is missing: create the file with" in refused.reason

    def test_of_other_kinds_are_refused(self) -> None:
        text = (
            '{"results": [{"kind": "event", "summary": "a"}, {"kind": "memory", "summary": "b"}]}'
        )
        refused, draft = memory_files.parse(text.encode(), "json", "decisions")
        assert isinstance(refused, RejectedRecord)
        assert "of kind 'event', not a memory" in refused.reason
        assert isinstance(draft, Draft)

    def test_whose_content_was_cut_are_refused(self) -> None:
        text = '{"results": [{"summary": "a", "content": "b...", "truncated": true}]}'
        assert "memory export" in _refused(text, "json").reason

    def test_of_others_without_a_content_are_taken(self) -> None:
        text = '{"results": [{"id": "decisions:abc1234:0", "summary": "a"}]}'
        assert _draft(text, "json").summary == "a"


class TestMarkdown:
    def test_an_entry_ends_where_the_next_begins(self) -> None:
        text = (
            "---\nsummary: a\n---\n\nFirst.\n\n---\n\nStill the first.\n\n"
            "---\r\nnamespace: learnings\r\nsummary: b\r\n---\r\nSecond.\r\n"
        )
        first, second = memory_files.parse(text.encode(), "markdown", "decisions")
        assert isinstance(first, Draft)
        assert isinstance(second, Draft)
        assert first.content == "First.\n\n---\n\nStill the first."
        assert (second.namespace, second.content) == ("learnings", "Second.")

    def test_a_length_is_stronger_than_what_the_body_looks_like(self) -> None:
        body = "---\nsummary: inner\n---\né"
        text = f"---\nsummary: a\nlength: {len(body.encode())}\n---\n{body}\n---\nsummary: b\n---\n"
        assert _summaries(text, "markdown") == ["a", "b"]

    @pytest.mark.parametrize("length", ["3", "7", "400", "-1", "x", "[1]"])
    def test_a_length_that_is_wrong_is_refused_and_the_next_is_found(self, length: str) -> None:
        text = f"---\nsummary: a\nlength: {length}\n---\nfour\n\n---\nsummary: b\n---\nfive\n"
        assert _summaries(text, "markdown") == ["line 1", "b"]

    def test_a_length_that_parts_a_character_is_refused(self) -> None:
        assert (
            "remove `length`" in _refused("---\nsummary: a\nlength: 1\n---\né\n", "markdown").reason
        )

    def test_a_body_that_was_lengthened_by_hand_is_not_halved(self) -> None:
        text = "---\nsummary: a\nlength: 4\n---\nfour\n\nAnd this.\n"
        assert "if you changed the body, remove `length`" in _refused(text, "markdown").reason

    def test_a_content_stands_above_or_below_but_not_twice(self) -> None:
        assert _draft("---\nsummary: a\ncontent: b\n---\n", "markdown").content == "b"
        refused = _refused("---\nsummary: a\ncontent: b\n---\nc\n", "markdown")
        assert "both in the front matter and below" in refused.reason

    def test_broken_front_matter_says_its_line(self) -> None:
        refused = _refused("# Ours\n\n---\ntype: decisions\nsummary: a: b\n---\ntext", "markdown")
        assert refused.place == "line 3"
        assert refused.reason.startswith("line 5, column 11: not valid YAML")

    def test_text_before_the_first_entry_is_reported_unless_it_is_a_title(self) -> None:
        entry = "---\nsummary: a\n---\n"
        assert _summaries(f"# Title\n\n{entry}", "markdown") == ["a"]
        assert _summaries(f"Words.\n\n{entry}", "markdown") == ["line 1", "a"]

    def test_headings_are_summaries_where_there_is_no_front_matter(self) -> None:
        text = (
            "# All of it\n\nIntro.\n\n## First ##\n\nOne.\n\n### Detail\n\n"
            "```sh\n## no heading\n```\n\n# Part two\n\n## About C#\nTwo.\n"
        )
        intro, first, second = memory_files.parse(text.encode(), "markdown", "research")
        assert isinstance(intro, Draft)
        assert (intro.summary, intro.content) == ("All of it", "Intro.")
        assert isinstance(first, Draft)
        assert first.namespace == "research"
        assert first.summary == "First"
        assert first.content == "One.\n\n### Detail\n\n```sh\n## no heading\n```"
        assert isinstance(second, Draft)
        assert (second.summary, second.content) == ("About C#", "Two.")

    def test_a_long_heading_is_kept_whole(self) -> None:
        title = "The harbour master closes " + "the northern gate " * 8 + "at six"
        text = f"## {title}\n\nIn winter.\n"
        (found,) = memory_files.parse(text.encode(), "markdown", "research")
        assert isinstance(found, Draft)
        assert found.content == f"{title}\n\nIn winter."
        assert title.startswith(found.summary)
        assert 80 <= len(found.summary) <= 100

    def test_text_before_the_first_heading_is_a_record(self) -> None:
        text = "---\ntitle: Notes\ntags: [a]\n---\nWe use tabs.\n\n## First\n\nOne.\n"
        before, first = memory_files.parse(text.encode(), "markdown", "research")
        assert isinstance(before, Draft)
        assert (before.summary, before.content) == ("We use tabs.", "We use tabs.")
        assert isinstance(first, Draft)
        assert first.summary == "First"

    def test_headings_of_the_first_level_serve_where_there_are_no_others(self) -> None:
        assert _summaries("# a\n\none\n\n# b\n### c\n", "markdown") == ["a", "b"]

    def test_headings_need_a_namespace(self) -> None:
        assert "--namespace" in _refused("## a", "markdown", None).reason


class TestAnExport:
    def test_leaves_out_what_is_empty(self) -> None:
        (record,) = json.loads("".join(memory_files.dump([_memory()], "json")))["memories"]
        assert record == {
            "id": _memory().id,
            "uri": _memory().urn,
            "namespace": "decisions",
            "domain": "project:my-app",
            "summary": "Use PostgreSQL",
            "content": "",
            "timestamp": "2026-03-31T10:00:00.123Z",
            "updated_at": "2026-03-31T10:00:00.123Z",
            "status": "active",
        }

    def test_is_markdown_that_a_person_can_read(self) -> None:
        memory = _memory(content="It has JSON.\n\nAnd é.", spec="storage")
        assert "".join(memory_files.dump([memory], "markdown")) == (
            f"---\nid: {memory.id}\nuri: {memory.urn}\nnamespace: decisions\n"
            "domain: project:my-app\nsummary: Use PostgreSQL\n"
            "timestamp: '2026-03-31T10:00:00.123Z'\nupdated_at: '2026-03-31T10:00:00.123Z'\n"
            "spec: storage\nstatus: active\nlength: 21\n---\nIt has JSON.\n\nAnd é.\n"
        )

    def test_is_yaml_that_a_person_can_read(self) -> None:
        text = "".join(memory_files.dump([_memory(content="It has JSON.\n\nAnd é.\n")], "yaml"))
        assert text.startswith("memories:\n- id: decisions:")
        assert "\n  content: |\n    It has JSON.\n\n    And é.\n  timestamp:" in text

    def test_is_written_while_memories_are_still_read(self) -> None:
        read = 0

        def found() -> Iterator[Memory]:
            nonlocal read
            for read in range(1, 4):
                yield _memory(f"memory {read}")

        for format_ in memory_files.FORMATS:
            next(memory_files.dump(found(), format_))
            assert read == 1
