"""Server-sent events of a real daemon, and `memory serve`."""

import json
import signal
import socket
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import git_repositories
from tests.command_runner import SECONDS, Home, wait_until
from tests.streaming import COMMENT, ServedDaemon, ServerEvent, start_serve

OFF = {"code": -32002, "name": "invalid_argument"}


@pytest.fixture(scope="module")
def served() -> Iterator[ServedDaemon]:
    with Home() as home:
        home.settings["streaming.sse_keepalive_seconds"] = "1"
        home.settings["streaming.max_connections"] = "5"
        yield ServedDaemon(home)


def names(events: list[ServerEvent]) -> list[str]:
    return [each.event for each in events]


def event_ids(events: Iterator[ServerEvent], count: int) -> list[str]:
    """Of the next events; what else comes is passed over."""
    wanted = (each for each in events if each.event == "event")
    return [each.data["event_id"] for each in islice(wanted, count)]


class TestOperations:
    def test_recall_gives_each_result_and_then_the_sum(self, served: ServedDaemon) -> None:
        uri = served.capture("Use PostgreSQL for orders")
        served.capture("Bake bread on Sundays")
        start, *results, complete = served.post("/stream/recall", query="PostgreSQL", limit=5)
        assert start == ServerEvent(
            "start", {"operation": "recall", "params": {"query": "PostgreSQL", "limit": 5}}, ""
        )
        assert names(results) == ["result"]
        (found,) = (each.data for each in results)
        assert found["memory"]["uri"] == uri
        assert 0 < found["score"] <= 1
        assert complete.event == "complete"
        assert complete.data["success"] is True
        assert complete.data["result"]["total"] == 1

    def test_recall_narrows_by_namespace_and_domain(self, served: ServedDaemon) -> None:
        served.capture("Ovens want an hour to get hot", namespace="learnings")
        for body, expected in (
            ({"namespace": "learnings"}, 1),
            ({"namespace": "blockers"}, 0),
            ({"domain": "user"}, 0),
            ({"domain": "project:work", "mode": "bm25"}, 1),
        ):
            found = served.post("/stream/recall", query="ovens get hot", **body)
            assert names(found).count("result") == expected, body

    def test_consolidate_is_a_dry_run_unless_told_otherwise(self, served: ServedDaemon) -> None:
        served.capture("Restart the mixer when it squeaks at night")
        served.capture("Restart the mixer when it squeaks at the night")
        start, *progress, complete = served.post("/stream/consolidate", domain="project:work")
        assert start.data["operation"] == "consolidate"
        assert start.data["params"]["dry_run"] is True
        assert set(names(progress)) == {"progress"}
        assert all(
            each.data.keys() == {"phase", "current", "total", "message"} for each in progress
        )
        result = complete.data["result"]
        assert (result["applied"], len(result["merges"])) == (False, 1)
        assert any("LLM" in each for each in result["skipped"])

        *_, complete = served.post("/stream/consolidate", dry_run=False)
        assert complete.data["result"]["applied"] is True
        undone = served.home.run("memory", "consolidate", "--undo", "--format", "json")
        assert undone.json()["undone"] == 1

    def test_sync_tells_each_phase_and_what_was_done(
        self, served: ServedDaemon, tmp_path: Path
    ) -> None:
        origin = git_repositories.make_repository(tmp_path / "origin.git", bare=True, commits=0)
        clone = git_repositories.make_repository(tmp_path / "stall")
        clone.git("remote", "add", "origin", str(origin.folder))
        clone.git("push", "-q", "origin", "HEAD")
        captured = served.home.run(
            "memory", "capture", "decisions", "Sell bread by weight", cwd=clone.folder
        )
        assert captured.code == 0, captured
        (project,) = {
            each["domain"]
            for each in served.home.run(
                "memory", "list", "--format", "json", cwd=clone.folder
            ).json()["memories"]
            if each["summary"] == "Sell bread by weight"
        }
        _, *progress, complete = served.post("/stream/sync", domain=project, remote=True)
        assert {"fetching", "pushing"} <= {each.data["phase"] for each in progress}
        assert complete.data["success"] is True, complete
        (done,) = complete.data["result"]["domains"]
        assert (done["domain"], done["pushed"]) == (project, True)
        assert "refs/notes/mem/decisions" in origin.refs()

    def test_what_fails_is_told_with_its_code(self, served: ServedDaemon) -> None:
        for path, body, words in (
            ("sync", {"domain": "project"}, "known projects: "),
            ("sync", {"domain": "project:nowhere"}, "no project 'nowhere'"),
            ("consolidate", {"domain": "elsewhere"}, "domain is 'elsewhere'"),
            ("recall", {"query": "x", "domain": "elsewhere"}, "domain is 'elsewhere'"),
        ):
            start, *_, error, complete = served.post(f"/stream/{path}", **body)
            assert (start.event, error.event, complete.event) == ("start", "error", "complete")
            assert error.data.items() >= OFF.items()
            assert words in error.data["message"]
            assert complete.data["success"] is False

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("recall", {"limit": 0}),
            ("recall", {"limit": 101}),
            ("recall", {"query": "x" * 10_001}),
            ("recall", {"nonsense": 1}),
            ("consolidate", {"dry_run": "perhaps"}),
            ("sync", []),
        ],
    )
    def test_what_makes_no_sense_is_refused_before_it_starts(
        self, served: ServedDaemon, path: str, body: Any
    ) -> None:
        with served.http() as http:
            answer = http.post(f"/stream/{path}", json=body)
        assert answer.status_code == 422
        assert answer.json()["detail"]

    def test_a_client_that_leaves_cancels_the_work(self, served: ServedDaemon) -> None:
        """A long consolidation: it is left as soon as it has begun to merge."""
        words = [f"w{number:03}" for number in range(1_000)]
        records = []
        for pair in range(0, 1_000, 4):
            said = " ".join(words[pair : pair + 4])
            records += [
                {"namespace": "progress", "summary": f"Bring {said} over here"},
                {"namespace": "progress", "summary": f"Bring the {said} over here"},
            ]
        lines = "".join(json.dumps(each) + "\n" for each in records)
        brought = served.home.run(
            "memory", "import", "-", "--format", "jsonl", given=lines.encode()
        )
        assert brought.code == 0, brought
        with served.stream("POST", "/stream/consolidate", json={"dry_run": False}) as events:
            merging = next(
                each for each in events if "phase" in each.data and each.data["phase"] == "merging"
            )
            assert merging.data["total"] >= 250
        wait_until(lambda: "stream.cancelled" in served.home.log(), "it was cancelled", SECONDS)
        undone = served.home.run("memory", "consolidate", "--undo", "--format", "json")
        assert 0 < undone.json()["undone"] < 250


