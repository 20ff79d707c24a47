"""Build the handling of hook calls."""

import os
from dataclasses import dataclass

import structlog

from agent_memory.bootstrap.build_consent import build_consent
from agent_memory.bootstrap.build_injections import InjectionsFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.bootstrap.hook_options import load_options
from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.services.auto_capture import AutoCapture
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.hooks.services.context_injection import ContextInjection
from agent_memory.features.hooks.services.draining import SpoolDrainer
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.hooks.services.last_contexts import ContextKeeping, LastContextFolder
from agent_memory.features.hooks.services.recording import HookRecorder
from agent_memory.features.hooks.services.spooling import Spooling

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlingFeature:
    consent: RecordingConsent
    handling: HookHandling
    last_contexts: LastContextFolder
    spool: SpoolFolder
    excluded: ExcludedFolder


def build_handling(
    platform: Platform,
    log: LogFeature,
    memories: MemoriesFeature,
    recall: RecallFeature,
    injections: InjectionsFeature,
) -> HandlingFeature:
    spool, own = SpoolFolder(platform.folders.spool), platform.folders.summarizer
    excluded = ExcludedFolder(frozenset({own, own.resolve()}))
    last_contexts = LastContextFolder(platform.folders.last_contexts)
    consent = build_consent(platform.folders.data)
    return HandlingFeature(
        consent=consent,
        handling=HookHandling(
            recording=HookRecorder(ingest=log.ingest, resolver=memories.resolver),
            injection=ContextInjection(context=recall.context, recall=recall.recall),
            injections=injections.injections,
            auto_capture=AutoCapture(
                log=log.events, capture=memories.capture, recall=recall.recall
            ),
            remote_sync=memories.remote_sync,
            drainer=SpoolDrainer(
                spooling=Spooling(spool=spool, secrets=platform.secrets), log=logger
            ),
            keeping=ContextKeeping(contexts=last_contexts, secrets=platform.secrets),
            load_options=load_options,
            folders=consent.folders,
            consent=consent,
            log=logger,
            environ=os.environ,
            excluded=excluded,
        ),
        last_contexts=last_contexts,
        spool=spool,
        excluded=excluded,
    )
