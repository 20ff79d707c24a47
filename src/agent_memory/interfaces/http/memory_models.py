"""Answers of REST about memories: versions, duplicates, changes of many, undo and forgetting."""

from agent_memory.interfaces.http.models import ResponseModel

Marks = dict[str, list[tuple[int, int]]]


class MemoryOutlineAnswer(ResponseModel):
    """A memory without its content."""

    id: str
    uri: str
    namespace: str
    domain: str
    summary: str
    timestamp: str
    timestamp_ms: int
    updated_at: str
    spec: str | None
    tags: list[str]
    relates_to: list[str]
    status: str
    commit: str | None
    superseded_by: str | None
    event_id: str | None
    session_id: str | None
    author: str | None
    agent: str | None
    interface: str | None


class MemoryAnswer(MemoryOutlineAnswer):
    content: str


class ComparedMemoryAnswer(MemoryAnswer):
    """`marks` are the places of the words that differ from another memory, by the name of the part;
    `kept_marks` those of the other."""

    marks: Marks
    kept_marks: Marks


class DuplicateGroupAnswer(ResponseModel):
    kept: MemoryAnswer
    superseded: list[ComparedMemoryAnswer]


class DuplicatesAnswer(ResponseModel):
    """`considered` memories were compared; of all groups, `merges` has the first."""

    considered: int
    total: int
    merges: list[DuplicateGroupAnswer]
    skipped: list[str]


class ChangeAnswer(ResponseModel):
    """`change` names what undo takes back; null if nothing was recorded for it."""

    change: str | None


class MergedAnswer(ChangeAnswer):
    superseded: list[str]
    skipped: list[str]


class UndoAnswer(ChangeAnswer):
    """The memories that are restored, archived, or left because they have changed since."""

    action: str
    changed_at: str
    changed_at_ms: int
    undone: bool
    restored: list[str]
    archived: list[str]
    left: list[str]


class TagChangeAnswer(ResponseModel):
    name: str
    at_ms: int
    present: bool


class VersionAnswer(MemoryAnswer):
    """A version, compared with the one that superseded it; the newest has no marks."""

    marks: Marks | None = None
    kept_marks: Marks | None = None
    changed: list[str]
    tag_changes: list[TagChangeAnswer]


class VersionsAnswer(ResponseModel):
    versions: list[VersionAnswer]


class RefusalAnswer(ResponseModel):
    id: str
    reason: str


class BatchChangeAnswer(ChangeAnswer):
    changed: list[MemoryOutlineAnswer]
    refused: list[RefusalAnswer]


class SearchedAnswer(ResponseModel):
    pieces: int
    files: int
    bytes: int
    unreadable: list[str]


class ForgettingAnswer(ResponseModel):
    """What was removed and rewritten. `found_in` names what still has the words; `unreachable` are
    copies that no search reaches. `searched` is null if nothing was forgotten. On a team server,
    what a key asks to erase waits until `waits_until_ms`."""

    memories: int = 0
    events: int = 0
    segments: int = 0
    nodes: int = 0
    versions: int = 0
    grips: int = 0
    found_in: list[str]
    unreachable: list[str]
    waits_until_ms: int | None = None
    searched: SearchedAnswer | None


class ForgottenMemoryAnswer(ForgettingAnswer):
    forgotten: str
    uri: str


class BatchForgetAnswer(ForgettingAnswer):
    forgotten: list[str]
    refused: list[RefusalAnswer]
