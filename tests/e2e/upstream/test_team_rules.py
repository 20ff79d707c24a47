"""Laptops of several people and a team server: whose a record is, and what a key may do."""

import json
from collections.abc import Iterator

import pytest

from tests.memory_commands import INVALID, MISSING, OK, assert_refused
from tests.team_laptops import Laptop, TeamServerHome, open_team

Team = tuple[TeamServerHome, Laptop, Laptop]


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    """A team server, and laptops of Ada and Bob that share the project `work`."""
    with open_team(2, people=True) as (server, (ada, bob)):
        ada.connect(server, server.create_key("ada"), "work")
        bob.connect(server, server.create_key("bob"), "work")
        yield server, ada, bob


def capture(laptop: Laptop, words: str) -> str:
    answer = laptop.memory.json("capture", "decisions", words, "--domain", "project:work")
    return str(answer["memory_id"])


def test_recall_says_whose_a_memory_is_that_came_down(team: Team) -> None:
    server, ada, bob = team
    capture(ada, "The heron gateway has two nodes")
    mine = capture(bob, "The heron gateway runs on port 9000")
    for laptop in (ada, bob):
        laptop.sync()
    found = bob.recall("heron", "gateway")["results"]
    theirs = next(hit for hit in found if "two nodes" in json.dumps(hit))
    own = next(hit for hit in found if "9000" in json.dumps(hit))
    assert (theirs["origin"], theirs["person"]) == ("team", "ada")
    assert (own["origin"], own["person"]) == ("local", None)
    assert bob.memory.show(mine)["summary"].endswith("9000")
    # The server has no clone of the project, and so no notes.
    verified = server.home.run("memory-daemon", "admin", "verify")
    assert verified.code == OK, verified


def test_only_the_one_who_captured_a_memory_can_forget_it_for_all(team: Team) -> None:
    _, ada, bob = team
    name = capture(ada, "The crane service retries three times")
    for laptop in (ada, bob):
        laptop.sync()
    report = bob.memory("forget", name, "--yes")
    assert report.code == OK
    assert "ada captured it" in report.text
    assert_refused(bob.memory("show", name), MISSING)
    bob.sync()
    ada.sync()
    assert ada.memory.show(name)["summary"].endswith("three times")
    assert ada.memory("forget", name, "--yes").code == OK
    ada.sync()
    assert_refused(ada.memory("show", name), MISSING)


def test_what_a_key_may_not_send_is_named_and_sent_with_one_that_may(team: Team) -> None:
    server, _, bob = team
    bob.log_in(server.create_key("bob", "--project", "web"))
    bob.record("refused-1", "the pelican index is rebuilt at night", "work")
    refused = {each["name"]: each["reason"] for each in bob.sync()["last_refused"]}
    assert refused["refused-1"] == "it is of no project that you may write to"
    assert f": {refused['refused-1']}" in bob.memory.text("remote", "status")
    assert server.find_event("refused-1@bob") is None
    bob.log_in(server.create_key("bob"))
    assert "refused-1" not in {each["name"] for each in bob.sync()["last_refused"]}
    assert server.find_event("refused-1@bob") is not None


def test_a_reader_gets_what_others_change(team: Team) -> None:
    server, ada, bob = team
    bob.log_in(server.create_key("bob", role="reader"))
    bob.record("unsent-1", "this stays on the machine of a reader", "work")
    name = capture(ada, "The stork queue has a limit of ten")
    ada.sync()
    status = bob.sync()
    assert (status["rights"], status["last_error"]) == ("reader", None)
    assert bob.memory.show(name)["summary"].endswith("limit of ten")
    assert "Your key may only read" in bob.memory.text("remote", "status")
    assert server.find_event("unsent-1@bob") is None
    bob.log_in(server.create_key("bob"))
    bob.sync()
    assert server.find_event("unsent-1@bob") is not None


def test_a_server_is_not_removed_while_a_forgetting_waits_for_it() -> None:
    with open_team(1) as (server, (laptop,)):
        laptop.connect(server, server.create_key("ada"), "work")
        laptop.record("waits-1", "this is to be forgotten", "work")
        laptop.sync()
        server.home.stop()
        assert laptop.memory("forget", "--event", "waits-1", "--yes").code == OK
        assert "nothing is exchanged with team" in laptop.memory("doctor").text
        refused = laptop.memory("remote", "remove")
        assert refused.code == INVALID
        assert "1 record that you have forgotten would stay there" in refused.errors
        assert laptop.memory("remote", "remove", "--yes").code == OK
