"""Curation: finding a memory by its name, and changing what may change about it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agent_memory.features.memories.model import memories, tiers
from agent_memory.features.memories.model.memories import (
    NAMESPACES,
    Draft,
    Memory,
    Reference,
    Status,
)
from agent_memory.features.memories.model.projects import Place
from agent_memory.features.memories.model.tiers import Tier, Use
from agent_memory.features.memories.ports import Memories, MemoryChange, MemoryUses
from agent_memory.features.memories.services.capture import Capture, Captured
from agent_memory.features.memories.services.project_resolver import Workplaces
from agent_memory.kernel.errors import InvalidInput, NotFound, Overloaded
from agent_memory.kernel.ids import Domain, MemoryKey
from agent_memory.platform.ports import Clock

TRIES = 8
_PAGE = 500
_AMBIGUOUS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A memory, and what only this machine knows of it."""

    memory: Memory
    use: Use
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is to be otherwise; None leaves it as it is. Tags are added: copies in other clones keep
    the tags of each other."""

    summary: str | None = None
    content: str | None = None
    spec: str | None = None
    tags: frozenset[str] = frozenset()
    relates_to: tuple[str, ...] | None = None

    @property
    def empty(self) -> bool:
        return self == Edit()


@dataclass(frozen=True, slots=True)
class Curation:
    memories: Memories
    uses: MemoryUses
    workplaces: Workplaces
    capture: Capture
    clock: Clock
    changed: Callable[[], None]  # told after something was written

    def find(self, name: str, here: Place, *, forgotten: bool = False) -> Memory:
        """The memory of this name: of this project if it is there, else anywhere; also one that was
        forgotten, if that is wanted. Raises NotFound, and InvalidInput where several are meant."""
        wanted = memories.reference(name)
        for domains in self._domains(wanted, here):
            found = [
                each
                for domain in domains
                for each in self._named(domain, wanted)
                if forgotten or each.status is not Status.TOMBSTONE
            ]
            if len(found) == 1:
                return found[0]
            if found:
                some = ", ".join(each.urn for each in found[:_AMBIGUOUS])
                raise InvalidInput(f"{name!r} may mean {len(found)} memories: {some}")
        raise NotFound(f"no memory {name!r}: `memory list` shows what there is")

    def show(self, name: str, here: Place) -> Shown:
        memory = self.find(name, here)
        self.uses.add([memory.key], self.clock.now())
        return self.shown([memory])[0]

    def shown(self, found: Sequence[Memory]) -> list[Shown]:
        now = self.clock.now()
        uses = self.uses.of([memory.key for memory in found])
        return [
            Shown(memory=memory, use=use, tier=tiers.tier(memory, use, now))
            for memory, use in zip(found, uses, strict=True)
        ]

    def all(self, domains: Sequence[Domain] | None = None) -> Iterator[Memory]:
        """Every memory of these domains, or of all; none that was forgotten."""
        for domain in self.memories.domains() if domains is None else domains:
            last: MemoryKey | None = None
            while page := self.memories.of_domain(domain, after=last, limit=_PAGE):
                yield from (each for each in page if each.status is not Status.TOMBSTONE)
                last = page[-1].key

    def move(self, memory: Memory, status: Status, here: Place) -> Memory:
        """Into another status. Raises InvalidInput where there is no way to it."""
        return self.apply(
            memory.key, here, lambda stored: memories.moved(stored, status, self.clock.now())
        )

    def edit(self, memory: Memory, edit: Edit, here: Place) -> Captured:
        """What it says makes a memory what it is: other words are a new one that supersedes it."""
        if edit.empty:
            raise InvalidInput("nothing is to be changed: give a summary, content, spec or tags")
        summary = memory.summary if edit.summary is None else edit.summary
        content = memory.content if edit.content is None else edit.content
        spec = memory.spec if edit.spec is None else edit.spec
        tags = memory.tags | edit.tags
        related = memory.relates_to if edit.relates_to is None else edit.relates_to
        draft = Draft(
            namespace=memory.namespace,
            summary=summary,
            content=content,
            spec=spec,
            tags=tags,
            relates_to=related,
            event_id=memory.event_id,
            session_id=memory.session_id,
        )
        if (summary, content, spec) == (memory.summary, memory.content, memory.spec):
            cleaned = self.capture.clean(draft)
            changed = self.apply(
                memory.key,
                here,
                lambda stored: memories.changed(
                    stored, self.clock.now(), tags=cleaned.tags, relates_to=cleaned.relates_to
                ),
            )
            return Captured(memory=changed, created=False)
        place = here if here.domain == memory.domain else self.place(memory.domain)
        made = self.capture.capture(draft, place)
        if made.memory.key != memory.key:  # else only a secret was in what is new
            self.supersede(memory, made.memory, here)
        return made

    def supersede(self, old: Memory, new: Memory, here: Place) -> Memory:
        return self.apply(
            old.key,
            here,
            lambda stored: memories.changed(
                stored, self.clock.now(), status=Status.ARCHIVED, superseded_by=new.id
            ),
        )

    def apply(self, key: MemoryKey, here: Place, change: Callable[[Memory], Memory]) -> Memory:
        """Change a memory as it is now, whoever else does. The notes of this place follow, if they
        are of its domain."""
        home = here.home if here.domain == key.domain else self.workplaces.home_of(key.domain)
        for _ in range(TRIES):
            stored = self.memories.get(key)
            if stored is None or stored.status is Status.TOMBSTONE:
                raise NotFound(
                    f"the memory {key.namespace}:{key.digest[:12]} is not there any more"
                )
            wanted = change(stored)
            if wanted == stored:
                return stored
            if self.memories.write([MemoryChange(stored, wanted, home)]) == [True]:
                self.changed()
                return wanted
        raise Overloaded("the memory is being changed by others; try again")

    def place(self, domain: Domain) -> Place:
        """Where this domain's memories are kept. Raises NotFound."""
        home = self.workplaces.home_of(domain)
        if home is None:
            raise NotFound(f"the repository of {domain} is not on this machine any more")
        return Place(domain=domain, home=home)

    def _domains(self, wanted: Reference, here: Place) -> Iterator[list[Domain]]:
        """Where to look, one after the other."""
        if wanted.domain is not None:
            yield [wanted.domain]
            return
        yield [here.domain]
        yield [domain for domain in self.memories.domains() if domain != here.domain]

    def _named(self, domain: Domain, wanted: Reference) -> Iterator[Memory]:
        for namespace in NAMESPACES if wanted.namespace is None else (wanted.namespace,):
            for each in self.memories.named(domain, namespace, wanted.hex):
                if wanted.index in (None, each.index):
                    yield each
