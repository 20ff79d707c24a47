"""The values that a shell completes: names of settings, and what the running daemon stores.

A table says which options and arguments have which values, so that one of the same name in a new
command completes too. Without a daemon only fixed values complete: none is started for it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

import click
from click.shell_completion import CompletionItem

from agent_memory import config
from agent_memory.features import import_modules
from agent_memory.features.access.services.access import Access
from agent_memory.features.hooks.model.installations import Agent
from agent_memory.features.jobs.services.jobs import Jobs
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.toc.services.journal import JournalScope, WorkJournal
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import CommaList, Invocation
from agent_memory.kernel.errors import AgentMemoryError

if TYPE_CHECKING:  # loading them takes longer than the rest of a completion
    from agent_memory.kernel.composition import Composition

NEWEST = 500  # memories that are looked through
SESSIONS = 40
WORD = f"{__name__}.word"  # what was typed of the value, for sources that look it up
HELP_CHARS = 60
_STATUSES = frozenset(MemoryStatus) - {MemoryStatus.TOMBSTONE}

Offer = tuple[str, str]  # a value, and what it is
Source = Callable[[click.Context], Iterable[Offer]]


def list_memory_ids(ctx: click.Context) -> Iterator[Offer]:
    for memory in _list_memories(ctx):
        yield memory.id, rendering.excerpt(memory.summary, HELP_CHARS)


def list_openable_ids(ctx: click.Context) -> Iterator[Offer]:
    yield from list_memory_ids(ctx)
    yield from list_sessions(ctx)


def list_tags(ctx: click.Context) -> Iterator[Offer]:
    counts = Counter(tag for memory in _list_memories(ctx) for tag in memory.tags)
    for tag, count in counts.most_common():
        yield tag, rendering.count(count, "memory", "memories")


def list_specs(ctx: click.Context) -> Iterator[Offer]:
    for spec in dict.fromkeys(memory.spec for memory in _list_memories(ctx) if memory.spec):
        yield spec, ""


def list_projects(ctx: click.Context) -> Iterator[Offer]:
    services = require_services(ctx)
    names = {*services[WorkJournal].list_projects(), *services[ProjectResolver].list_names()}
    for name in sorted(names):
        yield name, ""


def list_domains(ctx: click.Context) -> Iterator[Offer]:
    yield "project", "of this folder"
    yield "user", "your own, in every project"
    yield "org", "of your organization"
    for name in require_services(ctx)[ProjectResolver].list_names():
        yield f"project:{name}", "by name"


def list_sessions(ctx: click.Context) -> Iterator[Offer]:
    journal = require_services(ctx)[WorkJournal]
    page = journal.list_sessions(JournalScope(), limit=SESSIONS)
    for entry in page.sessions:
        yield entry.session_id, rendering.excerpt(entry.title, HELP_CHARS)
    titled = {entry.session_id for entry in page.sessions}
    for name in journal.find_sessions(ctx.meta[WORD], limit=SESSIONS):
        if name not in titled:
            yield name, ""


def list_recorded_agents(ctx: click.Context) -> Iterator[Offer]:
    """List the agents that can be installed, and those of features."""
    for agent in Agent:
        yield agent.value, ""
    for module in import_modules("interfaces.completing"):
        yield from module.list_agents(ctx)


def list_jobs(ctx: click.Context) -> Iterator[Offer]:
    for job in require_services(ctx)[Jobs].status()[1]:
        yield job.name, ""


def list_keys(ctx: click.Context) -> Iterator[Offer]:
    for key in require_services(ctx)[Access].list():
        yield key.name, ""


def list_settings(_ctx: click.Context) -> Iterator[Offer]:
    for key in config.KEYS.values():
        yield key.name, rendering.excerpt(key.doc, HELP_CHARS)


def list_setting_values(ctx: click.Context) -> Iterator[Offer]:
    key = config.KEYS.get(ctx.params.get("key") or "")
    if key is None:
        return
    values = ("true", "false") if key.type is bool else key.choices
    for value in values:
        yield value, "the default" if value in (key.default, str(key.default).lower()) else ""


BY_NAME: Mapping[str, Source] = {
    "memory_id": list_memory_ids,
    "memory_ids": list_memory_ids,
    "relates_to": list_memory_ids,
    "tags": list_tags,
    "spec": list_specs,
    "project": list_projects,
    "domain": list_domains,
    "session": list_sessions,
    "session_id": list_sessions,
    "agent": list_recorded_agents,
    "job_name": list_jobs,
}
BY_COMMAND: Mapping[tuple[str, str], Source] = {
    ("memory show", "name"): list_openable_ids,
    ("memory why", "name"): list_openable_ids,
    ("memory config get", "key"): list_settings,
    ("memory config set", "key"): list_settings,
    ("memory config set", "value"): list_setting_values,
    ("memory config unset", "key"): list_settings,
    ("memory-daemon token revoke", "name"): list_keys,
}


def attach_sources(
    programs: Mapping[str, click.Command], words: Collection[str] | None = None
) -> None:
    """Let the parameters of all commands complete by the tables, or those of the commands that are
    among `words`: the others need not be loaded then."""
    by_command = dict(BY_COMMAND)
    for module in import_modules("interfaces.completing"):
        by_command |= module.BY_COMMAND
    for program, command in programs.items():
        if words is None or program in words:
            _attach(command, program, words, by_command)


def _attach(
    command: click.Command,
    path: str,
    words: Collection[str] | None,
    by_command: Mapping[tuple[str, str], Source],
) -> None:
    for param in command.params:
        source = by_command.get((path, param.name or "")) or BY_NAME.get(param.name or "")
        is_free = isinstance(param.type, click.types.StringParamType | CommaList)
        if source is not None and is_free:  # a choice completes by itself
            # click has a parameter for it, but only where the option is declared.
            param.shell_complete = partial(_complete, source, param)  # type: ignore[method-assign]
    if isinstance(command, click.Group):
        for name in command.commands:
            if words is None or not name or name in words:  # a prompt has no name
                _attach(command.commands[name], f"{path} {name}", words, by_command)


def _complete(
    source: Source, param: click.Parameter, ctx: click.Context, incomplete: str
) -> list[CompletionItem[str]]:
    head, comma, word = "", "", incomplete
    if isinstance(param.type, CommaList):
        head, comma, word = incomplete.rpartition(",")
    ctx.meta[WORD] = word
    given = set(head.split(","))
    values = ctx.params.get(param.name or "")
    if isinstance(values, tuple) and not comma:  # of an argument that takes several
        given.update(value for value in values if isinstance(value, str))
    try:
        return [
            CompletionItem(head + comma + value, help=help_ or None)
            for value, help_ in source(ctx)
            # Recorded names come from anyone, and a terminal obeys control characters.
            if value.startswith(word) and value not in given and value.isprintable()
        ]
    except AgentMemoryError:  # no daemon runs, or it cannot read its store
        return []


def _list_memories(ctx: click.Context) -> list[Memory]:
    editor = require_services(ctx)[MemoryEditor]
    return editor.list_newest(None, _STATUSES, namespace=None, limit=NEWEST)[0]


def require_services(ctx: click.Context) -> "Composition":
    return cast(Invocation, ctx.find_object(Invocation)).services  # set by the runner
