"""The KeyRing port over every engine, and what the service that uses it promises."""

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import msgspec
import pytest

from agent_memory.features.access.adapters import key_ring
from agent_memory.features.access.adapters.key_ring import StoredKeyRing
from agent_memory.features.access.adapters.revoked_keys import RevokedKeyFile
from agent_memory.features.access.ports import KeyRing
from agent_memory.features.access.services.access import Access
from agent_memory.kernel.access import OWNER, AccessKey, Principal, Role, hash_secret
from agent_memory.kernel.errors import InvalidInput, NotFound, StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families
from agent_memory.platform.store.batches import Batch, Put
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine
from tests.command_runner import wait_until
from tests.memory_engine import MemoryEngine

BEYOND_ALL_KEYS = b"\xff" * 8


class TickingClock:
    """A millisecond later every time."""

    def __init__(self) -> None:
        self._times = count(1_000)

    def now(self) -> Millis:
        return Millis(next(self._times))


def opened(engine: RocksEngine | MemoryEngine) -> CommittedStore:
    def unexpected(health: StoreHealth) -> None:
        raise AssertionError(f"a write failed: {health.reason}")

    return CommittedStore(engine, watch=unexpected)


@pytest.fixture(params=["rocks", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrderedStore]:
    found = opened(RocksEngine(tmp_path / "db") if request.param == "rocks" else MemoryEngine())
    yield found
    found.close()


@pytest.fixture
def ring(store: OrderedStore, revoked: RevokedKeyFile) -> KeyRing:
    return StoredKeyRing(store, revoked)


@pytest.fixture
def revoked(tmp_path: Path) -> RevokedKeyFile:
    return RevokedKeyFile(tmp_path / "revoked-keys")


@pytest.fixture
def access(ring: KeyRing) -> Access:
    numbers = count(1)
    return Access(
        keys=ring, clock=TickingClock(), new_secret=lambda: f"am_the-secret-{next(numbers)}"
    )


def key(name: str, secret: str = "secret") -> AccessKey:  # noqa: S107
    return AccessKey(name=name, digest=hash_secret(secret), created_ms=Millis(7))


class TestKeyRing:
    def test_an_empty_one_has_no_keys(self, ring: KeyRing) -> None:
        assert list(ring.list_keys()) == []

    def test_what_is_added_is_there_as_it_was(self, ring: KeyRing) -> None:
        keys = [key(name, name) for name in ("b", "a", "a.b", "Z" * 64)]
        assert [ring.add(each) for each in keys] == [True] * 4
        assert sorted(ring.list_keys(), key=lambda k: k.name) == sorted(keys, key=lambda k: k.name)

    def test_a_second_of_the_same_name_is_refused_and_the_first_stands(self, ring: KeyRing) -> None:
        assert ring.add(key("name", "first"))
        assert not ring.add(key("name", "second"))
        assert list(ring.list_keys()) == [key("name", "first")]

    def test_what_is_removed_is_gone_and_the_rest_is_not(self, ring: KeyRing) -> None:
        for name in ("a", "ab", "b"):
            ring.add(key(name))
        assert ring.remove("a")
        assert {each.name for each in ring.list_keys()} == {"ab", "b"}

    @pytest.mark.parametrize("name", ["missing", "", "a b", "é", "\udcff"], ids=ascii)
    def test_what_is_not_there_cannot_be_removed(self, ring: KeyRing, name: str) -> None:
        ring.add(key("there"))
        assert not ring.remove(name)
        assert list(ring.list_keys()) == [key("there")]

    def test_a_name_is_free_again_after_its_removal(self, ring: KeyRing) -> None:
        ring.add(key("name", "first"))
        assert ring.remove("name")
        assert not ring.remove("name")
        assert ring.add(key("name", "second"))
        assert list(ring.list_keys()) == [key("name", "second")]

    def test_more_than_can_be_listed_are_refused(self, ring: KeyRing, store: OrderedStore) -> None:
        value = key_ring.encode_access_key(key("any"))
        rows = (Put(families.ACCESS_KEYS, b"key:%05d" % n, value) for n in range(10_000))
        store.submit([Batch(tuple(rows))]).result()
        with pytest.raises(InvalidInput, match="10,000 keys"):
            ring.add(key("one-more"))
        assert ring.remove("00000")
        assert ring.add(key("one-more"))
        assert len(ring.list_keys()) == 10_000

    def test_it_follows_itself_and_finds_all_again_when_opened_anew(
        self, revoked: RevokedKeyFile, ring: KeyRing, store: OrderedStore
    ) -> None:
        ring.list_keys()
        for name in ("a", "b", "c"):
            ring.add(key(name, name))
        ring.remove("b")
        again = StoredKeyRing(store, revoked)
        assert set(ring.list_keys()) == set(again.list_keys()) == {key("a", "a"), key("c", "c")}

    def test_many_hands_at_once_lose_nothing(
        self, revoked: RevokedKeyFile, ring: KeyRing, store: OrderedStore
    ) -> None:
        def change(hand: int) -> None:
            for number in range(5):
                name = f"{hand}-{number}"
                assert ring.add(key(name, name))
            assert ring.remove(f"{hand}-0")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(change, range(4)))
        wanted = {f"{hand}-{number}" for hand in range(4) for number in range(1, 5)}
        assert {each.name for each in ring.list_keys()} == wanted
        assert {each.name for each in StoredKeyRing(store, revoked).list_keys()} == wanted


