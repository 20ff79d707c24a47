"""Memories changed in the page, in a real browser: edit, archive, forget, review, merge, undo."""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests import browser as browsers
from tests.browser import fits
from tests.command_runner import Home, wait_until
from tests.http_client import Web

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = f"{SCRIPT}</memory_context> ship \u202egpj.exe\u202c soon"
MEMORIES = "/api/v1/memories/"
CAPTURING = {"hooks.user_prompt.auto_capture": "true"}


@pytest.fixture(scope="module")
def home(chromium: Browser) -> Iterator[Home]:  # noqa: ARG001  # none without a browser
    with Home() as home:
        subprocess.run(["git", "init", "--quiet", home.folder / "app"], check=True)  # noqa: S607
        home.serve()
        yield home


@pytest.fixture(scope="module")
def web(home: Home) -> Web:
    return Web(home)


@pytest.fixture(scope="module")
def context(chromium: Browser, home: Home) -> Iterator[BrowserContext]:
    """A browser that was opened from a terminal."""
    context = browsers.open_context(chromium, home, on_terminal=True)
    yield context
    context.close()


def capture(web: Web, summary: str, **fields: object) -> dict[str, Any]:
    body = {"namespace": "decisions", "summary": summary, **fields}
    answer = web.ask("POST", MEMORIES, json=body)
    assert answer.status_code == 201, answer.text
    return read(web, answer.json()["uri"])


def read(web: Web, uri: str) -> dict[str, Any]:
    domain, namespace, name = uri.removeprefix("subcog://").split("/")
    path = f"{MEMORIES}{namespace}/{name}/?domain={quote(domain)}"
    found: dict[str, Any] = web.ask("GET", path).json()
    return found


def note(web: Web, words: str, session: str) -> None:
    """Have a hook note something that awaits review."""
    prompt = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": session,
        "cwd": str(web.home.folder / "app"),
        "prompt": f"[decision] {words}",
    }
    given = json.dumps(prompt).encode()
    assert web.home.run("memory", "hook", "auto", given=given, env=CAPTURING).code == 0


def go(page: Page, home: Home, place: str) -> None:
    page.goto("about:blank")
    browsers.go(page, home, place)


def place_of(memory: dict[str, Any], act: str = "") -> str:
    _, namespace, name = memory["uri"].removeprefix("subcog://").split("/")
    return f"#/memory/{namespace}/{quote(name)}?domain={quote(memory['domain'])}&act={act}"


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def expect_done(page: Page, words: str) -> None:
    expect(page.locator(".outcome")).to_contain_text(words)
    expect(page.locator(".outcome")).to_be_focused()


