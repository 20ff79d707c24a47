"""Build graph checkpoints."""

from agent_memory.bootstrap.build_platform import Platform
from agent_memory.features.checkpoints.adapters.graph_store import StoredGraphs
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.adapters.graph_threads import StoredGraphThreads
from agent_memory.features.checkpoints.adapters.guarded_graphs import (
    GuardedGraphs,
    GuardedThreads,
)
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.platform.store import families


def build_checkpoints(platform: Platform) -> Graphs:
    tally = GraphTally(platform.store)
    if platform.sharing is not None:
        platform.sharing.marks.listen(families.GRAPH_CHECKPOINTS, tally.note_foreign_changes)
    graphs, threads = StoredGraphs(platform.store, tally), StoredGraphThreads(platform.store, tally)
    team = platform.settings.team.enabled
    return Graphs(
        checkpoints=GuardedGraphs(graphs, threads) if team else graphs,
        threads=GuardedThreads(threads) if team else threads,
        secrets=platform.secrets,
    )
