"""The spool: hook calls without a daemon are stored whole, privately and once."""

import errno
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_memory.features.hooks.adapters import spool as spool_folder
from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.model import hooks, transcripts
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.features.hooks.ports import Spool
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.model.secrets import WITHHELD
from agent_memory.kernel.errors import (
    AgentMemoryError,
    ContentBlocked,
    InvalidInput,
    Overloaded,
    StorageFailed,
)

AT = 1_780_000_000_000
TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"

# A new implementation of the port is one line here.
SPOOLS: dict[str, Callable[[Path], Spool]] = {"folder": SpoolFolder}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "data" / "spool"


@pytest.fixture(params=sorted(SPOOLS))
def spool(request: pytest.FixtureRequest, place: Path) -> Spool:
    return SPOOLS[request.param](place)


def make_call(
    text: str = "Why does it flicker?", *, at_ms: int = AT, nonce: str = "n1"
) -> HookCall:
    return HookCall(kind=HookKind.PROMPT, session="s1", at_ms=at_ms, nonce=nonce, text=text)


WHOLE = HookCall(
    kind=HookKind.TOOL_FAILURE,
    session="s1/a1",
    at_ms=AT,
    nonce="n1",
    call_id="toolu_1",
    text="it broke \ud800 \N{ROCKET}\n",
    use=ToolUse(name="Write", asked="/x", written="new", file="/x"),
    folder="/home/ada/\udc80",
    branch="main",
    decisions=("one", "two"),
    about={"agent": "claude-code", "model": "m"},
)


def read_all(spool: Spool) -> list[HookCall | None]:
    return [spool.get(name) for name in spool.list_pending()]


class TestAnySpool:
    def test_nothing_waits_at_first(self, spool: Spool) -> None:
        assert spool.list_pending() == []

    def test_all_that_was_told_is_kept(self, spool: Spool) -> None:
        spool.put(WHOLE)
        assert read_all(spool) == [WHOLE]

    def test_the_origin_is_kept(self, spool: Spool) -> None:
        spool.put(replace(WHOLE, plugin=True))
        assert read_all(spool) == [replace(WHOLE, plugin=True)]

    def test_the_oldest_first(self, spool: Spool) -> None:
        for number in (5, 1, 12, 3):
            spool.put(make_call(str(number), at_ms=AT + number, nonce=f"n{number}"))
        assert [each and each.text for each in read_all(spool)] == ["1", "3", "5", "12"]

    def test_the_same_delivery_twice_is_there_once(self, spool: Spool) -> None:
        spool.put(make_call())
        spool.put(make_call())
        assert read_all(spool) == [make_call()]

    def test_the_same_words_twice_are_two(self, spool: Spool) -> None:
        spool.put(make_call(nonce="n1"))
        spool.put(make_call(nonce="n2"))
        assert len(spool.list_pending()) == 2

    def test_what_is_removed_is_gone(self, spool: Spool) -> None:
        spool.put(make_call())
        (name,) = spool.list_pending()
        spool.remove(name)
        assert (spool.list_pending(), spool.get(name)) == ([], None)
        spool.remove(name)

    def test_many_at_once(self, spool: Spool) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: spool.put(make_call(str(n), nonce=f"n{n}")), range(40)))
        assert {each.text for each in read_all(spool) if each} == {str(n) for n in range(40)}

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
    @given(
        kind=st.sampled_from(list(HookKind)),
        words=st.lists(st.text(alphabet=st.characters(), max_size=20), min_size=9, max_size=9),
        about=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    )
    def test_anything_that_can_be_told(
        self, spool: Spool, kind: HookKind, words: list[str], about: dict[str, str]
    ) -> None:
        session, call_id, text, name, asked, written, folder, branch, decision = words
        use = ToolUse(name=name, asked=asked, written=written)
        whole = HookCall(
            kind=kind, session=session, at_ms=AT, nonce="n", call_id=call_id, text=text, use=use,
            folder=folder, branch=branch, decisions=(decision,), about=about,
        )  # fmt: skip
        spool.put(whole)
        assert read_all(spool) == [whole]


