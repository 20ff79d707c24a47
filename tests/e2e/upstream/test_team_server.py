"""Two laptops and a team's server as real daemons: forwarding, recall, edits, forgetting."""

import json
import shutil
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.command_runner import Home, wait_until
from tests.http_client import Web
from tests.memory_commands import (
    CONFIG,
    INVALID,
    MISSING,
    OK,
    MemoryCommand,
    assert_refused,
)
from tests.team_laptops import AT, Laptop, TeamServerHome, get_repository, open_team

RECORDS = "/api/v1/upstream/records/"


@pytest.fixture(scope="module")
def team() -> Iterator[tuple[TeamServerHome, Laptop, Laptop]]:
    """A server, and two laptops of one person that share the projects `shop` and `work`."""
    with open_team(2) as (server, (one, two)):
        key = server.create_key("ada")
        for laptop in (one, two):
            laptop.connect(server, key, "shop", "work")
        yield server, one, two


@pytest.fixture
def server(team: tuple[TeamServerHome, Laptop, Laptop]) -> TeamServerHome:
    return team[0]


@pytest.fixture
def one(team: tuple[TeamServerHome, Laptop, Laptop]) -> Laptop:
    return team[1]


@pytest.fixture
def two(team: tuple[TeamServerHome, Laptop, Laptop]) -> Laptop:
    return team[2]


def find_event(server: TeamServerHome, event_id: str) -> dict[str, object] | None:
    found = [event for event in server.list_events() if event["event_id"] == event_id]
    return found[0] if found else None


def ask_until_found(laptop: Laptop, *words: str) -> dict[str, Any]:
    """Return the first hit. A server that is slow, as on a busy machine, is not waited for."""
    found: list[dict[str, Any]] = []

    def ask() -> bool:
        found[:] = laptop.recall(*words)["results"]
        return bool(found)

    wait_until(ask, "the server answers")
    return found[0]


