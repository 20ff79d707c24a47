"""`memory-daemon token` and `memory-daemon audit`: the keys of programs and people, and what they
did."""

import click

from agent_memory.features.access.model.audit import AuditEntry, AuditFilter
from agent_memory.features.access.services.access import Access
from agent_memory.features.access.services.audit import AuditLog
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
from agent_memory.interfaces.wire.access import audit_json, key_json
from agent_memory.kernel.access import OWNER, AccessKey, Principal, Role
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
    principal = OWNER
    if person:
        principal = Principal(
            person=person,
            role=Role(role or Role.READER),
            projects=frozenset(projects) if projects else None,
        )
    access = run.services[Access]
    if run.loaded.settings.team.enabled and not access.team:
        raise FeatureUnavailable(
            "team.enabled is set, but the daemon was started without it: `memory-daemon restart`"
            " first"
        )
    secret = access.create(name, principal)
    if run.chosen_format == "text" and run.terminal.call.output_is_terminal:
        run.terminal.warn(
            f"Copy the key now: it cannot be shown again.{_describe_new(principal)}\n"
        )
    run.show(
        {
            "name": name,
            "token": secret,
            "person": principal.person or None,
            "role": principal.role.value if principal.person else None,
            "projects": None if principal.projects is None else sorted(principal.projects),
        },
        lambda: secret,
        essential=secret,
    )


def _describe_new(principal: Principal) -> str:
    if not principal.person:
        return ""
    of = "all projects"
    if principal.projects is not None:
        of = f"only {', '.join(sorted(principal.projects))}"
    return rendering.plain(f" It is {principal.person}'s, as {principal.role}, for {of}.")


@token.command("list", examples=("memory-daemon token list --format json",))
@invocation
def list_tokens(run: Invocation) -> None:
    """List the names of the keys, and when they were created."""
    keys, team = run.services[Access].list(), run.services[Access].team
    width = max((len(key.name) for key in keys), default=0)
    run.show(
        [{**key_json(key), "refused": bool(key.person) != team} for key in keys],
        lambda: (
            "\n".join(
                f"{key.name:<{width}}  created {rendering.format_with_age(key.created_ms)}"
                f"{_describe_holder(key)}{_find_refusal(key, team)}"
                for key in keys
            )
            or "No keys."
        ),
    )


def _find_refusal(key: AccessKey, team: bool) -> str:
    """Say why a key is refused here; empty if it counts."""
    if bool(key.person) == team:
        return ""
    why = "it belongs to no person" if team else "it is for a team server"
    return "  " + rendering.paint(f"REFUSED: {why}", rendering.BAD)


def _describe_holder(key: AccessKey) -> str:
    by = f", by {key.created_by}" if key.created_by else ""
    return f"  {key.principal.description}{by}" if key.person else ""


@token.command("revoke", examples=("memory-daemon token revoke dashboard",))
@click.argument("name")
@yes_option
@invocation
def revoke_token(run: Invocation, name: str, yes: bool) -> int:
    """Revoke a key. Programs that use it are refused from now on."""
    if not run.confirm(f"Revoke the key {name!r}?", yes=yes):
        run.terminal.warn("Not revoked.\n")
        return 1
    run.services[Access].revoke(name)
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
    log = run.services.find(AuditLog)
    if log is None:
        raise FeatureUnavailable("only a team server has an audit log: set team.enabled")
    wanted = AuditFilter(person=person, key=key, refused=refused, since=start, until=end)
    page = log.list_entries(wanted, limit=limit)
    run.show(
        [audit_json(entry) for entry in page.entries],
        lambda: "\n".join(map(_describe_entry, page.entries)) or "No entries.",
    )


def _describe_entry(entry: AuditEntry) -> str:
    who = entry.person or ("operator" if entry.interface == "keys" else "-")
    times = f" x{entry.count}" if entry.count > 1 else ""
    what = " ".join(filter(None, (entry.interface, entry.method, entry.target)))
    key = f" ({entry.key})" if entry.key else ""
    when = rendering.format_zoned(entry.at_ms)
    return rendering.plain(f"{when}  {who}{key}  {what}  {entry.status}{times}")
