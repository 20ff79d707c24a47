"""Tell whether a hook may be recorded, before a daemon is started for it.

This is a process of its own, because the launcher cannot read settings. The exit code is 0 if it
may. Usage: as `hook_fallback`, which asks the same question before it stores a call.
"""

import os
import sys

from agent_memory import config
from agent_memory.features.hooks.consent_rule import build_consent
from agent_memory.features.hooks.hook_options import load_options
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.interfaces.hooks import inputs
from agent_memory.interfaces.hooks.inputs import Delivery
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.launcher import command_client, environment


def read_delivery(nonce: str, at_ms: int, arguments: list[str]) -> Delivery:
    """Read the hook's input from standard input."""
    return Delivery.parse(
        arguments,
        folder=command_client.working_folder(),
        environ=os.environ,
        nonce=nonce,
        at_ms=at_ms,
        data=sys.stdin.buffer.read(command_client.MAX_HOOK_BYTES),
    )


def parse_allowed(delivery: Delivery) -> HookCall | None:
    """Parse the call, or return None if it may not be recorded. Raises InvalidInput."""
    call = inputs.parse_delivery(delivery).call
    if call.kind is HookKind.BEFORE_TOOL:  # never recorded: it only asks for a context
        return None
    consent = build_consent(config.folders(os.environ).data)
    folder = consent.folders.find_existing(call.folder, delivery.folder)
    options = load_options(os.environ, folder)
    if call.kind not in options.enabled:
        return None
    given = consent.check_call(call, delivery.folder, os.environ, options.consent).is_given
    return call if given else None


def main(nonce: str, at_ms: int, arguments: list[str]) -> int:
    try:
        return 0 if parse_allowed(read_delivery(nonce, at_ms, arguments)) is not None else 1
    except AgentMemoryError:
        return 1


if __name__ == "__main__":
    nonce, at_ms, *words = environment.enter(sys.argv[1:])
    sys.exit(main(nonce, int(at_ms), words))
