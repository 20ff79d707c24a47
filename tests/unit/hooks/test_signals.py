"""Signals: which statements of a prompt count, which do not, and with what confidence."""

import pytest

from agent_memory.features.hooks.model import signals
from agent_memory.features.hooks.model.signals import (
    CERTAIN,
    MARKERS,
    MAX_READ,
    MAX_SIGNALS,
    SUGGESTED,
    Signal,
)
from agent_memory.features.memories.model.memories import MAX_SUMMARY_CHARS, NAMESPACES, Draft


def only(text: str, markers: tuple[str, ...] = MARKERS) -> Signal:
    found = signals.detect(text, markers)
    assert len(found) == 1, found
    return found[0]


def surest(text: str) -> float:
    return max((signal.confidence for signal in signals.detect(text)), default=0.0)


MARKED = [
    ("[decision] Use PostgreSQL because of JSONB", "decisions", "Use PostgreSQL", "JSONB"),
    ("Use PostgreSQL [decision] because of JSONB", "decisions", "Use PostgreSQL", "JSONB"),
    ("Use PostgreSQL because of JSONB [decision]", "decisions", "Use PostgreSQL", "JSONB"),
    ("Use PostgreSQL. [decision]", "decisions", "Use PostgreSQL", ""),
    ("Use PostgreSQL. [decision] Because of JSONB.", "decisions", "Use PostgreSQL", "JSONB"),
    ("[DECISION]: use Redis for sessions", "decisions", "Use Redis for sessions", ""),
    ("[Decision] : use Redis for sessions", "decisions", "Use Redis for sessions", ""),
    ("[decision]use Redis", "decisions", "Use Redis", ""),
    ("We use Redis[decision]", "decisions", "We use Redis", ""),
    ("ok, [decision] we decided to drop Python 3.8", "decisions", "Drop Python 3.8", ""),
    ("- [decision] Use Redis", "decisions", "Use Redis", ""),
    ("- [ ] [blocker]: no access to production", "blockers", "No access to production", ""),
    ("## [decision] Use **one** database", "decisions", "Use one database", ""),
    ("**[learned]** `uv sync` removes extras", "learnings", "uv sync removes extras", ""),
    ("[blocker] How do we get the keys?", "blockers", "How do we get the keys?", ""),
    ("[progress] Login works. Next is logout.", "progress", "Login works", ""),
    ("[decision]\nUse Redis for sessions", "decisions", "Use Redis for sessions", ""),
    ("[decision]\n\nUse Redis for sessions", "decisions", "Use Redis for sessions", ""),
    ("Use Redis for sessions\n[decision]", "decisions", "Use Redis for sessions", ""),
    ("[decision] We use:\n- ruff\n- mypy", "decisions", "We use: ruff, mypy", ""),
    ("Fine.\nUse Redis [decision]\nsince it is there", "decisions", "Use Redis", "it is there"),
    (
        "[learned] Tests hang because the port is taken",
        "learnings",
        "Tests hang because the port is taken",  # of what was learned the reason is a part
        "the port is taken",
    ),
]

SPOKEN = [
    ("We decided to use **Redis** for sessions.", "decisions", "Use Redis for sessions", 0.88),
    ("ok so we've finally decided to drop Python 3.8", "decisions", "Drop Python 3.8", 0.88),
    ("We decided not to use an ORM", "decisions", "Decided not to use an ORM", 0.86),
    ("We decided against an ORM.", "decisions", "Decided against an ORM", 0.86),
    ("the team agreed to squash on merge", "decisions", "Squash on merge", 0.85),
    ("We settled on Kafka for events", "decisions", "Settled on Kafka for events", 0.85),
    ("The decision is to keep the monolith.", "decisions", "Keep the monolith", 0.88),
    ("**Decision:** use gRPC", "decisions", "Use gRPC", 0.9),
    ("- Chose upserts to stay idempotent", "decisions", "Chose upserts to stay idempotent", 0.82),
    ("We'll go with Kafka because it scales", "decisions", "Go with Kafka", 0.83),
    ("we went with FastAPI in the end", "decisions", "Went with FastAPI in the end", 0.8),
    (
        "from now on always run ruff before a commit",
        "patterns",
        "Always run ruff before a commit",
        0.86,
    ),
    ("From now on, please answer in English", "patterns", "Answer in English", 0.86),
    (
        "The root cause was a stale lock file.",
        "learnings",
        "The root cause was a stale lock file",
        0.88,
    ),
    (
        "the real cause of the crash was a null id",
        "learnings",
        "The real cause of the crash was a null id",
        0.88,
    ),
    (
        "It turns out that pytest-xdist shares the port",
        "learnings",
        "pytest-xdist shares the port",
        0.85,
    ),
    ("turns out the cache was never cleared", "learnings", "The cache was never cleared", 0.84),
    ("Lesson learned: never deploy on Friday", "learnings", "Never deploy on Friday", 0.88),
    ("Lesson learned. Never deploy on Friday.", "learnings", "Never deploy on Friday", 0.88),
    ("we learned the hard way that retries need jitter", "learnings", "Retries need jitter", 0.85),
    ("TIL that git notes can be merged", "learnings", "Git notes can be merged", 0.88),
    ("Please remember that the API allows 10 rps", "learnings", "The API allows 10 rps", 0.83),
    (
        "We\u2019re still blocked on the security review",
        "blockers",
        "Blocked on the security review",
        0.86,
    ),
    ("we can't ship until legal signs off", "blockers", "Can't ship until legal signs off", 0.82),
    (
        "the missing license is blocking the release",
        "blockers",
        "The missing license is blocking the release",
        0.8,
    ),
]

