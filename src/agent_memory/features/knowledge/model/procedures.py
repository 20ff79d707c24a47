"""Procedures: what agents repeatedly do with their tools, and how often it succeeds.

A chain is the steps that lead up to a command or the end of a turn: an agent looks, changes, and
runs something. It succeeded if its last step did.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent_memory.features.log.model.events import Event, EventType
from agent_memory.kernel import ids, limits
from agent_memory.kernel.ids import KnowledgeId, Millis

TOOL_CHAIN = "tool_chain"
REPEATED = 3  # uses that make a chain a procedure
MAX_STEPS = 8  # longer chains do not recur
FAILING = 0.3  # below this success rate a procedure is not recommended
JUDGED = 5  # uses before the success rate counts
UNUSED_RATE = 0.5

_SHELLS = frozenset(
    {"bash", "shell", "run_shell_command", "local_shell", "exec_command", "run_command"}
)
# Programs with subcommands: the next word says which.
_WITH_SUBCOMMANDS = frozenset({
    "apt", "bun", "cargo", "docker", "gh", "git", "go", "kubectl", "make", "npm", "npx", "pip",
    "pnpm", "poetry", "python", "python3", "terraform", "uv", "yarn",
})  # fmt: skip
_SKIPPED = re.compile(r"(?:\s*(?:cd\s+\S+\s*(?:&&|;)|sudo\s|time\s|env\s|[A-Za-z_]\w*=\S*\s))*\s*")
_WORD = re.compile(r"[A-Za-z0-9][\w.@-]*")
_FAILED = re.compile(
    r"\A(?:Error:|error:|fatal:|Traceback )|\b(?:[Ee]xit code:?|exited with code|exit status) [1-9]"
)
_CHECKED = 400  # characters at either end of a result


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One use of a tool. `command` is the program that a shell ran, without its arguments."""

    tool: str
    command: str = ""
    failed: bool = False

    @property
    def name(self) -> str:
        return f"{self.tool} {self.command}" if self.command else self.tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A sequence of steps of one agent, and how often it was used and succeeded."""

    id: KnowledgeId
    agent_id: str
    steps: tuple[str, ...]
    used: int
    succeeded: int
    dismissed: int = 0  # uses up to the deletion of the procedure
    dismissed_successes: int = 0
    created_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure. `fixed` are the fields that a user set: learning leaves them alone."""

    id: KnowledgeId
    agent_id: str
    name: str
    description: str = ""
    procedure_type: str = TOOL_CHAIN
    steps: tuple[str, ...] = ()
    times_used: int = 0
    times_succeeded: int = 0
    times_failed: int = 0
    is_active: bool = True
    created_ms: Millis
    fixed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        limits.check_name("agent_id", self.agent_id, required=False)
        limits.check_name("name", self.name)
        limits.check_name("procedure_type", self.procedure_type)
        limits.check_text("description", self.description)
        for field in ("times_used", "times_succeeded", "times_failed"):
            limits.check_count(field, getattr(self, field))

    @property
    def success_rate(self) -> float:
        return self.times_succeeded / self.times_used if self.times_used else UNUSED_RATE


def parse_step(event: Event) -> Step | None:
    """Return the tool use that this event records, if any."""
    name = event.metadata.get("tool_name", "").strip()
    if event.type is not EventType.TOOL_RESULT or not name:
        return None
    call = event.text[:2_000].partition("\n")[0].removeprefix(f"{name}:")
    return Step(
        tool=name[: limits.NAME_CHARS // 4],
        command=_extract_command(call) if name.lower() in _SHELLS else "",
        failed=has_failed(event),
    )


def has_failed(event: Event) -> bool:
    """Return whether a tool failed, as the agent says or the result shows."""
    if event.metadata.get("error") == "true":
        return True
    body = event.text.partition("\n")[2]
    return bool(_FAILED.search(body[:_CHECKED]) or _FAILED.search(body[-_CHECKED:]))


def is_chain_end(step: Step) -> bool:
    """Return whether the step ends its chain: a command shows the outcome of the steps before."""
    return bool(step.command)


def append_step(steps: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    """Append a step; a repeated one replaces the last, as its outcome may differ."""
    if steps and steps[-1].name == step.name:
        return (*steps[:-1], step)
    return (*steps[:MAX_STEPS], step)  # a chain that is too long is not counted


def name_steps(steps: tuple[Step, ...]) -> tuple[str, ...]:
    """Return the step names of a chain, or nothing if it is too short or long to count."""
    return tuple(step.name for step in steps) if 2 <= len(steps) <= MAX_STEPS else ()


def derive_chain_id(agent_id: str, steps: tuple[str, ...]) -> KnowledgeId:
    return ids.derive_id("chain", agent_id, *steps)


def update_counts(chain: Chain, *, used: int, succeeded: int) -> Chain | None:
    """Return the chain after so many more (or fewer) uses; None once there are none."""
    total = chain.used + used
    if total <= 0:
        return None
    successes = min(total, max(0, chain.succeeded + succeeded))
    return replace(
        chain,
        used=total,
        succeeded=successes,
        # Removed uses are assumed to be the oldest ones.
        dismissed=max(0, chain.dismissed + min(0, used)),
        dismissed_successes=max(0, chain.dismissed_successes + min(0, succeeded)),
    )


def dismiss_chain(chain: Chain) -> Chain:
    """Reset the count, so that the chain has to recur to become a procedure again."""
    return replace(chain, dismissed=chain.used, dismissed_successes=chain.succeeded)


def derive_procedure(chain: Chain, known: Procedure | None) -> Procedure | None:
    """Return the procedure of a chain, if the chain was used often enough."""
    used = chain.used - chain.dismissed
    succeeded = min(used, max(0, chain.succeeded - chain.dismissed_successes))
    if (known is None and used < REPEATED) or used <= 0:
        return None
    procedure = Procedure(
        id=chain.id,
        agent_id=chain.agent_id,
        name="_".join(_shorten_steps(chain.steps))[: limits.NAME_CHARS],
        description=f"{', '.join(chain.steps[:-1])}, then {chain.steps[-1]}",
        steps=chain.steps,
        times_used=used,
        times_succeeded=succeeded,
        times_failed=used - succeeded,
        created_ms=chain.created_ms,
    )
    procedure = replace(
        procedure, is_active=procedure.times_used < JUDGED or procedure.success_rate >= FAILING
    )
    if known is None:
        return procedure
    fixed_values = {name: getattr(known, name) for name in known.fixed}
    return replace(procedure, created_ms=known.created_ms, fixed=known.fixed, **fixed_values)


def _shorten_steps(steps: tuple[str, ...]) -> Iterator[str]:
    """Yield short names of the steps: for a shell, the command (`bash pytest` is `pytest`)."""
    for step in steps:
        tool, _, command = step.partition(" ")
        yield re.sub(r"\W+", "_", command or tool).strip("_").lower() or "step"


def _extract_command(call: str) -> str:
    """Return the program and its subcommand, but no other arguments, which may be anything."""
    words = call[_SKIPPED.match(call).end() :].split()  # type: ignore[union-attr]  # matches all
    program = words[0].rpartition("/")[2] if words else ""
    if not _WORD.fullmatch(program):
        return ""
    program = program[:32]
    if program in _WITH_SUBCOMMANDS and len(words) > 1:
        rest = [word for word in words[1:3] if _WORD.fullmatch(word)]
        subcommand = rest[-1:] if words[1] in ("-m", "run", "exec") else rest[:1]
        return " ".join([program, *(word[:32] for word in subcommand)])
    return program
