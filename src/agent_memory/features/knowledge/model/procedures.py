"""Procedures: what agents do again and again with their tools, and how often it works.

A chain is what leads up to a command or to the end of a turn: an agent looks, changes, and runs
something. Whether the last step succeeded is whether the chain did.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent_memory.features.log.model.events import Event, EventType
from agent_memory.kernel import ids, limits
from agent_memory.kernel.ids import KnowledgeId, Millis

TOOL_CHAIN = "tool_chain"
REPEATED = 3  # times until something is a habit
MAX_STEPS = 8  # a longer chain repeats itself nowhere
FAILING = 0.3  # below this rate of success it is no longer recommended
JUDGED = 5  # times until that can be told
UNUSED_RATE = 0.5

_SHELLS = frozenset(
    {"bash", "shell", "run_shell_command", "local_shell", "exec_command", "run_command"}
)
# Programs that do many things: the next word says which.
_MANY = frozenset(
    (
        *(
            "apt",
            "bun",
            "cargo",
            "docker",
            "gh",
            "git",
            "go",
            "kubectl",
            "make",
            "npm",
            "npx",
            "pip",
        ),
        *("pnpm", "poetry", "python", "python3", "terraform", "uv", "yarn"),
    )
)
_SKIPPED = re.compile(r"(?:\s*(?:cd\s+\S+\s*(?:&&|;)|sudo\s|time\s|env\s|[A-Za-z_]\w*=\S*\s))*\s*")
_WORD = re.compile(r"[A-Za-z0-9][\w.@-]*")
_FAILED = re.compile(
    r"\A(?:Error:|error:|fatal:|Traceback )|\b(?:[Ee]xit code:?|exited with code|exit status) [1-9]"
)
_LOOKED_AT = 400  # characters at either end of a result


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One use of a tool. `command` is what a shell ran, as far as it tells one from another."""

    tool: str
    command: str = ""
    failed: bool = False

    @property
    def name(self) -> str:
        return f"{self.tool} {self.command}" if self.command else self.tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A sequence of steps that one agent took, and what came of it so far."""

    id: KnowledgeId
    agent_id: str
    steps: tuple[str, ...]
    used: int
    succeeded: int
    dismissed: int = 0  # uses that were counted when someone deleted the procedure
    dismissed_successes: int = 0
    created_ms: Millis

    @property
    def made_ms(self) -> Millis:
        return self.created_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """`fixed` are the fields that someone has set: they stay as they are."""

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
    def made_ms(self) -> Millis:
        return self.created_ms

    @property
    def success_rate(self) -> float:
        return self.times_succeeded / self.times_used if self.times_used else UNUSED_RATE


def parse_step(event: Event) -> Step | None:
    """What this event tells of a tool, if it does."""
    name = event.metadata.get("tool_name", "").strip()
    if event.type is not EventType.TOOL_RESULT or not name:
        return None
    asked = event.text[:2_000].partition("\n")[0].removeprefix(f"{name}:")
    return Step(
        tool=name[: limits.NAME_CHARS // 4],
        command=_command(asked) if name.lower() in _SHELLS else "",
        failed=has_failed(event),
    )


def has_failed(event: Event) -> bool:
    """Whether a tool did not do what it was asked: the agent says so, or the result does."""
    if event.metadata.get("error") == "true":
        return True
    body = event.text.partition("\n")[2]
    return bool(_FAILED.search(body[:_LOOKED_AT]) or _FAILED.search(body[-_LOOKED_AT:]))


def is_chain_end(taken: Step) -> bool:
    """Whether a chain ends with it: a command shows what came of all before."""
    return bool(taken.command)


def append_step(steps: tuple[Step, ...], taken: Step) -> tuple[Step, ...]:
    """With one more step; the same again is the same step, which may turn out otherwise."""
    if steps and steps[-1].name == taken.name:
        return (*steps[:-1], taken)
    return (*steps[:MAX_STEPS], taken)  # of one that is too long nothing is counted


def name_steps(steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The names of a chain that is worth counting; of others nothing."""
    return tuple(each.name for each in steps) if 2 <= len(steps) <= MAX_STEPS else ()


def derive_chain_id(agent_id: str, steps: tuple[str, ...]) -> KnowledgeId:
    return ids.derive_id("chain", agent_id, *steps)


def update_counts(chain: Chain, *, used: int, succeeded: int) -> Chain | None:
    """After so many more uses, or fewer; nothing once there are none."""
    now = chain.used + used
    if now <= 0:
        return None
    good = min(now, max(0, chain.succeeded + succeeded))
    return replace(
        chain,
        used=now,
        succeeded=good,
        # Of those that are no more, nobody knows which were: the oldest are the likeliest.
        dismissed=max(0, chain.dismissed + min(0, used)),
        dismissed_successes=max(0, chain.dismissed_successes + min(0, succeeded)),
    )


def dismiss_chain(chain: Chain) -> Chain:
    """It is a habit only when it is one again."""
    return replace(chain, dismissed=chain.used, dismissed_successes=chain.succeeded)


def derive_procedure(chain: Chain, known: Procedure | None) -> Procedure | None:
    """The procedure that a chain has become, once it is one."""
    used = chain.used - chain.dismissed
    succeeded = min(used, max(0, chain.succeeded - chain.dismissed_successes))
    if (known is None and used < REPEATED) or used <= 0:
        return None
    found = Procedure(
        id=chain.id,
        agent_id=chain.agent_id,
        name="_".join(_plain(chain.steps))[: limits.NAME_CHARS],
        description=f"{', '.join(chain.steps[:-1])}, then {chain.steps[-1]}",
        steps=chain.steps,
        times_used=used,
        times_succeeded=succeeded,
        times_failed=used - succeeded,
        created_ms=chain.created_ms,
    )
    found = replace(found, is_active=found.times_used < JUDGED or found.success_rate >= FAILING)
    if known is None:
        return found
    kept = {name: getattr(known, name) for name in known.fixed}
    return replace(found, created_ms=known.created_ms, fixed=known.fixed, **kept)


def _plain(steps: tuple[str, ...]) -> Iterator[str]:
    """Of a shell's command the command alone: `bash pytest` is `pytest`."""
    for each in steps:
        tool, _, command = each.partition(" ")
        yield re.sub(r"\W+", "_", command or tool).strip("_").lower() or "step"


def _command(asked: str) -> str:
    """The program, and what it was to do where it does many things; never its other arguments,
    which may be anything."""
    words = asked[_SKIPPED.match(asked).end() :].split()  # type: ignore[union-attr]  # matches all
    program = words[0].rpartition("/")[2] if words else ""
    if not _WORD.fullmatch(program):
        return ""
    program = program[:32]
    if program in _MANY and len(words) > 1:
        rest = [word for word in words[1:3] if _WORD.fullmatch(word)]
        told = rest[-1:] if words[1] in ("-m", "run", "exec") else rest[:1]
        return " ".join([program, *(word[:32] for word in told)])
    return program