class TestEvents:
    def test_events_come_as_they_are_recorded(self, served: ServedDaemon, name: str) -> None:
        with served.stream("GET", "/stream/events", params={"session_id": name}) as events:
            start = next(events)
            assert start.event == "start"
            assert start.data == {"operation": "events", "params": {"session_id": name}}
            served.ingest("another", f"{name}-0")
            served.ingest(name, f"{name}-1", f"{name}-2", text="said")
            first = next(each for each in events if each.event == "event")
            assert first.data["event_id"] == f"{name}-1"
            assert first.data["text"] == "said"
            assert event_ids(events, 1) == [f"{name}-2"]

    def test_those_of_a_project(self, served: ServedDaemon, name: str) -> None:
        with served.stream("GET", "/stream/events", params={"project": name}) as events:
            assert next(events).event == "start"
            served.ingest("a", f"{name}-0", project="another")
            served.ingest("b", f"{name}-1", project=name)
            assert event_ids(events, 1) == [f"{name}-1"]

    def test_while_nothing_happens_the_connection_is_kept_alive(
        self, served: ServedDaemon, name: str
    ) -> None:
        with served.stream("GET", "/stream/events", params={"session_id": name}) as events:
            assert next(events).event == "start"
            assert next(events).event == COMMENT

    def test_who_comes_back_misses_nothing_and_is_told_nothing_twice(
        self, served: ServedDaemon, name: str
    ) -> None:
        said = [f"{name}-{number:02}" for number in range(60)]

        def follow(token: str, count: int, *, by_header: bool) -> tuple[list[str], str]:
            headers = {"Last-Event-ID": token} if by_header else {}
            params = {"session_id": name} | ({} if by_header else {"since": token})
            with served.stream("GET", "/stream/events", headers=headers, params=params) as events:
                assert next(events).token == token
                wanted = (each for each in events if each.event == "event")
                taken = list(islice(wanted, count))
                return [each.data["event_id"] for each in taken], taken[-1].token

        with served.stream("GET", "/stream/events", params={"session_id": name}) as events:
            token = next(events).token
        served.ingest(name, *said[:20])
        heard, token = follow(token, 5, by_header=True)
        served.ingest(name, *said[20:40])
        more, token = follow(token, 30, by_header=False)
        served.home.stop()
        served.start()
        served.ingest(name, *said[40:])
        rest, _ = follow(token, 25, by_header=True)
        assert heard + more + rest == said

    def test_nonsense_in_place_of_a_token_is_refused(self, served: ServedDaemon) -> None:
        with served.http() as http:
            for token in ("x", "-1", "1.5", "999999999", "9" * 30):
                answer = http.get("/stream/events", params={"since": token})
                assert answer.status_code == 422, token

    def test_a_long_poll_answers_at_once_where_there_is_something(
        self, served: ServedDaemon, name: str
    ) -> None:
        with served.http() as http:
            query: dict[str, str | int] = {"session_id": name, "timeout": 0}
            begun = http.get("/stream/events", params=query).json()
            assert begun["events"] == []
            served.ingest(name, f"{name}-1", f"{name}-2")
            query |= {"since": begun["next"], "timeout": 300}
            found = http.get("/stream/events", params=query).json()
            assert [each["event_id"] for each in found["events"]] == [f"{name}-1", f"{name}-2"]
            query |= {"since": found["next"], "timeout": 0}
            assert http.get("/stream/events", params=query).json()["events"] == []

    def test_a_long_poll_waits_for_what_comes(self, served: ServedDaemon, name: str) -> None:
        with served.http() as http, served.http() as other:
            now: dict[str, str | int] = {"session_id": name, "timeout": 0}
            since = other.get("/stream/events", params=now).json()["next"]
            headers = {"Accept": "application/json"}
            query = {"session_id": name, "since": since}
            request = http.build_request("GET", "/stream/events", params=query, headers=headers)
            served.ingest(name, f"{name}-1")
            (found,) = http.send(request).json()["events"]
            assert found["event_id"] == f"{name}-1"


