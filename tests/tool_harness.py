"""The tools of agents with real dependencies."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.runs.adapters.line_patterns import compile_pattern
from agent_memory.features.runs.adapters.programs import SupervisedPrograms
from agent_memory.features.runs.adapters.web.pages import HttpPages
from agent_memory.features.runs.model.chats import CallId, ToolCall
from agent_memory.features.runs.services.agent_catalog import AgentCatalog
from agent_memory.features.runs.services.agent_folder import AgentCatalogFolder
from agent_memory.features.runs.services.toolset import ToolContext, Toolset, ToolsetBuilder
from agent_memory.features.runs.services.workspaces.folders import GuardedFolders
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled, ToolFailed
from agent_memory.kernel.ids import SessionId
from agent_memory.platform.worker.process import ProcessWorker
from tests.processes import LONG
from tests.recall_parts import RecallHarness, open_recall

SESSION = SessionId("run-1")
_numbers = count(1)


def call(name: str, /, **arguments: object) -> ToolCall:
    """Build a tool call with a unique id."""
    return raw(name, json.dumps(arguments))


def raw(name: str, arguments: str) -> ToolCall:
    return ToolCall(call_id=CallId(f"call-{next(_numbers)}"), name=name, arguments=arguments)


@dataclass
class ToolHarness:
    """A toolset for tests. `folder` is the working folder, `own` the config folder."""

    tooling: ToolsetBuilder
    parts: RecallHarness
    folder: Path
    own: Path
    worker: ProcessWorker
    open: list[Toolset] = field(default_factory=list)

    def build_context(self, folder: Path | str | None = None, **about: Any) -> ToolContext:
        where = str(self.folder if folder is None else folder)
        return replace(
            ToolContext(session_id=SESSION, agent="kontekst:tester", folder=where), **about
        )

    def build_toolset(self, folder: Path | str | None = None, **about: Any) -> Toolset:
        self.open.append(self.tooling.build(self.build_context(folder, **about)))
        return self.open[-1]

    def skill(self, name: str, body: str) -> None:
        place = self.own / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(f"---\ndescription: {name}\n---\n{body}\n")


@contextmanager
def open_harness(
    top: Path,
    *,
    environ: Mapping[str, str] | None = None,
    private: Sequence[str] = (),
    barred: Sequence[Path] = (),
    seconds: float = LONG,
) -> Iterator[ToolHarness]:
    folder, own = top / "work", top / "own"
    folder.mkdir(exist_ok=True)
    own.mkdir()
    worker = ProcessWorker()
    with open_recall(top) as parts:
        tooling = ToolsetBuilder(
            workspaces=GuardedFolders([str(each) for each in (own, *barred)]),
            compile_pattern=compile_pattern,
            pages=HttpPages(private=private),
            programs=SupervisedPrograms(os.environ if environ is None else environ),
            worker=worker,
            recall=parts.recall,
            facts=Facts(
                knowledge=parts.knowledge,
                secrets=Re2Filter(mode="redact"),
                clock=parts.clock,
                on_change=lambda: None,
            ),
            clock=parts.clock,
            skills=AgentCatalog(AgentCatalogFolder(own)).render,
            seconds=seconds,
        )
        created = ToolHarness(tooling, parts, folder, own, worker)
        try:
            yield created
        finally:
            for each in created.open:
                each.close()
            worker.close()


def get_refusal(toolset: Toolset, wanted: ToolCall) -> str:
    """Run a call that fails, and return the reason."""
    with pytest.raises(ToolFailed) as told:
        toolset.run(wanted, CancelToken())
    return str(told.value)


def assert_halts(reached: Callable[[], object], work: Callable[[CancelToken], object]) -> None:
    """Check that the work stops when it is cancelled at that point."""
    cancel = CancelToken()
    ended: list[type[BaseException]] = []

    def run() -> None:
        try:
            work(cancel)
        except BaseException as exc:
            ended.append(type(exc))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    reached()
    cancel.set()
    thread.join(LONG)
    assert ended == [Cancelled]
