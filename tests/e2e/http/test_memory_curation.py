"""Curating memories over REST: versions, many at once, duplicates, undo, and the inbox, which only
the page may decide on."""

import json
import subprocess
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import msgspec
import pytest

from agent_memory.features.forgetting import operations as forgetting
from agent_memory.features.memories import operations
from agent_memory.interfaces import requests
from tests.command_runner import Home
from tests.http_client import Web

MEMORIES = "/api/v1/memories/"
INBOX = "/api/v1/inbox/"
UNDO = f"{MEMORIES}undo/"
CAPTURING = {"hooks.user_prompt.auto_capture": "true"}
ANSWERS = {
    ("GET", "versions"): operations.VersionsAnswer,
    ("GET", "duplicates"): operations.DuplicatesAnswer,
    ("GET", "undo"): operations.UndoAnswer,
    ("POST", "merges"): operations.MergedAnswer,
    ("POST", "batch-change"): operations.BatchChangeAnswer,
    ("POST", "batch-forget"): forgetting.BatchForgetAnswer,
}

_numbers = count()


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with Home() as home:
        subprocess.run(["git", "init", "--quiet", home.folder / "app"], check=True)  # noqa: S607
        home.serve()
        yield Web(home)


@pytest.fixture(scope="module")
def api(web: Web) -> Iterator[httpx.Client]:
    """A program, whose answers are as OpenAPI describes them."""
    with web.client() as client:
        client.event_hooks = {"response": [check_answer]}
        yield client


def check_answer(answer: httpx.Response) -> None:
    answer.read()
    name = answer.url.path.rstrip("/").rpartition("/")[2]
    kind = ANSWERS.get((answer.request.method, name))
    if kind is not None and answer.status_code == 200:
        msgspec.convert(answer.json(), kind)
        assert answer.json().keys() <= requests.list_fields(kind).keys()


@pytest.fixture(scope="module")
def page(web: Web) -> Iterator[httpx.Client]:
    """The page, opened in a terminal."""
    with web.open_page(on_terminal=True) as client:
        yield client


@pytest.fixture(scope="module")
def piped(web: Web) -> Iterator[httpx.Client]:
    """The page, opened without a terminal."""
    with web.open_page() as client:
        yield client


def capture(api: httpx.Client, summary: str, **fields: object) -> str:
    """Capture a memory, and return its URI."""
    answer = api.post(MEMORIES, json={"namespace": "decisions", "summary": summary, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["uri"])


def to_path(uri: str) -> str:
    return f"{MEMORIES}{uri.partition('://')[2].partition('/')[2]}/"


def to_id(uri: str) -> str:
    return ":".join(uri.rsplit("/", 2)[1:])


def read(api: httpx.Client, uri: str) -> dict[str, Any]:
    domain = uri.removeprefix("subcog://").partition("/")[0]
    found: dict[str, Any] = api.get(to_path(uri), params={"domain": domain}).json()
    return found


def note(web: Web, words: str) -> str:
    """Have a hook note something that awaits review, and return its URI."""
    prompt = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": f"talk-{next(_numbers)}",
        "cwd": str(web.home.folder / "app"),
        "prompt": f"[decision] {words}",
    }
    given = json.dumps(prompt).encode()
    assert web.home.run("memory", "hook", "auto", given=given, env=CAPTURING).code == 0
    waiting = web.ask("GET", INBOX).json()["memories"]
    return str(next(each["uri"] for each in waiting if words in each["summary"]))


def decide(client: httpx.Client, uri: str, decision: str, **fields: str) -> httpx.Response:
    decisions = [{"id": uri, "decision": decision, **fields}]
    return client.post(INBOX, json={"decisions": decisions})


