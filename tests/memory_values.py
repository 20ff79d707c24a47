"""Memories to test with: made by hand, and by Hypothesis."""

from hypothesis import strategies as st

from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import NAMESPACES, Memory, MemoryStatus
from agent_memory.features.memories.model.name_changes import NameChange
from agent_memory.kernel.ids import MAX_STATED_MILLIS, USER, Domain, Millis

PROJECT = Domain("project:shop")


def memory(
    summary: str = "Use PostgreSQL",
    content: str = "",
    *,
    namespace: str = "decisions",
    domain: Domain = PROJECT,
    at: int = 1_700_000_000_000,
    spec: str = "",
    **fields: object,
) -> Memory:
    created: dict[str, object] = {"created_ms": Millis(at), "updated_ms": Millis(at), **fields}
    return Memory(
        digest=memories.compute_digest(namespace, summary, content, spec),
        namespace=namespace,
        domain=domain,
        summary=summary,
        content=content,
        spec=spec,
        **created,  # type: ignore[arg-type]  # fields of a Memory
    )


names = st.from_regex(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True)
domains = st.one_of(
    st.just(USER),
    names.map(lambda name: Domain(f"project:{name}")),
    names.map(lambda name: Domain(f"org:{name}")),
)
namespaces = st.sampled_from(NAMESPACES)
summaries = (
    st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=100)
    .map(str.strip)
    .filter(bool)
)
contents = st.text(max_size=300)  # without lone surrogates
tags = st.frozensets(
    st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters=","))
    .map(lambda text: text[:64].strip())
    .filter(bool),
    max_size=4,
)
times = st.integers(0, MAX_STATED_MILLIS).map(Millis)
references = st.builds(
    lambda namespace, name, index: f"{namespace}:{name}:{index}",
    namespaces,
    st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
    st.integers(0, 3),
)

few_tags = st.frozensets(st.sampled_from(["api", "db"]))  # so that copies have the same
few_references = st.sampled_from(["decisions:0123456789ab:0", "blockers:0123456789ab:1"])


def changes(names: st.SearchStrategy[frozenset[str]]) -> st.SearchStrategy[tuple[NameChange, ...]]:
    """Changes of names, some at the same time."""

    def build(chosen: frozenset[str], at: list[int]) -> tuple[NameChange, ...]:
        return tuple(
            NameChange(name, Millis(time)) for name, time in zip(sorted(chosen), at, strict=False)
        )

    return st.builds(build, names, st.lists(st.integers(1, 3), min_size=2, max_size=2))


@st.composite
def copies(draw: st.DrawFn, of: Memory) -> Memory:
    """A copy of a memory, as another clone may have it."""
    if draw(st.integers(0, 9)) == 0:
        return memories.build_tombstone(of, draw(times))
    return memory(
        of.summary,
        of.content,
        namespace=of.namespace,
        domain=of.domain,
        spec=of.spec,
        created_ms=draw(times),
        updated_ms=draw(st.sampled_from([Millis(5), Millis(6)]) | times),
        tags=draw(tags | few_tags),
        relates_to=tuple(sorted(draw(st.frozensets(references | few_references, max_size=2)))),
        tag_changes=draw(changes(few_tags)),
        relation_changes=draw(changes(st.frozensets(few_references))),
        author=draw(st.sampled_from(["", "Ann <ann@example.org>", "Ben"])),
        agent=draw(st.sampled_from(["", "claude-code"])),
        interface=draw(st.sampled_from(["", "cli", "mcp"])),
        status=draw(
            st.sampled_from([each for each in MemoryStatus if each is not MemoryStatus.TOMBSTONE])
        ),
        commit=draw(st.sampled_from(["", "a" * 40, "b" * 40])),
        superseded_by=draw(st.sampled_from(["", "decisions:0123456789ab:0"])),
        event_id=draw(st.sampled_from(["", "event-1"])),
    )


@st.composite
def records(draw: st.DrawFn) -> Memory:
    """Any memory."""
    created = memory(
        draw(summaries),
        draw(contents),
        namespace=draw(namespaces),
        domain=draw(domains),
        spec=draw(st.sampled_from(["", "feature-api"])),
    )
    return draw(copies(created))