class TestFolder:
    def test_only_the_user_may_read_it(self, place: Path) -> None:
        SpoolFolder(place).put(make_call())
        assert S_IMODE(place.stat().st_mode) == 0o700
        assert [S_IMODE(each.stat().st_mode) for each in place.iterdir()] == [0o600]

    def test_nothing_is_left_beside_what_waits(self, place: Path) -> None:
        spool = SpoolFolder(place)
        spool.put(make_call())
        assert [each.name for each in place.iterdir()] == spool.list_pending()

    def test_another_process_finds_it(self, place: Path) -> None:
        SpoolFolder(place).put(make_call())
        assert read_all(SpoolFolder(place)) == [make_call()]

    def test_its_files_keep_the_names_of_earlier_versions(self, place: Path) -> None:
        """A spool may be written by one version and read by another."""
        SpoolFolder(place).put(WHOLE)
        (file,) = place.iterdir()
        stored = json.loads(file.read_bytes())
        assert list(stored) == [
            "moment", "session", "at_ms", "nonce", "given", "text", "use", "folder", "branch",
            "decisions", "about",
        ]  # fmt: skip
        assert (stored["moment"], stored["given"]) == ("post-tool-failure", "toolu_1")

    def test_a_half_written_one_is_not_there(self, place: Path) -> None:
        spool = SpoolFolder(place)
        spool.put(make_call())
        (name,) = spool.list_pending()
        (place / f".{name}.part").write_bytes(b'{"moment": "us')
        (place / "something else").write_bytes(b"")
        assert spool.list_pending() == [name]

    @pytest.mark.parametrize(
        "damage",
        [
            b"",
            b"{",
            b"\xff\xfe\x00",
            b"[]",
            b"null",
            b"{}",
            b'{"moment": "user-prompt"}',
            b"[" * 100_000,
        ],
    )
    def test_what_cannot_be_read_can_be_set_aside(self, place: Path, damage: bytes) -> None:
        spool = SpoolFolder(place)
        spool.put(make_call())
        (name,) = spool.list_pending()
        (place / name).write_bytes(damage)
        with pytest.raises(ValueError, match=r"."):
            spool.get(name)
        spool.set_aside(name)
        assert spool.list_pending() == []
        assert [each.read_bytes() for each in place.iterdir()] == [damage]

    @pytest.mark.parametrize(
        "changed",
        [
            {"moment": "tea-time"},
            {"session": 7},
            {"at_ms": "late"},
            {"text": None},
            {"nonce": []},
            {"use": None},
            {"use": {"name": 1}},
            {"use": {"nom": "Write"}},
            {"decisions": None},
            {"decisions": [1]},
            {"about": None},
            {"about": {"agent": 1}},
            {"folder": {}},
            {"plugin": "yes"},
            {"from_a_newer_version": True},
        ],
    )
    def test_what_says_something_else_is_not_read(
        self, place: Path, changed: dict[str, Any]
    ) -> None:
        """Else it would fail at every drain and hold up the calls after it."""
        spool = SpoolFolder(place)
        spool.put(WHOLE)
        (name,) = spool.list_pending()
        found = json.loads((place / name).read_bytes())
        (place / name).write_text(json.dumps({**found, **changed}))
        with pytest.raises(ValueError, match=r"."):
            spool.get(name)

    def test_what_a_killed_writer_left_is_removed(self, place: Path) -> None:
        spool = SpoolFolder(place)
        spool.put(make_call())
        old, new = place / ".1-a.json.part", place / ".2-b.json.part"
        for part in (old, new):
            part.write_text("{")
        os.utime(old, (0, 0))
        spool.put(make_call(nonce="n2"))
        assert not old.exists()
        assert new.exists()

    def test_a_full_one_takes_no_more_and_says_what_to_do(self, place: Path) -> None:
        spool = SpoolFolder(place)
        spool.put(make_call())
        with (place / "large").open("wb") as file:
            file.truncate(spool_folder.MAX_BYTES)
        with pytest.raises(Overloaded, match=r"full.*memory-daemon start"):
            spool.put(make_call(nonce="n2"))
        assert read_all(spool) == [make_call()]
        (place / "large").unlink()
        spool.put(make_call(nonce="n2"))

    def test_a_folder_that_cannot_be_written_to(self, place: Path) -> None:
        place.parent.mkdir(parents=True)
        place.write_text("a file is in the way")
        with pytest.raises(StorageFailed, match="spool"):
            SpoolFolder(place).put(make_call())

    def test_no_link_is_followed(self, place: Path, tmp_path: Path) -> None:
        spool = SpoolFolder(place)
        spool.put(make_call())
        (name,) = spool.list_pending()
        spool.remove(name)
        target = tmp_path / "elsewhere"
        (place / f".{name}.part").symlink_to(target)
        (place / name).symlink_to(target)
        spool.put(make_call())
        assert not target.exists()
        assert spool.get(name) == make_call()