class TestForwarding:
    def test_only_chosen_projects_leave_and_the_person_comes_from_the_key(
        self, server: TeamServerHome, one: Laptop
    ) -> None:
        one.record("crane-1", "the crane service uses PostgreSQL", "shop")
        one.record("diary-1", "a private thought about pelicans", "diary")
        one.sync()
        sent = find_event(server, "crane-1@ada")
        assert sent is not None
        assert sent["metadata"]["person"] == "ada"  # type: ignore[index]
        assert sent["session_id"] == "s-1@ada"
        texts = [event["text"] for event in server.list_events()]
        assert not any("pelicans" in text for text in texts)

    def test_the_daemon_sends_by_itself(self, server: TeamServerHome, one: Laptop) -> None:
        one.record("alone-1", "nobody asked for this to be sent", "shop")
        wait_until(lambda: find_event(server, "alone-1@ada") is not None, "it is sent")

    def test_what_waits_is_only_what_is_shared(self, one: Laptop) -> None:
        one.sync()
        one.memory("config", "set", "upstream.certificates", "")  # which wakes the job
        one.record("diary-2", "another thought about pelicans", "diary")
        status = one.status()
        assert (status["waiting"]["changes"], status["waiting"]["past_of"]) == (0, [])

    def test_the_past_of_a_project_follows_at_once_when_it_is_chosen(
        self, server: TeamServerHome, one: Laptop
    ) -> None:
        one.record("dock-1", "something about the dock", "dock")
        one.share("shop", "work", "dock")
        try:
            wait_until(lambda: find_event(server, "dock-1@ada") is not None, "it is sent")
        finally:
            one.share("shop", "work")

    def test_a_repository_that_is_not_known_here_is_named(self, one: Laptop) -> None:
        answer = one.memory("remote", "add", "--project", "git.example/acme/shopp", "--yes")
        try:
            assert "This machine has nothing of it yet" in answer.errors
            assert one.status()["unknown_projects"] == ["git.example/acme/shopp"]
            text = one.memory.text("remote", "status")
            assert "nothing is known here yet of git.example/acme/shopp" in text
        finally:
            one.share("shop", "work")

    def test_the_past_of_a_project_follows_when_it_is_chosen(
        self, server: TeamServerHome, one: Laptop
    ) -> None:
        one.record("late-1", "something about the yard", "yard")
        one.sync()
        assert find_event(server, "late-1@ada") is None
        one.share("shop", "work", "yard")
        one.sync()
        assert find_event(server, "late-1@ada") is not None
        one.share("shop", "work")
        one.record("late-2", "nothing more leaves", "yard")
        one.sync()
        assert find_event(server, "late-2@ada") is None

    def test_a_kill_after_the_server_has_taken_a_batch_loses_and_doubles_nothing(
        self, server: TeamServerHome, one: Laptop
    ) -> None:
        """The cursor moves after the answer: a daemon that ends in between sends again."""
        names = [f"kill-{number}" for number in range(40)]
        for name in names[:20]:
            one.record(name, f"before the kill: {name}", "shop")
        one.home.stop(signal.SIGKILL)  # whatever it is doing
        one.home.serve()
        for name in names[20:]:
            one.record(name, f"after the kill: {name}", "shop")
        one.sync()
        found = [event["event_id"] for event in server.list_events()]
        assert sorted(each for each in found if each.startswith("kill-")) == sorted(
            f"{name}@ada" for name in names
        )

    def test_the_same_id_of_two_people_is_two_events(
        self, server: TeamServerHome, one: Laptop
    ) -> None:
        one.record("same-id", "ada's words", "shop")
        one.sync()
        event = {
            "event_id": "same-id",
            "session_id": "s-1",
            "timestamp_ms": AT,
            "type": 2,
            "role": 1,
            "text": "bob's words",
            "metadata": {"project": "shop", "person": "ada"},
        }
        key = server.create_key("bob")
        body = {"events": [event], "projects": {"shop": get_repository("shop")}}
        old = server.web.ask("POST", RECORDS, key=key, json={"events": [event]})
        assert "upgrade Agent Memory" in old.json()["refused"][0]["reason"]
        answer = server.web.ask("POST", RECORDS, key=key, json=body)
        assert answer.json()["taken"] == 1
        texts = {event["event_id"]: event["text"] for event in server.list_events()}
        assert texts["same-id@ada"] == "ada's words"
        assert texts["same-id@bob"] == "bob's words"
        forgotten = server.web.ask("POST", RECORDS, key=key, json={"forgotten": ["same-id@ada"]})
        assert forgotten.json()["taken"] == 0
        assert find_event(server, "same-id@ada") is not None


