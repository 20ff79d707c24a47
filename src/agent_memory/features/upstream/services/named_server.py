"""Translate the names of projects between this machine and the team's server."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import Hit, Query, RecallResult
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.metadata import REPOSITORY
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.recall.ports import TeamRecord
from agent_memory.features.upstream.model import merging, scopes
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.model.records import (
    ChangePage,
    ForgottenEvent,
    RecordBatch,
    SendOutcome,
    ServerProject,
    TeamChange,
    TeamIdentity,
)
from agent_memory.features.upstream.model.scopes import SharedProject, SharedScope
from agent_memory.features.upstream.ports import AgreedNames, TeamServer
from agent_memory.kernel.ids import Domain, KnowledgeId, MemoryKey


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A TeamServer. Callers use the names of this machine, and the server its own."""

    server: TeamServer
    agreed: Sequence[SharedProject]
    names: AgreedNames

    def identify(self, client: str = "", /) -> TeamIdentity:
        return self.server.identify(client)

    def find_project(self, repository: str, name: str, /) -> ServerProject:
        return self.server.find_project(repository, name)

    def claim_project(self, repository: str, name: str, /, *, join: bool = False) -> str:
        return self.server.claim_project(repository, name, join=join)

    def send(self, batch: RecordBatch, /) -> SendOutcome:
        there = self._get_names_there()
        twins = self._pair_facts(batch.facts, there)
        twins |= self.names.find_twins([stone.id for stone in batch.removed_facts])
        named = replace(
            batch,
            events=tuple(map(self._name_event, batch.events)),
            memories=tuple(_rename_memory(memory, there) for memory in batch.memories),
            facts=tuple(
                replace(fact, id=twins[fact.id], scope=_rename(fact.scope, there))
                for fact in batch.facts
            ),
            removed_facts=tuple(
                replace(stone, id=twins.get(stone.id, stone.id), scope=_rename(stone.scope, there))
                for stone in batch.removed_facts
            ),
        )
        sent = {
            *(event.metadata.get("project", "") for event in named.events),
            *(scopes.get_project(memory.domain) for memory in named.memories),
            *(scopes.get_project(fact.scope) for fact in named.facts),
        }
        stated = {each.there: each.repository for each in self.agreed if each.there in sent}
        outcome = self.server.send(replace(named, projects=stated))
        here = self._get_names_here()
        lowered = (self._localize(each, here) for each in outcome.lowered)
        return replace(
            outcome, lowered=tuple(e for e in lowered if not isinstance(e, ForgottenEvent))
        )

    def list_changes(
        self, after: str, scope: SharedScope, /, *, client: str = "", limit: int
    ) -> ChangePage:
        page = self.server.list_changes(after, self._name_scope(scope), client=client, limit=limit)
        here = self._get_names_here()
        changes: list[TeamChange] = []
        people: dict[MemoryKey | KnowledgeId, str] = {}
        for change in page.changes:
            if not _is_known(change, here):
                continue  # nobody asked for it, and its project may be another one of that name
            local = self._localize(change, here)
            changes.append(local)
            if isinstance(local, Memory) and isinstance(change, Memory):
                people[local.key] = page.people.get(change.key, "")
            elif isinstance(local, Fact) and isinstance(change, Fact):
                people[local.id] = page.people.get(change.id, "")
        return replace(page, changes=tuple(changes), people=people)

    def search(self, query: Query, scope: SharedScope, /) -> RecallResult:
        there, asked = self._get_names_there(), query.scope
        named = replace(
            asked,
            project=there.get(asked.project, asked.project),
            domains=frozenset(_rename(domain, there) for domain in asked.domains),
        )
        found = self.server.search(replace(query, scope=named), self._name_scope(scope))
        here = self._get_names_here()
        return replace(found, hits=tuple(self._localize_hit(hit, here) for hit in found.hits))

    def open(self, uri: str, scope: SharedScope, /, *, around: int) -> TeamRecord:
        named = _rename_uri(uri, self._get_names_there())
        opened = self.server.open(named, self._name_scope(scope), around=around)
        here = self._get_names_here()
        record = opened.record
        return replace(
            opened,
            record=_rename_event(record, here)
            if isinstance(record, Event)
            else _rename_memory(record, here)
            if isinstance(record, Memory)
            else self._localize_fact(record, here),
            before=tuple(_rename_event(event, here) for event in opened.before),
            after=tuple(_rename_event(event, here) for event in opened.after),
        )

    def _get_names_there(self) -> Mapping[str, str]:
        return {each.name: each.there for each in self.agreed}

    def _get_names_here(self) -> Mapping[str, str]:
        return {each.there: each.name for each in self.agreed}

    def _name_scope(self, scope: SharedScope) -> SharedScope:
        there = self._get_names_there()
        return SharedScope(frozenset(there.get(name, name) for name in scope.names))

    def _name_event(self, event: Event) -> Event:
        """Return an event with the name of its repository: its project may have another one."""
        repository = event.metadata.get(REPOSITORY, "")
        names = {each.repository: each.there for each in self.agreed}
        if repository not in names:
            return event
        return replace(event, metadata={**event.metadata, "project": names[repository]})

    def _pair_facts(
        self, facts: Iterable[Fact], there: Mapping[str, str]
    ) -> dict[KnowledgeId, KnowledgeId]:
        """Return the ids of facts on the server, and keep those that differ."""
        pairs = {
            fact.id: merging.derive_fact_id(replace(fact, scope=_rename(fact.scope, there)))
            for fact in facts
        }
        self.names.pair_facts({one: other for one, other in pairs.items() if one != other})
        return pairs

    def _localize(self, change: TeamChange, here: Mapping[str, str]) -> TeamChange:
        match change:
            case Memory():
                return _rename_memory(change, here)
            case Fact():
                return self._localize_fact(change, here)
            case FactTombstone():
                known = self.names.find_facts_here([change.id])
                name = known.get(change.id, change.id)
                return replace(change, id=name, scope=_rename(change.scope, here))
            case ForgottenEvent():
                return change

    def _localize_fact(self, fact: Fact, here: Mapping[str, str]) -> Fact:
        local = replace(fact, scope=_rename(fact.scope, here))
        local = replace(local, id=merging.derive_fact_id(local))
        if local.id != fact.id:
            self.names.pair_facts({local.id: fact.id})
        return local

    def _localize_hit(self, hit: Hit, here: Mapping[str, str]) -> Hit:
        document = hit.document
        name, uri = document.id, _rename_uri(hit.uri, here)
        if document.kind is DocumentKind.MEMORY:
            name = _rename_uri(name, here)
        elif document.kind is DocumentKind.FACT:
            # Only to see that the fact is here too: it is opened by the id that it has there.
            known = self.names.find_facts_here([KnowledgeId(name)])
            name = known.get(KnowledgeId(name), name)
        return replace(
            hit,
            uri=uri,
            document=replace(
                document,
                id=name,
                project=here.get(document.project, document.project),
                domain=_rename(document.domain, here),
            ),
        )


def _is_known(change: TeamChange, here: Mapping[str, str]) -> bool:
    """Tell whether a change is of no project, or of one whose name is agreed."""
    match change:
        case Memory():
            project = scopes.get_project(change.domain)
        case Fact() | FactTombstone():
            project = scopes.get_project(change.scope)
        case ForgottenEvent():
            project = ""
    return not project or project in here


def _rename(domain: str, names: Mapping[str, str]) -> str:
    """Return the domain or scope of a project under its other name, and any other as it is."""
    name = scopes.get_project(domain)
    return scopes.build_domain(names[name]) if name in names else domain


def _rename_memory(memory: Memory, names: Mapping[str, str]) -> Memory:
    return replace(memory, domain=Domain(_rename(memory.domain, names)))


def _rename_event(event: Event, names: Mapping[str, str]) -> Event:
    project = event.metadata.get("project", "")
    return replace(event, metadata={**event.metadata, "project": names.get(project, project)})


def _rename_uri(uri: str, names: Mapping[str, str]) -> str:
    """Return the URN of a memory in the project's other name, and any other URI as it is."""
    scheme, mark, rest = uri.partition("://")
    domain, slash, name = rest.partition("/")
    return f"{scheme}{mark}{_rename(domain, names)}{slash}{name}"
