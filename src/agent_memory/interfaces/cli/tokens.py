"""`memory-daemon token` and `memory-daemon audit`: the keys of programs and people, and what they
did."""

import click
import msgspec

from agent_memory.features.access.operations import (
    KeyCreate,
    KeyName,
    ListedKey,
    create_key,
    list_keys,
    revoke_key,
)
from agent_memory.features.access.services.access import Access
from agent_memory.features.monitoring.operations import AuditQuery, AuditRecord, list_audit
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import (
    Choice,
    Command,
    Group,
    Invocation,
    invocation,
    yes_option,
)
from agent_memory.interfaces.cli.filters import limit_option, range_options, resolve_range
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import FeatureUnavailable, InvalidInput


@click.group(
    cls=Group, examples=("memory-daemon token create dashboard", "memory-daemon token list")
)
def token() -> None:
    """Create, list and revoke the keys of programs."""


@token.command("create", examples=("memory-daemon token create dashboard",))
@click.argument("name")
@click.option("--person", metavar="PERSON", default="", help="On a team server: whose key it is.")
@click.option(
    "--role",
    type=Choice([role.value for role in Role]),
    help="What they may do: reader (the default), writer or admin.",
)
@click.option(
    "--project",
    "projects",
    metavar="NAME",
    multiple=True,
    help="Show and write only this project. Repeat it for several; without it, all.",
)
@invocation
def create_token(
    run: Invocation, name: str, person: str, role: str | None, projects: tuple[str, ...]
) -> None:
    """Create a key for a program, and print it.

    Copy it now: it cannot be shown again, because only its hash is stored. Programs send it as a
    bearer token. On a team server, a key belongs to a person, with a role.
    """
    if not person and (role or projects):
        raise InvalidInput("--role and --project say what a person may do: add --person")
    if run.loaded.settings.team.enabled and not run.services[Access].team:
        raise FeatureUnavailable(
            "team.enabled is set, but the daemon was started without it: `memory-daemon restart`"
            " first"
        )
    wanted = KeyCreate(
        name=name,
        person=person,
        role=Role(role or Role.READER),
        projects=list(projects) or None,
    )
    created = run.call(create_key, wanted)
    if run.chosen_format == "text" and run.terminal.call.output_is_terminal:
        run.terminal.warn(f"Copy the key now: it cannot be shown again.{_describe_new(wanted)}\n")
    run.show(msgspec.to_builtins(created), lambda: created.token, essential=created.token)


def _describe_new(key: KeyCreate) -> str:
    if not key.person:
        return ""
    of = f"only {', '.join(sorted(key.projects))}" if key.projects else "all projects"
    return rendering.plain(f" It is {key.person}'s, as {key.role}, for {of}.")


@token.command("list", examples=("memory-daemon token list --format json",))
@invocation
def list_tokens(run: Invocation) -> None:
    """List the names of the keys, and when they were created."""
    keys = run.call(list_keys).keys
    width = max((len(key.name) for key in keys), default=0)
    run.show(
        msgspec.to_builtins(keys),
        lambda: "\n".join(_describe_key(key, width) for key in keys) or "No keys.",
    )


def _describe_key(key: ListedKey, width: int) -> str:
    created = rendering.format_with_age(key.created_ms)
    return f"{key.name:<{width}}  created {created}{_describe_holder(key)}{_find_refusal(key)}"


def _find_refusal(key: ListedKey) -> str:
    """Say why a key is refused here; empty if it counts."""
    if not key.refused:
        return ""
    why = "it is for a team server" if key.person else "it belongs to no person"
    return "  " + rendering.paint(f"REFUSED: {why}", rendering.BAD)


def _describe_holder(key: ListedKey) -> str:
    of = "" if key.projects is None else f" of {', '.join(key.projects)}"
    by = f", by {key.created_by}" if key.created_by else ""
    return f"  {key.person}, {key.role}{of}{by}" if key.person else ""


@token.command("revoke", examples=("memory-daemon token revoke dashboard",))
@click.argument("name")
@yes_option
@invocation
def revoke_token(run: Invocation, name: str, yes: bool) -> int:
    """Revoke a key. Programs that use it are refused from now on."""
    if not run.confirm(f"Revoke the key {name!r}?", yes=yes):
        run.terminal.warn("Not revoked.\n")
        return 1
    run.call(revoke_key, KeyName(name=name))
    run.show({"revoked": name}, lambda: f"Revoked {name}")
    return 0


@click.command(
    "audit",
    cls=Command,
    examples=(
        "memory-daemon audit --since yesterday --person ada",
        "memory-daemon audit --refused --format json",
    ),
)
@click.option("--person", default="", metavar="PERSON", help="Only what this person did.")
@click.option("--key", default="", metavar="NAME", help="Only what was done with this key.")
@click.option("--refused", is_flag=True, help="Only what was refused or failed.")
@range_options
@limit_option(50, help="List at most this many.")
@invocation
def audit(
    run: Invocation,
    person: str,
    key: str,
    refused: bool,
    since: str | None,
    until: str | None,
    limit: int,
) -> None:
    """Show who did what on a team server, newest first."""
    start, end = resolve_range(run, since, until)
    wanted = AuditQuery(
        person=person,
        key=key,
        refused=refused,
        from_timestamp_ms=start,
        to_timestamp_ms=end,
        limit=limit,
    )
    entries = run.call(list_audit, wanted).entries
    run.show(
        msgspec.to_builtins(entries),
        lambda: "\n".join(map(_describe_entry, entries)) or "No entries.",
    )


def _describe_entry(entry: AuditRecord) -> str:
    who = entry.person or ("operator" if entry.interface == "keys" else "-")
    times = f" x{entry.count}" if entry.count > 1 else ""
    what = " ".join(filter(None, (entry.interface, entry.method, entry.target)))
    key = f" ({entry.key})" if entry.key else ""
    when = rendering.format_zoned(entry.timestamp_ms)
    return rendering.plain(f"{when}  {who}{key}  {what}  {entry.status}{times}")
