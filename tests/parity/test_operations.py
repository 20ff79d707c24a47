"""What the commands say of the daemon, REST says too: contents, injections, jobs, settings,
recording, the inbox and hooks."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_memory.interfaces.wire.events import event_json
from tests.command_runner import Home, wait_until
from tests.conversation_samples import THUMBNAILS, build_session
from tests.http_client import Web

TOKEN = "0f1e2d3c4b5a69788796" * 2  # may be any name, not only a secret
SECRETS = ("s3cr3tpass", TOKEN)
ADDRESSES = {  # as they are set, and as others see them
    "memories.user_remote": (
        "https://ada:s3cr3tpass@example.org/own.git",
        "https://example.org/own.git",
    ),
    "memories.remote": (f"https://{TOKEN}@example.org/app.git", "https://example.org/app.git"),
    "summarizer.base_url": (f"https://example.org/v1?key={TOKEN}", "https://example.org/v1"),
}


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as home:
        home.configure(
            "".join(f'{key} = "{value}"\n' for key, (value, _shown) in ADDRESSES.items())
        )
        home.serve()
        web, folder = Web(home), home.folder / "lantern"
        git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", str(folder))
        folder.mkdir()
        subprocess.run((*git, "init", "--quiet"), check=True)
        subprocess.run((*git, "commit", "-q", "--allow-empty", "-m", "First"), check=True)
        events = [event_json(each) for each in build_session("pictures", THUMBNAILS)]
        web.ask("POST", "/api/v1/events/batch/", json={"events": events}).raise_for_status()
        assert home.run("memory", "capture", "decisions", "Use SQLite", cwd=folder).code == 0
        call_hook(home, folder, "SessionStart", source="startup")
        prompt = "Let us cap the cache at 5 GB [decision] because the disk is small"
        call_hook(home, folder, "UserPromptSubmit", prompt=prompt)
        call_hook(home, folder, "SessionEnd", reason="exit")
        inbox = ("memory", "review", "--format", "json")
        wait_until(lambda: home.run(*inbox, cwd=folder).json()["total"] > 0, "a capture")
        for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
            assert home.run("memory-daemon", "scheduler", "run", job).code == 0
            web.ask("POST", f"/api/v1/jobs/{job}/pause/").raise_for_status()
        yield home


def call_hook(home: Home, folder: Path, name: str, **more: str) -> None:
    given = {"hook_event_name": name, "session_id": "s1", "cwd": str(folder), **more}
    words = ("memory", "hook", "auto", "--agent", "claude-code")
    assert home.run(*words, given=json.dumps(given).encode(), cwd=folder).code == 0


@pytest.fixture(scope="module")
def api(home: Home) -> Iterator[httpx.Client]:
    with Web(home).client() as client:
        yield client


def get(api: httpx.Client, path: str, **params: Any) -> Any:
    return api.get(f"/api/v1{path}", params=params).raise_for_status().json()


def run(home: Home, *words: str) -> Any:
    return home.run(*words, "--format", "json", cwd=home.folder / "lantern").json()


@pytest.mark.parametrize("depth", ["year", "day"])
def test_the_table_of_contents(home: Home, api: httpx.Client, depth: str) -> None:
    tree = get(api, "/toc/tree/", depth=depth)
    assert tree["nodes"]
    assert run(home, "memory-daemon", "query", "tree", "--depth", depth)["nodes"] == tree["nodes"]


def test_injections(home: Home, api: httpx.Client) -> None:
    given = get(api, "/injections/")["injections"]
    assert given
    assert run(home, "memory", "injections")["injections"] == given


def test_the_inbox(home: Home, api: httpx.Client) -> None:
    waiting = get(api, "/inbox/")
    assert waiting["total"] == 1
    assert run(home, "memory", "review")["total"] == 1


def test_jobs(home: Home, api: httpx.Client) -> None:
    listed = get(api, "/jobs/")["jobs"]
    shown = run(home, "memory-daemon", "scheduler", "status")["jobs"]
    assert [(job["job_name"], job["is_paused"]) for job in listed] == [
        (job["job_name"], job["is_paused"]) for job in shown
    ]


def test_settings(home: Home, api: httpx.Client) -> None:
    answer = get(api, "/settings/")
    listed = {row["key"]: row for row in run(home, "memory", "config", "list")}
    for row in answer["settings"]:
        own = listed.pop(row["key"])
        if row["key"] in ADDRESSES:  # the terminal is the user's; REST is not
            assert (own["value"], row["value"]) == ADDRESSES[row["key"]]
            continue
        if row["key"] == "storage.url":
            own["value"] = own["value"].partition("?")[0]
        assert {name: row[name] for name in own} == own
    assert not listed
    assert not [secret for secret in SECRETS if secret in json.dumps(answer)]


def test_a_setting_that_waits_for_a_restart_is_marked(home: Home, api: httpx.Client) -> None:
    assert home.run("memory", "config", "set", "toc.max_tokens", "2000").code == 0
    rows = {row["key"]: row for row in get(api, "/settings/")["settings"]}
    assert (rows["toc.max_tokens"]["value"], rows["toc.max_tokens"]["restart_needed"]) == (
        2000,
        True,
    )
    assert sum(row["restart_needed"] for row in rows.values()) == 1
    with home.config_file.open("a") as file:
        file.write("broken")
    broken = get(api, "/settings/")
    assert "not valid TOML" in broken["problem"]
    assert len(broken["settings"]) == len(rows)
    home.config_file.write_text(home.config_file.read_text().removesuffix("broken"))


def test_what_is_recorded(home: Home, api: httpx.Client) -> None:
    def compare() -> str:
        shown = run(home, "memory", "status")["recording"]
        project = get(api, "/projects/lantern/")
        assert {**project["recording"], "text": shown["text"]} == shown
        return str(shown["reason"])

    assert compare() == "on"
    assert home.run("memory", "off", cwd=home.folder / "lantern").code == 0
    assert compare() == "excluded"
    assert home.run("memory", "on", cwd=home.folder / "lantern").code == 0
    off = api.put("/api/v1/projects/lantern/recording/", json={"recorded": False})
    assert off.json()["recording"]["reason"] == "excluded"
    assert compare() == "excluded"
    assert home.run("memory", "on", cwd=home.folder / "lantern").code == 0
    api.post("/api/v1/recording/pause/", json={"seconds": 3600}).raise_for_status()
    assert compare() == "paused"
    assert home.run("memory", "resume").code == 0
    assert get(api, "/recording/")["paused"] is False


def test_a_program_cannot_loosen_what_is_recorded(home: Home, api: httpx.Client) -> None:
    with Web(home).over_socket() as socket:
        for client in (api, socket):
            answers = (
                client.put("/api/v1/projects/lantern/recording/", json={"recorded": True}),
                client.patch("/api/v1/recording/", json={"mode": "all"}),
                client.post("/api/v1/recording/resume/"),
            )
            assert [answer.status_code for answer in answers] == [403, 403, 403]
            assert "memory ui" in answers[0].json()["detail"]


def test_a_project_of_programs_alone_has_nothing_to_switch(api: httpx.Client) -> None:
    event = {"session_id": "bot", "text": "hi", "metadata": {"project": "support/desk"}}
    api.post("/api/v1/events/", json=event).raise_for_status()
    api.post("/api/v1/jobs/outbox-processor/run/").raise_for_status()
    project = get(api, "/projects/support/desk/")
    assert (project["recording"], project["folders"], project["events"]) == (None, [], 1)
    answer = api.put("/api/v1/projects/support/desk/recording/", json={"recorded": False})
    assert answer.status_code == 422
    assert "programs" in answer.json()["detail"]
    assert api.get("/api/v1/projects/unknown/").status_code == 404


def test_projects_are_counted_as_memories_are(home: Home, api: httpx.Client) -> None:
    page = get(api, "/projects/")
    (lantern,) = [each for each in page["items"] if each["name"] == "lantern"]
    counted = run(home, "memory", "status", "--domain", "project")
    assert lantern["memories"] == counted["total"] == 2
    assert lantern["to_review"] == counted["to_review"] == 1
    assert lantern["folders"] == [str((home.folder / "lantern").resolve())]
    assert [each["domain"] for each in page["others"]] == ["user"]
    assert page["others"][0]["remote"] == "https://example.org/own.git"
    assert lantern["remote"] == "https://example.org/app.git"
    assert not [secret for secret in SECRETS if secret in json.dumps(page)]


def test_projects_of_any_form_have_their_folder(home: Home, api: httpx.Client) -> None:
    folder, strange = home.folder / "apart", home.folder / os.fsdecode(b"caf\xe9")
    words = ("git", "init", "--quiet", "--separate-git-dir")
    subprocess.run((*words, home.folder / "kept-apart", folder), check=True)
    link = ("git", "-C", folder, "config", "core.worktree", folder)  # as in a submodule
    subprocess.run(link, check=True)
    init = ("git", "init", "--quiet", strange)
    subprocess.run(init, check=True)
    (strange / ".memoryignore").write_text("*\n")
    for place in (folder, strange):
        assert home.run("memory", "capture", "decisions", "Use WAL", cwd=place).code == 0
    found = {path: each for each in get(api, "/projects/")["items"] for path in each["folders"]}
    assert found[str(folder.resolve())]["shared"]
    ignored = found[str(strange.resolve()).encode(errors="replace").decode()]["recording"]
    assert (ignored["reason"], "caf?/.memoryignore" in ignored["detail"]) == ("memoryignore", True)


def test_hooks_are_those_that_were_called(home: Home, api: httpx.Client) -> None:
    (claude,) = get(api, "/hooks/")["agents"]
    assert (claude["agent"], claude["installed"], claude["failed"]) == ("claude-code", "absent", 0)
    assert claude["calls"] == 3
    installed = run(home, "memory", "install")
    assert claude["title"] in [agent["title"] for agent in installed]


def test_the_disk_is_measured_by_kind(home: Home, api: httpx.Client) -> None:
    parts = {part["kind"]: part["bytes"] for part in get(api, "/disk/")["parts"]}
    assert parts["logs"] == (home.data / "logs/daemon.log").stat().st_size
    assert min(parts["store"], parts["word_index"]) > 0
    assert parts.keys() >= {"vector_index", "notes", "spool", "last_contexts", "summarizer"}
