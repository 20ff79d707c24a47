"""`memory remote`: the server of a team, which this machine exchanges records with."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from agent_memory.features.upstream.interfaces import sharing
from agent_memory.features.upstream.interfaces.sharing import ShareRequest
from agent_memory.features.upstream.model import progress as exchange_progress
from agent_memory.features.upstream.model.addresses import check_address
from agent_memory.features.upstream.model.erasures import MAX_COUNTED
from agent_memory.features.upstream.model.progress import RemoteSettings, RemoteStatus
from agent_memory.features.upstream.services import shared_projects
from agent_memory.features.upstream.services.erasing import MAX_LISTED
from agent_memory.features.upstream.services.exchange import TeamExchange
from agent_memory.features.upstream.services.login import TeamLogin
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.commands import Group, Invocation, invocation, yes_option
from agent_memory.interfaces.cli.settings import CONVERSATIONS, PROJECTS
from agent_memory.kernel.errors import Cancelled, ConfigError, InvalidInput, RemoteUnavailable
from agent_memory.kernel.ids import USER

MAX_KEY_BYTES = 4_096
POLL_SECONDS = 0.2
SHOWN_REFUSED = 3
CHOOSE = "memory remote add --project ."


@click.group(
    "remote",
    cls=Group,
    examples=(
        "memory remote add https://memory.example",
        "memory remote login",
        CHOOSE,
        "memory remote status",
    ),
)
def remote_group() -> None:
    """Exchange records with the server of your team.

    Nothing leaves this machine before you share a project: `memory remote add --project .`
    Git remotes are something else: `memory sync` uses those.
    """


@remote_group.command(
    "add",
    examples=(
        "memory remote add https://memory.example",
        "memory remote add https://memory.example --name acme",
        CHOOSE,
        "memory remote add --project ~/shop --conversations",
    ),
)
@click.argument("url", required=False)
@click.option("--name", default="team", show_default=True, help="What to call it in output.")
@click.option(
    "--project",
    "projects",
    multiple=True,
    metavar="FOLDER",
    help="Share the project of a folder, of a remote (host/path), or `user`: your own memories.",
)
@click.option("--conversations", is_flag=True, help="Share its conversations too.")
@click.option("--as", "there", default="", metavar="NAME", help="What the server is to call it.")
@click.option("--join", is_flag=True, help="Make it one project with the one of that name there.")
@click.option("-y", "--yes", is_flag=True, help="Share what is shown, without being asked.")
@invocation
def add_remote(
    run: Invocation,
    url: str | None,
    name: str,
    projects: tuple[str, ...],
    conversations: bool,
    there: str,
    join: bool,
    yes: bool,
) -> None:
    """Name the server of your team, or share a project with it.

    A server needs https://, except on this machine. A project is known by the remote of its
    repository, or by its folder where there is none. You see what would leave, and are asked.
    """
    check_person(run, "choose a server for your records, and what is shared")
    if url is None and not projects:
        raise InvalidInput("name the address of a server, or a --project to share")
    if url is not None:
        _add_server(run, url, name)
    if not projects:
        return
    _require_server(run)
    wanted = ShareRequest(
        projects=projects, there=there, join=join, conversations=conversations, yes=yes
    )
    shown = sharing.share(run, wanted)
    run.show(
        {"shared": shown},
        lambda: "\n".join(
            rendering.plain(f"\N{CHECK MARK} Shared {each['repository']}") for each in shown
        ),
    )


def _add_server(run: Invocation, url: str, name: str) -> None:
    # Late: loading the TOML editor takes a twentieth of the start time of every command.
    from agent_memory import config_file  # noqa: PLC0415

    own, address = run.loaded.settings.upstream, check_address(url)
    if own.url and own.url != address:
        raise InvalidInput(
            f"there is a server already: {own.url}. To use another one, remove it first:"
            " `memory remote remove`"
        )
    path = run.find_config_file()
    config_file.change_all(path, {"upstream.url": address, "upstream.name": name})
    run.services[TeamExchange].wake()
    projects = ", ".join(own.projects) or f"none yet: {CHOOSE} shows what would leave"
    run.show(
        {"url": address, "name": name, "projects": own.projects},
        lambda: "\n".join(
            (
                f"\N{CHECK MARK} {rendering.plain(name)}: {rendering.plain(address)}",
                f"  Projects that are shared: {rendering.plain(projects)}",
                "  Next: memory remote login",
            )
        ),
    )


@remote_group.command(
    "login",
    examples=(
        "memory remote login",
        "memory remote login --key",
        "memory remote login < key-file",
    ),
)
@click.option("--key", "by_key", is_flag=True, help="Ask for a key, also if there is a login.")
@invocation
def login(run: Invocation, by_key: bool) -> None:
    """Log in to the server of your team, with a browser or with a key.

    If your team has an issuer of logins (OpenID Connect), you enter a code in a browser on any
    device, and this machine gets a key of its own. Otherwise you are asked for a key, or it is
    read from standard input. It goes into a file that only you can read, and to that server alone.
    """
    check_person(run, "log in to a server")
    settings = _require_server(run)
    key = "" if by_key else _log_in(run, settings)
    key = key or _obtain_key(run, settings)
    person, is_checked = "", True
    try:
        person = run.services[TeamLogin].find_person(settings, key)
    except RemoteUnavailable as exc:
        is_checked = False
        run.terminal.warn(f"warning: the key was not checked: {rendering.plain(str(exc))}\n")
    run.services[TeamLogin].store_key(settings, key)
    run.services[TeamExchange].wake()
    as_whom = f" as {person}" if person else ""
    run.show(
        {
            "name": settings.name,
            "url": settings.url,
            "person": person or None,
            "checked": is_checked,
        },
        lambda: (
            f"\N{CHECK MARK} Logged in to {rendering.plain(settings.name + as_whom)}"
            if is_checked
            else f"Stored the key for {rendering.plain(settings.name)}. It is checked when the"
            " server answers: `memory remote status` then says whose it is."
        ),
    )


@remote_group.command("list", examples=("memory remote list",))
@invocation
def list_remotes(run: Invocation) -> None:
    """List the server, its address and what is shared."""
    settings = run.services[TeamExchange].forwarding.read_settings()
    found = [_settings_json(settings)] if settings.url else []
    run.show(
        {"remotes": found},
        lambda: (
            f"{rendering.plain(settings.name)}  {rendering.plain(settings.url)}"
            if settings.url
            else "There is no server: memory remote add URL"
        ),
        essential=settings.url,
    )


@remote_group.command("status", examples=("memory remote status",))
@invocation
def remote_status(run: Invocation) -> None:
    """Show what waits, and when the last exchange succeeded or failed."""
    run.services[TeamExchange].wake()  # settings may have changed since
    _show_status(run)


@remote_group.command("sync", examples=("memory remote sync",))
@invocation
def sync_remote(run: Invocation) -> None:
    """Send and receive now. The daemon does so by itself within moments."""
    _require_server(run)
    with run.terminal.progress("Exchanging", None) as advance:
        run.services[TeamExchange].sync_now(lambda: advance(0))
    _show_status(run)


@remote_group.command(
    "remove",
    examples=(
        "memory remote remove",
        "memory remote remove --yes",
        "memory remote remove --project .",
    ),
)
@click.option(
    "--project",
    "projects",
    multiple=True,
    metavar="FOLDER",
    help="Stop sharing the project of a folder or a remote, and keep the server.",
)
@yes_option
@invocation
def remove_remote(run: Invocation, projects: tuple[str, ...], yes: bool) -> None:
    """Forget the server and what is shared, or stop sharing a project.

    What was sent stays there. Without the server, and the key for it, what you forget here later is
    no longer forgotten there.
    """
    from agent_memory import config_file  # noqa: PLC0415  # late, as above

    check_person(run, "remove a server")
    if projects:
        gone = sharing.unshare(run, projects)
        run.show(
            {"removed": gone},
            lambda: "\n".join(
                rendering.plain(f"\N{CHECK MARK} No longer shared: {each}") for each in gone
            ),
        )
        return
    settings = _require_server(run)
    waiting = run.services[TeamExchange].forwarding.get_status().forgettings_waiting
    kept = f"{rendering.count(waiting, 'record')} that you have forgotten would stay there"
    if waiting and not yes and not run.terminal.call.input_is_terminal:
        raise InvalidInput(f"{kept}: run `memory remote sync` first, or add --yes")
    warning = f"{kept} (`memory remote sync` first). " if waiting else ""
    if not run.confirm(f"{warning}Forget {settings.name} ({settings.url})?", yes=yes):
        raise Cancelled
    path = run.find_config_file()
    for key in ("upstream.url", "upstream.name", PROJECTS, CONVERSATIONS):
        config_file.remove(path, key)
    run.services[TeamLogin].remove_key()
    run.services[TeamExchange].forwarding.forget_server()
    run.show(
        {"removed": settings.url},
        lambda: f"\N{CHECK MARK} Removed {rendering.plain(settings.name)}",
    )


def _show_status(run: Invocation) -> None:
    exchange = run.services[TeamExchange]
    status, chosen = exchange.forwarding.get_status(), exchange.shared.read_settings().projects
    unknown = [
        each
        for each in shared_projects.list_repositories(chosen)
        if exchange.shared.find(each) is None
    ]
    here = len(exchange.erasing.list_waiting(limit=MAX_LISTED))
    run.show(
        {
            **_status_json(status),
            "unknown_projects": unknown,
            "to_erase": here + status.progress.erasures,
        },
        lambda: "\n".join(
            (
                *_describe_status(status),
                *_describe_notices(status, here),
                *_describe_unknown(unknown),
            )
        ),
        essential=rendering.plain(_summarize(status)),
    )


def _describe_notices(status: RemoteStatus, here: int) -> Iterator[str]:
    """Say what was done in the person's name that they should know of."""
    name, there = rendering.plain(status.settings.name), status.progress.erasures
    if here:
        yield f"  To be erased here: {rendering.count(here, 'record')}: memory team waiting"
    if there:
        more = " or more" if there >= MAX_COUNTED else ""
        waiting = f"{rendering.count(there, 'record')}{more}"
        yield f"  To be erased on {name}: {waiting}: memory team waiting"
    if new := status.progress.new_keys:
        yield rendering.plain(f"  New keys in your name: {', '.join(new)}: memory team keys")


