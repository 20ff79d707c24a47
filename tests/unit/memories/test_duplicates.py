"""Duplicates: memories that say the same are found; those that only look alike are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.memories.model import duplicates
from agent_memory.features.memories.model.memories import Memory
from agent_memory.kernel.ids import Domain
from tests.memory_values import memory


def groups(*found: Memory, near: bool = False) -> list[tuple[str, list[str]]]:
    keys = [each.key for each in found]
    pairs = [(keys[0], keys[1])] if near else []
    return [
        (each.kept.summary, [other.summary for other in each.others])
        for each in duplicates.find_clusters(found, keys, pairs)
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
    (found,) = duplicates.find_clusters([old, new, rich], [new.key])
    assert found.kept == rich
    assert [each.key for each in found.others] == [old.key, new.key]


def test_other_figures_say_something_else() -> None:
    assert not groups(memory("Serve HTTP on port 8080"), memory("Serve HTTP on port 9090", at=2))


def test_a_no_says_something_else() -> None:
    assert not groups(
        memory("Cache the sessions in Redis"), memory("Do not cache sessions in Redis")
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Users can delete orders", "Users can't delete orders"),
        ("Users can delete orders", "Users can\u2019t delete orders"),
        ("Users can delete orders", "Users cant delete orders"),
        ("Users can delete orders", "Users cannot delete orders"),
        ("Orders will be kept for years", "Orders won't be kept for years"),
        ("The shop does cache prices", "The shop doesn\u2019t cache prices"),
        ("The price cache is shared", "The price cache isn't shared"),
        ("Deploy on Fridays", "Deploy never on Fridays"),
        ("Cache it, always", "Cache it, not always"),
        ("Cache prices in Redis, or not", "Cache prices in Redis, or"),
        ("Sign the release and the tag", "Sign neither the release nor the tag"),
        ("Deploy with a review of the change", "Deploy without a review of the change"),
        ("All of the shards are replicated", "None of the shards are replicated"),
        ("Never deploy on Fridays", "Never not deploy on Fridays"),
        ("Set no_proxy for the build agents", "Set proxy for the build agents"),
        ("Turn the query cache on", "Turn the query cache off"),
        ("Query the replica for reports", "Avoid to query the replica for reports"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("near", [False, True], ids=["words", "meaning"])
def test_a_no_more_says_something_else_however_it_is_written(
    one: str, other: str, near: bool
) -> None:
    assert not groups(memory(one), memory(other, at=2), near=near)
    assert not groups(memory(other), memory(one, at=2), near=near)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Enable the query cache", "Disable the query cache"),
        ("The query cache is enabled", "The query cache is disabled"),
        ("Allow guests to order books", "Deny guests to order books"),
        ("Guests are allowed to order books", "Guests are forbidden to order books"),
        ("It denies guests the order page", "It allows guests the order page"),
        ("Add the nightly index job", "Remove the nightly index job"),
        ("Accept orders from guests", "Reject orders from guests"),
        ("Use Redis for the price cache", "Avoid Redis for the price cache"),
        ("Start the index job at night", "Stop the index job at night"),
        ("Migrate the schema before the deploy", "Migrate the schema after the deploy"),
    ],
)
@pytest.mark.parametrize("near", [False, True], ids=["words", "meaning"])
def test_the_opposite_of_a_word_says_something_else(one: str, other: str, near: bool) -> None:
    assert not groups(memory(one), memory(other, at=2), near=near)
    assert not groups(memory(other), memory(one, at=2), near=near)


def test_opposites_are_not_one_group_by_what_takes_no_side() -> None:
    one = memory("Add the nightly job for the price index", at=1)
    other = memory("Remove the nightly job for the price index", at=2)
    between = memory("The nightly job for the price index", at=3)
    (only,) = duplicates.find_clusters([one, other, between], [between.key])
    assert only.kept == between
    assert only.others in ((one,), (other,))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Do not cache prices in Redis", "Don't cache prices in Redis"),
        ("Never cache prices in Redis", "Don\u2019t cache prices in Redis!"),
        ("Admins add and remove users by the API", "Admins add and remove users, by API"),
        ("The query cache is disabled", "Disabled: the query cache"),
    ],
)
def test_the_same_no_in_both_says_the_same(one: str, other: str) -> None:
    assert groups(memory(one, at=1), memory(other, at=2)) == [(other, [one])]


WORDS = ("orders", "shop", "prices", "Redis", "cache", "nightly", "index", "guests", "replica")
NEGATIONS = ("not", "no", "never", "can't", "won\u2019t", "without", "nor", "none", "cannot")


@given(
    st.permutations(WORDS),
    st.integers(0, len(WORDS)),
    st.sampled_from(NEGATIONS),
    st.sampled_from(["", ",", ".", ":", "!", ")"]),
    st.booleans(),
)
def test_one_no_anywhere_keeps_two_apart(
    words: list[str], place: int, negation: str, mark: str, loud: bool
) -> None:
    said = negation.upper() if loud else negation
    negated = " ".join((*words[:place], said + mark, *words[place:]))
    one, other = memory(" ".join(words)), memory(negated, at=2)
    assert not groups(one, other)
    assert not groups(one, other, near=True)
    assert groups(other, memory(negated + " ;", at=3))  # and what says it too is the same


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
    assert duplicates.find_clusters([old, new], []) == []
    assert len(duplicates.find_clusters([old, new], [old.key])) == 1


def test_no_memory_is_in_two_groups() -> None:
    found = [memory(f"Use PostgreSQL for the data layer{'!' * n}", at=n) for n in range(10)]
    (only,) = duplicates.find_clusters(found, [each.key for each in found])
    assert {only.kept, *only.others} == set(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Service B calls service A on startup", "Service A calls service B on startup"),
        ("Deploy to production before staging", "Deploy to staging before production"),
        (
            "We cache sessions but do not cache pages",
            "We do not cache sessions but cache pages",
        ),
        (
            "Retries use exponential backoff without jitter",
            "Retries do not use exponential backoff with jitter",
        ),
    ],
)
def test_the_same_words_turned_around_say_something_else(one: str, other: str) -> None:
    assert not groups(memory(one, at=1), memory(other, at=2))
    assert not groups(memory(one, at=1), memory(other, at=2), near=True)