@pytest.fixture(scope="module")
def secrets() -> Re2Filter:
    return Re2Filter(mode="redact")


def _going_on() -> bool:
    return False


class Drained:
    """A drain that collects the recorded calls and the failures."""

    def __init__(self) -> None:
        self.recorded: list[HookCall] = []
        self.refused: list[Exception] = []

    def of(self, spooling: Spooling) -> int:
        return spooling.drain(self.record, self.refused.append, _going_on)

    def record(self, call: HookCall) -> bool:
        self.recorded.append(call)
        return True


class TestKeeping:
    def test_no_secret_gets_to_the_disk(
        self, spool: Spool, place: Path, secrets: Re2Filter
    ) -> None:
        words = f"the key is {TOKEN}"
        Spooling(spool=spool, secrets=secrets).keep(
            replace(
                WHOLE,
                text=words,
                use=ToolUse(name="Write", asked=words, written=words, file=f"/x/{TOKEN}"),
                decisions=(words,),
                about={"model": words},
            )
        )
        assert [each for each in place.iterdir() if TOKEN.encode() in each.read_bytes()] == []
        (found,) = read_all(spool)
        assert found is not None
        assert found.text.startswith("the key is ")

    def test_no_secret_gets_to_the_disk_as_a_name(
        self, spool: Spool, place: Path, secrets: Re2Filter
    ) -> None:
        named = replace(
            WHOLE,
            session=f"of-{TOKEN}",
            call_id=TOKEN,
            folder=f"/code/{TOKEN}",
            branch=f"feature/{TOKEN}",
            use=ToolUse(name=f"mcp__x__{TOKEN}"),
            about={TOKEN: "x"},
        )
        for mode in ("redact", "block"):
            Spooling(spool=spool, secrets=Re2Filter(mode=mode)).keep(replace(named, nonce=mode))
        assert [each for each in place.iterdir() if TOKEN.encode() in each.read_bytes()] == []
        (found, _) = read_all(spool)
        assert found is not None
        # Recorded by a daemon, it is the same event.
        direct = hooks.clean_ids(named, lambda name: secrets.clean_name(name, limit=256))
        assert found.prompt_event == direct.prompt_event
        assert hooks.clean_ids(found, lambda name: secrets.clean_name(name, limit=256)) == found

    def test_what_may_not_be_kept_is_not(self, spool: Spool) -> None:
        Spooling(spool=spool, secrets=Re2Filter(mode="block")).keep(make_call(TOKEN))
        (found,) = read_all(spool)
        assert found is not None
        assert found.text == WITHHELD

    def test_a_long_text_is_cut(self, spool: Spool, secrets: Re2Filter) -> None:
        Spooling(spool=spool, secrets=secrets).keep(make_call("word " * (1 << 19)))
        (found,) = read_all(spool)
        assert found is not None
        assert found.text.endswith(transcripts.CUT)

    def test_what_we_said_ourselves_goes_before_it_is_cut(
        self, spool: Spool, secrets: Re2Filter
    ) -> None:
        """A tag without its end would be left as text."""
        ours = f"<memory_context>{'injected ' * (1 << 17)}</memory_context>"
        Spooling(spool=spool, secrets=secrets).keep(make_call(f"before {ours} after"))
        (found,) = read_all(spool)
        assert found is not None
        assert found.own_text.split() == ["before", "after"]


