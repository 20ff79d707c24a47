"""Bearer keys: their names, their hashes, and finding the key of a secret."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.kernel import access
from agent_memory.kernel.access import AccessKey
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis

unhurried = settings(deadline=None)
secrets = st.text(st.sampled_from("abAB01-_é "), min_size=1)


def key(name: str, secret: str = "secret") -> AccessKey:  # noqa: S107
    return AccessKey(name=name, digest=access.hash_secret(secret), created_ms=Millis(1))


@pytest.mark.parametrize("name", ["a", "7", "dashboard", "my-app.v2_test", "A" * 64])
def test_letters_digits_dots_dashes_and_underscores_are_a_name(name: str) -> None:
    assert key(name).name == name


@pytest.mark.parametrize(
    "name",
    ["", "a b", "-a", ".a", "_a", "a/b", "a:b", "a\n", "\n", "é", "日", "a" * 65, "\udcff", "a\0"],
    ids=ascii,
)
def test_anything_else_is_not(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not a valid key name: use 1 to 64 letters"):
        key(name)


@unhurried
@given(secret=secrets)
def test_the_digest_does_not_hold_the_secret(secret: str) -> None:
    assert len(access.hash_secret(secret)) == 32
    assert access.hash_secret(secret) == access.hash_secret(secret)
    assert secret.encode() != access.hash_secret(secret)[: len(secret.encode())]


@unhurried
@given(known=st.lists(secrets, unique=True, max_size=6), data=st.data())
def test_a_secret_finds_its_own_key_among_all(known: list[str], data: st.DataObject) -> None:
    keys = [key(f"key-{number}", secret) for number, secret in enumerate(known)]
    for number, secret in enumerate(known):
        found = access.find_key(secret, keys)
        assert found is not None
        assert found.name == f"key-{number}"
    other = data.draw(secrets.filter(lambda secret: secret not in known))
    assert access.find_key(other, keys) is None


@pytest.mark.parametrize("wrong", ["", "secre", "secret ", "Secret", "secret\0", "\0"])
def test_a_nearly_equal_secret_finds_no_key(wrong: str) -> None:
    assert access.find_key(wrong, [key("name")]) is None


def test_the_digest_itself_is_no_secret() -> None:
    """A reader of the store must not be able to use its content as a key."""
    stored = key("name")
    assert access.find_key(stored.digest.hex(), [stored]) is None


def test_no_keys_match_nothing() -> None:
    assert access.find_key("secret", []) is None