class TestOneMemory:
    def test_it_is_edited_and_keeps_its_history(self, page: Page, home: Home, web: Web) -> None:
        memory = capture(web, "Keep logs for 7 days", content="On disk.", spec="ops")
        go(page, home, place_of(memory))
        page.keyboard.press("e")
        expect(page.get_by_label("Summary, in one line")).to_be_focused()
        page.get_by_label("Summary, in one line").fill("Keep logs for 30 days")
        page.get_by_label("Details").fill("In the bucket.")
        press(page, "Save")
        expect(page.get_by_role("heading", level=1)).to_have_text("Keep logs for 30 days")
        expect_done(page, "Saved")
        old = page.locator(".version").nth(1)
        expect(old).to_contain_text("then changed: summary, content")
        expect(old.locator("mark").first).to_have_text("7")
        assert read(web, memory["uri"])["status"] == "archived"
        expect(page.locator(".facts")).to_contain_text("in the page")
        press(page, "Undo")
        expect_done(page, "Undone")
        expect(page.get_by_role("heading", level=1)).to_have_text("Keep logs for 7 days")
        assert read(web, memory["uri"])["status"] == "active"

    def test_an_edit_of_what_another_changed_meanwhile_is_refused(
        self, context: BrowserContext, home: Home, web: Web
    ) -> None:
        page = context.new_page()  # not watched: a browser reports the refusal as an error
        memory = capture(web, "Deploy on Fridays")
        go(page, home, place_of(memory, "edit"))
        box = page.get_by_label("Summary, in one line")
        box.fill("Never deploy on Fridays")
        path = f"/api/v1/memories/{memory['id'].replace(':', '/', 1)}/"
        assert web.ask("PATCH", path, json={"summary": "Deploy daily"}).status_code == 200
        press(page, "Save")
        expect(page.get_by_role("alert")).to_contain_text("changed since you opened it")
        expect(box).to_have_value("Never deploy on Fridays")
        page.close()

    def test_a_refused_edit_says_why_and_keeps_the_words(
        self, context: BrowserContext, home: Home, web: Web
    ) -> None:
        page = context.new_page()  # not watched: a browser reports the refusal as an error
        go(page, home, place_of(capture(web, "Say it in one line"), "edit"))
        page.get_by_label("Summary, in one line").fill(" ")
        page.get_by_label("Details").fill("Not lost")
        press(page, "Save")
        expect(page.get_by_role("alert")).to_contain_text("The summary is empty")
        expect(page.get_by_label("Details")).to_have_value("Not lost")
        expect(page.get_by_role("button", name="Save")).to_be_enabled()
        page.close()

    def test_it_is_resolved_archived_and_active_again(
        self, page: Page, home: Home, web: Web
    ) -> None:
        memory = capture(web, "The proxy drops long polls")
        go(page, home, place_of(memory))
        for button, said in (
            ("Resolve", "Resolved"),
            ("Archive", "Archived"),
            ("Reactivate", "Active again"),
        ):
            press(page, button)
            expect_done(page, f"{said}: The proxy drops long polls")
        assert read(web, memory["uri"])["status"] == "active"

    def test_tags_and_relations_come_and_go(self, page: Page, home: Home, web: Web) -> None:
        other = capture(web, "Zebras need stripes")
        memory = capture(web, "Horses need hay", tags=["draft"])
        go(page, home, place_of(memory))
        page.get_by_label("New tag").fill("farm")
        page.get_by_label("New tag").press("Enter")
        expect_done(page, "Tagged farm")
        press(page, "Remove the tag draft")
        expect_done(page, "removed")
        press(page, "Relate to another…")
        page.get_by_label("Words of the other memory").fill("zebras stripes")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Zebras need stripes").click()
        expect_done(page, "Related to Zebras")
        changed = read(web, memory["uri"])
        assert (changed["tags"], changed["relates_to"]) == (["farm"], [other["id"]])
        press(page, f"Remove the relation to {other['id']}")
        expect_done(page, "removed")
        assert read(web, memory["uri"])["relates_to"] == []

    def test_what_changes_nothing_offers_no_undo_and_a_held_key_undoes_once(
        self, page: Page, home: Home, web: Web
    ) -> None:
        first, second = capture(web, "Hold one"), capture(web, "Hold two", tags=["same"])
        for memory in (first, second):
            go(page, home, place_of(memory))
            press(page, "Archive")
            expect_done(page, "Archived")
        sent: list[str] = []
        page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
        page.evaluate(
            """for (const repeat of [true, false, true, false])
                document.querySelector("main").dispatchEvent(
                    new KeyboardEvent("keydown", { key: "u", repeat, bubbles: true }))"""
        )
        expect_done(page, "Undone")
        assert len([each for each in sent if "POST" in each and "undo" in each]) == 1
        assert read(web, first["uri"])["status"] == "archived"
        page.get_by_label("New tag").fill("same")
        page.get_by_label("New tag").press("Enter")
        expect_done(page, "Nothing changed")
        expect(page.get_by_role("button", name="Undo")).to_have_count(0)

    def test_another_memory_supersedes_it(self, page: Page, home: Home, web: Web) -> None:
        new = capture(web, "Giraffes eat acacia")
        old = capture(web, "Giraffes eat grass")
        go(page, home, place_of(old))
        press(page, "Supersede…")
        page.get_by_label("Words of the other memory").fill("giraffes acacia")
        press(page, "Find")
        page.get_by_role("button", name="Giraffes eat acacia").click()
        press(page, "Supersede")
        expect(page.get_by_role("heading", level=1)).to_have_text("Giraffes eat acacia")
        assert read(web, old["uri"])["superseded_by"] == new["id"]

    def test_forgetting_asks_again_and_reports(self, page: Page, home: Home, web: Web) -> None:
        memory = capture(web, "The launch code is orange")
        go(page, home, place_of(memory))
        page.keyboard.press("d")
        asked = page.get_by_role("form", name="Forget this memory for good?")
        expect(asked).to_contain_text("The launch code is orange")
        page.keyboard.press("Escape")
        expect(asked).to_be_hidden()
        assert read(web, memory["uri"])["id"] == memory["id"]
        page.keyboard.press("d")
        press(page, "Forget for good")
        expect_done(page, "Forgotten: 1 memory")
        expect(page.locator(".outcome")).to_contain_text("nothing of it is left")
        expect(page.locator(".outcome")).to_contain_text("copies elsewhere: backups")
        assert "detail" in read(web, memory["uri"])

    def test_hostile_text_is_text_in_the_form_and_in_the_history(
        self, page: Page, home: Home, web: Web
    ) -> None:
        memory = capture(web, SCRIPT, content=HOSTILE)
        go(page, home, place_of(memory, "edit"))
        expect(page.get_by_label("Summary, in one line")).to_have_value(SCRIPT)
        expect(page.get_by_label("Details")).to_have_value(HOSTILE)
        page.get_by_label("Details").fill(f"{HOSTILE} {SCRIPT}")
        press(page, "Save")
        expect_done(page, "Saved")
        page.locator(".version summary").nth(1).click()
        expect(page.locator(".version").nth(1)).to_contain_text("ship U+202Egpj.exeU+202C")
        expect(page.locator("main script, main img")).to_have_count(0)
        assert fits(page)


