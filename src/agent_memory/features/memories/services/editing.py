"""Curation: finding a memory by its name, and changing what may change about it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agent_memory.features.memories.model import memories, tiers
from agent_memory.features.memories.model.memories import (
    NAMESPACES,
    Draft,
    Memory,
    MemoryStatus,
    Reference,
)
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.features.memories.ports import Memories, MemoryChange, MemoryUses
from agent_memory.features.memories.services.capture import Capture, CaptureResult
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.kernel.errors import InvalidInput, NotFound, Overloaded
from agent_memory.kernel.ids import Domain, MemoryKey
from agent_memory.platform.ports import Clock

TRIES = 8
_PAGE = 500
_AMBIGUOUS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetails:
    """A memory, and what only this machine knows of it."""

    memory: Memory
    use: MemoryUse
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEdit:
    """What is to be otherwise; None leaves it as it is. Tags are added: copies in other clones keep
    the tags of each other."""

    summary: str | None = None
    content: str | None = None
    spec: str | None = None
    tags: frozenset[str] = frozenset()
    relates_to: tuple[str, ...] | None = None

    @property
    def empty(self) -> bool:
        return self == MemoryEdit()


@dataclass(frozen=True, slots=True)
class MemoryEditor:
    memories: Memories
    uses: MemoryUses
    workplaces: ProjectResolver
    capture: Capture
    clock: Clock
    on_change: Callable[[], None]  # told after something was written

    def find(self, name: str, here: MemoryLocation, *, forgotten: bool = False) -> Memory:
        """The memory of this name: of this project if it is there, else anywhere; also one that was
        forgotten, if that is wanted. Raises NotFound, and InvalidInput where several are meant."""
        wanted = memories.parse_reference(name)
        for domains in self._domains(wanted, here):
            found = [
                each
                for domain in domains
                for each in self._find_named(domain, wanted)
                if forgotten or each.status is not MemoryStatus.TOMBSTONE
            ]
            if len(found) == 1:
                return found[0]
            if found:
                some = ", ".join(each.urn for each in found[:_AMBIGUOUS])
                raise InvalidInput(f"{name!r} may mean {len(found)} memories: {some}")
        raise NotFound(f"no memory {name!r}: `memory list` shows what there is")

    def show(self, name: str, here: MemoryLocation) -> MemoryDetails:
        memory = self.find(name, here)
        self.uses.add([memory.key], self.clock.now())
        return self.load_details([memory])[0]

    def load_details(self, found: Sequence[Memory]) -> list[MemoryDetails]:
        now = self.clock.now()
        uses = self.uses.get_many([memory.key for memory in found])
        return [
            MemoryDetails(memory=memory, use=use, tier=tiers.assign_tier(memory, use, now))
            for memory, use in zip(found, uses, strict=True)
        ]

    def list_all(self, domains: Sequence[Domain] | None = None) -> Iterator[Memory]:
        """Every memory of these domains, or of all; none that was forgotten."""
        for domain in self.memories.list_domains() if domains is None else domains:
            last: MemoryKey | None = None
            while page := self.memories.list_domain(domain, after=last, limit=_PAGE):
                yield from (each for each in page if each.status is not MemoryStatus.TOMBSTONE)
                last = page[-1].key

    def set_status(self, memory: Memory, status: MemoryStatus, here: MemoryLocation) -> Memory:
        """Into another status. Raises InvalidInput where there is no way to it."""
        return self.apply(
            memory.key,
            here,
            lambda stored: memories.change_status(stored, status, self.clock.now()),
        )

    def edit(self, memory: Memory, edit: MemoryEdit, here: MemoryLocation) -> CaptureResult:
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
                lambda stored: memories.update_fields(
                    stored, self.clock.now(), tags=cleaned.tags, relates_to=cleaned.relates_to
                ),
            )
            return CaptureResult(memory=changed, created=False)
        place = here if here.domain == memory.domain else self.place(memory.domain)
        made = self.capture.capture(draft, place)
        if made.memory.key != memory.key:  # else only a secret was in what is new
            self.supersede(memory, made.memory, here)
        return made

    def supersede(self, old: Memory, new: Memory, here: MemoryLocation) -> Memory:
        return self.apply(
            old.key,
            here,
            lambda stored: memories.update_fields(
                stored, self.clock.now(), status=MemoryStatus.ARCHIVED, superseded_by=new.id
            ),
        )

    def apply(
        self, key: MemoryKey, here: MemoryLocation, change: Callable[[Memory], Memory]
    ) -> Memory:
        """Change a memory as it is now, whoever else does. The notes of this place follow, if they
        are of its domain."""
        home = here.home if here.domain == key.domain else self.workplaces.find_home(key.domain)
        for _ in range(TRIES):
            stored = self.memories.get(key)
            if stored is None or stored.status is MemoryStatus.TOMBSTONE:
                raise NotFound(
                    f"the memory {key.namespace}:{key.digest[:12]} is not there any more"
                )
            wanted = change(stored)
            if wanted == stored:
                return stored
            if self.memories.write([MemoryChange(stored, wanted, home)]) == [True]:
                self.on_change()
                return wanted
        raise Overloaded("the memory is being changed by others; try again")

    def place(self, domain: Domain) -> MemoryLocation:
        """Where this domain's memories are kept. Raises NotFound."""
        home = self.workplaces.find_home(domain)
        if home is None:
            raise NotFound(f"the repository of {domain} is not on this machine any more")
        return MemoryLocation(domain=domain, home=home)

    def _domains(self, wanted: Reference, here: MemoryLocation) -> Iterator[list[Domain]]:
        """Where to look, one after the other."""
        if wanted.domain is not None:
            yield [wanted.domain]
            return
        yield [here.domain]
        yield [domain for domain in self.memories.list_domains() if domain != here.domain]

    def _find_named(self, domain: Domain, wanted: Reference) -> Iterator[Memory]:
        for namespace in NAMESPACES if wanted.namespace is None else (wanted.namespace,):
            for each in self.memories.find_by_digest(domain, namespace, wanted.hex):
                if wanted.index in (None, each.index):
                    yield each