def test_no_more_than_the_limit_may_be_connected(served: ServedDaemon, name: str) -> None:
    path = f"/stream/events?session_id={name}"
    with served.http() as http:
        held = [http.send(http.build_request("GET", path), stream=True) for _ in range(5)]
        assert [each.status_code for each in held] == [200] * 5
        for refused in (http.get(path), http.post("/stream/recall", json={})):
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0
            assert "streaming.max_connections" in refused.json()["detail"]
        assert http.get("/health").status_code == 200
        held.pop().close()
        wait_until(lambda: _is_served(http, path), "a seat is free")
        for each in held:
            each.close()


def _is_served(http: httpx.Client, path: str) -> bool:
    with http.stream("GET", path) as answer:
        return answer.status_code == 200


class TestServe:
    def test_streams_have_a_port_of_their_own_until_ctrl_c(self, served: ServedDaemon) -> None:
        with start_serve(served.home, "sse") as (command, address):
            with httpx.Client(base_url=f"http://{address}", headers=served.headers) as http:
                assert http.get("/health").json() == {"status": "ok"}
                found = http.post("/stream/recall", json={"query": "bread"})
                assert "event: complete" in found.text
                assert "access-control-allow-origin" not in found.headers
                assert http.get("/api/v1/status/").status_code == 404
            command.send_signal(signal.SIGINT)
            assert command.wait(SECONDS) == 130
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://{address}/health")

    def test_a_caller_that_goes_away_ends_it(self, served: ServedDaemon) -> None:
        with start_serve(served.home, "sse") as (command, address):
            command.kill()
            host, _, port = address.rpartition(":")
            wait_until(lambda: not _listens(host, int(port)), "nobody listens any more")

    def test_a_port_that_is_taken_is_told(self, served: ServedDaemon) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            refused = served.home.run("memory", "serve", "--transport", "sse", "--port", port)
        assert refused.code == 1
        assert f"127.0.0.1:{port}" in refused.errors
        assert "--port" in refused.errors

    def test_other_machines_are_not_let_in_by_accident(self, served: ServedDaemon) -> None:
        refused = served.home.run("memory", "serve", "--transport", "sse", "--host", "192.0.2.1")
        assert refused.code == 3
        assert "--host" in refused.errors

    def test_mcp_is_installed_unless_it_is_not_wanted(self, served: ServedDaemon) -> None:
        installed = served.home.run("memory", "install", "claude-code", "--dry-run")
        assert '"serve"' in installed.text
        installed = served.home.run("memory", "install", "claude-code", "--dry-run", "--no-mcp")
        assert '"serve"' not in installed.text

    def test_pages_of_other_sites_are_let_in_where_that_is_wanted(
        self, served: ServedDaemon
    ) -> None:
        with start_serve(served.home, "sse", "--cors") as (_, address):
            asked = httpx.options(
                f"http://{address}/stream/recall",
                headers={
                    "Origin": "https://dashboard.example",
                    "Access-Control-Request-Method": "POST",
                    "Access-Control-Request-Headers": "authorization,content-type",
                },
            )
            assert asked.is_success
            assert asked.headers["access-control-allow-origin"] == "https://dashboard.example"


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0