class TestVersions:
    def test_every_edit_is_a_version_with_what_it_changed(self, api: httpx.Client) -> None:
        first = capture(api, "Keep logs for 7 days", content="On disk.", tags=["ops"])
        second = api.patch(to_path(first), json={"summary": "Keep logs for 30 days"}).json()
        third = api.patch(to_path(second["uri"]), json={"content": "In the bucket."}).json()
        for each in (first, second["uri"], third["uri"]):  # the same from all of them
            versions = api.get(f"{to_path(each)}versions/").json()["versions"]
            assert [version["id"] for version in versions] == [
                third["id"],
                second["id"],
                to_id(first),
            ]
            assert [version["changed"] for version in versions] == [[], ["content"], ["summary"]]
        oldest = versions[-1]
        (mark,) = oldest["marks"]["summary"]
        assert oldest["summary"][slice(*mark)] == "7"
        (mark,) = oldest["kept_marks"]["summary"]
        assert second["summary"][slice(*mark)] == "30"

    def test_a_removed_tag_has_its_time(self, api: httpx.Client) -> None:
        uri = capture(api, "Tag it", tags=["draft"])
        api.patch(to_path(uri), json={"remove_tags": ["draft"]})
        (only,) = api.get(f"{to_path(uri)}versions/").json()["versions"]
        (change,) = only["tag_changes"]
        assert (change["name"], change["present"]) == ("draft", False)

    def test_an_unknown_memory_has_none(self, api: httpx.Client) -> None:
        assert api.get(f"{MEMORIES}decisions/000000000000:0/versions/").status_code == 404


class TestManyAtOnce:
    def test_status_and_tags_change_and_the_rest_is_refused(
        self, web: Web, api: httpx.Client
    ) -> None:
        one, other = capture(api, "Many one", tags=["old"]), capture(api, "Many two")
        pending = note(web, "Ship on Fridays")
        missing = "decisions:000000000000:0"
        answer = api.post(
            f"{MEMORIES}batch-change/",
            json={
                "ids": [one, other, one, pending, missing],
                "status": "archived",
                "add_tags": ["new"],
                "remove_tags": ["old"],
            },
        ).json()
        assert [each["id"] for each in answer["changed"]] == [to_id(one), to_id(other)]
        assert [(each["status"], each["tags"]) for each in answer["changed"]] == [
            ("archived", ["new"])
        ] * 2
        refused = {each["id"]: each["reason"] for each in answer["refused"]}
        assert "awaits review" in refused[pending]
        assert "no memory" in refused[missing]
        assert read(api, pending)["status"] == "pending"

    def test_forgetting_asks_again_and_is_one_run(self, api: httpx.Client) -> None:
        chosen = [capture(api, f"Forget me {number}") for number in range(3)]
        path = f"{MEMORIES}batch-forget/"
        refused = api.post(path, json={"ids": chosen})
        assert refused.status_code == 422
        assert to_id(chosen[0]) in refused.json()["detail"]
        report = api.post(path, json={"ids": [*chosen, "0" * 12], "confirm": True}).json()
        assert report["forgotten"] == [to_id(uri) for uri in chosen]
        assert len(report["refused"]) == 1
        assert report["found_in"] == []
        assert any("backups" in each for each in report["unreachable"])
        assert report["searched"]["pieces"] > 0
        assert {api.get(to_path(uri)).status_code for uri in chosen} == {404}

    @pytest.mark.parametrize("body", [{"ids": []}, {"ids": ["x"] * 1_001}, {"ids": ["x"]}])
    def test_too_few_too_many_or_nothing_to_do(
        self, api: httpx.Client, body: dict[str, object]
    ) -> None:
        assert api.post(f"{MEMORIES}batch-change/", json=body).status_code == 422


class TestDuplicates:
    def test_they_are_merged_and_the_page_takes_it_back(
        self, api: httpx.Client, page: httpx.Client
    ) -> None:
        old = capture(api, "Store the uploads in the blue bucket", tags=["old"])
        new = capture(api, "Store the uploads in the blue bucket now")
        found = api.get(f"{MEMORIES}duplicates/", params={"full": "true"}).json()
        (group,) = [each for each in found["merges"] if "bucket" in each["kept"]["summary"]]
        assert (group["kept"]["uri"], group["superseded"][0]["uri"]) == (new, old)
        (mark,) = group["superseded"][0]["kept_marks"]["summary"]
        assert group["kept"]["summary"][slice(*mark)] == "now"
        merged = api.post(
            f"{MEMORIES}merges/", json={"merges": [{"kept": new, "superseded": [old]}]}
        ).json()
        change = merged.pop("change")
        assert merged == {"superseded": [to_id(old)], "skipped": []}
        assert read(api, old)["superseded_by"] == to_id(new)
        assert read(api, new)["tags"] == ["old"]
        plan = api.get(UNDO).json()
        assert (plan["action"], plan["undone"]) == ("consolidate", False)
        assert plan["change"] == change
        refused = api.post(UNDO, json={"change": change})
        assert refused.status_code == 403
        assert "memory undo" in refused.json()["detail"]
        assert page.post(UNDO, json={"change": "merge-0"}).status_code == 422
        done = page.post(UNDO, json={"change": change}).json()
        assert (done["undone"], to_id(old) in done["restored"]) == (True, True)
        assert (read(api, old)["status"], read(api, new)["tags"]) == ("active", [])
        again = api.get(f"{MEMORIES}duplicates/", params={"full": "true"}).json()
        assert any(each["kept"]["uri"] == new for each in again["merges"])

    def test_what_cannot_be_merged_is_skipped(self, web: Web, api: httpx.Client) -> None:
        stored = capture(api, "Keep this one")
        gone = capture(api, "This one is archived")
        api.patch(to_path(gone), json={"status": "archived"})
        pending = note(web, "Wait for me")
        for other, reason in ((stored, "itself"), (gone, "archived"), (pending, "awaits review")):
            body = {"merges": [{"kept": stored, "superseded": [other]}]}
            answer = api.post(f"{MEMORIES}merges/", json=body).json()
            assert answer["superseded"] == []
            assert reason in answer["skipped"][0]