class TestRecall:
    def test_a_second_machine_finds_the_first_ones_conversation(
        self, one: Laptop, two: Laptop
    ) -> None:
        one.record("heron-1", "the heron queue retries three times", "shop")
        one.sync()
        hit = ask_until_found(two, "heron queue")
        assert (hit["origin"], hit["person"], hit["id"]) == ("team", "ada", "heron-1@ada")
        by_id = two.memory("show", hit["id"])
        assert (by_id.code, "retries three times" in by_id.text) == (OK, True)
        for name in (hit["id"], hit["uri"]):
            why = two.memory("why", name)
            assert (why.code, "is a record of team" in why.errors) == (CONFIG, True), why
        two.memory("config", "set", "upstream.name", "acme")
        try:
            marked = "acme \N{MIDDLE DOT} ada"
            wait_until(lambda: marked in two.memory.text("recall", "heron queue"), "it answers")
        finally:
            two.memory("config", "set", "upstream.name", "team")
        marked = "team \N{MIDDLE DOT} ada"
        wait_until(lambda: marked in two.memory.text("recall", "heron queue"), "it answers again")
        shown = two.memory("show", hit["uri"])
        assert shown.code == OK
        assert "retries three times" in shown.text
        assert "team" in shown.errors
        assert ask_until_found(two, "heron queue", "--detail", "minimal")["person"] == "ada"

    def test_what_this_machine_has_sent_is_not_shown_twice(self, one: Laptop) -> None:
        one.record("ibis-1", "the ibis cache lives for an hour", "shop")
        one.sync()
        hits = one.recall("ibis", "cache")["results"]
        assert [hit["id"] for hit in hits if "ibis" in hit["summary"]] == ["ibis-1"]
        assert {hit["origin"] for hit in hits if "ibis" in hit["summary"]} == {"local"}

    def test_other_interfaces_ask_the_server_too(self, one: Laptop, two: Laptop) -> None:
        one.record("egret-1", "the egret budget is forty", "shop")
        one.sync()
        ask_until_found(two, "egret budget")

        def list_origins() -> list[str]:
            answer = Web(two.home).ask(path="/api/v1/search/", params={"query": "egret budget"})
            return [hit["origin"] for hit in answer.json()["results"]]

        wait_until(lambda: "team" in list_origins(), "the server answers over REST too")

    def test_a_memory_of_the_server_is_opened_by_its_id(
        self, server: TeamServerHome, two: Laptop
    ) -> None:
        two.home.run("memory-daemon", "scheduler", "pause", "team-sync")  # or it comes down
        try:
            words = ("capture", "decisions", "Terns nest in June", "--domain", "project")
            operator = MemoryCommand(server.home, server.home.work)
            captured = operator.json(*words)["memory_id"]
            shown = two.memory("show", captured)
            operator("forget", captured, "--yes")
        finally:
            two.home.run("memory-daemon", "scheduler", "resume", "team-sync")
        assert (shown.code, "Terns nest in June" in shown.text) == (OK, True), shown
        assert "note: from the server of your team: team" in shown.errors

    def test_recall_can_be_kept_on_this_machine(self, one: Laptop, two: Laptop) -> None:
        one.record("stork-1", "the stork index is rebuilt at night", "shop")
        one.sync()
        two.memory("config", "set", "upstream.recall", "false")
        try:
            assert two.recall("stork", "index")["results"] == []
        finally:
            two.memory("config", "set", "upstream.recall", "true")

    def test_without_the_server_the_local_side_answers_with_a_warning(self) -> None:
        with open_team(1) as (server, (laptop,)):
            laptop.connect(server, server.create_key("ada"), "shop")
            laptop.record("swan-1", "the swan gateway has two nodes", "shop")
            laptop.sync()
            server.home.stop()
            answer = laptop.memory("recall", "swan gateway", "--format", "json")
            assert "swan-1" in [hit["id"] for hit in answer.json()["results"]]
            assert "only this machine was searched" in answer.json()["warning"]
            laptop.record("swan-2", "the swan gateway is written offline", "shop")
            assert laptop.memory("remote", "sync").code != OK
            status = laptop.status()
            assert status["waiting"]["changes"] > 0
            assert "does not answer" in status["last_error"]
            assert laptop.memory.text("remote", "status", "--format", "quiet").startswith("error:")
            forgotten = laptop.memory("forget", "--event", "swan-1", "--yes")
            assert "it will be asked to forget 1 record when it answers" in forgotten.text
            assert "forget 0 records" not in forgotten.text
            assert "wait" in laptop.memory.text("remote", "status").lower()


class TestMemories:
    def test_edits_and_tombstones_come_down(
        self, server: TeamServerHome, one: Laptop, two: Laptop
    ) -> None:
        words = ("capture", "decisions", "Ship on Tuesdays", "--domain", "project:work")
        captured = one.memory.json(*words)["memory_id"]
        one.sync()
        two.sync()
        assert two.memory.show(captured)["summary"] == "Ship on Tuesdays"
        one.memory("edit", captured, "--tags", "ops")
        two.memory("edit", captured, "--tags", "release")
        for laptop in (one, two, one):
            laptop.sync()
        assert one.memory.show(captured)["tags"] == ["ops", "release"]
        assert two.memory.show(captured)["tags"] == ["ops", "release"]
        report = two.memory.json("forget", captured, "--yes")
        assert report["team"] == {"asked": 1, "waiting": 0, "refused": [], "error": ""}
        wait_until(lambda: one.sync()["waiting"]["changes"] == 0, "one has sent everything")

        def is_gone() -> bool:
            one.sync()
            return one.memory("show", captured).code == MISSING

        wait_until(is_gone, "the other laptop forgets it")
        key = server.create_key("reader-of-changes")
        changes = server.web.ask(
            path="/api/v1/upstream/changes/", key=key, params={"project": ["work"]}
        ).json()["changes"]
        stones = [each["record"] for each in changes if each["kind"] == "memory"]
        assert all(each["status"] == "tombstone" for each in stones)

    def test_own_memories_are_private_to_their_person(
        self, server: TeamServerHome, one: Laptop, two: Laptop
    ) -> None:
        for laptop in (one, two):
            laptop.share("shop", "work", "user")
        one.memory.json("capture", "learnings", "I prefer tabs", "--domain", "user")
        one.sync()
        two.sync()
        listed = two.memory.json("list", "--domain", "user")["memories"]
        assert [memory["summary"] for memory in listed] == ["I prefer tabs"]
        other = server.create_key("eve")
        answer = server.web.ask(
            path="/api/v1/upstream/changes/", key=other, params={"project": ["shop", "user"]}
        )
        assert "tabs" not in answer.text
        body = {"query": "prefer tabs", "projects": ["shop", "user"], "scope": {}}
        found = server.web.ask("POST", "/api/v1/upstream/search/", key=other, json=body)
        assert found.json()["hits"] == []


