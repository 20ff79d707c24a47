"""Build the ledger of injections."""

from dataclasses import dataclass

from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.features.injections.adapters.ledger_store import StoredLedger
from agent_memory.features.injections.services.injections import Injections


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionsFeature:
    injections: Injections


def build_injections(platform: Platform, recall: RecallFeature) -> InjectionsFeature:
    return InjectionsFeature(
        injections=Injections(
            ledger=StoredLedger(platform.store),
            documents=recall.recall.documents,
            secrets=platform.secrets,
            clock=platform.clock,
        )
    )
