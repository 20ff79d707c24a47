"""`memory team`: the keys in a person's name, and what other machines ask to erase."""

from collections.abc import Sequence

import click

from agent_memory.features.upstream.model.records import ErasureNotice
from agent_memory.features.upstream.services.account import TeamAccount
from agent_memory.features.upstream.services.exchange import TeamExchange
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.commands import Group, Invocation, invocation, yes_option
from agent_memory.kernel.errors import AgentMemoryError, Cancelled, InvalidInput

SHOWN = 50


@click.group(
    "team",
    cls=Group,
    examples=("memory team waiting", "memory team keep --all", "memory team keys"),
)
def team_group() -> None:
    """Look after what your team's machines do in your name.

    What another machine asks to erase waits, for `upstream.erase_hours`: on your team's server what
    one of its people asks, on your machine what the server asks. What you forget in a terminal of
    this machine is erased here at once.
    """


@team_group.command(
    "waiting", examples=("memory team waiting", "memory team waiting --format json")
)
@invocation
def list_waiting(run: Invocation) -> None:
    """List what waits to be erased, here and of yours on the server."""
    here, there = run.services[TeamExchange].erasing.list_notices(), _list_there(run)
    run.show(
        {
            "here": [each._asdict() for each in here],
            "on_server": [each._asdict() for each in there],
        },
        lambda: "\n".join(
            (*_describe("Here", here), *_describe(_name_server(run), there))
            or ("Nothing waits to be erased.",)
        ),
    )


@team_group.command(
    "keep", examples=("memory team keep --all", "memory team keep 01J8ZK6Q7W3N4V5X6Y7Z8A9B0C@ada")
)
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Keep everything that waits.")
@invocation
def keep(run: Invocation, names: tuple[str, ...], every: bool) -> None:
    """Do not erase these, here and on the server. Take the names from `memory team waiting`."""
    check_person(run, "keep what another machine asks to erase")
    erasing = run.services[TeamExchange].erasing
    here = erasing.choose(_choose(erasing.list_notices(), names, every))
    there = _choose(_list_there(run), names, every)
    if not every and not here and not there:
        raise InvalidInput("none of these waits to be erased: see `memory team waiting`")
    erasing.keep(here)
    kept = run.services[TeamAccount].keep(there) if there else 0
    run.show(
        {"here": len(here), "on_server": kept},
        lambda: f"\N{CHECK MARK} Kept {rendering.count(len(here) + kept, 'record')}",
    )


@team_group.command("erase", examples=("memory team erase --all",))
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Erase everything that waits here.")
@yes_option
@invocation
def erase(run: Invocation, names: tuple[str, ...], every: bool, yes: bool) -> None:
    """Erase these at once, on this machine. You cannot undo this."""
    check_person(run, "erase at once what another machine asks to erase")
    erasing = run.services[TeamExchange].erasing
    chosen = erasing.choose(_choose(erasing.list_notices(), names, every))
    if not chosen:
        raise InvalidInput("none of these waits to be erased here: see `memory team waiting`")
    count = rendering.count(len(chosen), "record")
    if not run.confirm(f"Erase {count} for good?", yes=yes):
        raise Cancelled
    with run.terminal.progress("Erasing", None):
        erasing.erase(chosen)
    run.show({"erased": len(chosen)}, lambda: f"\N{CHECK MARK} Erased {count}")


@team_group.command("keys", examples=("memory team keys",))
@invocation
def list_keys(run: Invocation) -> None:
    """List the keys in your name on the server, and who made them.

    Whoever has one of them sees there what is private to you. Ask an admin to revoke one that you
    do not know.
    """
    keys = run.services[TeamAccount].list_keys()
    run.show(
        {"keys": [each._asdict() for each in keys]},
        lambda: (
            "\n".join(
                rendering.plain(
                    f"{each.name}  {each.rights}, by {each.created_by or 'the operator'}"
                )
                + f"  {rendering.format_with_age(each.created_ms)}"
                for each in keys
            )
            or "No keys."
        ),
    )


def _list_there(run: Invocation) -> list[ErasureNotice]:
    """Return what waits on the server; nothing if there is none, or it cannot be asked."""
    if not run.services[TeamAccount].has_server:
        return []
    try:
        return run.services[TeamAccount].list_erasures()
    except AgentMemoryError as exc:
        reason = rendering.plain(f"{_name_server(run)} could not be asked: {exc}")
        run.terminal.warn(f"note: {reason}\n")
        return []


def _name_server(run: Invocation) -> str:
    return run.services[TeamExchange].forwarding.read_settings().name


def _choose(notices: Sequence[ErasureNotice], names: tuple[str, ...], every: bool) -> list[str]:
    if bool(names) == every:
        raise click.UsageError("give names from `memory team waiting`, or --all")
    return [each.name for each in notices if every or each.name in names]


def _describe(place: str, notices: Sequence[ErasureNotice]) -> list[str]:
    lines = [f"{rendering.plain(place)}: {rendering.count(len(notices), 'record')}"]
    lines += (
        f"  {each.kind} {rendering.plain(each.name)}, asked by {rendering.plain(each.asked_by)},"
        f" erased {rendering.format_zoned(each.due_ms)}"
        for each in notices[:SHOWN]
    )
    if len(notices) > SHOWN:
        lines.append(f"  and {len(notices) - SHOWN:,} more (--format json lists all)")
    return lines if notices else []
