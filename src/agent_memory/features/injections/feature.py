"""Where a record comes from."""

from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.injections.services.provenance import Provenance
from agent_memory.features.recall.services.opening import Opening
from agent_memory.kernel.composition import Composition


def build(context: Composition) -> None:
    context.add(Provenance(opening=context[Opening], injections=context[Injections]))
