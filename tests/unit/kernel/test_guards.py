"""What is stored for a team is read through guards: every method of every port is decided."""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Protocol

import pytest

from agent_memory import features
from agent_memory.features.checkpoints.adapters.guarded_graphs import GuardedGraphs, GuardedThreads
from agent_memory.features.knowledge.adapters.guarded_knowledge import GuardedKnowledge
from agent_memory.features.lessons.adapters.guarded_lessons import GuardedLessons
from agent_memory.features.log.adapters.guarded_event_log import GuardedEventLog
from agent_memory.features.memories.adapters.guarded_memories import (
    GuardedMemories,
    GuardedOutlines,
)
from agent_memory.features.toc.adapters.guarded_toc import GuardedToc

GUARDED: Mapping[str, type] = {
    "log.EventLog": GuardedEventLog,
    "log.EventFinder": GuardedEventLog,
    "log.Events": GuardedEventLog,
    "memories.Memories": GuardedMemories,
    "memories.Outlines": GuardedOutlines,
    "knowledge.KnowledgeStore": GuardedKnowledge,
    "lessons.LessonStore": GuardedLessons,
    "toc.TocReader": GuardedToc,
    "checkpoints.GraphCheckpoints": GuardedGraphs,
    "checkpoints.GraphThreads": GuardedThreads,
}

JOB = "only jobs and clean-ups of the daemon use it, on nobody's behalf"
BY_KEY = "it is asked for records that the caller was shown, by their keys"
SCOPED = "it takes the caller with the question, and its hits are read through guards"
COMPUTES = "it computes or sends, and stores nothing"
CLOSED = "what uses it is for admins, or closed to teams"
MACHINE = "it is of the machine of a person, which has one user"
FEED = "who follows gets only what they see"
SENDER = "what uses it checks the person and the projects of each record"
OPEN: Mapping[str, str] = {
    "hooks.HookLog": COMPUTES,
    "index.Embedder": COMPUTES,
    "memories.Reasoner": COMPUTES,
    "access.SocketOwners": COMPUTES,
    "runs.ChatModel": COMPUTES,
    "runs.WebPages": COMPUTES,
    "runs.Programs": COMPUTES,
    "secrets.SecretsFilter": COMPUTES,
    "toc.Summarizer": COMPUTES,
    "lessons.LessonExtractor": COMPUTES,
    "knowledge.KnowledgeRecord": COMPUTES,
    "backups.Snapshots": JOB,
    "forgetting.ErasureQueue": "it decides by the key of the caller",
    "forgetting.ForgettingPlan": JOB,
    "forgetting.ForgettingListener": JOB,
    "forgetting.ForgettingWatch": MACHINE,
    "forgetting.NeedleSearch": JOB,
    "index.EmbeddingQueue": JOB,
    "index.VectorCopies": JOB,
    "log.Outbox": JOB,
    "log.OutboxNeed": JOB,
    "log.OutboxLearner": JOB,
    "log.EventRemover": JOB,
    "memories.NoteQueue": JOB,
    "memories.Notebook": JOB,
    "jobs.JobStore": JOB,
    "toc.TocWriter": JOB,
    "toc.TocEditions": JOB,
    "toc.TocEraser": JOB,
    "index.LexicalIndex": SCOPED,
    "index.VectorIndex": SCOPED,
    "index.TermVectors": BY_KEY,
    "recall.AnswerFilter": BY_KEY,
    "recall.EmbeddingWork": JOB,
    "recall.RecordSource": "each reads through a guard",
    "recall.TeamRecords": MACHINE,
    "memories.MemoryFeed": FEED,
    "memories.MemoryFollower": FEED,
    "forgetting.PersonFinder": BY_KEY,
    "knowledge.RemovalFinder": "it gives a time alone, for a fact that the caller states",
    "memories.MemoryUses": BY_KEY,
    "injections.Ledger": CLOSED,
    "memories.Projects": CLOSED,
    "memories.Repositories": CLOSED,
    "memories.Journal": CLOSED,
    "memories.UndoLog": CLOSED,
    "access.KeyRing": CLOSED,
    "access.AuditStore": CLOSED,
    "hooks.Spool": MACHINE,
    "hooks.PauseStore": MACHINE,
    "hooks.ProjectPaths": MACHINE,
    "hooks.Transcripts": MACHINE,
    "hooks.AgentSetup": MACHINE,
    "upstream.TeamServer": MACHINE,
    "upstream.AccountServer": MACHINE,
    "upstream.LoginServer": MACHINE,
    "upstream.HeldConversations": MACHINE,
    "upstream.AgreedNames": MACHINE,
    "upstream.NamedProjects": "names of projects, and which repository has each: no records",
    "upstream.ExchangeState": MACHINE,
    "upstream.SentLedger": MACHINE,
    "upstream.RemoteKeys": MACHINE,
    "upstream.TakenRecords": SENDER,
    "upstream.ChangeList": SENDER,
    "upstream.Tombstones": SENDER,
    "upstream.PendingErasures": SENDER,
    "upstream.Eraser": SENDER,
}


