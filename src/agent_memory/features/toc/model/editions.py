"""The edition of the table of contents, and how far a rebuild to the present one has come."""

from dataclasses import dataclass

from agent_memory.features.toc.model.periods import NodeId

# Raise it by one when the extractive summarizer writes other nodes than before for the same events:
# the daemon then rebuilds every node of older stores once. How events are cut is not part of it.
EDITION = 2
FIRST_EDITION = 1  # of stores that have segments and no record


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildProgress:
    """A rebuild under way. `reached` is the last node that is done, in the order of the rebuild."""

    edition: int
    total: int  # segments when it began
    reached: NodeId | None = None
    done: int = 0  # segments read
    written: int = 0  # nodes that changed
    spent_ms: int = 0  # time of all steps


@dataclass(frozen=True, slots=True, kw_only=True)
class EditionRecord:
    """The edition that every stored node has, apart from a rebuild to a newer one."""

    edition: int
    rebuild: RebuildProgress | None = None
