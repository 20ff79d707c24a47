"""What people and the operator of a team server are told while its database does not answer."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import httpx
import pytest

from agent_memory.proto import memory_pb2 as pb
from bench.postgres_server import PostgresServer
from tests.command_runner import Home, wait_until
from tests.memory_commands import STORAGE
from tests.postgres_server import start_server
from tests.team_server import CONFIG, Caller, TeamServer


def test_people_get_a_sentence_and_the_operator_the_reason() -> None:
    database = start_server()
    try:
        with Home() as home:
            home.configure(f'{CONFIG}[storage]\nurl = "{database.url}"\n')
            server = TeamServer(home)
            ada = server.create("ada", "--role", "writer")
            event = {"session_id": "s-1", "event_id": "e-1", "text": "The tide turns at noon"}
            ada.rest("POST", "/api/v1/events/", json=event)
            assert ada.status == 201
            database.stop("immediate")

            def has_lost() -> bool:
                status = home.run("memory-daemon", "status", "--format", "json").json()
                return bool(status["store"]["lost"])

            wait_until(has_lost, "the daemon notices")
            place = str(database.host)
            told = [
                ada.rest("POST", "/api/v1/events/", json=event | {"event_id": "e-2"}),
                ada.get("/api/v1/events/"),
                ada.rpc("GetTocRoot", pb.GetTocRootRequest(), pb.GetTocRootResponse),
            ]
            for answer in told:
                assert "the database of the server cannot be used now" in answer
                assert place not in answer
            status = home.run("memory-daemon", "status")
            assert status.code == STORAGE
            assert "Events stored: unknown" in status.text
            assert "the database server cannot be used, nothing is recorded, reads fail" in (
                " ".join(status.text.split())
            )
            assert place in status.text
            doctor = home.run("memory", "doctor")
            assert "free some space" not in doctor.text
            assert "check that it runs and that this machine reaches it" in " ".join(
                doctor.text.split()
            )
    finally:
        database.remove()


SOON = 10.0  # seconds: five times what is promised, and half of what it once took
EVENTS = 8  # that are sent while the database is away


@contextmanager
def stop(database: PostgresServer) -> Iterator[None]:
    database.stop("immediate")
    try:
        yield
    finally:
        database.start()


@contextmanager
def silence(database: PostgresServer) -> Iterator[None]:
    """Keep the connections open without an answer, as a machine does that hangs."""
    database.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        database.signal(signal.SIGCONT)


class TestWaiting:
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls) -> Iterator[PostgresServer]:
        database = start_server()
        yield database
        database.remove()

    @pytest.fixture(scope="class")
    @classmethod
    def ada(cls, database: PostgresServer) -> Iterator[Caller]:
        with Home() as home:
            home.configure(f'{CONFIG}[storage]\nurl = "{database.url}"\n')
            yield TeamServer(home).create("ada", "--role", "admin")

    @staticmethod
    def send(ada: Caller, number: int, name: str) -> int:
        event = {"session_id": "s", "event_id": f"{name}-{number}", "text": f"{name} {number}"}
        ada.rest("POST", "/api/v1/events/", json=event, timeout=60)
        return ada.status

    @pytest.mark.parametrize("away", [stop, silence])
    def test_a_write_is_answered_soon_and_stored_once(
        self,
        database: PostgresServer,
        ada: Caller,
        away: Callable[[PostgresServer], AbstractContextManager[None]],
    ) -> None:
        name = away.__name__
        assert self.send(ada, 0, name) == 201
        memory = {"namespace": "decisions", "summary": f"Use {name}", "domain": "project:shop"}

        def is_told_in_time() -> bool:
            """A machine under load may lose a race; it does not lose all."""
            event = pb.Event(
                event_id=f"{name}-rpc",
                session_id="s",
                timestamp_ms=1,
                event_type=pb.EVENT_TYPE_USER_MESSAGE,
                role=pb.EVENT_ROLE_USER,
                text="x",
            )
            request = pb.IngestEventRequest(event=event)
            answer = ada.rpc("IngestEvent", request, pb.IngestEventResponse, timeout=1.0)
            return answer.startswith("UNAVAILABLE")

        def is_back(number: int) -> bool:
            return self.send(ada, number, name) in (200, 201)

        with away(database):
            for number in range(1, 6):
                began = time.monotonic()
                if number < 4:
                    self.send(ada, number, name)
                elif number == 4:
                    ada.rest("POST", "/api/v1/memories/", json=memory)
                else:
                    ada.get("/api/v1/events/")
                assert ada.status == httpx.codes.SERVICE_UNAVAILABLE
                assert time.monotonic() - began < SOON
            wait_until(is_told_in_time, "the answer comes before the deadline")
        for number in range(EVENTS):  # it is back, and nobody had to do anything
            wait_until(partial(is_back, number), "it is back")
            assert self.send(ada, number, name) == 200
        listed = ada.get("/api/v1/events/", limit=200)
        assert [listed.count(f'"{name} {number}"') for number in range(EVENTS)] == [1] * EVENTS
