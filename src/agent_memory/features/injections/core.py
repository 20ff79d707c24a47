"""The ledger of injections."""

from agent_memory.features.injections.adapters.ledger_store import StoredLedger
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.recall.ports import RecordSource
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform


def build_core(context: Composition) -> None:
    platform = context[Platform]
    context.add(
        Injections(
            ledger=StoredLedger(platform.store),
            documents=context[Recall].documents,
            secrets=context[SecretsFilter],
            clock=platform.clock,
            sources=context.contributions(RecordSource),
        )
    )
