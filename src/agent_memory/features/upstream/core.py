"""What a team means for the records here: whose they are, and which wait to be erased."""

from agent_memory.features.forgetting.ports import ErasureQueue, ForgettingListener, PersonFinder
from agent_memory.features.index.model.queries import RecallResult
from agent_memory.features.knowledge.ports import RemovalFinder
from agent_memory.features.log.ports import Events
from agent_memory.features.recall.ports import AnswerFilter
from agent_memory.features.upstream.adapters.upstream_store import StoredErasures, StoredUpstream
from agent_memory.features.upstream.remote_reader import RemoteReader
from agent_memory.features.upstream.services.erasing import MachineErasures
from agent_memory.features.upstream.services.hit_authors import HitAuthors
from agent_memory.features.upstream.services.waiting_hits import WaitingHits
from agent_memory.kernel import access
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform


def build_core(context: Composition) -> None:
    platform, events = context[Platform], context[Events]
    state, erasures = StoredUpstream(platform.store), StoredErasures(platform.store)
    authors, waiting = HitAuthors(state), WaitingHits(erasures, events)

    def attribute(answer: RecallResult) -> RecallResult:
        caller = access.get_caller()
        if caller is not None and caller.person:
            answer = waiting.leave_out(answer)
        # Daemons that share a store do not tell each other what they took.
        may_have_taken = platform.sharing is not None or state.has_taken()
        return authors.attribute(answer) if may_have_taken else answer

    context.add(state)
    context.contributions(AnswerFilter).append(attribute)
    context.contributions(RemovalFinder).append(state.find_removal)
    context.provide(ForgettingListener, state)
    context.provide(PersonFinder, lambda memory: state.find_people([memory])[0])
    context.provide(
        ErasureQueue,
        MachineErasures(
            erasures=erasures,
            log=events,
            taken=state,
            read_hours=lambda: context[RemoteReader].read().erase_hours,
            clock=platform.clock,
        ),
    )
