"""`memory-daemon service`: start the daemon at login."""

import click

from agent_memory.interfaces.cli import service_unit
from agent_memory.interfaces.cli.commands import Group, Invocation, invocation
from agent_memory.kernel.errors import FeatureUnavailable


@click.group(
    cls=Group, examples=("memory-daemon service install --dry-run", "memory-daemon service remove")
)
def service() -> None:
    """Start the daemon at login, through systemd or launchd."""


@service.command("install", needs_config=False, examples=("memory-daemon service install",))
@click.option("--dry-run", is_flag=True, help="Show the unit, and write nothing.")
@invocation
def install_service(run: Invocation, dry_run: bool) -> None:
    """Write the unit that starts the daemon; show how to activate it."""
    unit = service_unit.for_platform(run.terminal.call, config_file=run.config_file)
    if not dry_run:
        run.installing.note(unit.write())
    run.show(
        {"path": str(unit.path), "written": not dry_run, "activate": unit.activate},
        lambda: (
            (f"{unit.path}\n\n{unit.text}" if dry_run else f"Wrote {unit.path}")
            + f"\nActivate it with: {' '.join(unit.activate)}"
        ),
    )


@service.command("remove", needs_config=False, examples=("memory-daemon service remove",))
@invocation
def remove_service(run: Invocation) -> None:
    """Deactivate and remove the unit."""
    unit = service_unit.for_platform(run.terminal.call)
    note = ""
    if unit.path.exists():
        try:
            unit.run(unit.deactivate)  # first: systemd must still find the unit to disable it
        except FeatureUnavailable as exc:
            note = str(exc)
    removed = unit.remove()
    run.installing.remove_folders()
    if note:
        run.terminal.warn(f"note: the unit may still be active: {note}\n")
    run.show(
        {"path": str(unit.path), "removed": removed, "note": note},
        lambda: f"Removed {unit.path}" if removed else f"{unit.path} does not exist.",
    )
