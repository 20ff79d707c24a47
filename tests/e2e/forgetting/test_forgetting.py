"""Forgetting in the store of a real daemon; killed on the way, the next daemon finishes it."""

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from agent_memory.features.forgetting.adapters.forgetting_plan import StoredForgettingPlan
from agent_memory.features.forgetting.model.forgetting import Selection
from agent_memory.features.forgetting.services.forgetting import CONTENTS, REMOVING
from agent_memory.features.forgetting.services.purging import COMPACTING
from agent_memory.kernel.ids import SessionId
from agent_memory.platform.store import families
from agent_memory.proto import memory_pb2 as pb
from tests.chosen_store import has_stored, open_left_store
from tests.command_runner import wait_until
from tests.contract.stores import everything, unexpected
from tests.daemon_process import Daemon
from tests.forgetting_parts import ManualClock, find_files
from tests.forgetting_program import open_forgetting
from tests.search_client import Search
from tests.toc_conversations import MINUTE, OUTBOX, Toc, make_event, millis

ROOT = Path(__file__).parents[3]
START = millis("2026-01-30 09:00")
WORDS = b"marigold-abacus"
DOOMED = [
    make_event("vault", number, START + number * MINUTE, who, text)
    for number, (who, text) in enumerate(
        [
            ("user", "How do I open the vault?"),
            ("assistant", "We decided that the vault opens with marigold-abacus."),
            ("user", "So marigold-abacus is the word for the vault."),
        ]
    )
]
STAYING = [
    make_event("mill", number, START + (number + 1) * MINUTE, who, text)
    for number, (who, text) in enumerate(
        [
            ("user", "The mill stands still since the storm."),
            ("assistant", "We decided to mend the mill on Friday."),
        ]
    )
]
SECONDS = 60.0


@pytest.fixture
def filled(daemon: Daemon) -> Daemon:
    """A daemon that was told everything, has taken it in, and was stopped."""
    with daemon.client() as client:
        client.ingest_all([*DOOMED, *STAYING])
        toc = Toc(client)
        toc.settle()
        search = Search(client)
        wait_until(lambda: _found(search), "the conversation is found", SECONDS)
    daemon.stop()
    return daemon


def _found(search: Search) -> bool:
    kinds = {hit.kind for hit in search("marigold-abacus vault", mode="bm25").hits}
    return kinds >= {"event", "segment"}


def _assert_gone(daemon: Daemon) -> None:
    """Asked of a running daemon, and then of the files that it leaves."""
    with daemon.client() as client:
        assert {event.event_id for event in client.all_events()} == {e.event_id for e in STAYING}
        for outcome in client.ingest_all(DOOMED):
            assert not outcome.created
        toc, search = Toc(client), Search(client)
        toc.settle()
        assert [node.node_id for node in toc.segments()] != []
        assert all("vault" not in str(node) for node in toc.segments())
        assert all("vault" not in hit.text for hit in search("marigold-abacus vault").hits)
        assert search.ids("mend the mill", kinds=["event"])
    daemon.stop()
    for words in (WORDS, b"marigold", b"the vault"):
        assert find_files(daemon.data_dir, words) == []
    with closing(open_left_store(daemon.data_dir, unexpected)) as store:
        assert not StoredForgettingPlan(store, ManualClock()).get_decision()
        for family in families.ALL:
            rows = everything(store, family)
            assert not any(b"vault opens" in part for row in rows for part in row), family


def test_the_store_of_a_daemon_forgets(filled: Daemon) -> None:
    assert has_stored(filled.data_dir, WORDS.decode())
    with open_forgetting(filled.environ) as forgetting:
        selection = Selection(session_id=SessionId("vault"))
        assert forgetting.preview(selection).events == len(DOOMED)
        report = forgetting.forget_events(selection, lambda _phase, _count: None)
    assert report.proof.found_in == ()
    assert report.events == len(DOOMED)
    assert find_files(filled.data_dir, WORDS) == []
    assert not has_stored(filled.data_dir, WORDS.decode())
    filled.start()
    _assert_gone(filled)


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(REMOVING, marks=pytest.mark.soak),
        CONTENTS,
        pytest.param(COMPACTING, marks=pytest.mark.soak),
    ],
)
def test_killed_on_the_way_the_next_daemon_finishes_it(filled: Daemon, at: str) -> None:
    _forget_and_kill(filled, at)
    started_ms = time.time_ns() // 1_000_000
    filled.start()
    with filled.client() as client:
        toc = Toc(client)
        wait_until(lambda: _has_run(toc.job(OUTBOX), started_ms), "the job has run", SECONDS)
    _assert_gone(filled)  # and stopped
    with open_forgetting(filled.environ) as forgetting:
        selection = Selection(session_id=SessionId("vault"))
        report = forgetting.earlier(selection, lambda _phase, _count: None)
    assert report is not None
    assert report.events == len(DOOMED)
    assert report.proof.needles > 0
    assert report.proof.found_in == ()


def _has_run(job: pb.JobStatusProto, since_ms: int) -> bool:
    return job.last_run_ms >= since_ms and not job.is_running


def _forget_and_kill(daemon: Daemon, at: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.forgetting_program", "vault", at],
        cwd=ROOT,
        env=daemon.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"{at}\n"
        finally:
            process.kill()