LIKELY = [
    ("let's use uv for the environment", "decisions", "Use uv for the environment"),
    ("Agreed, let\u2019s go with SKIP LOCKED.", "decisions", "Go with SKIP LOCKED"),
    ("No, let's use `httpx`", "decisions", "Use httpx"),
    ("let's use httpx because it has an async client", "decisions", "Use httpx"),
    ("we should use httpx instead of requests", "decisions", "Use httpx instead of requests"),
    ("I prefer small functions", "patterns", "Prefer small functions"),
    ("Always use absolute imports", "patterns", "Always use absolute imports"),
    ("never push to main", "patterns", "Never push to main"),
    ("no, remember we're in a monorepo", "learnings", "We're in a monorepo"),
    ("The issue was that `dotenv` ran late", "learnings", "The issue was that dotenv ran late"),
    ("we've shipped the importer", "progress", "Shipped the importer"),
]

WEAK = [
    "maybe we should use httpx instead of requests",
    "let's use it",
    "let's go with option 2",
    "let's use redis if it is faster",
    "we'll use a queue",
    "let's keep the signature as it is",
    "I have deployed the importer",
    "the tests fail because the port is taken",
]

TRACE = """it crashes, see below
Traceback (most recent call last):
  File "/srv/app/main.py", line 3, in <module>
    decide("we decided to use X")
app.errors.Blocked: we're blocked by the rate limiter
"""
PATCH = """apply this
diff --git a/notes.md b/notes.md
--- a/notes.md
+++ b/notes.md
@@ -1,3 +1,3 @@
-we decided to use MongoDB
+[decision] we decided to use PostgreSQL
 it turns out that nobody reads this
"""
LOG = """2026-01-05 10:00:01 INFO we decided to use shard 3
[2026-01-05T10:00:02Z] [progress] 50% of the shards
ERROR: we're blocked by peer 7
3f2a91c We decided to use PostgreSQL
server.go:41: it turns out that the peer is gone
"""
INNOCENT = [
    "fix the failing test",
    "use the Read tool on src/app.py",
    "let's see",
    "let's see what happens if we remove the cache",
    "what did we decide about caching?",
    "what did we decide about caching",
    "run the tests and then commit",
    "commit and push",
    "continue",
    "yes",
    "ok, go ahead",
    "let's go",
    "let's start with the first task",
    "let's fix the login bug first",
    "let's try again",
    "let's try using a different port",
    "let's look at the logs",
    "let's keep going",
    "let's use that one",
    "let's use the Read tool for this",
    "let's use a subagent to explore the codebase",
    "let's go with option 2",
    "let's go with your suggestion",
    "let's go with that",
    "let's move on to the next task",
    "let's switch to the main branch",
    "this will let us use async handlers",
    "should we use Redis or Memcached?",
    "should we use Redis or Memcached",
    "let's use Redis, ok?",
    "we haven't decided which database to use yet",
    "we have not decided to use Kafka yet",
    "if we decided to use Kafka, what would change?",
    "if we decided to use Kafka, we would need more machines",
    "imagine we decided to drop Python 3.8, list what breaks",
    "did we decide to use Postgres",
    "why did we decide to use Postgres?",
    "explain why we decided to use Postgres",
    "tell me whether we agreed to use tabs",
    "I'm not sure we decided to keep this",
    "I don't think we should use an ORM instead of SQL",
    "could you refactor this because it is ugly",
    "can you remember that function from yesterday?",
    "do you remember that bug with the cache?",
    "remember that bug we fixed yesterday, it is back",
    "I remember that we had a helper for this",
    "find out what the root cause was",
    "find the root cause of the crash and fix it",
    "the root cause is still unknown, keep digging",
    "see how it turned out",
    "it turned out fine, thanks",
    "I'm getting TypeError: 'NoneType' object is not subscriptable",
    "the build fails because of a missing import, fix it",
    "the request is blocked by CORS policy, how can I fix it?",
    "the request is blocked by the CORS policy, please fix it",
    "add a test for when we're blocked by the rate limiter",
    "add a blocked state to the task model",
    "implement the decision tree classifier",
    "rename DecisionMaker to Chooser",
    'add a column "decided_at" to the proposals table',
    "always the same error",
    "never mind, it works now",
    "it always fails on CI but never locally",
    "please update the README with the new instructions",
    "make the button blue instead of green",
    "replace requests with httpx in client.py",
    "use tabs instead of spaces in this file",
    "I prefer it that way",
    "I'd prefer if you asked first",
    "review the last commit",
    "show me the progress so far",
    "add a progress bar to the importer",
    "create a new branch and open a PR",
    "what's the difference between a list and a tuple?",
    "how do I undo the last commit",
    "summarize what we learned in this session",
    "list the lessons learned from the incident",
    "write a blog post about lessons learned in production",
    "document the [decision] marker in the README",
    "what does [decision] do?",
    "the markers are [decision], [learned], [blocker] and [progress]",
    "parse lines like `[decision] use X` in the importer",
    "see [decision](https://example.org/adr/7) for more",
    "[decision]: https://example.org/adr/7",
    "read https://example.org/we-decided-to-use-x/[decision] first",
    "weights[decision] = 0.5",
    "[decision]",
    '"we decided to use Redis" is what the old page says, check it',
    "the page says “[decision] use Redis”, is that so",
    "> we decided to use MongoDB\nis this still true",
    "I just merged main, please resolve the conflicts",
    "we're waiting for CI",
    "I'm stuck on this, help",
    "all tests pass now, commit it",
    "we should use a better name here",
    "we need to decide on a database",
    "we need to make a decision about the API soon",
    "the decision is yours",
    "the decision is how to stop the worker",
    "drop utc, we decided that in dev",
    "remember the last agent and make it the default",
    "Fixed by scanning on instead of breaking.",
    "The tests fail because of the following:",
    "help me decide between Vue and React",
    "I wonder if we should use protobuf instead of JSON",
    "once we decided to stop, the process should exit",
    "git log --oneline | head",
    "explain this:\n```\n[decision] use X\nwe decided to use Y\n```\nthanks",
    "explain this:\n~~~text\nwe decided to use Y\n~~~",
    "explain this:\n\n    we decided to use Y\n\tremember that X is slow\n",
    "    [decision] use Y",
    "<system-reminder>\nfrom now on always use tabs\n</system-reminder>\ncontinue",
    "<memory_context>\nWe decided to use Redis\n</memory_context>\ngo on",
    TRACE,
    PATCH,
    LOG,
]


