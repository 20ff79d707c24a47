"""`memory doctor`: whether everything works, and what to do where it does not."""

import click

from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.status import CheckResult, Health

_SIGNS = {
    Health.FINE: "\N{CHECK MARK}",
    Health.WARNING: "!",
    Health.PROBLEM: "\N{BALLOT X}",
}


@click.command(
    cls=Command,
    needs_config=False,
    examples=("memory doctor", "memory doctor --format json"),
)
@invocation
@click.pass_context
def doctor(ctx: click.Context, run: Invocation) -> None:
    """Check the whole way from your agents to the store.

    Settings, data folder, git, the daemon (which is started if none runs), its jobs and indexes,
    and the hooks of every agent: each is called as the agent calls it. Exits with 1 where something
    does not work.
    """
    cwd = run.terminal.call.cwd
    found = list(run.backend.require_control().examine(run.config_file, cwd))
    problems = sum(each.health is Health.PROBLEM for each in found)
    run.show(
        {
            "healthy": not problems,
            "findings": [
                {
                    "subject": each.subject,
                    "health": each.health.value,
                    "said": each.said,
                    "advice": each.advice,
                }
                for each in found
            ],
        },
        lambda: "\n".join(_line(each) for each in found),
        essential="\n".join(_line(each) for each in found if each.health is Health.PROBLEM),
    )
    if problems:
        ctx.exit(1)


def _line(finding: CheckResult) -> str:
    said = f"{_SIGNS[finding.health]} {finding.subject:<11} {rendering.plain(finding.said)}"
    return f"{said}\n{'':14}{finding.advice}" if finding.advice else said
