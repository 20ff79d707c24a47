"""`memory ui`: open the page of the daemon in a browser."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping

import click

from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.backend import PageLink
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.errors import FeatureUnavailable

_OPENERS = ("xdg-open", "open", "wslview")


@click.command(
    cls=Command,
    examples=("memory ui", "memory ui --print", "memory ui --print --format json"),
)
@click.option("--print", "only_print", is_flag=True, help="Print the URL instead of opening it.")
@invocation
def ui(run: Invocation, only_print: bool) -> None:
    """Look at what your agents remember, in a browser.

    The URL has a code that works once, within a minute. The browser gets it from a file that only
    you can read, because other users see the arguments of programs. If your browser may not open
    files of yours, as in some sandboxes, use --print.

    The tabs of the page stay signed in until you close the last one, until the daemon ends, or
    until you run `memory-daemon token revoke page`.

    On another machine, print the URL and forward the port first: `ssh -L 8000:localhost:8000 HOST`.

    What you change there counts as yours, so the command refuses to run in the shell of an agent.
    Without a terminal, the page cannot accept what was noted automatically.
    """
    check_person(run, "open the page")
    if run.backend.open_page is None:
        raise FeatureUnavailable("this command needs a running daemon: `memory-daemon start`")
    may_accept = run.terminal.call.input_is_terminal
    if not may_accept:
        run.terminal.warn(
            "note: standard input is not a terminal: this page cannot accept what was noted"
            " automatically\n"
        )
    link = run.backend.open_page(may_accept)
    opened = not only_print and _open_browser(link, run.terminal.call.environ)
    run.show(
        {"url": link.url, "opened": opened, "may_accept": may_accept},
        lambda: (
            "Opened the page in your browser. If it shows an error: `memory ui --print`"
            if opened
            else f"{link.url}\nOpen it within a minute: its code works once."
        ),
        essential=link.url,
    )


def _open_browser(link: PageLink, environ: Mapping[str, str]) -> bool:
    """Start the caller's browser. Return whether there is one."""
    if environ.get("BROWSER"):
        commands = [shlex.split(environ["BROWSER"].split(os.pathsep)[0])]
    elif environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or os.uname().sysname == "Darwin":
        commands = [[opener] for opener in _OPENERS]
    else:
        return False
    for program, *arguments in commands:
        path = shutil.which(program, path=environ.get("PATH", os.defpath))
        if path is not None:
            if not any("%s" in each for each in arguments):
                arguments.append("%s")
            url = link.write_redirect().as_uri()
            subprocess.Popen(  # noqa: S603  # the caller's own browser, without a shell
                [path, *(each.replace("%s", url) for each in arguments)],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            return True
    return False
