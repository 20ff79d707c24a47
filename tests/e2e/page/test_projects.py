"""Projects, Health and Knowledge in a real browser, on a daemon with real hooks and a remote."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from playwright.sync_api import Browser, Page, Route, expect

from agent_memory.client.langgraph import AgentMemorySaver
from tests import browser as browsers
from tests.browser import go
from tests.command_runner import Home
from tests.http_client import Web

HOSTILE = "<img src=x onerror=alert(1)>\u202egpj"
PLACES = ("#/projects", "#/health", "#/knowledge/facts", "#/knowledge/threads")
THREAD = "ticket <b>1</b>"


class Counter(TypedDict):
    steps: int


@pytest.fixture(scope="module")
def home(chromium: Browser) -> Iterator[Home]:  # noqa: ARG001  # none without a browser
    """A daemon with a project that has a remote, a folder without git, and a hostile project."""
    with Home() as home:
        own = home.folder / "own.git"
        git(home.folder, "init", "--quiet", "--bare", str(own))
        home.configure(f'memories.user_remote = "{own}"\n')
        home.serve()
        lantern = make_project(home, "lantern")
        git(lantern, "init", "--quiet", "--bare", str(home.folder / "lantern.git"))
        git(lantern, "remote", "add", "origin", str(home.folder / "lantern.git"))
        plain = home.folder / "notes"
        plain.mkdir()
        for number, folder in enumerate((lantern, plain, plain)):
            call_hook(home, folder, "SessionStart", f"session-{number}", source="startup")
            call_hook(home, folder, "UserPromptSubmit", f"session-{number}", prompt="Hello there")
        assert home.run("memory", "capture", "decisions", "Use SQLite", cwd=lantern).code == 0
        send_knowledge(Web(home))
        run_graph(home)
        assert home.run("memory-daemon", "scheduler", "run", "outbox-processor").code == 0
        yield home


def make_project(home: Home, name: str) -> Path:
    folder = home.folder / name
    git(home.folder, "init", "--quiet", str(folder))
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "First")
    return folder


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    command = ("git", "-C", str(folder), *author, *words)
    subprocess.run(command, check=True)


def call_hook(home: Home, folder: Path, name: str, session: str, **more: str) -> None:
    given = {"hook_event_name": name, "session_id": session, "cwd": str(folder), **more}
    words = ("memory", "hook", "auto", "--agent", "claude-code")
    assert home.run(*words, given=json.dumps(given).encode(), cwd=folder).code == 0


def send_knowledge(web: Web) -> None:
    event = {
        "event_id": "said",
        "session_id": "talk",
        "text": "We run make test.",
        "metadata": {"project": HOSTILE},
    }
    assert web.ask("POST", "/api/v1/events/", json=event).status_code == 201
    for fact in (
        {"key": "test_command", "value": "make check"},
        {"key": "test_command", "value": "make test", "session_id": "talk", "event_id": "said"},
        {"key": "hostile", "value": HOSTILE},
    ):
        assert web.ask("POST", "/api/v1/memories/facts/", json=fact).status_code == 201


def run_graph(home: Home) -> None:
    graph = StateGraph(Counter)
    graph.add_node("count", lambda state: {"steps": state["steps"] + 1})
    graph.add_edge(START, "count")
    with AgentMemorySaver.connect(f"unix:{Web(home).record['grpc_socket']}") as saver:
        config: Any = {"configurable": {"thread_id": THREAD}}
        graph.compile(checkpointer=saver).invoke({"steps": 0}, config)


def get_card(page: Page, name: str) -> Any:
    return page.locator(".card", has=page.get_by_role("heading", name=name, level=3))


def count_events(home: Home, project: str) -> int:
    assert home.run("memory-daemon", "scheduler", "run", "outbox-processor").code == 0
    answer = Web(home).ask("GET", f"/api/v1/projects/{project}/")
    return int(answer.json()["events"])


class TestProjects:
    def test_a_project_is_switched_off_and_on(self, page: Page, home: Home) -> None:
        go(page, home, "#/now")
        page.keyboard.press("g")
        page.keyboard.press("p")
        card = get_card(page, "lantern")
        expect(card).to_contain_text("1 session · 2 events · 1 memory")
        before = count_events(home, "lantern")
        page.get_by_role("button", name="Switch off recording of lantern").focus()
        page.keyboard.press("Enter")
        expect(card).to_contain_text("off: hooks.exclude has")
        call_hook(home, home.folder / "lantern", "UserPromptSubmit", "session-0", prompt="Unheard")
        assert count_events(home, "lantern") == before
        page.keyboard.press("Enter")  # the button has the focus, and switches on now
        expect(card.locator(".badge")).to_have_text("recorded")
        call_hook(home, home.folder / "lantern", "UserPromptSubmit", "session-0", prompt="Heard")
        assert count_events(home, "lantern") == before + 1

    def test_a_folder_without_git_is_switched_off_too(self, page: Page, home: Home) -> None:
        go(page, home, "#/projects")
        card = get_card(page, "notes")
        expect(card).to_contain_text(f"{home.folder}/notes")
        expect(card).to_contain_text("on this machine only")
        card.get_by_role("button", name="off").click()
        expect(card.locator(".badge")).to_have_text("off")
        status = home.run("memory", "status", "--format", "json", cwd=home.folder / "notes")
        assert status.json()["recording"]["reason"] == "excluded"

    def test_memories_are_synced_with_a_remote(self, page: Page, home: Home) -> None:
        go(page, home, "#/projects")
        card = get_card(page, "lantern")
        expect(card).to_contain_text("in the git notes of this clone")
        steps = page.evaluate_handle(
            """() => {
              const seen = [];
              new MutationObserver(() => {
                const words = document.querySelector(".progress span")?.textContent;
                if (words && seen.at(-1) !== words) seen.push(words);
              }).observe(document.body, { subtree: true, childList: true, characterData: true });
              return seen;
            }"""
        )
        page.get_by_role("button", name="Sync lantern now").click()
        expect(card.locator(".good[role=status]")).to_contain_text("pushed")
        assert "pushing" in steps.json_value()
        expect(card.get_by_role("button", name="Sync lantern now")).to_be_focused()
        expect(card).not_to_contain_text("never")
        refs = ("git", "-C", str(home.folder / "lantern.git"), "for-each-ref")
        assert (
            b"refs/notes/mem/decisions"
            in subprocess.run(refs, check=True, capture_output=True).stdout
        )

    def test_your_own_memories_are_synced_with_yours(self, page: Page, home: Home) -> None:
        words = ("memory", "capture", "patterns", "Small commits", "--domain", "user")
        assert home.run(*words).code == 0
        go(page, home, "#/projects")
        card = get_card(page, "Your own memories")
        expect(card).to_contain_text("never")
        card.get_by_role("button", name="Sync").click()
        expect(card.locator(".good[role=status]")).to_contain_text("pushed")
        expect(card).not_to_contain_text("never")

    def test_a_failed_sync_says_what_to_do(self, page: Page, home: Home) -> None:
        for name in ("alone", "gone"):
            folder = make_project(home, name)
            if name == "gone":
                git(folder, "remote", "add", "origin", f"{home.folder}/gone.git")
            assert home.run("memory", "capture", "decisions", "Use WAL", cwd=folder).code == 0
        go(page, home, "#/projects")
        expect(get_card(page, "alone")).to_contain_text("remote add origin ADDRESS")
        page.get_by_role("button", name="Sync gone now").click()
        alert = get_card(page, "gone").get_by_role("alert")
        expect(alert).to_contain_text("there is no repository at its address")
        expect(alert).to_contain_text("remote -v")

    def test_everything_is_paused_and_resumed(self, page: Page, home: Home) -> None:
        go(page, home, "#/projects")
        page.get_by_role("button", name="Pause for an hour").click()
        expect(get_card(page, "lantern")).to_contain_text("paused")
        assert home.run("memory", "status", "--format", "json").json()["recording"]["until_ms"]
        page.get_by_role("button", name="Resume").click()
        expect(get_card(page, "lantern").locator(".badge")).to_have_text("recorded")

    def test_opting_in_is_a_choice(self, page: Page, home: Home) -> None:
        go(page, home, "#/projects")
        page.get_by_label("Record in").select_option("opt-in")
        card = get_card(page, "lantern")
        expect(card).to_contain_text("you have not switched it on")
        page.get_by_role("button", name="Switch on recording of lantern").click()
        expect(card.locator(".badge")).to_have_text("recorded")
        listed = home.run("memory", "config", "get", "hooks.projects", "--format", "json").json()
        assert listed == [f"{home.folder.resolve()}/lantern"]
        page.get_by_label("Record in").select_option("all")
        expect(page.locator("#announcer")).to_have_text("Changed where hooks record")


class TestHealth:
    def test_hooks_have_their_latency(self, page: Page, home: Home) -> None:
        go(page, home, "#/health")
        row = page.get_by_role("row", name="Claude Code")
        expect(row).to_contain_text(re.compile(r"[\d.]+ ms"))
        agents = Web(home).ask("GET", "/api/v1/hooks/").json()["agents"]
        (claude,) = [each for each in agents if each["agent"] == "claude-code"]
        assert claude["calls"] >= 6
        assert 0 < claude["p50_ms"] <= claude["p99_ms"]

    def test_settings_have_their_sources(self, page: Page, home: Home) -> None:
        assert home.run("memory", "config", "set", "toc.max_tokens", "2000").code == 0
        go(page, home, "#/health")
        settings = page.locator(".settings")
        expect(settings).to_contain_text(f"in {home.config_file}")
        changed = settings.locator("> div", has_text="toc.max_tokens")
        expect(changed).to_contain_text(f"in {home.config_file}")
        expect(changed).to_contain_text("after a restart")
        page.get_by_label("Find a setting").fill("cli.color")
        expect(settings).to_contain_text("true by default")

    def test_errors_have_a_name_and_no_text(self, page: Page, home: Home) -> None:
        words = ("memory", "hook", "auto", "--agent", "claude-code")
        broken = b'{"hook_event_name": "Stop", "said": "plain words"'
        assert home.run(*words, given=broken).code == 0
        go(page, home, "#/health")
        errors = page.locator("li", has_text="hook.refused")
        expect(errors).to_contain_text("1 time")
        assert "plain words" not in Web(home).ask("GET", "/api/v1/errors/").text
        expect(page.locator("main")).to_contain_text("All is well")  # a warning is no error

        def worsen(route: Route) -> None:
            answer = route.fetch()
            route.fulfill(response=answer, body=answer.text().replace('"warning"', '"error"'))

        page.route("**/api/v1/errors/", worsen)
        page.reload()
        expect(page.locator("main")).to_contain_text("Needs a look")

    def test_a_job_runs_by_keyboard(self, page: Page, home: Home) -> None:
        go(page, home, "#/health")
        page.get_by_role("button", name="Run hourly-rollup").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#announcer")).to_have_text("hourly-rollup: done")
        expect(page.get_by_role("button", name="Run hourly-rollup")).to_be_focused()


class TestKnowledge:
    def test_a_fact_leads_to_the_moment_it_was_said(self, page: Page, home: Home) -> None:
        go(page, home, "#/knowledge")
        fact = get_card(page, "test_command")
        expect(fact).to_contain_text("70 % sure")
        fact.get_by_role("button", name="Why?").click()
        expect(page.locator(".event.highlighted")).to_contain_text("We run make test.")

    def test_threads_show_their_checkpoints(self, page: Page, home: Home) -> None:
        go(page, home, "#/knowledge")
        page.get_by_role("link", name="Threads").click()
        thread = get_card(page, THREAD)
        expect(thread).to_contain_text("3 checkpoints · step 1")
        thread.locator("summary").click()
        expect(thread.locator("li")).to_have_count(3)
        expect(thread.locator("li").first).to_contain_text("step 1 · loop")

    def test_empty_lists_say_how_to_get_an_entry(self, page: Page, home: Home) -> None:
        go(page, home, "#/knowledge/procedures")
        expect(page.locator(".empty")).to_contain_text("POST /api/v1/memories/procedures/")


class TestEveryPlace:
    def test_hostile_names_are_text(self, page: Page, home: Home) -> None:
        for place in ("#/projects", "#/knowledge"):
            go(page, home, place)
            shown = page.locator(".card", has_text="<img src=x onerror=alert(1)>")
            expect(shown.first).to_be_visible()
            expect(page.locator("main img")).to_have_count(0)

    def test_it_has_no_barriers_and_fits(self, page: Page, home: Home) -> None:
        with browsers.lend(page) as check:
            for place in PLACES:
                go(page, home, place)
                assert check() == [], place


class TestManyProjects:
    def test_one_without_sessions_can_be_searched(self, page: Page, home: Home) -> None:
        quiet = make_project(home, "quiet")
        assert home.run("memory", "capture", "decisions", "Use TLS", cwd=quiet).code == 0
        go(page, home, "#/search")
        page.locator("summary").click()
        page.get_by_label("Project").select_option("quiet")
        expect(page.locator(".hit")).to_contain_text(["Use TLS"])

    def test_the_list_is_whole_after_a_change(self, page: Page, home: Home) -> None:
        events = [
            {
                "session_id": f"old-{number}",
                "event_id": f"old-{number}",
                "timestamp_ms": 1_700_000_000_000,
                "text": "hi",
                "metadata": {"project": f"old-{number}"},
            }
            for number in range(60)
        ]
        web = Web(home)
        assert web.ask("POST", "/api/v1/events/batch/", json={"events": events}).status_code == 200
        assert home.run("memory-daemon", "scheduler", "run", "outbox-processor").code == 0
        total = web.ask("GET", "/api/v1/projects/").json()["total"]
        go(page, home, "#/projects")
        cards = page.locator(".cards").first.locator("> li")
        for change in ("Pause for an hour", "Resume"):
            expect(cards).to_have_count(50)
            page.get_by_role("button", name="Show more").click()
            expect(cards).to_have_count(total)
            expect(page.get_by_role("button", name="Show more")).to_have_count(0)
            page.get_by_role("button", name=change).click()
        expect(cards).to_have_count(50)
