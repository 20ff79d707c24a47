"""What `memory doctor` says about the team's server."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_memory.kernel.status import CheckResult, Health

COMMAND = ("memory", "remote", "status")


def judge(status: Mapping[str, Any]) -> Iterator[CheckResult]:
    """Judge what the command says, in JSON."""
    if not status.get("url"):
        return
    name = str(status.get("name", ""))
    if waiting := status.get("to_erase"):
        text = f"{waiting:,} records are to be erased, because another machine asked for it"
        yield _warn(text, "memory team waiting")
    if new := status.get("new_keys"):
        yield _warn(f"{name} has new keys in your name: {', '.join(new[:5])}", "memory team keys")
    if not status.get("has_key"):
        yield _warn(f"there is no key for {name}", "memory remote login")
    elif error := status.get("last_error"):
        yield _warn(f"nothing is exchanged with {name}: {error}", "memory remote status")
    elif refused := status.get("refused"):
        yield _warn(f"{name} refused {refused:,} records", "memory remote status")
    else:
        yield CheckResult(subject="team", health=Health.FINE, said=f"{name} answers")
    if names := status.get("unconfirmed"):
        text = (
            f"not shared any more: {', '.join(names)}, because two repositories may have one name"
        )
        yield _warn(text, "memory remote add --project FOLDER")


def _warn(text: str, advice: str) -> CheckResult:
    return CheckResult(subject="team", health=Health.WARNING, said=text, advice=advice)
