"""Sync: whatever is captured, changed and synced where, all clones end up equal."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from tests.git_repositories import AT, Repository, clone_repository, make_repository
from tests.unit.memories.test_sync import Machine, machines

BODIES = ("", "---\nid: x\n---\n", "one\r\ntwo", "\N{ROCKET}\n\n", "x" * 3000)
ROUNDS = 3

Step = tuple[int, str, int]

steps = st.tuples(
    st.integers(0, 2),
    st.sampled_from(
        [
            *("capture", "capture", "capture", "tag", "edit", "forget", "note"),
            *("resolve", "archive", "reopen"),
            *("sync", "sync", "fetch", "push", "commit", "amend"),
        ]
    ),
    st.integers(0, 4),
)
STATUSES = {
    "resolve": MemoryStatus.RESOLVED,
    "archive": MemoryStatus.ARCHIVED,
    "reopen": MemoryStatus.ACTIVE,
}


def _present(machine: Machine, number: int) -> Memory | None:
    """Return a memory of this number that can still be changed."""
    for memory in machine.stored().values():
        if memory.summary.startswith(f"{number} ") and memory.status is not MemoryStatus.TOMBSTONE:
            return memory
    return None


def _do(machine: Machine, what: str, number: int) -> None:
    match what:
        case "sync" | "fetch" | "push":
            machine.exchange(fetch=what != "push", push=what != "fetch")
        case "note":
            machine.notes.flush()
        case "commit":
            machine.repository.commit(f"{number}")
        case "amend":
            machine.repository.git(
                *("commit", "--quiet", "--amend", "--allow-empty", "--message", f"amended {number}")
            )
        case "capture":
            if not any(it.status is MemoryStatus.TOMBSTONE for it in machine.stored().values()):
                machine.capture(f"{number} said", BODIES[number], f"tag {number % 2}")
        case _:
            _change(machine, what, number)


def _change(machine: Machine, what: str, number: int) -> None:
    memory = _present(machine, number)
    if memory is None:
        return
    if what == "tag":
        machine.capture(memory.summary, memory.content, machine.repository.folder.name)
    elif what == "edit":
        if memory.summary.endswith("said"):
            machine.edit(memory, f"{number} said in other words")
    elif what == "forget":
        machine.forget(memory)
    else:
        machine.move(memory, STATUSES[what])


def _refs(remote: Repository, found: list[Machine]) -> list[dict[str, str]]:
    return [remote.refs(), *(each.repository.refs() for each in found)]


@settings(max_examples=6, deadline=None)
@given(
    st.integers(2, 3),
    st.lists(steps, max_size=14),
    st.permutations(range(3)),
    st.tuples(*[st.integers(AT, AT + 5)] * 3),
)
@example(
    2,
    [(0, "capture", 1), (1, "capture", 1), (0, "tag", 1), (1, "archive", 1)],
    [1, 0, 2],
    (AT, AT, AT),
)
def test_all_clones_have_the_same_in_the_end(
    size: int, script: list[Step], order: list[int], starts: tuple[int, int, int]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        remote = clone_repository(make_repository(folder / "source"), folder / "team.git", "--bare")
        clones = [clone_repository(remote, folder / f"clone{number}") for number in range(size)]
        with machines(*clones, starts=starts) as found:
            said: set[str] = set()
            for where, what, number in script:
                machine = found[where % size]
                _do(machine, what, number)
                said |= {str(key) for key in machine.stored()}
            in_turn = [found[number] for number in order if number < size]
            for _ in range(ROUNDS):
                for machine in in_turn:
                    machine.exchange()
            first = found[0].stored()
            assert {str(key) for key in first} == said
            for machine in found:
                assert machine.stored() == first
                assert machine.noted() == first
            before = _refs(remote, found)
            for machine in in_turn:
                assert machine.exchange().unchanged
            assert _refs(remote, found) == before