class TestUndo:
    def test_a_write_names_its_change_and_one_that_changes_nothing_none(
        self, api: httpx.Client, page: httpx.Client
    ) -> None:
        one, other = capture(page, "Undo me"), capture(api, "Leave me", tags=["x"])
        done = page.patch(to_path(one), json={"status": "archived"}).json()
        assert page.get(UNDO).json()["change"] == done["change"]
        nothing = page.patch(to_path(other), json={"add_tags": ["x"]}).json()
        many = {"ids": [other], "add_tags": ["x"]}
        nothing_of_many = page.post(f"{MEMORIES}batch-change/", json=many).json()
        program = api.patch(to_path(other), json={"add_tags": ["y"]}).json()
        assert [each["change"] for each in (nothing, nothing_of_many, program)] == [None] * 3
        assert page.post(UNDO, json={"change": done["change"]}).json()["restored"] == [to_id(one)]
        again = page.post(UNDO, json={"change": done["change"]})
        assert (again.status_code, "another change" in again.text) == (422, True)
        assert read(api, one)["status"] == "active"

    def test_active_again_is_named_by_what_it_was(
        self, api: httpx.Client, page: httpx.Client
    ) -> None:
        uri = capture(api, "Back and forth")
        for status, action in (("resolved", "reopen"), ("archived", "restore")):
            page.patch(to_path(uri), json={"status": status})
            body = {"ids": [uri], "status": "active"}
            assert page.post(f"{MEMORIES}batch-change/", json=body).json()["change"]
            assert page.get(UNDO).json()["action"] == action

    def test_it_reaches_what_is_older_than_a_forgetting(
        self, web: Web, api: httpx.Client, page: httpx.Client
    ) -> None:
        stored = capture(page, "Older than a forgetting")
        done = page.patch(to_path(stored), json={"status": "resolved"}).json()
        body = {"ids": [capture(api, "Forgotten by a program")], "confirm": True}
        api.post(f"{MEMORIES}batch-forget/", json=body)
        dry = web.home.run("memory", "undo", "--dry-run", "--format", "json").json()
        assert dry["change"] == done["change"]  # a program's forgetting is not yours
        body = {"ids": [capture(api, "Forgotten by a person")], "confirm": True}
        page.post(f"{MEMORIES}batch-forget/", json=body)
        assert web.home.run("memory", "undo", "--dry-run").code != 0
        assert page.get(UNDO).json()["change"] == done["change"]
        undone = page.post(UNDO, json={"change": done["change"]}).json()
        assert undone["restored"] == [to_id(stored)]