def _summarize(status: RemoteStatus) -> str:
    """Return the state of the exchange in a word or two, or its error."""
    if not status.settings.url:
        return "no server"
    if not status.settings.key:
        return "not logged in"
    if status.progress.last_error:
        return f"error: {status.progress.last_error}"
    waits = status.changes_waiting or status.forgettings_waiting or status.backfilling
    return "waiting" if waits else "up to date"


def _describe_unknown(unknown: Sequence[str]) -> Iterator[str]:
    for repository in unknown:
        yield rendering.plain(f"  Note: nothing is known here yet of {repository}")


def _describe_shared(settings: RemoteSettings) -> Iterator[str]:
    """Yield what is shared, one line for each, and what was before projects had identities."""
    agreed = {each.repository: each for each in settings.agreed}
    bare = shared_projects.list_unconfirmed(settings.projects)
    if len(bare) == len(settings.projects):
        yield f"  Shared: nothing: {CHOOSE}"
    for each in settings.projects:
        if each == USER:
            yield "  Shared: your own memories"
        elif each not in bare:
            project = agreed.get(each)
            names = "" if project is None else f"  ({project.name} here, {project.there} there)"
            talk = ", with its conversations" if each in settings.conversations else ""
            yield rendering.plain(f"  Shared: {each}{talk}{names}")
    for name in bare:
        yield rendering.plain(
            f"  Not shared any more: {name!r}, because two repositories may have one name or come"
            f" into one folder. Share it again in its folder: {CHOOSE}"
        )


