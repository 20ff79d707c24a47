"""Build knowledge: facts, episodes, procedures, users."""

import getpass
import os
import uuid
from dataclasses import dataclass

from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.features.knowledge.adapters.guarded_knowledge import GuardedKnowledge
from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Procedure
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.knowledge.services.knowledge import Knowledge, RecordService
from agent_memory.features.knowledge.services.learning import Learner
from agent_memory.features.upstream.adapters.upstream_store import StoredUpstream
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.platform.store import families


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeFeature:
    store: KnowledgeStore
    facts: Facts
    learning: Learner
    knowledge: Knowledge


def build_knowledge(
    platform: Platform, log: LogFeature, wake_ups: WakeUps, team_state: StoredUpstream
) -> KnowledgeFeature:
    secrets, clock = platform.secrets, platform.clock
    stored = StoredKnowledge(platform.store)
    store = GuardedKnowledge(stored) if platform.settings.team.enabled else stored
    if platform.sharing is not None:
        for family in (families.FACTS, families.KNOWLEDGE):
            platform.sharing.marks.listen(family, stored.note_foreign_changes)
    return KnowledgeFeature(
        store=store,
        facts=Facts(
            knowledge=store,
            secrets=secrets,
            clock=clock,
            on_change=wake_ups.on_fact_changed,
            find_removal=team_state.find_removal,
        ),
        learning=Learner(
            log=log.events,
            outbox=log.outbox,
            knowledge=store,
            clock=clock,
            owner=f"local:{_account_name()}",
        ),
        knowledge=Knowledge(
            episodes=RecordService(Episode, store, secrets),
            procedures=RecordService(Procedure, store, secrets),
            users=RecordService(User, store, secrets),
            store=store,
            clock=clock,
            new_id=lambda: KnowledgeId(str(uuid.uuid4())),
        ),
    )


def _account_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as containers have them
        return str(os.getuid())
