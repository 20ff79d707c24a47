"""Share the project of a folder with a team: show what would leave, ask, and write it down."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.upstream.model import scopes
from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.model.records import ServerProject
from agent_memory.features.upstream.services.exchange import TeamExchange
from agent_memory.features.upstream.services.preview import SharePreview
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.interfaces.cli.settings import CONVERSATIONS, PROJECTS
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import (
    Cancelled,
    InvalidInput,
    NotFound,
    RemoteUnavailable,
    Unauthorized,
)
from agent_memory.kernel.ids import USER

MAX_SHOWN = 5  # projects of one name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRequest:
    """What to share. `there` is the name that the server is to give it."""

    projects: Sequence[str]
    there: str = ""
    join: bool = False
    conversations: bool = False
    yes: bool = False


def share(run: Invocation, wanted: ShareRequest) -> list[dict[str, Any]]:
    """Show what would leave and ask. Then share it, and return what was shown.

    Raises InvalidInput, and Cancelled if the answer is no.
    """
    from agent_memory import config_file  # noqa: PLC0415  # late: the TOML editor is slow

    if (wanted.there or wanted.join) and len(wanted.projects) != 1:
        raise InvalidInput("--as and --join are for one project: name it with --project")
    exchange = run.services[TeamExchange]
    settings = exchange.shared.read_settings()
    shown = []
    for repository in dict.fromkeys(find_repository(run, each) for each in wanted.projects):
        with run.terminal.progress("Counting", None) as advance:
            preview = exchange.preview.build(
                repository,
                conversations=wanted.conversations,
                on_progress=lambda _count: advance(0),
            )
        there = _find_name(run, settings, wanted, repository)
        shown.append(_to_json(preview, there, wanted))
        run.terminal.warn("\n".join(_describe(preview, there, settings, wanted)) + "\n")
    _confirm(run, settings, wanted)
    for each in shown:
        _claim(run, settings, wanted, each["repository"])
    added = [each["repository"] for each in shown]
    own = run.loaded.settings.upstream
    values = {PROJECTS: _add(own.projects, added)}
    if wanted.conversations:
        more = [repository for repository in added if repository != USER]
        values[CONVERSATIONS] = _add(own.conversations, more)
    config_file.change_all(run.find_config_file(), values)
    exchange.wake()
    return shown


def unshare(run: Invocation, projects: Sequence[str]) -> list[str]:
    """Stop sharing projects. Return their repositories, or the names of earlier versions."""
    from agent_memory import config_file  # noqa: PLC0415  # late, as above

    own = run.loaded.settings.upstream
    gone = [each if each in own.projects else find_repository(run, each) for each in projects]
    for repository in gone:
        if repository not in (*own.projects, *own.conversations):
            raise InvalidInput(f"{repository} is not shared: `memory remote list` shows what is")
    values = {
        key: [entry for entry in entries if entry not in gone]
        for key, entries in ((PROJECTS, own.projects), (CONVERSATIONS, own.conversations))
        if set(entries) & set(gone)
    }
    config_file.change_all(run.find_config_file(), values)
    run.services[TeamExchange].wake()
    return gone


def find_repository(run: Invocation, text: str) -> str:
    """Return the identity that a folder, a remote or `user` stands for. Raises InvalidInput for a
    name alone: two repositories may have it."""
    if text == USER:
        return USER
    if text.startswith((".", "/", "~")):
        folder = run.path(_as_path(run, text))
        if not folder.is_dir():
            raise InvalidInput(f"there is no folder {text}")
        environ = {"HOME": run.terminal.call.environ.get("HOME", "")}
        place = run.services[ProjectResolver].resolve_folder(
            Caller(folder=str(folder.resolve()), environ=environ)
        )
        if not place.repository:
            raise InvalidInput(f"the path of {text} cannot be written into a setting: rename it")
        return place.repository
    if "://" in text or ("@" in text and ":" in text):
        raise InvalidInput(
            "name the remote as host/path, such as git.example/acme/my-app, or a clone's folder"
        )
    if "/" in text:
        return text.removesuffix(".git")
    projects = run.services[TeamExchange].shared.projects.list_all()
    same = [
        each.repository
        for each in projects
        if each.repository and (each.id == text or scopes.derive_name(each.repository) == text)
    ]
    known = f"; here it may be {', '.join(sorted(same)[:MAX_SHOWN])}" if same else ""
    raise InvalidInput(
        f"two repositories may have the name {text!r}: name the folder, as in --project ., or the"
        f" remote{known}"
    )


def _as_path(run: Invocation, text: str) -> Path:
    home = run.terminal.call.environ.get("HOME", "")
    return Path(home + text[1:]) if text == "~" or text.startswith("~/") else Path(text)


def _find_name(
    run: Invocation, settings: RemoteSettings, wanted: ShareRequest, repository: str
) -> ServerProject | None:
    """Return the project's name on the server; None if that is agreed later. Raises InvalidInput if
    another repository has it."""
    if repository == USER:
        return ServerProject(name=USER)
    if not settings.is_complete:
        if wanted.there or wanted.join:
            raise InvalidInput("log in first: the server keeps the names (`memory remote login`)")
        return None
    name = wanted.there or scopes.derive_name(repository)
    server = run.services[TeamExchange].connect(settings)
    try:
        found = server.find_project(repository, name)
    except (RemoteUnavailable, Unauthorized, NotFound):
        if wanted.there or wanted.join:
            raise
        return None
    if found.name and wanted.there not in ("", found.name):
        raise InvalidInput(f"{settings.name} calls this repository {found.name!r} already")
    if found.taken_by and not wanted.join:
        raise InvalidInput(
            f"the name {name!r} on {settings.name} is that of {found.taken_by}: choose another one"
            " with --as NAME, or add --join if both are one project"
        )
    return found


def _claim(
    run: Invocation, settings: RemoteSettings, wanted: ShareRequest, repository: str
) -> None:
    """Agree on the name now. If the server is away, the next exchange does."""
    if repository == USER or not settings.is_complete:
        return
    exchange = run.services[TeamExchange]
    name = wanted.there or scopes.derive_name(repository)
    try:
        exchange.shared.claim(repository, name, exchange.connect(settings), join=wanted.join)
    except (RemoteUnavailable, Unauthorized):
        if wanted.there or wanted.join:
            raise


def _confirm(run: Invocation, settings: RemoteSettings, wanted: ShareRequest) -> None:
    if wanted.yes:
        return
    if not run.terminal.call.input_is_terminal:
        raise InvalidInput("nothing is shared yet: look at what would leave, and add --yes")
    if not run.terminal.confirm(f"Share this with {settings.name}?"):
        raise Cancelled


def _describe(
    preview: SharePreview,
    there: ServerProject | None,
    settings: RemoteSettings,
    wanted: ShareRequest,
) -> Iterator[str]:
    plain, count = rendering.plain, rendering.count
    is_own = preview.repository == USER
    here = f"  (the project {preview.name} here)" if preview.name and not is_own else ""
    yield plain("Your own memories" if is_own else f"{preview.repository}{here}")
    if not is_own:
        yield plain(f"  There: {_describe_name(preview, there, settings, wanted)}")
    if not preview.name:
        yield "  This machine has nothing of it yet. What you record there later leaves."
        return
    facts = f" and {count(preview.facts, 'fact')}" if not is_own else ""
    since = _describe_since(preview.since_ms)
    yield f"  Leaves: {count(preview.memories, 'memory', 'memories')}{facts}{since}"
    if preview.to_review:
        waiting = count(preview.to_review, "memory", "memories")
        yield f"  Stays: {waiting} until you have reviewed it (`memory review`)"
    if not is_own:
        said = f"{count(preview.events, 'event')} of {count(preview.sessions, 'session')}"
        said += _describe_since(preview.said_since_ms)
        yield (
            f"  Conversations leave too, once they have ended: {said}"
            if wanted.conversations
            else f"  Conversations stay: {said} (--conversations shares them too)"
        )
    for text in preview.samples:
        yield plain(f"    {text}")


def _describe_name(
    preview: SharePreview,
    there: ServerProject | None,
    settings: RemoteSettings,
    wanted: ShareRequest,
) -> str:
    if there is None:
        return f"its name is agreed when {settings.name} answers"
    if there.name:
        return f"{there.name}, as {settings.name} calls it already"
    name = wanted.there or scopes.derive_name(preview.repository)
    return f"{name}, with {there.taken_by}" if there.taken_by else f"{name}, which is new"


def _describe_since(at_ms: int | None) -> str:
    return "" if at_ms is None else f", since {rendering.format_day(at_ms)}"


def _to_json(
    preview: SharePreview, there: ServerProject | None, wanted: ShareRequest
) -> dict[str, Any]:
    name = None if there is None else there.name or wanted.there
    return {
        "repository": preview.repository,
        "project": preview.name or None,
        "name": name or scopes.derive_name(preview.repository),
        "memories": preview.memories,
        "to_review": preview.to_review,
        "facts": preview.facts,
        "since_ms": preview.since_ms,
        "conversations": wanted.conversations,
        "events": preview.events,
        "sessions": preview.sessions,
        "said_since_ms": preview.said_since_ms,
        "samples": list(preview.samples),
    }


def _add(entries: Sequence[str], added: Sequence[str]) -> list[str]:
    return list(dict.fromkeys((*entries, *added)))
