"""Store a hook call in the spool when no daemon answers.

This is a process of its own, because loading the secrets filter takes longer than a whole hook call
usually does. Usage: `python -I -m agent_memory.daemon.hook_fallback NONCE MILLIS hook NAME ...`,
with the hook's input on standard input.
"""

import contextlib
import os
import sys

from agent_memory import config
from agent_memory.daemon import hook_consent
from agent_memory.features.hooks.adapters.project_folders import ProjectFolders
from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.hook_options import load_settings
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.features.secrets.adapters.factory import build_filter
from agent_memory.interfaces.hooks.inputs import DRAIN
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.launcher import command_client, environment, starting


def main(nonce: str, at_ms: int, arguments: list[str]) -> int:
    os.umask(0o077)
    delivery = hook_consent.read_delivery(nonce, at_ms, arguments)
    try:
        call = hook_consent.parse_allowed(delivery)
        if call is None:
            return 0
        folder = ProjectFolders().find_existing(call.folder, delivery.folder)
        security = load_settings(os.environ, folder).security
        secrets = build_filter(security.secrets, security.allow)
        spool = SpoolFolder(config.folders(os.environ).data / "spool")
        Spooling(spool=spool, secrets=secrets).keep(call)
        notify_daemon(command_client.config_file(arguments))
    except AgentMemoryError as exc:
        command_client.complain(f"error: the hook was not recorded: {exc}\n")
        return 1
    return 0


def notify_daemon(config_file: str | None) -> None:
    """Have the spool recorded by the running daemon, or start one."""
    folder = command_client.data_folder()
    try:
        connection = command_client.reach_daemon(folder)
    except command_client.ConnectionForbidden:
        return
    if connection is None:
        starting.Starter(config_file).start(folder)  # without waiting for it
        return
    request = command_client.hello("hook", ["hook", DRAIN]) + command_client.frame(
        command_client.HOOK_INPUT, b"0\n"
    )
    with contextlib.closing(connection), contextlib.suppress(command_client.ConnectionLost):
        command_client.send(
            connection, request
        )  # lost: the next daemon reads the spool when it starts


if __name__ == "__main__":
    nonce, at_ms, *words = environment.enter(sys.argv[1:])
    sys.exit(main(nonce, int(at_ms), words))