def _require_server(run: Invocation) -> RemoteSettings:
    settings = run.services[TeamExchange].forwarding.read_settings()
    if not settings.url:
        raise ConfigError("there is no server: memory remote add URL")
    return settings


def _log_in(run: Invocation, settings: RemoteSettings) -> str:
    """Return a key from a login in a browser; empty if the server offers none, or standard input
    has a key."""
    if not run.terminal.call.input_is_terminal:
        return ""
    logins = run.services[TeamLogin]
    try:
        method = logins.find_method(settings)
    except RemoteUnavailable:  # a key can be stored while the server is away
        return ""
    if method is None:
        return ""
    pending = logins.begin(method)
    page, code = rendering.plain(pending.page), rendering.plain(pending.code)
    run.terminal.warn(f"Open {page}\nand enter the code {code}\n")
    with run.terminal.progress("Waiting for your login", None) as advance:

        def wait(seconds: float) -> None:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                advance(0)  # which ends it after Ctrl-C
                time.sleep(min(left, POLL_SECONDS))

        return logins.finish(settings, pending, wait)


def _obtain_key(run: Invocation, settings: RemoteSettings) -> str:
    """Return the key that the user types, or that is in standard input."""
    if run.terminal.call.input_is_terminal:
        key = run.terminal.ask(f"Key for {settings.name}: ", hidden=True).strip()
    else:
        key = run.terminal.read(limit=MAX_KEY_BYTES).decode(errors="replace").strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput("that is not a key: it is one word of letters, digits and dashes")
    return key


