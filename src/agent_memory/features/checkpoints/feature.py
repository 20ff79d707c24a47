"""Checkpoints of graphs."""

from functools import partial

from agent_memory.config import Settings
from agent_memory.features.checkpoints import archive_records
from agent_memory.features.checkpoints.adapters import graph_layout
from agent_memory.features.checkpoints.adapters.graph_store import StoredGraphs
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.adapters.graph_threads import StoredGraphThreads
from agent_memory.features.checkpoints.adapters.guarded_graphs import GuardedGraphs, GuardedThreads
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.composition import Composition
from agent_memory.platform.archive_parts import ArchivePart
from agent_memory.platform.base import Platform
from agent_memory.platform.ports import KeySpan
from agent_memory.platform.store import families


def build(context: Composition) -> None:
    platform = context[Platform]
    tally = GraphTally(platform.store)
    if platform.sharing is not None:
        platform.sharing.marks.listen(families.GRAPH_CHECKPOINTS, tally.note_foreign_changes)
    graphs, threads = StoredGraphs(platform.store, tally), StoredGraphThreads(platform.store, tally)
    team = context[Settings].team.enabled
    service = Graphs(
        checkpoints=GuardedGraphs(graphs, threads) if team else graphs,
        threads=GuardedThreads(threads) if team else threads,
        secrets=context[SecretsFilter],
    )
    context.add(service)
    context.contributions(ArchivePart).append(
        ArchivePart(
            kinds=tuple(each.kind for each in archive_records.FORMATS.values()),
            list_all=lambda view: archive_records.list_records(
                StoredGraphs(view, GraphTally(view))
            ),
            add=partial(archive_records.add_record, service),
        )
    )
    context.contributions(KeySpan).extend(
        KeySpan(families.GRAPH_CHECKPOINTS, *span) for span in graph_layout.SPANS
    )