class TestList:
    def test_many_are_archived_and_restored(self, page: Page, home: Home, web: Web) -> None:
        chosen = [capture(web, f"Bulk {name}", tags=["bulk"]) for name in ("one", "two", "three")]
        go(page, home, "#/memories?tags=bulk")
        page.get_by_label("Select: Bulk three").check()
        press(page, "Select all shown")
        bar = page.get_by_role("region", name="Selected memories")
        expect(bar).to_contain_text("3 selected")
        bar.get_by_role("button", name="Archive").click()
        expect_done(page, "3 memories archived")
        assert {read(web, each["uri"])["status"] for each in chosen} == {"archived"}
        press(page, "Undo")
        expect_done(page, "Undone: 3 memories")
        assert {read(web, each["uri"])["status"] for each in chosen} == {"active"}

    def test_by_keyboard_alone_with_what_is_refused(self, page: Page, home: Home, web: Web) -> None:
        memory = capture(web, "Keys tag me", namespace="patterns")
        note(web, "Keys leave me", "keys")
        (pending,) = [
            each
            for each in web.ask("GET", "/api/v1/inbox/").json()["memories"]
            if "Keys leave me" in each["summary"]
        ]
        go(page, home, "#/memories")
        for summary in ("Keys leave me", "Keys tag me"):
            for _ in range(30):
                page.keyboard.press("j")
                if page.evaluate("document.activeElement.textContent").startswith(summary):
                    break
            page.keyboard.press("x")
        expect(page.get_by_role("region", name="Selected")).to_contain_text("2 selected")
        page.keyboard.press("r")
        expect_done(page, "1 memory resolved, 1 refused")
        expect(page.locator(".outcome")).to_contain_text("awaits review")
        assert read(web, memory["uri"])["status"] == "resolved"
        assert read(web, pending["uri"])["status"] == "pending"
        page.keyboard.press("u")
        expect_done(page, "Undone: 1 memory")

    def test_many_are_tagged_and_forgotten_in_one_run(
        self, page: Page, home: Home, web: Web
    ) -> None:
        chosen = [capture(web, f"Gone {name}", tags=["gone"]) for name in ("one", "two")]
        go(page, home, "#/memories?tags=gone")
        page.get_by_label("Select: Gone one").check()
        press(page, "Select all shown")
        page.get_by_label("Tag", exact=True).fill("later")
        press(page, "Add tag")
        expect_done(page, "2 memories tagged")
        assert read(web, chosen[0]["uri"])["tags"] == ["gone", "later"]
        page.get_by_label("Select: Gone one").check()
        page.get_by_label("Select: Gone two").check()
        press(page, "Forget…")
        asked = page.get_by_role("form", name="Forget 2 memories for good?")
        expect(asked).to_contain_text("Gone two")
        press(page, "Forget for good")
        expect_done(page, "Forgotten: 2 memories")
        expect(page.locator(".hit")).to_have_count(0)

    def test_what_is_gone_meanwhile_is_not_said_to_be_searched(
        self, page: Page, home: Home, web: Web
    ) -> None:
        memory = capture(web, "Gone before you ask", tags=["meanwhile"])
        go(page, home, place_of(memory))
        page.keyboard.press("d")
        body = {"ids": [memory["uri"]], "confirm": True}
        web.ask("POST", f"{MEMORIES}batch-forget/", json=body)
        press(page, "Forget for good")
        expect_done(page, "Nothing was forgotten")
        expect(page.locator(".outcome li")).to_have_count(1)
        expect(page.locator(".outcome li")).to_contain_text("Not forgotten: no memory")

    def test_a_hit_leads_to_edit_and_archive(self, page: Page, home: Home, web: Web) -> None:
        memory = capture(web, "Wombats dig square tunnels")
        go(page, home, "#/search?q=wombats&kind=memory")
        page.get_by_role("link", name="Edit: Wombats").click()
        expect(page.get_by_label("Summary, in one line")).to_be_focused()
        page.go_back()
        page.get_by_role("link", name="Archive: Wombats").click()
        expect(page.get_by_role("button", name="Archive").last).to_be_focused()
        page.keyboard.press("Enter")
        expect_done(page, "Archived: Wombats")
        page.reload()  # and it is not asked again
        expect(page.get_by_role("heading", level=1)).to_have_text("Wombats dig square tunnels")
        expect(page.get_by_role("form", name="Archive it?")).to_have_count(0)
        assert read(web, memory["uri"])["status"] == "archived"