class TestMarkers:
    def test_the_example_of_the_contract(self) -> None:
        found = only("Let's use PostgreSQL for the database [decision] because of JSONB support")
        assert (found.namespace, found.summary) == ("decisions", "Use PostgreSQL for the database")
        assert found.reason == "JSONB support"
        assert found.content == "Let's use PostgreSQL for the database because of JSONB support"
        assert found.marked
        assert found.confidence >= CERTAIN

    @pytest.mark.parametrize(("text", "namespace", "summary", "reason"), MARKED)
    def test_marks_what_stands_beside_it(
        self, text: str, namespace: str, summary: str, reason: str
    ) -> None:
        found = only(text)
        assert (found.namespace, found.summary, found.reason) == (namespace, summary, reason)
        assert found.marked
        assert CERTAIN <= found.confidence <= 1

    def test_what_follows_a_leading_marker_is_kept_to_the_end_of_its_line(self) -> None:
        found = only(
            "[learned] Retries need jitter. Without it, all clients come back at once.\nok"
        )
        assert found.summary == "Retries need jitter"
        assert found.content.endswith("Without it, all clients come back at once.")

    def test_several_on_one_line_part_it(self) -> None:
        found = signals.detect("[decision] Use Kafka. [learned] Redis was slow. It has one thread.")
        assert [one.content for one in found] == [
            "Use Kafka.",
            "Redis was slow. It has one thread.",
        ]
        found = signals.detect("We use Kafka [decision] and Redis was slow [learned]")
        assert [one.summary for one in found] == ["We use Kafka", "Redis was slow"]

    def test_a_second_marker_in_a_sentence_marks_what_follows_it(self) -> None:
        found = signals.detect("[progress] parser done [blocker] no disk space on ci")
        assert [(each.namespace, each.summary) for each in found] == [
            ("progress", "Parser done"),
            ("blockers", "No disk space on ci"),
        ]

    def test_of_two_markers_at_one_place_the_first_counts(self) -> None:
        assert only("[decision][learned] Use Kafka").namespace == "decisions"
        assert only("Use Kafka [learned] [decision]").namespace == "learnings"

    def test_a_marked_statement_is_not_told_twice(self) -> None:
        assert (
            len(signals.detect("[decision] We decided to use Kafka. We agreed to use topics.")) == 1
        )

    @pytest.mark.parametrize(
        ("marker", "namespace"),
        [
            ("#decision", "decisions"),
            ("TIL", "learnings"),
            ("[lesson]", "learnings"),
            ("BLOCKED:", "blockers"),
            ("@done", "progress"),
            ("(review)", "reviews"),
            ("**pattern**", "patterns"),
            ("[retro]", "retrospective"),
            ("[goal]", "inception"),
            ("[requirement]", "elicitation"),
            ("[my research]", "research"),
            ("[memo.*]", "learnings"),
            ("!!", "learnings"),
        ],
    )
    def test_own_markers_are_taken_literally(self, marker: str, namespace: str) -> None:
        assert namespace in NAMESPACES
        for text in (f"{marker} the cache is cold", f"the cache is cold {marker.upper()}"):
            found = only(text, (marker,))
            assert (found.namespace, found.summary) == (namespace, "The cache is cold")
            assert found.marked

    def test_a_marker_that_is_a_word_is_not_found_inside_another(self) -> None:
        assert signals.detect("wait until it ends, the tilde is fine", ("TIL", "", "  ")) == []

    def test_without_markers_phrases_are_still_heard(self) -> None:
        assert not only("We decided to use Kafka", ()).marked
        assert signals.detect("[decision] Kafka", ()) == []


