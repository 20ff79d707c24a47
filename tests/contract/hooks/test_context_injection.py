"""Context injection: an agent gets its project's memories, within the budget, and once."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from agent_memory.features.hooks.services.context_injection import (
    MAX_INJECTED,
    MAX_SESSIONS,
    RELATED,
    ContextInjection,
)
from agent_memory.features.lessons.model.lessons import (
    KnownLesson,
    LessonVerdict,
    VerdictState,
)
from agent_memory.features.lessons.services.moments import LessonMoments
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.memories.adapters.memory_store import StoredMemories
from agent_memory.features.memories.model.memories import Draft, Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.recall.model.contexts import ContextRequest
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.recent_work import RecentWork
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.kernel.ids import USER, Domain, EventId, Millis, SessionId
from tests.recall_parts import DAY, NOW, FixedClock, RecallHarness, make_dialogue, open_recall
from tests.unit.lessons.make_lessons import make_lesson

SHOP = MemoryLocation(domain=Domain("project:shop"), home=Home("/shop/.git"), branch="main")
OTHER = MemoryLocation(domain=Domain("project:other"), home=Home("/other/.git"))
OWN = MemoryLocation(domain=USER, home=Home("/user.git"))


def make_moments(*lessons: KnownLesson) -> LessonMoments:
    """Moments with these lessons of the shop, without an embedder."""

    return LessonMoments(
        list_lessons=lambda project: lessons if project == "shop" else (),
        embed=lambda _: None,
        note_outcome=lambda _name, _outcome: None,
        retire=lambda _name: None,
        zone=UTC,
    )


class Telling:
    """Context injection with a real store, a real index, and memories."""

    def __init__(self, parts: RecallHarness) -> None:
        self.parts = parts
        self.briefing = ContextInjection(
            context=ContextBuilder(
                recall=parts.recall, work=RecentWork(recall=parts.recall, toc=parts.toc)
            ),
            recall=parts.recall,
            moments=make_moments(),
        )
        self._capture = Capture(
            memories=StoredMemories(parts.store),
            log=parts.log,
            secrets=PassThrough(),
            clock=FixedClock(),
            on_capture=lambda: None,
        )

    def keep(
        self,
        summary: str,
        namespace: str = "decisions",
        *,
        place: MemoryLocation = SHOP,
        status: MemoryStatus = MemoryStatus.ACTIVE,
        at_ms: int = NOW,
    ) -> Memory:
        draft = Draft(namespace=namespace, summary=summary, status=status)
        capture = replace(self._capture, clock=FixedClock(Millis(at_ms)))
        stored = capture.capture(draft, place).memory
        self.parts.keep_up()
        return stored

    def work(self, session: str, at_ms: int, asked: str, answered: str) -> None:
        """Record a session that changes a file."""
        tool = {"tool_name": "Edit", "file_path": "/shop/orders.py"}
        said = [
            (EventType.USER_MESSAGE, EventRole.USER, asked, {}),
            (EventType.TOOL_RESULT, EventRole.TOOL, "Edit: /shop/orders.py", tool),
            (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT, answered, {}),
        ]
        self.parts.keep(
            *(
                Event(
                    event_id=EventId(f"{session}-{number}"),
                    session_id=SessionId(session),
                    at_ms=Millis(at_ms + 1000 * number),
                    type=kind,
                    role=role,
                    text=text,
                    metadata={"project": "shop", **more},
                )
                for number, (kind, role, text, more) in enumerate(said)
            )
        )
        self.parts.cut()
        self.parts.keep_up()

    def start(self, session: str = "s", **wanted: object) -> str:
        return self.briefing.build_for_start(session, SHOP, ContextRequest(**wanted)).text  # type: ignore[arg-type]

    def about(self, path: str, session: str = "s") -> str:
        return self.briefing.build_for_file(session, SHOP, path).text


@pytest.fixture
def telling(tmp_path: Path) -> Iterator[Telling]:
    with open_recall(tmp_path) as parts:
        yield Telling(parts)


class TestStart:
    def test_what_blocks_and_what_was_decided(self, telling: Telling) -> None:
        telling.keep("Use PostgreSQL for orders")
        telling.keep("The payment sandbox is down", "blockers")
        text = telling.start()
        assert "<project>shop</project>" in text
        assert "<branch>main</branch>" in text
        assert text.index("payment sandbox") < text.index("PostgreSQL")

    def test_each_has_its_uri_and_a_relevance(self, telling: Telling) -> None:
        """How well it answers the branch; where it does not, how recent it is, and that it is."""
        asked = telling.keep("Orders are kept in PostgreSQL")
        new = telling.keep("Invoices are sent on Mondays")
        old = telling.keep("Parcels are weighed by hand", at_ms=NOW - 60 * DAY)
        talk = make_dialogue("The quay was mended.", "By whom was it mended?", "By the mason.")
        telling.parts.keep(*(replace(each, metadata={"project": "shop"}) for each in talk))
        telling.parts.cut()
        telling.parts.keep_up()
        place = replace(SHOP, branch="feature/postgresql-orders")
        found = {
            each.get("uri", ""): (float(each.get("relevance", "-1")), each.get("by"))
            for each in ET.fromstring(  # noqa: S314
                telling.briefing.build_for_start("s", place, ContextRequest()).text
            ).iter("resource")
        }
        assert all(uri.startswith(("subcog://", "memory://grips/grip:")) for uri in found), found
        assert any(uri.startswith("memory://grips/") for uri in found), found
        assert all(0.0 <= relevance <= 1.0 for relevance, _ in found.values()), found
        assert found[asked.urn][0] > 0.2
        assert found[asked.urn][1] is None
        assert found[new.urn] == (1.0, "recency")
        assert found[old.urn] == (0.14, "recency")

    def test_where_the_last_session_left_off_comes_first_then_what_is_open(
        self, telling: Telling
    ) -> None:
        telling.keep("The payment sandbox is down", "blockers")
        telling.keep("Use PostgreSQL for orders")
        telling.work(
            "one",
            NOW - DAY,
            "Add a coupon field",
            "Added the coupon field. Not done: its API test.",
        )
        telling.work(
            "two",
            NOW - DAY // 24,
            "Fix the invoice totals",
            "Fixed the invoice totals. The cause was rounding before tax. All 41 tests pass.",
        )
        resources = [
            (each.get("from"), each.get("kind") or each.get("namespace"), each.findtext("summary"))
            for each in ET.fromstring(telling.start()).iter("resource")  # noqa: S314
        ]
        assert resources == [
            ("last session", "finished", "Fixed the invoice totals."),
            ("last session", "state", "All 41 tests pass."),
            ("last session", "found", "The cause was rounding before tax."),
            (None, "blockers", "The payment sandbox is down"),
            (None, "open", "Not done: its API test."),
            (None, "decisions", "Use PostgreSQL for orders"),
            (None, "finished", "Added the coupon field."),
        ]

    def test_a_sentence_is_there_once(self, telling: Telling) -> None:
        telling.keep("We decided to keep orders in PostgreSQL")
        telling.work("one", NOW - DAY, "Where do orders go?", "Noted.")
        telling.work(
            "two", NOW - DAY // 2, "We decided to keep orders in PostgreSQL.", "Changed the code."
        )
        assert telling.start().count("keep orders in PostgreSQL") == 1

    def test_a_session_is_not_reminded_of_itself(self, telling: Telling) -> None:
        telling.work("one", NOW - DAY, "Fix the totals", "Fixed the totals of all invoices.")
        build = telling.briefing.context.build
        assert "invoices" in build(ContextRequest(project="shop", session="two")).text
        assert build(ContextRequest(project="shop", session="one")).text == ""

    def test_subagents_do_not_take_the_places_of_the_conversation(self, telling: Telling) -> None:
        telling.work("main", NOW - DAY, "Move the orders to PostgreSQL", "The orders are moved.")
        telling.work("main/a1", NOW - DAY + 60_000, "List all files", "There are 12 files.")
        text = telling.start()
        assert "orders" in text
        assert "12 files" not in text

    def test_nothing_of_other_projects(self, telling: Telling) -> None:
        telling.keep("Use MySQL for parcels", place=OTHER)
        assert telling.start() == ""

    def test_guidance_as_it_is_wanted(self, telling: Telling) -> None:
        assert telling.start() == ""
        assert telling.start(guidance="minimal").count("<guidance>") == 1
        assert telling.start(guidance="detailed").count("<guidance>") > 2

    @pytest.mark.parametrize("tokens", [30, 100, 400, 2_000])
    def test_never_more_than_its_budget(self, telling: Telling, tokens: int) -> None:
        for number in range(10):
            telling.keep(f"Decision {number}: {'because of the weather ' * 3}".strip())
        text = telling.start(tokens=tokens, guidance="standard")
        assert estimate_tokens(text) <= tokens
        assert (text != "") is (tokens > 60)

    def test_after_a_compaction_all_of_it_again(self, telling: Telling) -> None:
        telling.keep("Use PostgreSQL for orders")
        first = telling.start()
        assert "PostgreSQL" in first
        assert telling.start() == first

    def test_no_sentence_of_a_rejected_lesson_and_a_rule_once(self, telling: Telling) -> None:
        rule = "From now on always format the python code with black, never with yapf."
        telling.work("one", NOW - DAY, rule, "Formatted the python code. All 41 tests pass.")
        assert telling.start(plain=True).count("black") == 1

        known = make_lesson(rule)
        telling.briefing = replace(telling.briefing, moments=make_moments(known))
        text = telling.start(plain=True)
        assert text.count("black") == 1
        assert "- rule, the user" in text

        verdict = LessonVerdict(
            fingerprint=known.lesson.fingerprint, state=VerdictState.REJECTED, at_ms=Millis(NOW)
        )
        rejected = replace(known, verdict=verdict)
        telling.briefing = replace(telling.briefing, moments=make_moments(rejected))
        text = telling.start(plain=True)
        assert "black" not in text
        assert "41 tests pass" in text
        assert "black" not in telling.start()


class TestRelated:
    def test_memories_that_have_to_do_with_the_file(self, telling: Telling) -> None:
        stored = telling.keep("Payment retries are capped at five")
        text = telling.about("/shop/src/payment_retries.py")
        assert text.startswith("<related_memories>")
        assert stored.urn in text

    @pytest.mark.parametrize(
        "path", ["/shop/src/PaymentRetries.ts", "/shop/payment/retries.go", "payment-retries"]
    )
    def test_names_are_read_as_people_write_them(self, telling: Telling, path: str) -> None:
        telling.keep("Payment retries are capped at five")
        assert "capped at five" in telling.about(path)

    def test_the_users_own_count_and_other_projects_do_not(self, telling: Telling) -> None:
        telling.keep("Payment code is reviewed by two people", place=OWN)
        telling.keep("Payment retries are forbidden", place=OTHER)
        text = telling.about("/shop/src/payment.py")
        assert "reviewed by two" in text
        assert "forbidden" not in text

    def test_each_once_in_a_session(self, telling: Telling) -> None:
        telling.keep("Payment retries are capped at five")
        assert telling.about("/shop/src/payment.py") != ""
        assert telling.about("/shop/src/payment.py") == ""
        assert telling.about("/shop/src/payment.py", session="another") != ""

    def test_not_what_the_session_began_with(self, telling: Telling) -> None:
        telling.keep("Payment retries are capped at five")
        assert "capped at five" in telling.start()
        assert telling.about("/shop/src/payment.py") == ""

    def test_after_a_compaction_again(self, telling: Telling) -> None:
        telling.keep("Payment retries are capped at five")
        telling.about("/shop/src/payment.py")
        telling.briefing.history.forget("s")
        assert telling.about("/shop/src/payment.py") != ""

    def test_at_most_three_and_then_the_next(self, telling: Telling) -> None:
        for number in range(5):
            telling.keep(f"Payment rule number {number}")
        first, second = telling.about("/src/payment.py"), telling.about("/src/payment.py")
        assert (first.count("<memory "), second.count("<memory ")) == (RELATED, 2)
        assert telling.about("/src/payment.py") == ""

    @pytest.mark.parametrize("path", ["/shop/billing/payment.py", "/shop/payment/handler.py"])
    def test_a_name_that_no_memory_has_hides_nothing(self, telling: Telling, path: str) -> None:
        """Neither the folder's nor the file's."""
        telling.keep("Payment retries are capped at five")
        assert "capped at five" in telling.about(path)

    @pytest.mark.parametrize(
        "path", ["/src/main.py", "/tests/__init__.py", "/", "", "/a/b/index.ts"]
    )
    def test_names_that_everyone_has_find_nothing(self, telling: Telling, path: str) -> None:
        telling.keep("The main index of the tests is in src")
        assert telling.about(path) == ""

    def test_nothing_that_has_nothing_to_do_with_it(self, telling: Telling) -> None:
        telling.keep("Payment retries are capped at five")
        assert telling.about("/shop/src/lighthouse.py") == ""

    def test_archived_ones_are_not_told(self, telling: Telling) -> None:
        telling.keep("Payment retries are capped at five", status=MemoryStatus.ARCHIVED)
        assert telling.about("/shop/src/payment.py") == ""

    def test_for_a_prompt(self, telling: Telling) -> None:
        for number in range(5):
            telling.keep(f"Payment rule number {number}")
        text = telling.briefing.build_for_prompt("s", SHOP, "Which payment rule?").text
        assert text.count("<memory ") == RELATED
        assert telling.briefing.build_for_prompt("s", SHOP, "?!").text == ""

    def test_a_prompt_longer_than_any_question(self, telling: Telling) -> None:
        telling.keep("Payment rule number one")
        assert telling.briefing.build_for_prompt("s", SHOP, "payment " * 100_000).text != ""


class TestWhatIsRemembered:
    def test_it_has_its_bounds(self, telling: Telling) -> None:
        telling.keep("Payment retries are capped at five")
        telling.about("/shop/src/payment.py", session="first")
        for number in range(MAX_SESSIONS):
            telling.briefing.history.take(f"session {number}", [], 1)
        assert telling.about("/shop/src/payment.py", session="first") != ""
        assert MAX_INJECTED > RELATED