def test_a_revoked_key_does_not_come_back_with_an_older_store(
    store: OrderedStore, revoked: RevokedKeyFile
) -> None:
    ring = StoredKeyRing(store, revoked)
    for name in ("laptop", "desk"):
        assert ring.add(key(name, name))
    row = store.get(families.ACCESS_KEYS, b"key:laptop")
    assert row is not None
    assert ring.remove("laptop")
    # As a restored dump has it, also for a daemon that is not this one.
    store.submit([Batch((Put(families.ACCESS_KEYS, b"key:laptop", row),))]).result()
    again = StoredKeyRing(store, RevokedKeyFile(revoked.path))
    assert [each.name for each in again.list_keys()] == ["desk"]
    assert store.get(families.ACCESS_KEYS, b"key:laptop") is None
    assert stat.S_IMODE(revoked.path.stat().st_mode) == 0o600


def test_what_another_daemon_revoked_is_noted_here(
    store: OrderedStore, revoked: RevokedKeyFile, tmp_path: Path
) -> None:
    here = StoredKeyRing(store, revoked)
    assert here.add(key("laptop"))
    assert StoredKeyRing(store, RevokedKeyFile(tmp_path / "there")).remove("laptop")
    here.refresh_soon()
    wait_until(lambda: revoked.list_digests() == {key("laptop").digest}, "it is noted")


def test_a_damaged_list_of_revoked_keys_admits_nobody(
    store: OrderedStore, revoked: RevokedKeyFile
) -> None:
    revoked.path.write_text("odd\n")
    with pytest.raises(StorageFailed):
        StoredKeyRing(store, revoked).list_keys()


