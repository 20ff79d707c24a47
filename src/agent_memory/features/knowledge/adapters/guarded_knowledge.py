"""The knowledge of a team server: each caller sees facts of their projects and their own.

Scoped callers see nothing else of it: episodes, procedures, users and sessions belong to no
project.
"""

from collections.abc import Sequence

from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeRecord, R
from agent_memory.kernel import access
from agent_memory.kernel.access import Principal
from agent_memory.kernel.errors import Forbidden

_PAGE = 500
_MOST = 100_000  # facts that a listing reads


class GuardedKnowledge(StoredKnowledge):
    def get(self, kind: type[R], names: Sequence[str], /) -> list[R | None]:
        return [
            record if record is not None and self._sees(record) else None
            for record in super().get(kind, names)
        ]

    def list_page(
        self, kind: type[R], /, *, limit: int, offset: int, **filters: str | None
    ) -> tuple[list[R], int]:
        caller = access.get_caller()
        if caller is None or (kind is not Fact and not caller.is_scoped):
            return super().list_page(kind, limit=limit, offset=offset, **filters)
        # `get` leaves records out, so the number of all is that of those which are seen.
        seen: list[R] = []
        for start in range(0, _MOST, _PAGE):
            page, total = super().list_page(kind, limit=_PAGE, offset=start, **filters)
            seen += page
            if start + _PAGE >= total:
                break
        return seen[offset : offset + limit], len(seen)

    def list_after(self, kind: type[R], name: str, /, *, limit: int) -> list[R]:
        found = super().list_after(kind, name, limit=limit)
        return [record for record in found if self._sees(record)]

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
        return super().commit(changes, cursor=cursor, wait=wait)

    def _sees(self, record: KnowledgeRecord) -> bool:
        caller = access.get_caller()
        if caller is None:
            return True
        if isinstance(record, Fact):
            return caller.sees_domain(record.scope)
        if isinstance(record, Former):
            return self._sees_former(caller, record)
        return not caller.is_scoped

    def _sees_former(self, caller: Principal, record: Former) -> bool:
        (fact,) = StoredKnowledge.get(self, Fact, [record.fact_id])
        return not caller.is_scoped if fact is None else caller.sees_domain(fact.scope)
