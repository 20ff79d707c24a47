"""Editing: find a memory by name, and change its status, tags or text."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.memories.model import memories, tiers
from agent_memory.features.memories.model.memories import (
    HEX_CHARS,
    NAMESPACES,
    Draft,
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
    """The fields to change; None leaves a field alone. Tags are added or removed, one by one.
    Relations are replaced by `relates_to`, or removed one by one."""

    summary: str | None = None
    content: str | None = None
    spec: str | None = None
    tags: frozenset[str] = frozenset()
    relates_to: tuple[str, ...] | None = None
    removed_tags: frozenset[str] = frozenset()
    removed_relations: tuple[str, ...] = ()
    agent: str = ""  # that edits, if it is no person
    interface: str = ""

    @property
    def empty(self) -> bool:
        return replace(self, agent="", interface="") == MemoryEdit()


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

    def find_exactly(self, memory_id: str, domain: Domain) -> Memory | None:
        """Return the memory of this id in a domain, unless it was forgotten."""
        try:
            reference = memories.parse_reference(memory_id)
        except InvalidInput:
            return None  # an id of another tool
        return next(
            (
                memory
                for memory in self._find_named(reference.domain or domain, reference)
                if memory.status is not MemoryStatus.TOMBSTONE
            ),
            None,
        )

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

    def edit(
        self, memory: Memory, edit: MemoryEdit, here: MemoryLocation, *, by_user: bool = True
    ) -> CaptureResult:
        """Apply the edit. New text makes a new memory, which supersedes this one. Words that await
        review become that memory only if the user edits."""
        memories.check_reviewed(memory)
        if edit.empty:
            raise InvalidInput(
                "nothing to change: give a summary, content, spec, tags or relations"
            )
        draft = _build_draft(memory, edit)
        text = (draft.summary, draft.content, draft.spec)
        if text == (memory.summary, memory.content, memory.spec):
            cleaned = self.capture.clean(draft)
            return CaptureResult(memory=self._update_names(memory, cleaned, here), created=False)
        place = self.locate(memory.domain, here)
        captured = self.capture.capture(draft, place, by_user=by_user)
        memories.check_reviewed(captured.memory)
        if captured.memory.key != memory.key:  # else the new text differed only by a secret
            self.update(
                memory.key, here, status=MemoryStatus.ARCHIVED, superseded_by=captured.memory.id
            )
        return captured

    def _update_names(self, memory: Memory, draft: Draft, here: MemoryLocation) -> Memory:
        """Give the memory the tags and relations of the draft, and leave alone what others
        changed meanwhile."""
        added, removed = draft.tags - memory.tags, memory.tags - draft.tags
        dropped = frozenset(memory.relates_to) - frozenset(draft.relates_to)

        def change(stored: Memory) -> Memory:
            if stored.relates_to == memory.relates_to:
                relates_to = draft.relates_to
            else:
                related = dict.fromkeys((*stored.relates_to, *draft.relates_to))
                relates_to = tuple(name for name in related if name not in dropped)
            tags = (stored.tags - removed) | added
            memories.check_tags(tags)
            if (tags, relates_to) == (stored.tags, stored.relates_to):
                return stored
            return memories.update_fields(
                stored, self.clock.now(), tags=tags, relates_to=relates_to
            )

        return self.apply(memory.key, here, change)

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


def _build_draft(memory: Memory, edit: MemoryEdit) -> Draft:
    """Return the draft of the edited memory. Raises InvalidInput for a name to remove that it does
    not have."""
    missing = sorted(edit.removed_tags - memory.tags)
    if missing:
        has = f"its tags are {', '.join(sorted(memory.tags))}" if memory.tags else "it has no tags"
        raise InvalidInput(f"{memory.id} has no tag {missing[0]!r}: {has}")
    relates_to = memory.relates_to if edit.relates_to is None else edit.relates_to
    for name in edit.removed_relations:
        left = tuple(each for each in relates_to if not _is_named(each, name))
        if left == relates_to:
            has = (
                f"it relates to {', '.join(memory.relates_to)}"
                if memory.relates_to
                else "it relates to no other memory"
            )
            raise InvalidInput(f"{memory.id} does not relate to {name[:80]!r}: {has}")
        relates_to = left
    draft = memories.to_draft(memory)
    return replace(
        draft,
        summary=draft.summary if edit.summary is None else edit.summary,
        content=draft.content if edit.content is None else edit.content,
        spec=draft.spec if edit.spec is None else edit.spec,
        tags=(memory.tags - edit.removed_tags) | edit.tags,
        relates_to=relates_to,
        agent=edit.agent,
        interface=edit.interface,
    )


def _is_named(relation: str, name: str) -> bool:
    """Return whether a relation is meant by a name, which may be the beginning of its hash."""
    if relation == name.strip():
        return True
    try:
        related, meant = memories.parse_reference(relation), memories.parse_reference(name)
    except InvalidInput:
        return False  # an id of another tool
    return (
        related.hex.startswith(meant.hex)
        and meant.namespace in (None, related.namespace)
        and meant.index in (None, related.index)
        and meant.domain in (None, related.domain)
    )


def _count_beginnings(keys: Iterable[MemoryKey]) -> Counter[tuple[str, str]]:
    return Counter((key.namespace, key.digest[:digits]) for key in keys for digits in _SHORT)


def _find_short_name(memory: Memory, counts: Counter[tuple[str, str]]) -> str:
    for digits in _SHORT:
        digest = memory.digest[:digits]
        if counts[memory.namespace, digest] <= 1:
            return f"{memory.namespace}:{digest}"
    return memory.urn  # another project holds the same memory