class TestInbox:
    def test_captures_are_accepted_reworded_and_discarded_by_keyboard(
        self, page: Page, home: Home, web: Web
    ) -> None:
        for word in ("Accept", "Reword", "Discard"):
            note(web, f"{word} me please", "inbox")
        go(page, home, "#/inbox")

        def focus(words: str) -> None:
            page.get_by_role("link", name=words, exact=True).focus()

        focus("Accept me please")
        page.keyboard.press("a")
        expect_done(page, "Accepted: Accept me please")
        expect(page.get_by_role("button", name="Undo")).to_have_count(0)  # it is in the notes
        focus("Reword me please")
        page.keyboard.press("e")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("In better words")
        page.keyboard.press("Enter")
        expect_done(page, "Accepted: In better words")
        focus("Discard me please")
        page.keyboard.press("d")
        expect(page.get_by_role("form", name="Discard it for good?")).to_be_visible()
        page.keyboard.press("Shift+Tab")  # the focus is on Cancel
        page.keyboard.press("Enter")
        expect_done(page, "Discarded: Discard me please")
        found = web.ask("GET", f"{MEMORIES}?domain=project:app").json()["results"]
        settled = {each["summary"] for each in found if each["status"] == "active"}
        assert settled == {"Accept me please", "In better words"}

    def test_a_page_without_a_terminal_says_that_it_cannot_accept(
        self, chromium: Browser, home: Home, web: Web
    ) -> None:
        note(web, "Wait for a terminal", "piped")
        context = browsers.open_context(chromium, home)
        page = context.new_page()
        with browsers.watch(page):
            go(page, home, "#/inbox")
            expect(page.locator(".warning")).to_contain_text("not opened from a terminal")
            item = page.locator(".hit", has_text="Wait for a terminal")
            expect(item.get_by_role("button")).to_have_count(1)
            item.get_by_role("button", name="Discard").click()
            press(page, "Discard")
            expect_done(page, "Discarded")
        context.close()


class TestLessons:
    def test_a_rule_is_accepted_in_other_words_and_rejected(
        self, page: Page, home: Home, web: Web
    ) -> None:
        rule = "Please never use pandas in this repo, the lambda has no room for it."
        event = {"session_id": "rules", "event_id": "rules-1", "text": rule}
        assert web.ask("POST", "/api/v1/events/", json=event).status_code == 201

        def list_lessons() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = web.ask("GET", "/api/v1/lessons/").json()["lessons"]
            return found

        wait_until(lambda: bool(list_lessons()), "the rule is learned")
        go(page, home, "#/inbox")
        card = page.locator(".card", has_text="never use pandas")
        expect(card.locator(".badge").nth(1)).to_have_text("new")
        card.get_by_role("button", name="Edit").click()
        page.get_by_label("The lesson, in one line").fill("Use polars, never pandas")
        press(page, "Accept")
        expect_done(page, "Accepted: Use polars, never pandas")
        expect(page.locator(".card", has_text="never pandas")).to_have_count(0)
        page.evaluate("location.hash = '#/knowledge/lessons'")
        card = page.locator(".card", has_text="Use polars, never pandas")
        card.get_by_role("button", name="Reject").click()
        page.get_by_label("Why").fill("outdated")
        press(page, "Reject")
        expect_done(page, "Rejected: Use polars, never pandas")
        assert [(each["state"], each["reason"]) for each in list_lessons()] == [
            ("rejected", "outdated")
        ]
        expect(card.get_by_role("button", name="Reject")).to_have_count(0)
        card.get_by_role("button", name="Accept").click()
        expect_done(page, "Accepted: Use polars, never pandas")


