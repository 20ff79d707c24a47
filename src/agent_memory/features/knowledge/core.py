"""Knowledge: facts, episodes, procedures, users."""

import getpass
import os
import uuid

from agent_memory.config import Settings
from agent_memory.features.knowledge.adapters.guarded_knowledge import GuardedKnowledge
from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Procedure
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.ports import KnowledgeStore, RemovalFinder
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.knowledge.services.knowledge import Knowledge, RecordService
from agent_memory.features.knowledge.services.learning import Learner
from agent_memory.features.log.ports import Events, Outbox, OutboxLearner
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.platform.base import Platform
from agent_memory.platform.store import families


def build_core(context: Composition) -> None:
    platform, secrets = context[Platform], context[SecretsFilter]
    clock, finders = platform.clock, context.contributions(RemovalFinder)
    stored = StoredKnowledge(platform.store)
    store = GuardedKnowledge(stored) if context[Settings].team.enabled else stored
    if platform.sharing is not None:
        for family in (families.FACTS, families.KNOWLEDGE):
            platform.sharing.marks.listen(family, stored.note_foreign_changes)
    context.provide(KnowledgeStore, store)
    learner = Learner(
        log=context[Events],
        outbox=context[Outbox],
        knowledge=store,
        clock=clock,
        owner=f"local:{_account_name()}",
    )
    context.contributions(OutboxLearner).append(learner)
    context.add(
        learner,
        Facts(
            knowledge=store,
            secrets=secrets,
            clock=clock,
            on_change=context.signals.build_sender(DaemonSignal.FACT_CHANGED),
            find_removal=lambda fact, scope: max(
                (find(fact, scope) for find in finders), default=0
            ),
        ),
        Knowledge(
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
