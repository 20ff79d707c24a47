"""Build the ledger of injections, and what explains a record by it."""

from dataclasses import dataclass

from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.features.injections.adapters.ledger_store import StoredLedger
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.injections.services.provenance import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionsFeature:
    injections: Injections
    provenance: Provenance


def build_injections(platform: Platform, recall: RecallFeature) -> InjectionsFeature:
    injections = Injections(
        ledger=StoredLedger(platform.store),
        documents=recall.recall.documents,
        secrets=platform.secrets,
        clock=platform.clock,
    )
    return InjectionsFeature(
        injections=injections,
        provenance=Provenance(opening=recall.opening, injections=injections),
    )
