"""What is said briefly of the last work of a project."""

from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import Hit
from agent_memory.features.recall.model.contexts import ContextItem
from agent_memory.features.recall.services.recent_work import ProjectWork
from agent_memory.kernel.ids import Millis


def item(label: str, text: str = "") -> ContextItem:
    document = Document(
        kind=DocumentKind.GRIP,
        id=f"{label}{text}",
        owner=Owner("segment:1"),
        at_ms=Millis(0),
        text=text or label,
    )
    return ContextItem(hit=Hit(document=document, score=0.5, parts={}), label=label)


def labels(*items: ContextItem) -> list[str]:
    return [each.label for each in ProjectWork(left_off=list(items)).shorten().left_off]


def test_what_was_finished_and_not_its_parts() -> None:
    some = [item("finished"), item("done", "a"), item("done", "b"), item("open"), item("state")]
    assert labels(*some) == ["finished", "state"]


def test_how_far_it_came_if_it_was_not_finished() -> None:
    some = [item("asked"), item("broken"), item("done"), item("note"), item("open")]
    assert labels(*some) == ["broken", "asked", "done"]


def test_little_of_what_came_before() -> None:
    many = [item("decided", str(number)) for number in range(9)]
    brief = ProjectWork(decided=many, earlier=many, unsolved=many).shorten()
    assert (len(brief.decided), len(brief.earlier), brief.unsolved) == (2, 2, [])
