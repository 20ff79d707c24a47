"""The handling of hook calls."""

import os

import structlog

from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.consent_rule import build_consent
from agent_memory.features.hooks.hook_options import load_options
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.services.agent_calls import AgentCalls
from agent_memory.features.hooks.services.auto_capture import AutoCapture
from agent_memory.features.hooks.services.context_injection import ContextInjection
from agent_memory.features.hooks.services.draining import SpoolDrainer
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.hooks.services.last_contexts import ContextKeeping, LastContextFolder
from agent_memory.features.hooks.services.recording import HookRecorder
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.lessons.services.moments import LessonMoments
from agent_memory.features.log.ports import Events
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.platform.base import Platform

logger = structlog.get_logger()


def build_core(context: Composition) -> None:
    folders, secrets, recall = context[Platform].folders, context[SecretsFilter], context[Recall]
    spool, last_contexts = SpoolFolder(folders.spool), LastContextFolder(folders.last_contexts)
    own = folders.summarizer
    excluded = ExcludedFolder(frozenset({own, own.resolve()}))
    consent = build_consent(folders.data)
    handling = HookHandling(
        recording=HookRecorder(ingest=context[Ingest], resolver=context[ProjectResolver]),
        injection=ContextInjection(
            context=context[ContextBuilder], recall=recall, moments=context[LessonMoments]
        ),
        injections=context[Injections],
        auto_capture=AutoCapture(log=context[Events], capture=context[Capture], recall=recall),
        remote_sync=context[RemoteSync],
        drainer=SpoolDrainer(spooling=Spooling(spool=spool, secrets=secrets), log=logger),
        keeping=ContextKeeping(contexts=last_contexts, secrets=secrets),
        load_options=load_options,
        folders=consent.folders,
        consent=consent,
        log=logger,
        environ=os.environ,
        excluded=excluded,
    )
    context.add(spool, last_contexts, excluded, consent, handling, AgentCalls())
    context.signals.listen(handling.drain_soon, DaemonSignal.STORE_MENDED)
    # a context that is given without a daemon must not say what was rejected
    context.signals.listen(last_contexts.clear, DaemonSignal.LESSON_JUDGED)