class TestDraining:
    def test_the_oldest_first_and_each_once(self, spool: Spool, secrets: Re2Filter) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        for number in (3, 1, 2):
            spooling.keep(make_call(f"words {number}", at_ms=AT + number, nonce=f"n{number}"))
        drained = Drained()
        assert drained.of(spooling) == 3
        assert [each.text for each in drained.recorded] == ["words 1", "words 2", "words 3"]
        assert drained.of(spooling) == 0
        assert spool.list_pending() == []

    @pytest.mark.parametrize("error", [InvalidInput("no session"), ContentBlocked("a secret")])
    def test_what_nobody_would_ever_record_holds_up_nothing(
        self, spool: Spool, secrets: Re2Filter, error: AgentMemoryError
    ) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        for number in range(3):
            spooling.keep(make_call(str(number), at_ms=AT + number, nonce=f"n{number}"))
        found: list[str] = []
        refused: list[Exception] = []

        def record(each: HookCall) -> bool:
            if each.text == "1":
                raise error
            found.append(each.text)
            return True

        assert spooling.drain(record, refused.append, _going_on) == 2
        assert (found, refused, spool.list_pending()) == (["0", "2"], [error], [])

    def test_what_nobody_foresaw_is_set_aside(
        self, spool: Spool, place: Path, secrets: Re2Filter
    ) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        for number in range(3):
            spooling.keep(make_call(str(number), at_ms=AT + number, nonce=f"n{number}"))
        fault = RuntimeError("a fault of ours")
        refused: list[Exception] = []

        def record(each: HookCall) -> bool:
            if each.text == "1":
                raise fault
            return True

        assert spooling.drain(record, refused.append, _going_on) == 2
        assert (refused, spool.list_pending()) == ([fault], [])
        assert len([each for each in place.iterdir() if each.suffix == ".damaged"]) == 1

    def test_what_the_system_refuses_for_now_stays(self, spool: Spool, secrets: Re2Filter) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        for number in range(3):
            spooling.keep(make_call(str(number), at_ms=AT + number, nonce=f"n{number}"))
        refused: list[Exception] = []

        def record(each: HookCall) -> bool:
            if each.text == "1":
                raise OSError(errno.EMFILE, "too many open files")
            return True

        assert spooling.drain(record, refused.append, _going_on) == 2
        assert len(refused) == 1
        assert [each and each.text for each in read_all(spool)] == ["1"]

    def test_ends_where_the_daemon_does(self, spool: Spool, secrets: Re2Filter) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        for number in range(3):
            spooling.keep(make_call(str(number), at_ms=AT + number, nonce=f"n{number}"))
        drained = Drained()
        assert spooling.drain(drained.record, lambda _: None, lambda: bool(drained.recorded)) == 1
        assert len(spool.list_pending()) == 2

    def test_what_is_not_done_with_stays(self, spool: Spool, secrets: Re2Filter) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        for number in range(3):
            spooling.keep(make_call(str(number), at_ms=AT + number, nonce=f"n{number}"))
        assert spooling.drain(lambda each: each.text != "1", lambda _: None, _going_on) == 2
        assert [each and each.text for each in read_all(spool)] == ["1"]

    def test_what_could_not_be_stored_stays(self, spool: Spool, secrets: Re2Filter) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        for number in range(3):
            spooling.keep(make_call(str(number), at_ms=AT + number, nonce=f"n{number}"))

        def record(each: HookCall) -> bool:
            if each.text == "1":
                raise StorageFailed("the disk is full")
            return True

        with pytest.raises(StorageFailed):
            spooling.drain(record, lambda _: None, _going_on)
        assert [each and each.text for each in read_all(spool)] == ["1", "2"]

    def test_two_drains_at_once_record_each_once(self, spool: Spool, secrets: Re2Filter) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        for number in range(20):
            spooling.keep(make_call(str(number), nonce=f"n{number}"))
        drained = Drained()
        together = threading.Barrier(4)

        def drain() -> int:
            together.wait()
            return drained.of(spooling)

        with ThreadPoolExecutor(4) as pool:
            counts = [each.result() for each in [pool.submit(drain) for _ in range(4)]]
        assert sum(counts) == 20
        assert len({each.nonce for each in drained.recorded}) == len(drained.recorded) == 20

    def test_a_damaged_one_holds_up_nothing(
        self, place: Path, spool: Spool, secrets: Re2Filter
    ) -> None:
        spooling = Spooling(spool=spool, secrets=secrets)
        spooling.keep(make_call("kept", nonce="n2"))
        (place / f"{AT - 1:013}-damaged.json").write_text("{")
        drained = Drained()
        assert drained.of(spooling) == 1
        assert [each.text for each in drained.recorded] == ["kept"]
        assert (place / f"{AT - 1:013}-damaged.json.damaged").read_text() == "{"


def test_what_is_behind_a_link_in_its_place_stays(place: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "1.json").write_text("{}")
    place.parent.mkdir()
    place.symlink_to(theirs)

    assert SpoolFolder(place).list_pending() == []

    place.symlink_to(theirs)
    SpoolFolder(place).put(make_call())
    assert [path.name for path in theirs.iterdir()] == ["1.json"]
    assert len(SpoolFolder(place).list_pending()) == 1