class TestPerson:
    def test_changes_of_the_page_can_be_undone_and_those_of_a_key_cannot(
        self, web: Web, api: httpx.Client, page: httpx.Client
    ) -> None:
        mine = capture(page, "Written in the page")
        assert read(api, mine)["interface"] == "page"
        theirs = capture(api, "Written by a program")
        page.post(f"{MEMORIES}batch-change/", json={"ids": [mine, theirs], "status": "resolved"})
        api.patch(to_path(theirs), json={"status": "archived"})
        done = web.home.run("memory", "undo", "--format", "json").json()
        assert (done["action"], done["restored"]) == ("resolve", [to_id(mine)])
        assert done["left"] == [to_id(theirs)]
        assert read(api, mine)["status"] == "active"

    def test_only_the_page_decides_on_the_inbox(
        self, web: Web, api: httpx.Client, page: httpx.Client
    ) -> None:
        uri = note(web, "Use tabs")
        for decision in ("accept", "discard"):
            refused = decide(api, uri, decision)
            assert refused.status_code == 403
            assert "`memory review`" in refused.json()["detail"]
        with web.over_socket() as socket:
            assert decide(socket, uri, "accept").status_code == 403
        assert read(api, uri)["status"] == "pending"
        answer = decide(page, uri, "accept").json()
        assert [each["id"] for each in answer["accepted"]] == [to_id(uri)]
        assert read(api, uri)["status"] == "active"

    def test_a_page_without_a_terminal_edits_and_discards_but_accepts_nothing(
        self, web: Web, api: httpx.Client, piped: httpx.Client
    ) -> None:
        uri = note(web, "Use four blanks")
        refused = decide(piped, uri, "accept")
        assert refused.status_code == 403
        assert "terminal" in refused.json()["detail"]
        noted = read(api, uri)
        words = {name: noted[name] for name in ("summary", "content")}
        where = {name: noted[name] for name in ("namespace", "domain")}
        for client in (api, piped):  # the same words by a detour
            answer = client.post(MEMORIES, json={**words, **where})
            assert answer.json()["uri"] == uri, answer.text
            other = capture(client, f"Something else {next(_numbers)}", domain=where["domain"])
            answer = client.patch(to_path(other), json=words)
            assert (answer.status_code, "awaits review" in answer.text) == (422, True)
        assert read(api, uri)["status"] == "pending"
        assert decide(piped, uri, "discard").json()["discarded"] == [to_id(uri)]
        assert api.get(to_path(uri)).status_code == 404

    def test_other_words_are_accepted_and_the_old_ones_discarded(
        self, web: Web, api: httpx.Client, page: httpx.Client
    ) -> None:
        uri = note(web, "Use spaces")
        answer = decide(page, uri, "accept", summary="Use two spaces").json()
        assert [each["summary"] for each in answer["accepted"]] == ["Use two spaces"]
        assert api.get(to_path(uri)).status_code == 404

    def test_one_stale_decision_does_not_stop_the_others(
        self, web: Web, page: httpx.Client
    ) -> None:
        known, stale = note(web, "Use a linter"), note(web, "Use two linters")
        assert decide(page, stale, "discard").json()["change"] is None
        decisions = [{"id": each, "decision": "accept"} for each in (stale, known)]
        answer = page.post(INBOX, json={"decisions": decisions}).json()
        assert [each["id"] for each in answer["accepted"]] == [to_id(known)]
        assert ["no memory" in each for each in answer["skipped"]] == [True]
        assert answer["change"] == page.get(UNDO).json()["change"]
        assert decide(page, known, "accept", summary="x" * 101).status_code == 422

    def test_a_program_cannot_discard_what_awaits_review(
        self, web: Web, api: httpx.Client, page: httpx.Client
    ) -> None:
        uri = note(web, "Use a formatter")
        where = {"domain": read(api, uri)["domain"]}
        body = {"ids": [uri], "confirm": True}
        refused = api.delete(to_path(uri), params={**where, "confirm": "true"})
        assert (refused.status_code, "awaits review" in refused.text) == (422, True)
        report = api.post(f"{MEMORIES}batch-forget/", json=body).json()
        assert (report["forgotten"], report["searched"]) == ([], None)
        assert "awaits review" in report["refused"][0]["reason"]
        assert read(api, uri)["status"] == "pending"
        report = page.post(f"{MEMORIES}batch-forget/", json=body).json()
        assert report["forgotten"] == [to_id(uri)]

    def test_the_shell_of_an_agent_gets_no_page(self, web: Web) -> None:
        answer = web.home.run("memory", "ui", "--print", env={"CLAUDECODE": "1"})
        assert answer.code != 0
        assert b"#code=" not in answer.out


def test_openapi_describes_the_answers(api: httpx.Client) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    described = {
        (method.upper(), path.rstrip("/").rpartition("/")[2]): responses["200"]["content"]
        for path, methods in paths.items()
        if path.startswith(MEMORIES)
        for method, operation in methods.items()
        if "200" in (responses := operation["responses"])
    }
    for route, kind in ANSWERS.items():
        (answer,) = described[route].values()
        assert answer["schema"]["$ref"].endswith(f"/{kind.__name__}")
