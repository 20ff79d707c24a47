"""Duplicates: what says the same is found, and what only looks like it is not."""

from agent_memory.domain import duplicates
from agent_memory.domain.memories import Domain, Memory
from tests.memory_values import memory


def groups(*found: Memory, near: bool = False) -> list[tuple[str, list[str]]]:
    keys = [each.key for each in found]
    pairs = [(keys[0], keys[1])] if near else []
    return [
        (each.kept.summary, [other.summary for other in each.others])
        for each in duplicates.clusters(found, keys, pairs)
    ]


def test_the_newer_of_two_that_say_the_same_stays() -> None:
    old = memory("Use PostgreSQL for the data layer", at=1_000)
    new = memory("Use PostgreSQL for our data layer!", at=2_000)
    assert groups(old, new) == [(new.summary, [old.summary])]


def test_an_older_one_that_tells_far_more_stays() -> None:
    reason = "JSONB, row-level security and what we know of its backups speak for it. " * 2
    old = memory("Use PostgreSQL for the data layer", reason, at=1_000)
    new = memory("Use PostgreSQL for the data layer", reason[:100], at=2_000)
    rich = memory("Use PostgreSQL for the data layer", reason + "Data layer. " * 40, at=500)
    assert groups(old, new, rich)[0][0] == old.summary
    (found,) = duplicates.clusters([old, new, rich], [new.key])
    assert found.kept == rich
    assert [each.key for each in found.others] == [old.key, new.key]


def test_other_figures_say_something_else() -> None:
    assert not groups(memory("Serve HTTP on port 8080"), memory("Serve HTTP on port 9090", at=2))


def test_a_no_says_something_else() -> None:
    assert not groups(
        memory("Cache the sessions in Redis"), memory("Do not cache sessions in Redis")
    )


def test_namespaces_and_domains_are_kept_apart() -> None:
    words = "Use PostgreSQL for the data layer"
    one = memory(words, at=1)
    assert not groups(one, memory(words, namespace="learnings", at=2))
    assert not groups(one, memory(words, domain=Domain("user"), at=2))


def test_what_is_near_in_meaning_needs_fewer_words_in_common() -> None:
    one = memory("Store the orders in the PostgreSQL database", at=1)
    other = memory("Orders go to the PostgreSQL server as storage", at=2)
    assert not groups(one, other)
    assert groups(one, other, near=True) == [(other.summary, [one.summary])]


def test_only_groups_with_something_new_are_given() -> None:
    old = memory("Use PostgreSQL for the data layer", at=1)
    new = memory("Use PostgreSQL for our data layer", at=2)
    assert duplicates.clusters([old, new], []) == []
    assert len(duplicates.clusters([old, new], [old.key])) == 1


def test_no_memory_is_in_two_groups() -> None:
    found = [memory(f"Use PostgreSQL for the data layer{'!' * n}", at=n) for n in range(10)]
    (only,) = duplicates.clusters(found, [each.key for each in found])
    assert {only.kept, *only.others} == set(found)
