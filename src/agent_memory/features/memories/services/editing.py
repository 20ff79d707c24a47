"""Editing: find a memory by name, and change its status, tags or text."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from agent_memory.features.memories.model import memories, tiers
from agent_memory.features.memories.model.memories import (
    HEX_CHARS,
    NAMESPACES,
    Memory,
    MemoryOutline,
    MemoryStatus,
    Reference,
)
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.model.tiers import MemoryUse, Tier
from agent_memory.features.memories.ports import Memories, MemoryChange, MemoryUses, Outlines
from agent_memory.features.memories.services.capture import Capture, CaptureResult
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.kernel.errors import AmbiguousName, InvalidInput, NotFound, Overloaded
from agent_memory.kernel.ids import Domain, MemoryKey
from agent_memory.platform.ports import Clock

TRIES = 8
_PAGE = 500
_LISTED = 5
_SHORT = (7, HEX_CHARS)  # digits of the digest in a short name


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetails:
    """A memory with its usage on this machine."""

    memory: Memory
    use: MemoryUse
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEdit:
    """The fields to change; None leaves a field alone. Tags are only added, as clones share
    them."""

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
    outlines: Outlines
    resolver: ProjectResolver
    capture: Capture
    clock: Clock
    on_change: Callable[[], None]  # called after a write

    def find(self, name: str, here: MemoryLocation, *, forgotten: bool = False) -> Memory:
        """Return the memory of this name: of this project if there is one, else of any; forgotten
        ones only on request. Raises NotFound, InvalidInput, and AmbiguousName."""
        reference = memories.parse_reference(name)
        for domains in self._domains(reference, here):
            matches = [
                memory
                for domain in domains
                for memory in self._find_named(domain, reference)
                if forgotten or memory.status is not MemoryStatus.TOMBSTONE
            ]
            if len(matches) == 1:
                return matches[0]
            if matches:
                urns = ", ".join(memory.urn for memory in matches[:_LISTED])
                raise AmbiguousName(f"{name!r} matches {len(matches)} memories: {urns}")
        raise NotFound(f"no memory {name!r}: `memory list` shows all")

    def show(self, name: str, here: MemoryLocation, *, counted: bool = True) -> MemoryDetails:
        memory = self.find(name, here)
        if counted:
            self.uses.add([memory.key], self.clock.now())
        return self.load_details([memory])[0]

    def load_details(self, memories: Sequence[Memory]) -> list[MemoryDetails]:
        now = self.clock.now()
        uses = self.uses.get_many([memory.key for memory in memories])
        return [
            MemoryDetails(memory=memory, use=use, tier=tiers.assign_tier(memory, use, now))
            for memory, use in zip(memories, uses, strict=True)
        ]

    def abbreviate(self, memories: Sequence[Memory], here: MemoryLocation) -> list[str]:
        """Return a short name of each memory that `find` takes here."""
        keys = self.outlines.find_newest(lambda _: True, limit=sys.maxsize)
        own = _count_beginnings(key for key in keys if key.domain == here.domain)
        anywhere = _count_beginnings(keys)
        return [
            _find_short_name(memory, own if memory.domain == here.domain else anywhere)
            for memory in memories
        ]

    def list_all(self, domains: Sequence[Domain] | None = None) -> Iterator[Memory]:
        """Yield every memory of these domains, or of all, without tombstones."""
        for domain in self.memories.list_domains() if domains is None else domains:
            last: MemoryKey | None = None
            while page := self.memories.list_domain(domain, after=last, limit=_PAGE):
                yield from (m for m in page if m.status is not MemoryStatus.TOMBSTONE)
                last = page[-1].key

    def list_newest(
        self,
        domains: Sequence[Domain] | None,
        statuses: Collection[MemoryStatus],
        *,
        namespace: str | None,
        limit: int,
    ) -> tuple[list[Memory], int]:
        """Return the newest memories and the number of all that match, reading only the
        former."""

        def admits(outline: MemoryOutline) -> bool:
            return (
                outline.status in statuses
                and (domains is None or outline.key.domain in domains)
                and (namespace is None or outline.namespace == namespace)
            )

        newest = map(self.memories.get, self.outlines.find_newest(admits, limit=limit))
        groups = self.outlines.count_groups()
        total = sum(count for group, count in groups.items() if admits(group))
        return [memory for memory in newest if memory is not None], total

    def set_status(self, memory: Memory, status: MemoryStatus, here: MemoryLocation) -> Memory:
        """Change the status. Raises InvalidInput if the transition is not allowed."""
        return self.apply(
            memory.key,
            here,
            lambda stored: memories.change_status(stored, status, self.clock.now()),
        )

    def accept(self, memory: Memory, here: MemoryLocation) -> Memory:
        """Settle a memory that awaits review: from now on it is shared. Raises InvalidInput."""
        return self.apply(
            memory.key, here, lambda stored: memories.accept(stored, self.clock.now())
        )

    def edit(self, memory: Memory, edit: MemoryEdit, here: MemoryLocation) -> CaptureResult:
        """Apply the edit. New text makes a new memory, which supersedes this one."""
        memories.check_reviewed(memory)
        if edit.empty:
            raise InvalidInput("nothing to change: give a summary, content, spec or tags")
        new = {name: value for name, value in asdict(edit).items() if value is not None}
        draft = replace(memories.to_draft(memory), **new | {"tags": memory.tags | edit.tags})
        text = (draft.summary, draft.content, draft.spec)
        if text == (memory.summary, memory.content, memory.spec):
            cleaned = self.capture.clean(draft)
            changed = self.update(
                memory.key, here, tags=cleaned.tags, relates_to=cleaned.relates_to
            )
            return CaptureResult(memory=changed, created=False)
        captured = self.capture.capture(draft, self.locate(memory.domain, here))
        if captured.memory.key != memory.key:  # else the new text differed only by a secret
            self.update(
                memory.key, here, status=MemoryStatus.ARCHIVED, superseded_by=captured.memory.id
            )
        return captured

    def update(self, key: MemoryKey, here: MemoryLocation, **fields: object) -> Memory:
        """Set fields of the stored memory."""
        return self.apply(
            key, here, lambda stored: memories.update_fields(stored, self.clock.now(), **fields)
        )

    def apply(
        self, key: MemoryKey, here: MemoryLocation, change: Callable[[Memory], Memory]
    ) -> Memory:
        """Change the stored memory, with retries if others change it too. The notes of `here` are
        updated if they are of its domain."""
        home = here.home if here.domain == key.domain else self.resolver.find_home(key.domain)
        for _ in range(TRIES):
            stored = self.memories.get(key)
            if stored is None or stored.status is MemoryStatus.TOMBSTONE:
                raise NotFound(f"the memory {key.namespace}:{key.digest[:12]} no longer exists")
            changed = change(stored)
            if changed == stored:
                return stored
            if self.memories.write([MemoryChange(stored, changed, home)]) == [True]:
                self.on_change()
                return changed
        raise Overloaded("the memory is being changed by others; try again")

    def locate(self, domain: Domain, here: MemoryLocation) -> MemoryLocation:
        """Return where memories of this domain are stored: here, if it is the domain of `here`.
        Raises NotFound."""
        if here.domain == domain:
            return here
        home = self.resolver.find_home(domain)
        if home is None:
            raise NotFound(f"the repository of {domain} is no longer on this machine")
        return MemoryLocation(domain=domain, home=home)

    def _domains(self, reference: Reference, here: MemoryLocation) -> Iterator[list[Domain]]:
        """Yield the groups of domains to search, in order."""
        if reference.domain is not None:
            yield [reference.domain]
            return
        yield [here.domain]
        yield [domain for domain in self.memories.list_domains() if domain != here.domain]

    def _find_named(self, domain: Domain, reference: Reference) -> Iterator[Memory]:
        for namespace in NAMESPACES if reference.namespace is None else (reference.namespace,):
            for memory in self.memories.find_by_digest(domain, namespace, reference.hex):
                if reference.index in (None, memory.index):
                    yield memory


def _count_beginnings(keys: Iterable[MemoryKey]) -> Counter[tuple[str, str]]:
    return Counter((key.namespace, key.digest[:digits]) for key in keys for digits in _SHORT)


def _find_short_name(memory: Memory, counts: Counter[tuple[str, str]]) -> str:
    for digits in _SHORT:
        digest = memory.digest[:digits]
        if counts[memory.namespace, digest] <= 1:
            return f"{memory.namespace}:{digest}"
    return memory.urn  # another project holds the same memory