class TestPhrases:
    @pytest.mark.parametrize(("text", "namespace", "summary", "confidence"), SPOKEN)
    def test_strong_ones(self, text: str, namespace: str, summary: str, confidence: float) -> None:
        found = only(text)
        assert not found.marked
        assert (found.namespace, found.summary) == (namespace, summary)
        assert 0.8 <= found.confidence < CERTAIN
        assert found.confidence == confidence

    @pytest.mark.parametrize(("text", "namespace", "summary"), LIKELY)
    def test_likely_ones(self, text: str, namespace: str, summary: str) -> None:
        found = only(text)
        assert (found.namespace, found.summary) == (namespace, summary)
        assert SUGGESTED <= found.confidence < 0.8

    @pytest.mark.parametrize("text", WEAK)
    def test_weak_ones_are_told_too(self, text: str) -> None:
        assert 0 < only(text).confidence < SUGGESTED

    def test_a_reason_counts_wherever_it_stands(self) -> None:
        plain = only("We decided to use PostgreSQL")
        for text in (
            "We decided to use PostgreSQL because of JSONB support.",
            "Because of JSONB support, we decided to use PostgreSQL.",
            "We decided to use PostgreSQL, due to JSONB support",
        ):
            found = only(text)
            assert (found.summary, found.reason) == ("Use PostgreSQL", "JSONB support")
            assert plain.confidence < found.confidence < CERTAIN

    def test_since_a_time_is_no_reason(self) -> None:
        assert only("We decided to use Kafka since version 2 works").reason == ""
        assert only("We decided to use Kafka since it scales").reason == "it scales"

    def test_each_sentence_is_a_statement(self) -> None:
        found = signals.detect(
            "We decided to use Kafka. Run the tests! The root cause was a stale lock; "
            "we're blocked by the infra team"
        )
        assert [one.namespace for one in found] == ["decisions", "learnings", "blockers"]
        assert [one.content for one in found][:2] == [
            "We decided to use Kafka.",
            "The root cause was a stale lock",
        ]

    def test_a_statement_of_two_phrases_is_one_signal(self) -> None:
        assert only("remember that we decided to use Kafka").confidence == 0.88

    def test_a_wrapped_sentence_is_read_as_one(self) -> None:
        found = only(
            "After a long discussion of the alternatives we decided to use\nPostgreSQL\n".lower()
            + "because of JSONB\n\nrun the tests"
        )
        assert (found.summary, found.reason) == ("Use postgresql", "JSONB")

    def test_what_is_said_twice_counts_once(self) -> None:
        only("We decided to use Kafka.\n\nOk?\n\nLet's use Kafka.")

    def test_a_quoted_name_is_part_of_what_is_said(self) -> None:
        assert only('We decided to call it "the ledger"').summary == 'Call it "the ledger"'


