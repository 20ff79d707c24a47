"""Build the statistics of the store, its compaction and verification."""

from dataclasses import dataclass

from agent_memory.bootstrap.build_answers import AnswersFeature
from agent_memory.bootstrap.build_index import IndexFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.bootstrap.build_toc import TocFeature
from agent_memory.features.maintenance.services.admin import Admin
from agent_memory.features.maintenance.services.verification import VECTORS, WORDS, Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceFeature:
    admin: Admin
    verification: Verification


def build_maintenance(
    platform: Platform,
    toc: TocFeature,
    index: IndexFeature,
    recall: RecallFeature,
    answers: AnswersFeature,
) -> MaintenanceFeature:
    index_checks = {WORDS: index.lexical.list_damaged_files}
    if index.vectors is not None:
        index_checks[VECTORS] = index.vectors.index.list_damaged_files
    return MaintenanceFeature(
        admin=Admin(store=platform.maintenance),
        verification=Verification(
            check_store=platform.opened.check,
            index_checks=index_checks,
            memory_stats=answers.memory_stats,
            indexes=recall.indexes,
            rebuild=toc.rebuild,
        ),
    )