def list_ports() -> dict[str, type]:
    """Return the ports of every feature, by feature and name."""
    found: dict[str, type] = {}
    for feature in pkgutil.iter_modules(features.__path__):
        name = f"{features.__name__}.{feature.name}.ports"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as exc:
            if exc.name != name:
                raise
            continue
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == name and Protocol in kind.__bases__:
                found[f"{feature.name}.{kind.__name__}"] = kind
    return found


def list_methods(port: type) -> set[str]:
    return {
        name
        for kind in port.__mro__
        if kind not in (object, Protocol)
        for name in vars(kind)
        if not name.startswith("_")
    }


def test_every_port_is_guarded_or_open_for_a_reason() -> None:
    assert set(list_ports()) == {*GUARDED, *OPEN}
    assert not GUARDED.keys() & OPEN.keys()
    assert all(OPEN.values())


@pytest.mark.parametrize("name", GUARDED)
def test_every_method_of_a_guarded_port_is_the_guards_own(name: str) -> None:
    """An inherited one would be open, and nobody would have decided so."""
    guard, methods = GUARDED[name], list_methods(list_ports()[name])
    assert guard.__bases__ == (object,)
    assert methods
    assert methods <= vars(guard).keys()


@pytest.mark.parametrize("guard", dict.fromkeys(GUARDED.values()), ids=lambda guard: guard.__name__)
def test_what_a_guard_leaves_open_has_a_reason(guard: type) -> None:
    """A method that asks nobody who calls, not even through a function of its module, is named."""
    module = inspect.getmodule(guard)
    assert module is not None
    left_open: Mapping[str, str] = getattr(guard, "OPEN", {})
    asking = _find_asking(guard)
    for name, method in vars(guard).items():
        if not name.startswith("_") and inspect.isfunction(method):
            assert (name in asking) != (name in left_open), name
    assert all(left_open.values())


def _find_asking(guard: type) -> set[str]:
    """Return the functions that ask who calls, themselves or through others of the module."""
    module = inspect.getmodule(guard)
    functions = {
        name: function
        for scope in (vars(module), vars(guard))
        for name, function in scope.items()
        if inspect.isfunction(function)
    }
    used = {name: set(_list_names(function.__code__)) for name, function in functions.items()}
    asking = {"get_caller", "check_may_write", "check_may_manage"}
    while more := {name for name, names in used.items() if names & asking} - asking:
        asking |= more
    return asking


def _list_names(code: object) -> list[str]:
    """Return the names that a function uses, also within its lambdas."""
    assert inspect.iscode(code)
    within = [each for each in code.co_consts if inspect.iscode(each)]
    return [*code.co_names, *(name for each in within for name in _list_names(each))]