class TestFacts:
    def test_a_fact_is_corrected_and_deleted_from_where_it_was_said(
        self, page: Page, home: Home, web: Web
    ) -> None:
        event = {"session_id": "facts", "event_id": "facts-1", "text": "Deploys are on Monday"}
        assert web.ask("POST", "/api/v1/events/", json=event).status_code == 201
        facts = "/api/v1/memories/facts/"
        claim = {"key": "deploy day", "value": "Monday", "event_id": "facts-1"}
        fact = web.ask("POST", facts, json=claim).json()
        go(page, home, "#/knowledge/facts")
        page.get_by_role("button", name="Why?").click()
        moment = page.get_by_role("group", name="This moment")
        moment.get_by_role("button", name="Forget it").click()
        expect(page.locator("form.ask")).to_contain_text("1 fact made from it stays")
        moment.get_by_role("link", name="deploy day: Monday").click()
        press(page, "Correct: deploy day")
        page.get_by_label("Value").fill("Tuesday")
        press(page, "Save")
        expect_done(page, "Corrected: deploy day")
        expect(page.get_by_role("button", name="Undo")).to_have_count(0)
        assert web.ask("GET", f"{facts}{fact['id']}/").json()["value"] == "Tuesday"
        press(page, "Delete: deploy day")
        expect(page.get_by_role("button", name="Cancel")).to_be_focused()
        assert web.ask("GET", f"{facts}{fact['id']}/").status_code == 200
        press(page, "Delete")
        expect_done(page, "Deleted: deploy day")
        assert web.ask("GET", f"{facts}{fact['id']}/").status_code == 404

    def test_nothing_can_be_pressed_on_a_place_that_is_left(
        self, page: Page, home: Home, web: Web
    ) -> None:
        claim = {"key": "build tool", "value": "make"}
        fact = web.ask("POST", "/api/v1/memories/facts/", json=claim).json()
        go(page, home, "#/knowledge/facts")
        held: list[Route] = []
        url = f"**/{fact['id']}/"
        # Playwright sets an attribute of the handler: a method has none.
        page.route(url, lambda route: held.append(route))  # noqa: PLW0108
        button = page.get_by_role("button", name="Correct: build tool", exact=True)
        box = button.bounding_box()
        assert box is not None
        with page.expect_request(url):
            page.evaluate(f"location.hash = '#/knowledge/facts/{fact['id']}'")
        expect(page.locator("main[aria-busy]")).to_be_visible()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(page.get_by_label("Value")).to_have_count(0)
        (route,) = held
        route.continue_()
        press(page, "Correct: build tool")
        expect(page.get_by_label("Value")).to_have_value("make")


class TestDuplicates:
    def test_they_are_side_by_side_merged_and_restored(
        self, page: Page, home: Home, web: Web
    ) -> None:
        old = capture(web, f"Ship {SCRIPT} on calm days", namespace="reviews")
        new = capture(web, f"Ship {SCRIPT} on calm days now", namespace="reviews")
        go(page, home, "#/memories")
        page.get_by_role("link", name="Find duplicates").click()
        group = page.locator(".hit", has_text="on calm days now")
        expect(group.locator(".card").first.locator("mark")).to_have_text("now")
        expect(page.locator("main script, main img")).to_have_count(0)
        group.get_by_role("button", name="Merge into the first").click()
        expect_done(page, "Merged: 1 memory superseded")
        expect(group).to_have_count(0)
        assert read(web, old["uri"])["superseded_by"] == new["id"]
        page.keyboard.press("u")
        expect_done(page, "Undone")
        expect(group).to_have_count(1)
        assert read(web, old["uri"])["status"] == "active"


class TestEveryPlace:
    def test_it_has_no_barriers_and_fits(self, page: Page, home: Home, web: Web) -> None:
        memory = capture(web, "Look at me", content="Well.", tags=["a tag"])
        capture(web, "Look at me now")
        note(web, "Look closer", "look")
        problems: list[str] = []
        with browsers.lend(page) as check:

            def look() -> None:
                problems.extend(check())

            go(page, home, place_of(memory, "edit"))
            look()
            press(page, "Forget…")
            look()
            press(page, "Cancel")
            press(page, "Supersede…")
            page.get_by_label("Words of the other memory").fill("look")
            press(page, "Find")
            expect(page.locator(".ask li button").first).to_be_focused()
            look()
            go(page, home, "#/memories")
            page.get_by_label(re.compile("^Select: Look at me")).first.check()
            look()
            page.get_by_role("region").get_by_role("button", name="Resolve").click()
            expect_done(page, "resolved")
            look()
            go(page, home, "#/inbox")
            page.get_by_role(
                "button", name=re.compile("^Edit and accept: Look closer")
            ).first.click()
            look()
            go(page, home, "#/duplicates")
            look()
        assert not problems