class TestForgetting:
    def test_it_travels_to_the_server_and_the_other_machine(
        self, server: TeamServerHome, one: Laptop, two: Laptop
    ) -> None:
        for laptop in (one, two):  # both have imported the same conversation
            laptop.record("gull-1", "the gull token was rotated", "shop", session="gull")
        one.sync()
        report = one.memory.json("forget", "--event", "gull-1", "--yes")
        assert report["team"]["waiting"] == 0
        wait_until(lambda: find_event(server, "gull-1@ada") is None, "the server forgets it")

        def is_gone() -> bool:
            two.sync()
            return two.memory("show", "memory://events/gull-1").code == MISSING

        wait_until(is_gone, "the other laptop forgets it")
        two.sync()
        event = {
            "event_id": "gull-1",
            "session_id": "gull",
            "timestamp_ms": AT,
            "type": 2,
            "role": 1,
            "text": "the gull token was rotated",
            "metadata": {"project": "shop"},
        }
        key = json.loads((one.home.data / "remote-key").read_text())["key"]
        body = {"events": [event], "projects": {"shop": get_repository("shop")}}
        again = server.web.ask("POST", RECORDS, key=key, json=body)
        assert again.json() == {"taken": 0, "known": 1, "refused": [], "receipt": 0, "lowered": []}
        assert find_event(server, "gull-1@ada") is None


class TestCommands:
    def test_a_server_elsewhere_needs_https(self) -> None:
        with Home() as home:
            laptop = Laptop(home)
            home.serve()
            assert_refused(
                laptop.memory("remote", "add", "http://memory.example"), CONFIG, "https://"
            )
            assert_refused(
                laptop.memory("remote", "add", "https://me:pw@memory.example"), CONFIG, "password"
            )
            assert_refused(laptop.memory("remote", "login"), CONFIG, "memory remote add")
            assert "no server" in laptop.memory.text("remote", "status")
            answer = laptop.memory(
                "remote", "add", "https://memory.example", env={"CLAUDECODE": "1"}
            )
            assert_refused(answer, INVALID, "only you")

    def test_the_key_is_only_in_a_file_of_its_own(self, one: Laptop) -> None:
        path = one.home.data / "remote-key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        key = json.loads(path.read_text())["key"]
        assert key not in one.home.log()
        assert key not in one.home.config_file.read_text()
        assert key not in one.memory.text("remote", "status")

    def test_a_wrong_key_is_not_stored(self, server: TeamServerHome) -> None:
        with Home() as home:
            laptop = Laptop(home)
            home.serve()
            laptop.memory("remote", "add", server.url)
            answer = laptop.memory("remote", "login", given=b"am_wrong\n")
            assert answer.code != OK
            assert "does not accept the key" in answer.errors
            assert not (home.data / "remote-key").exists()

    def test_a_key_that_could_not_be_checked_is_said_to_be_stored(self) -> None:
        with Home() as home, socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))  # and does not listen
            laptop = Laptop(home)
            home.serve()
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            assert laptop.memory("remote", "add", url).code == OK
            login = laptop.memory("remote", "login", given=b"am_some\n")
            assert (login.code, "Logged in" in login.text) == (OK, False)
            assert "Stored the key for team. It is checked when the server answers" in login.text
            laptop.share("shop")
            assert laptop.memory("remote", "sync").code != OK
            status = laptop.status()
            assert "does not answer" in status["last_error"]
            assert status["last_success_ms"] is None
            assert status["projects"] == ["git.example/acme/shop"]

    def test_neither_a_project_nor_a_variable_can_share(self, server: TeamServerHome) -> None:
        with Home() as home:
            laptop = Laptop(home)
            shop = "git.example/acme/shop"
            variables = {"MEMORY_UPSTREAM__PROJECTS": shop, "MEMORY_UPSTREAM__URL": server.url}
            home.environ |= variables
            (home.work / "memory.toml").write_text(f'[upstream]\nprojects = ["{shop}"]\n')
            home.serve()
            answer = laptop.memory("remote", "status", "--format", "json")
            assert answer.json()["projects"] == []
            assert answer.json()["url"] == ""
            assert "ignored" in answer.errors

    def test_removing_forgets_key_and_projects(self) -> None:
        with open_team(1) as (server, (laptop,)):
            laptop.connect(server, server.create_key("ada"), "shop")
            laptop.sync()
            assert laptop.memory.json("remote", "list")["remotes"][0]["url"] == server.url
            assert laptop.memory("remote", "remove", "--yes").code == OK
            assert not (laptop.home.data / "remote-key").exists()
            assert laptop.status()["projects"] == []
            assert laptop.memory.json("remote", "list")["remotes"] == []