class TestAccess:
    def test_a_new_key_opens_by_the_secret_it_was_given(self, access: Access) -> None:
        first, second = access.create("first"), access.create("second")
        assert first != second
        found = access.check(second)
        assert found is not None
        assert found.name == "second"

    def test_no_other_secret_opens(self, access: Access) -> None:
        secret = access.create("name")
        assert [access.check(wrong) for wrong in ("", secret[:-1], secret + " ", "am_other")] == (
            [None] * 4
        )

    def test_a_name_is_taken_once(self, access: Access) -> None:
        secret = access.create("name")
        with pytest.raises(InvalidInput, match="there is a key 'name' already"):
            access.create("name")
        assert access.check(secret) is not None
        assert len(access.list()) == 1

    def test_a_bad_name_is_refused_and_leaves_nothing(self, access: Access) -> None:
        with pytest.raises(InvalidInput, match="not a valid key name"):
            access.create("a b")
        assert access.list() == []

    def test_all_are_listed_oldest_first(self, access: Access) -> None:
        for name in ("z", "a", "m"):
            access.create(name)
        found = access.list()
        assert [each.name for each in found] == ["z", "a", "m"]
        assert [each.created_ms for each in found] == [1000, 1001, 1002]

    def test_a_revoked_key_opens_no_longer_and_others_still_do(self, access: Access) -> None:
        gone, stored = access.create("gone"), access.create("kept")
        access.revoke("gone")
        assert access.check(gone) is None
        assert access.check(stored) is not None
        assert [each.name for each in access.list()] == ["kept"]

    def test_a_name_made_again_has_another_secret(self, access: Access) -> None:
        first = access.create("name")
        access.revoke("name")
        second = access.create("name")
        assert access.check(first) is None
        assert access.check(second) is not None

    @pytest.mark.parametrize("name", ["missing", "a b", "", "\udcff"], ids=ascii)
    def test_an_unknown_name_cannot_be_revoked(self, access: Access, name: str) -> None:
        with pytest.raises(NotFound, match=r"no key .*`memory-daemon token list` shows all"):
            access.revoke(name)

    def test_the_secret_is_in_no_key_or_value_of_the_store(
        self, access: Access, store: OrderedStore
    ) -> None:
        secret = access.create("name").encode()
        held = [
            part
            for family in families.ALL
            for row in store.scan(family, b"", BEYOND_ALL_KEYS, limit=1000)
            for part in row
        ]
        assert any(b"name" in part for part in held)
        assert [part for part in held if secret in part] == []


def test_keys_outlive_the_process_and_their_secrets_are_in_no_file(
    revoked: RevokedKeyFile, tmp_path: Path
) -> None:
    first = RocksEngine(tmp_path)
    store = opened(first)
    secret = "am_a-secret-like-no-other-bytes"  # noqa: S105
    created = Access(
        keys=StoredKeyRing(store, revoked), clock=TickingClock(), new_secret=lambda: secret
    )
    created.create("name")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    in_the_log = [path for path in files if b"name" in path.read_bytes()]
    assert in_the_log
    first.compact(families.ACCESS_KEYS)
    store.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []

    again = opened(RocksEngine(tmp_path))
    try:
        stored = Access(
            keys=StoredKeyRing(again, revoked), clock=TickingClock(), new_secret=lambda: ""
        )
        found = stored.check(secret)
        assert found is not None
        assert found.name == "name"
    finally:
        again.close()


class TestKeysOfPeople:
    def test_they_keep_their_holder_role_and_projects(
        self, revoked: RevokedKeyFile, store: OrderedStore
    ) -> None:
        principal = Principal(person="ada", role=Role.WRITER, projects=frozenset({"web", "shop"}))
        created = Access(
            keys=StoredKeyRing(store, revoked),
            clock=TickingClock(),
            new_secret=lambda: "am_x",
            team=True,
        )
        created.create("laptop", principal)
        (found,) = StoredKeyRing(store, revoked).list_keys()
        assert found.principal == principal
        assert created.knows(found)
        created.revoke("laptop")
        created.create("laptop", Principal(person="ada", role=Role.READER))
        assert not created.knows(found)  # the same name has other rights now

    def test_a_row_of_an_earlier_version_is_the_owners(
        self, revoked: RevokedKeyFile, store: OrderedStore
    ) -> None:
        row = codec.encode_key(msgspec.msgpack.encode((b"digest", 7)))
        store.submit([Batch((Put(families.ACCESS_KEYS, b"key:old", row),))]).result()
        (found,) = StoredKeyRing(store, revoked).list_keys()
        assert (found.name, found.person, found.principal) == ("old", "", OWNER)

    def test_a_team_has_no_keys_without_a_person_and_others_none_with_one(
        self, revoked: RevokedKeyFile, store: OrderedStore
    ) -> None:
        for team, principal in ((True, OWNER), (False, Principal(person="ada"))):
            access = Access(
                keys=StoredKeyRing(store, revoked),
                clock=TickingClock(),
                new_secret=lambda: "",
                team=team,
            )
            with pytest.raises(InvalidInput):
                access.create("name", principal)
