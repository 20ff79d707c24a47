"""The knowledge of a team server: each caller sees facts of their projects and their own.

Scoped callers see nothing else of it: episodes, procedures, users and sessions belong to no
project.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.ports import (
    KnowledgeChange,
    KnowledgeRecord,
    KnowledgeStore,
    R,
)
from agent_memory.kernel import access
from agent_memory.kernel.errors import Forbidden


class GuardedKnowledge:
    """A KnowledgeStore."""

    OPEN: ClassVar[Mapping[str, str]] = {
        "version": "the number of changes is shown to nobody; caches compare it",
        "cursor": "the job that learns reads it, on nobody's behalf",
    }

    def __init__(self, store: KnowledgeStore) -> None:
        self._store = store

    def get(self, kind: type[R], names: Sequence[str], /) -> list[R | None]:
        return [
            record if record is not None and self._sees(record) else None
            for record in self._store.get(kind, names)
        ]

    def list_page(
        self, kind: type[R], /, *, limit: int, offset: int, **filters: str | None
    ) -> tuple[list[R], int]:
        caller = access.get_caller()
        if caller is None or (kind is not Fact and not caller.is_scoped):
            return self._store.list_page(kind, limit=limit, offset=offset, **filters)
        # The number of all is that of those which the caller sees.
        _, total = self._store.list_page(kind, limit=1, offset=0, **filters)
        found, _ = self._store.list_page(kind, limit=total, offset=0, **filters)
        seen = list(filter(self._sees, found))
        return seen[offset : offset + limit], len(seen)

    def list_after(self, kind: type[R], name: str, /, *, limit: int) -> list[R]:
        return access.take_visible(
            lambda most: self._store.list_after(kind, name, limit=most), self._sees, limit
        )

    def commit(
        self, changes: Sequence[KnowledgeChange], /, *, cursor: int | None = None, wait: bool = True
    ) -> bool:
        """Apply all changes or none. Raises Forbidden."""
        caller = access.get_caller()
        if caller is not None:
            for change in changes:
                if any(each is not None and not self._sees(each) for each in change):
                    raise Forbidden(
                        f"you may not write this: {access.describe_scope(caller)}; the scope of a"
                        " fact of a project is project:NAME"
                    )
        return self._store.commit(changes, cursor=cursor, wait=wait)

    def version(self, kind: type[KnowledgeRecord], /) -> int:
        return self._store.version(kind)

    def cursor(self) -> int | None:
        return self._store.cursor()

    def _sees(self, record: KnowledgeRecord) -> bool:
        caller = access.get_caller()
        if caller is None:
            return True
        if isinstance(record, Fact):
            return caller.sees_domain(record.scope)
        if isinstance(record, Former):
            (fact,) = self._store.get(Fact, [record.fact_id])
            return not caller.is_scoped if fact is None else caller.sees_domain(fact.scope)
        return not caller.is_scoped