@contextmanager
def open_silent_server() -> Iterator[str]:
    """Accept connections and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_silent_server_holds_up_neither_recall_nor_a_hook() -> None:
    with open_silent_server() as url, Home() as home:
        laptop = Laptop(home)
        home.configure(f'[upstream]\nurl = "{url}"\nprojects = ["user"]\n')
        home.data.mkdir(parents=True)
        (home.data / "remote-key").write_text(json.dumps({"url": url, "key": "am_x"}))
        home.serve()
        laptop.record("rail-1", "the rail timetable is in the cache", "work")
        answer = laptop.recall("rail", "timetable")
        assert "rail-1" in [hit["id"] for hit in answer["results"]]
        assert "did not answer in time" in answer["warning"]
        assert "is away" in laptop.recall("rail", "timetable")["warning"]  # it is not asked again
        payload = {
            "session_id": "s-9",
            "hook_event_name": "UserPromptSubmit",
            "prompt": "where is the rail timetable?",
            "cwd": str(home.work),
        }
        given = json.dumps(payload).encode()
        hooked = laptop.memory("hook", "user-prompt-submit", given=given)
        assert hooked.code == OK
        assert "only this machine" not in hooked.text + hooked.errors


@pytest.mark.rocksdb("restores a copy of the data folder")
class TestRestoredServer:
    def test_machines_send_again_what_the_server_has_lost(self) -> None:
        with open_team(1) as (server, (laptop,)):
            server.keep_address()
            laptop.connect(server, server.create_key("ada"), "shop")
            laptop.record("kept-1", "this was there before the backup", "shop")
            laptop.record("regretted-1", "this is forgotten after the backup", "shop")
            laptop.sync()
            server.home.stop()
            backup = server.home.folder / "backup"
            shutil.copytree(server.home.data, backup)
            server.home.serve()

            laptop.record("lost-1", "the backup does not have this", "shop")
            assert laptop.memory("forget", "--event", "regretted-1", "--yes").code == OK
            laptop.sync()
            assert find_event(server, "lost-1@ada") is not None

            server.home.stop()
            shutil.rmtree(server.home.data)
            backup.rename(server.home.data)
            server.home.serve()
            assert find_event(server, "lost-1@ada") is None
            assert find_event(server, "regretted-1@ada") is not None

            laptop.sync()
            assert find_event(server, "lost-1@ada") is not None
            wait_until(lambda: find_event(server, "regretted-1@ada") is None, "it is forgotten")
            assert "upstream.server_restored" in laptop.home.log()
            sent = laptop.status()["sent"]
            laptop.sync()
            assert laptop.status()["sent"] == sent
