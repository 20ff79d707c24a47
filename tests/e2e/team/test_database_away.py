"""What people and the operator of a team server are told while its database does not answer."""

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home, wait_until
from tests.memory_commands import STORAGE
from tests.postgres_server import start_server
from tests.team_server import CONFIG, TeamServer


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