def _settings_json(settings: RemoteSettings) -> dict[str, Any]:
    return {
        "name": settings.name,
        "url": settings.url,
        "has_key": bool(settings.key),
        "projects": list(settings.projects),
        "conversations": list(settings.conversations),
        "unconfirmed": shared_projects.list_unconfirmed(settings.projects),
        "recall": settings.recall,
    }


def _status_json(status: RemoteStatus) -> dict[str, Any]:
    progress = status.progress
    return {
        **_settings_json(status.settings),
        "person": progress.person or None,
        "waiting": {
            "changes": status.changes_waiting,
            "forgettings": status.forgettings_waiting,
            "past_of": list(status.backfilling),
            "conversations": status.conversations_held,
        },
        "sent": progress.sent,
        "rights": progress.rights or None,
        "new_keys": list(progress.new_keys),
        "refused": progress.refused,
        "last_refused": [refused._asdict() for refused in progress.last_refused],
        "last_success_ms": progress.last_success_ms or None,
        "last_error": progress.last_error or None,
        "last_error_ms": progress.last_error_ms if progress.last_error else None,
        "retry_seconds": status.retry_seconds,
    }


def _describe_status(status: RemoteStatus) -> Iterator[str]:
    settings, progress = status.settings, status.progress
    if not settings.url:
        yield "There is no server: memory remote add URL"
        return
    rights = f" ({progress.rights})" if progress.rights else ""
    person = f", as {progress.person}{rights}" if progress.person else ""
    yield rendering.plain(f"{settings.name}: {settings.url}{person}")
    if not settings.key:
        yield "  There is no key yet: memory remote login"
    yield from _describe_shared(settings)
    waiting = [
        f"{rendering.count(status.changes_waiting, 'change')}{' or more' * status.more_waiting}"
        if status.changes_waiting or status.more_waiting
        else "",
        rendering.count(status.forgettings_waiting, "forgetting")
        if status.forgettings_waiting
        else "",
        f"the past of {', '.join(status.backfilling)}" if status.backfilling else "",
    ]
    yield rendering.plain(f"  Waiting: {', '.join(filter(None, waiting)) or 'nothing'}")
    if status.conversations_held:
        held = rendering.count(status.conversations_held, "conversation")
        yield f"  Held back: {held}, until they have ended and you have reviewed what was noted"
    refused = f", {progress.refused:,} refused" if progress.refused else ""
    yield f"  Sent: {rendering.count(progress.sent, 'record')}{refused}"
    if progress.only_receives:
        yield "    Your key may only read: nothing is sent, what others change comes down"
    for each in progress.last_refused[-SHOWN_REFUSED:]:
        yield rendering.plain(f"    Refused {each.kind} {each.name}: {each.reason}")
    success = progress.last_success_ms
    never = success == exchange_progress.NEVER
    yield f"  Last success: {'never' if never else rendering.format_with_age(success)}"
    if progress.last_error:
        when = rendering.format_with_age(progress.last_error_ms)
        yield rendering.plain(f"  Last error: {when}: {progress.last_error}")
        if status.retry_seconds:
            yield f"  Next try: in {rendering.count(status.retry_seconds, 'second')}"