class TestInnocentPrompts:
    @pytest.mark.parametrize("text", INNOCENT)
    def test_are_not_worth_suggesting(self, text: str) -> None:
        assert surest(text) < SUGGESTED

    def test_there_are_enough_of_them(self) -> None:
        assert len(set(INNOCENT)) >= 60


class TestWhatIsShown:
    def test_has_no_decoration(self) -> None:
        found = only(
            "1. [decision] Use **bold** and *thin* __big words__ ~~old~~ `code` in "
            "[the docs](https://example.org), not __init__ or **/x"
        )
        assert found.summary == (
            "Use bold and thin big words old code in the docs, not __init__ or **/x"
        )

    def test_has_no_markup_of_ours_and_no_control_characters(self) -> None:
        found = only("[decision] Use </summary> the\x00 \x1b[31mred\x1b[0m <memory_context>\ttheme")
        assert found.summary == "Use the red theme"
        assert "\x1b" not in found.content
        assert "\x00" not in found.content

    def test_a_long_statement_is_cut_at_a_word(self) -> None:
        found = only("[decision] Use " + "very " * 100 + "long names")
        assert found.summary.endswith("very…")
        assert len(found.summary) <= MAX_SUMMARY_CHARS
        assert found.content.endswith("long names")

    @pytest.mark.parametrize(
        "said",
        [
            ".env stays out of git",
            "--strict is on",
            "*.py is linted",
            "~/.cache is shared",
            "Use C#",
        ],
    )
    def test_a_sign_that_belongs_to_a_name_stays(self, said: str) -> None:
        assert only(f"[decision] {said}").summary == said
        assert only(f"{said} **[decision]**").summary == said

    def test_a_name_in_small_letters_keeps_them(self) -> None:
        assert only("it turns out that pytest.ini is ignored").summary == "pytest.ini is ignored"

    def test_a_broken_character_does_not_break_a_memory(self) -> None:
        found = only("[decision] Use \ud800 emoji")
        Draft(namespace=found.namespace, summary=found.summary, content=found.content)


class TestLimits:
    def test_at_most_ten_and_the_surest(self) -> None:
        text = "\n".join(f"let's use library{n}" for n in range(30))
        text += "\n".join(f"\n[decision] Use tool{n}" for n in range(8))
        found = signals.detect(text)
        assert len(found) == MAX_SIGNALS
        assert [one.summary for one in found[:2]] == ["Use library0", "Use library1"]
        assert [one.summary for one in found[2:]] == [f"Use tool{n}" for n in range(8)]

    def test_only_the_beginning_of_a_huge_text_is_read(self) -> None:
        filler = "nothing to see here\n" * (MAX_READ // 20 + 1)
        assert signals.detect(filler + "[decision] Use Kafka") == []
        assert len(signals.detect("[decision] Use Kafka\n" + filler * 20)) == 1

    # Were one of the patterns not linear, any of these would take minutes.
    @pytest.mark.parametrize(
        "unit",
        [
            "we decided to ", "[decision] ", "[decision]\n", "[decision]. ", "[decision], ",
            "let's drop ", "the root ", "root ", "the root cause of ", "lesson learned. ", "we ",
            "because ", "since ", "we can't ship ", "remember that ", "instead of ", "what x ",
            "if ", "not ", "ok, ", "decided\n\n", "“", '"', "'a ", "`", "*a", "_a ", "__a ", "**",
            ".", "! ", "- ", "1. ", "[a](", "[", "a", " ", "\t", "f0", "https://", "<!-- ", "\x1b]",
            "\x1b[0", "\ud800", "<memory_context>", "<memory_context ", "<system-reminder",
        ],
    )  # fmt: skip
    def test_no_text_is_costly(self, unit: str) -> None:
        for before in ("", "we decided to use it ", '[decision] "'):
            assert len(signals.detect(before + unit * (MAX_READ // len(unit)))) <= MAX_SIGNALS
