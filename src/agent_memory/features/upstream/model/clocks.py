"""Lower times that clients sent to now here.

The last edit wins, by the time that its machine gave it. A clock that is ahead, or a client that
says so, would win against every later edit. So the server lowers such times to its own, and answers
with what it has lowered; the machine that sent them takes those times over.
"""

from collections.abc import Iterable
from dataclasses import replace

from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.model.name_changes import NameChange, NameSet
from agent_memory.features.upstream.model import merging
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.kernel.ids import Millis


def lower_event(event: Event, now: Millis) -> Event:
    return event if event.at_ms <= now else replace(event, at_ms=now)


def lower_tombstone(
    tombstone: FactTombstone, stored: FactTombstone | None, now: Millis
) -> FactTombstone:
    """Return a tombstone that is no later than now. Sent again, it keeps the time of the one that
    is stored."""
    if tombstone.at_ms <= now:
        return tombstone
    return replace(tombstone, at_ms=now if stored is None else stored.at_ms)


def lower_fact(fact: Fact, stored: Fact | None, now: Millis) -> Fact:
    """Return a fact that says nothing later than now. One that says the same as the stored one
    keeps its time: sending it again must not make it newer."""
    valued = fact.valued_ms
    if valued > now:
        same = stored is not None and merging.is_same_fact(
            stored, replace(fact, valued_ms=stored.valued_ms)
        )
        valued = stored.valued_ms if same and stored is not None else now
    created, updated = min(fact.created_ms, now), min(fact.updated_ms, now)
    return replace(fact, valued_ms=valued, created_ms=created, updated_ms=updated)


def lower_memory(memory: Memory, stored: Memory | None, now: Millis) -> Memory:
    """Return a memory that says nothing later than now, likewise."""
    updated = memory.updated_ms
    if updated > now:
        same = stored is not None and _state(stored) == _state(memory)
        updated = stored.updated_ms if same and stored is not None else now
    tags = NameSet(frozenset()) if stored is None else stored.tag_set
    related = NameSet(frozenset()) if stored is None else stored.relation_set
    return replace(
        memory,
        created_ms=min(memory.created_ms, now),
        updated_ms=updated,
        tag_changes=_lower_changes(memory.tag_set, tags, now),
        relation_changes=_lower_changes(memory.relation_set, related, now),
    )


def adopt_fact(stored: Fact, lowered: Fact) -> Fact:
    """Return a fact with the times that the server gave it."""
    return replace(
        stored,
        valued_ms=min(stored.valued_ms, lowered.valued_ms),
        created_ms=min(stored.created_ms, lowered.created_ms),
        updated_ms=min(stored.updated_ms, lowered.updated_ms),
    )


def adopt_memory(stored: Memory, lowered: Memory) -> Memory:
    """Return a memory with the times that the server gave it."""
    return replace(
        stored,
        created_ms=min(stored.created_ms, lowered.created_ms),
        updated_ms=min(stored.updated_ms, lowered.updated_ms),
        tag_changes=_adopt_changes(stored.tag_changes, lowered.tag_changes),
        relation_changes=_adopt_changes(stored.relation_changes, lowered.relation_changes),
    )


def _state(memory: Memory) -> tuple[str, str]:
    return memory.status.value, memory.superseded_by


def _lower_changes(names: NameSet, stored: NameSet, now: Millis) -> tuple[NameChange, ...]:
    known = stored.list_states()

    def lower(change: NameChange) -> NameChange:
        if change.at_ms <= now:
            return change
        at_ms, is_there = known.get(change.name, (0, False))
        same = at_ms > 0 and is_there == (change.name in names.names)
        return change._replace(at_ms=Millis(at_ms) if same else now)

    return tuple(map(lower, names.changes))


def _adopt_changes(
    stored: Iterable[NameChange], lowered: Iterable[NameChange]
) -> tuple[NameChange, ...]:
    times = dict(lowered)
    return tuple(
        change._replace(at_ms=min(change.at_ms, times.get(change.name, change.at_ms)))
        for change in stored
    )
