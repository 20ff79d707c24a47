"""`memory doctor`: check that everything works, and advise where it does not."""

import click

from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.status import CheckResult, Health

_SIGNS = {
    Health.FINE: "\N{CHECK MARK}",
    Health.WARNING: "!",
    Health.PROBLEM: "\N{BALLOT X}",
}
_CODES = {
    Health.FINE: rendering.GOOD,
    Health.WARNING: rendering.CAREFUL,
    Health.PROBLEM: rendering.BAD,
}


@click.command(
    cls=Command,
    needs_config=False,
    examples=("memory doctor", "memory doctor --format json"),
)
@invocation
def doctor(run: Invocation) -> int:
    """Check that everything works, and say how to fix what does not.

    It checks your settings, the data folder, git, the daemon, its jobs and indexes, and the hooks
    of every agent, which it calls as the agent does. It starts the daemon if none is running. The
    exit code is 1 if something does not work.
    """
    cwd = run.terminal.call.cwd
    results = list(run.backend.require_control().examine(run.config_file, cwd))
    problems = [result for result in results if result.health is Health.PROBLEM]
    run.show(
        {
            "healthy": not problems,
            "findings": [
                {
                    "subject": result.subject,
                    "health": result.health.value,
                    "said": result.said,
                    "advice": result.advice,
                }
                for result in results
            ],
        },
        lambda: "\n".join(map(_line, results)),
        essential="\n".join(map(_line, problems)),
    )
    return 1 if problems else 0


def _line(result: CheckResult) -> str:
    sign = rendering.paint(_SIGNS[result.health], _CODES[result.health])
    line = f"{sign} {result.subject:<11} {rendering.plain(result.said)}"
    return f"{line}\n{'':14}{result.advice}" if result.advice else line
