"""What people see: lists that fit narrow terminals, ids that work, times, colours, pager, progress.

One daemon holds the demo's conversation, and memories and sessions in wide characters.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.command_runner import Home, Screen, patch_launcher

CONVERSATION = Path(__file__).parents[3] / "demo/conversation.jsonl"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MARK = re.compile(r"^\s*(?:>\s*)?(?:[-✓!] |\d+\. )?")
CONTROLS = re.compile(r"\x1b\[[0-9;]*[a-zA-Z]")
WIDE = "日本語の要約はとても幅が広いので、端末の幅に収まるように折り返す必要がある"
EMOJI = "🚀🔥 A blocker with emoji 🎉🎉🎉 in a summary that is long enough to wrap 🚀"
LONG = (
    "Use PostgreSQL for the data layer because the team knows it and it has the extensions we use"
)
TWICE = "Prefer plain text"
DAY = "2026-03-04"
_SOON = "SPINNER_MILLIS, FRAME_MILLIS = 1,"

# Every command that lists or shows something. The words in braces are ids of the fixture.
COMMANDS = {
    "list": "memory list --status all",
    "recall": "memory recall thumbnails",
    "recall all": "memory recall all",
    "recall wide": "memory recall 端末",
    "recall minimal": "memory recall database --detail minimal",
    "today": f"memory today --date {DAY}",
    "wide today": "memory today --date 2026-03-12",
    "log": "memory log",
    "log lines": "memory log --oneline",
    "sessions": "memory sessions",
    "injections": "memory injections",
    "why": "memory why {memory}",
    "status": "memory status --verbose",
    "memory": "memory show {memory}",
    "event": "memory show {event}",
    "session": "memory show {session}",
    "grip": "memory show {grip}",
    "day": f"memory show toc:day:{DAY}",
    "review": "memory review --domain user",
    "consolidate": "memory consolidate --dry-run",
    "install": "memory install",
    "settings": "memory config list",
    "daemon": "memory-daemon status --verbose",
    "root": "memory-daemon query root",
    "node": f"memory-daemon query node toc:day:{DAY}",
    "history": "memory-daemon query node toc:year:2026 --history",
    "browse": f"memory-daemon query browse toc:day:{DAY}",
    "expand": "memory-daemon query expand {grip}",
    "tree": "memory-daemon query tree",
    "events": "memory-daemon query events --from 0 --to 9999999999999",
    "search": "memory-daemon query search database",
    "scheduler": "memory-daemon scheduler status",
    "tokens": "memory-daemon token list",
    "stats": "memory-daemon admin stats",
    "index": "memory-daemon admin index-stats",
    "verify": "memory-daemon admin verify",
    "agents": "kontekst agents",
    "runs": "kontekst sessions",
    "ps": "kontekst ps",
}


class Desk:
    """A home with a daemon that holds the conversations, and the ids that commands need."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._shown: dict[tuple[str, int], str] = {}  # a list does not change
        self._make_repository()
        home.serve()
        path = home.folder / "week.jsonl"
        path.write_text("\n".join(json.dumps(record) for record in _read_conversation()))
        self.run("memory", "import", "--from", "jsonl", str(path))
        for namespace, summary, *options in (
            ("decisions", LONG, "--tags", "database,architecture"),
            ("learnings", WIDE, "--content", f"{WIDE}。\n\n- {WIDE}\n- {EMOJI}"),
            ("blockers", EMOJI),
            ("patterns", TWICE),
            ("patterns", TWICE, "--domain", "user"),
        ):
            self.run("memory", "capture", namespace, summary, *options)
        start = {"hook_event_name": "SessionStart", "session_id": "s-hook", "source": "startup"}
        given = json.dumps({**start, "cwd": str(home.work), "transcript_path": ""})
        assert home.run("memory", "hook", "auto", given=given.encode()).code == 0
        home.hold_still()
        memories = self.json("memory", "list", "--status", "all")["memories"]
        self.urns = {memory["uri"] for memory in memories}
        self.words = {
            "memory": next(each["id"] for each in memories if each["summary"] == LONG),
            "event": "lantern-12",
            "session": "lantern-db",
            "grip": self._find_grip(),
        }

    def run(self, *words: str) -> str:
        answer = self.home.run(*words)
        assert answer.code == 0, (words, answer)
        return answer.text

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--format", "json"))

    def show(self, name: str, *, columns: int = 80, env: dict[str, str] | None = None) -> str:
        """Return what a command of COMMANDS writes on a terminal, colours included."""
        words = COMMANDS[name].format(**self.words).split()
        if env is not None:
            return self.show_words(*words, columns=columns, env=env)
        if (name, columns) not in self._shown:
            self._shown[name, columns] = self.show_words(*words, columns=columns)
        return self._shown[name, columns]

    def show_words(self, *words: str, columns: int = 80, env: dict[str, str] | None = None) -> str:
        chosen = {"MEMORY_PAGER": "", "MEMORY_CLI__PROGRESS": "false", **(env or {})}
        with self.home.on_terminal(*words, columns=columns, env=chosen) as screen:
            assert screen.finish() == 0, screen.text
        return screen.text

    def _make_repository(self) -> None:
        git = ["git", "-C", str(self.home.work), "-c", "user.name=A", "-c", "user.email=a@b.c"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "First"]):
            subprocess.run([*git, *words], env=self.home.environ, check=True)

    def _find_grip(self) -> str:
        node = self.json("memory-daemon", "query", "node", f"toc:day:{DAY}")
        grip: str = next(grip for bullet in node["bullets"] for grip in bullet["grip_ids"])
        return grip


def _read_conversation() -> Iterator[dict[str, Any]]:
    for number, line in enumerate(CONVERSATION.read_text().splitlines(), 1):
        record = json.loads(line)
        yield {
            **record,
            "event_id": f"lantern-{number}",
            "timestamp": record["at"],
            "event_type": record["type"],
        }
    for number, (role, text) in enumerate(
        (("user", f"{WIDE}。{WIDE}。"), ("assistant", f"決定: {WIDE}。 Decision: {EMOJI}"))
    ):
        yield {
            "event_id": f"wide-{number}",
            "session_id": "幅の広いセッション",
            "timestamp": f"2026-03-12T10:0{number}:00Z",
            "event_type": f"{role}_message",
            "role": role,
            "text": text,
            "metadata": {"project": "日本語の計画", "agent": "claude-code"},
        }


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Home() as home:
        yield Desk(home)


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_list_fits_the_terminal(desk: Desk, name: str, columns: int) -> None:
    shown = CONTROLS.sub("", desk.show(name, columns=columns))

    assert shown.strip()
    for line in shown.splitlines():
        # A word that is wider, such as a URI or a path, stands alone and whole, to be copied.
        assert cell_len(line) <= columns or len(MARK.sub("", line).split()) == 1, line


def test_nothing_is_lost_where_lines_are_broken(desk: Desk) -> None:
    shown = CONTROLS.sub("", desk.show("list", columns=60))

    squeezed = "".join(shown.split())
    for summary in (LONG, WIDE, EMOJI):
        assert "".join(summary.split()) in squeezed


@pytest.mark.parametrize("columns", [60, 120])
def test_every_listed_memory_opens_by_the_id_on_its_line(desk: Desk, columns: int) -> None:
    shown = COLOURS.sub("", desk.show("list", columns=columns))

    names = [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")]
    opened = [desk.json("memory", "show", name)["uri"] for name in names]
    assert sorted(opened) == sorted(desk.urns)


def test_an_id_is_short_unless_this_project_has_the_same_memory(desk: Desk) -> None:
    shown = COLOURS.sub("", desk.show("list", columns=120)).splitlines()

    names = {line.split()[0] for line in shown if not line.startswith(" ")}
    assert {len(name.rpartition(":")[2]) for name in names if "//" not in name} == {7}
    assert len([name for name in names if "//" in name]) == 1


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("recall", r"^\[\d+\] (?:event )?(\S+)"),
        ("recall all", r"^\[\d+\] (\S+)"),
        ("recall wide", r"^\[\d+\] (?:event )?(\S+)"),
        ("today", r"\b(01[0-9A-HJKMNP-TV-Z]{12})\b"),
        ("log", r"^session (\S+)"),
        ("log", r"\b(01[0-9A-HJKMNP-TV-Z]{12})\b"),
        ("log lines", r"^(\S+)"),
        ("sessions", r"^(lantern\S*|幅\S*)"),
        ("injections", r"^  (\w+:[0-9a-f]{12}:\d+)"),
        ("session", r"^    (01[0-9A-HJKMNP-TV-Z]{12})$"),
        ("event", r"^  \d{4}.* \| (\S+)$"),
        ("day", r"^    (01[0-9A-HJKMNP-TV-Z]{12})$"),
        ("grip", r"^Segment: (\S+)"),
        ("root", r"^  - (\S+)"),
        ("browse", r"^  \d+\. (\S+)"),
        ("expand", r"^  - (\S+)"),
        ("tree", r"\b(01[0-9A-HJKMNP-TV-Z]{12}|toc:\S+)"),
        ("events", r"^  \d+\. (\S+)"),
    ],
)
def test_every_listed_id_is_one_that_show_opens(desk: Desk, name: str, pattern: str) -> None:
    shown = COLOURS.sub("", desk.show(name, columns=60))

    ids = sorted(set(re.findall(pattern, shown, re.MULTILINE)))
    assert ids
    for each in ids[:12]:
        answer = desk.home.run("memory", "show", each)
        assert answer.code == 0, (each, answer)


def test_times_have_the_zone_of_the_caller(desk: Desk) -> None:
    words = ("memory-daemon", "query", "events", "--from", "2026-03-04", "--to", "2026-03-04")
    for zone, shown in (("America/New_York", "08:40:52 EST"), ("Asia/Kolkata", "19:10:52 IST")):
        answer = desk.home.run(*words, env={"TZ": zone})
        assert f"{DAY} {shown}" in answer.text

    assert "13:40:52 UTC" in desk.run(*words)


def test_a_range_without_a_limit_has_no_date_on_that_side(desk: Desk) -> None:
    assert desk.show("events").startswith("All events:")
    words = ("memory-daemon", "query", "events")
    env = {"NO_COLOR": "1", "MEMORY_PAGER": ""}
    for option, heading in (
        (("--since", "2026-03-04"), "Events since 2026-03-04 00:00:00 UTC:"),
        (("--until", "2026-03-04"), "Events until 2026-03-04 23:59:59 UTC:"),
    ):
        with desk.home.on_terminal(*words, *option, env=env) as screen:
            assert screen.finish() == 0
        assert heading in screen.text


def test_days_begin_where_the_caller_is(desk: Desk) -> None:
    """The last session of the demo begins at 08:05 UTC on 9 March: the day before in Honolulu."""
    words = ("memory", "today", "--format", "json", "--date")
    env = {"TZ": "Pacific/Honolulu"}
    before = desk.home.run(*words, "2026-03-08", env=env).json()
    after = desk.home.run(*words, "2026-03-09", env=env).json()

    assert [session["session_id"] for session in before["days"][0]["sessions"]] == [
        "lantern-release"
    ]
    assert after["days"] == []


def test_a_terminal_shows_ages_and_a_pipe_does_not(desk: Desk) -> None:
    assert " ago" in desk.show("recall") + desk.show("log lines") + desk.show("session")
    assert "just now" in desk.show("list") or "minute" in desk.show("list")

    for name in ("recall", "log lines", "session", "list"):
        answer = desk.home.run(*COMMANDS[name].format(**desk.words).split())
        assert " ago" not in answer.text
        assert "just now" not in answer.text


def test_there_is_colour_on_a_terminal_only(desk: Desk) -> None:
    assert COLOURS.search(desk.show("list"))
    assert COLOURS.search(desk.show("status"))

    assert b"\x1b" not in desk.home.run("memory", "list").out
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"MEMORY_CLI__COLOR": "false"}):
        assert "\x1b" not in desk.show("list", env=env)


def test_nothing_depends_on_colour(desk: Desk) -> None:
    for name in ("list", "recall all", "scheduler", "daemon"):
        # Figures such as the uptime differ from call to call.
        plain, colored = (
            re.sub(r"\d+", "0", COLOURS.sub("", desk.show(name, env=env)))
            for env in ({"NO_COLOR": "1"}, {})
        )
        assert plain == colored


@pytest.mark.parametrize("format_", ["json", "yaml", "quiet"])
def test_a_terminal_changes_nothing_in_formats_for_programs(desk: Desk, format_: str) -> None:
    words = ("memory", "list", "--format", format_)

    assert desk.show_words(*words, columns=60) == desk.run(*words)


def test_errors_are_coloured_and_fit(desk: Desk) -> None:
    with desk.home.on_terminal("memory", "show", "nope", columns=60) as screen:
        assert screen.finish() == 10

    assert screen.text.startswith("\x1b[1;31merror:\x1b[0m")
    assert all(cell_len(COLOURS.sub("", line)) <= 60 for line in screen.text.splitlines())
    assert desk.home.run("memory", "show", "nope").errors.startswith("error: ")


def test_a_long_list_goes_to_the_pager(desk: Desk, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\ncat > "$0.input"\n')
    pager.chmod(0o700)
    seen = Path(f"{pager}.input")

    shown = desk.show("tree", env={"MEMORY_PAGER": str(pager)})
    assert shown == ""
    assert "toc:year:2026" in seen.read_text()

    seen.unlink()
    words = COMMANDS["tree"].split()
    assert "toc:year:2026" in desk.show_words(
        *words, "--no-pager", env={"MEMORY_PAGER": str(pager)}
    )
    assert "toc:year:2026" in desk.show_words(
        words[0], "--no-pager", *words[1:], env={"MEMORY_PAGER": str(pager)}
    )
    assert not seen.exists()


def test_status_explains_its_words(desk: Desk) -> None:
    shown = COLOURS.sub("", desk.show("status"))

    tier = shown.partition("By Tier:\n")[2]
    assert tier.startswith("  hot ")
    assert "New and often recalled memories are hot." in tier
    assert "Recall: by words; no LLM" in shown


def test_counts_have_the_right_number(desk: Desk) -> None:
    """Look through all output for one of many, and for many of one."""
    for name in COMMANDS:
        shown = COLOURS.sub("", desk.show(name))
        assert "(s)" not in shown
        wrong = re.findall(
            r"(?<![\d,.:-])1 (?:events|memories|sessions|files|segments|children|entries|notes"
            r"|results|runs|errors|prompts|bullets|tokens|days|hours|minutes|documents)\b",
            shown,
        )
        assert wrong == [], name


def test_a_start_that_takes_long_shows_a_spinner(tmp_path: Path) -> None:
    """The first command starts a daemon: on a terminal it says so, and then erases the line."""
    soon = patch_launcher(tmp_path, "SPINNER_MILLIS, FRAME_MILLIS = 600,", _SOON)
    with Home() as home:
        words = home.command("memory", "list", launcher=soon)
        with Screen(words, home.environ, home.work, 80, 24, None) as screen:
            assert screen.finish() == 0
        assert "Starting the daemon" in screen.text
        assert _settle(screen) == "No memories.\n"

        home.stop()
        answer = home.run_words(words)
        assert (answer.out, answer.err) == (b"No memories.\n", b"")


def test_long_work_shows_progress_on_a_terminal_and_none_in_a_pipe(desk: Desk) -> None:
    """The bar of `verify` may be too quick to be drawn; what it leaves behind is always erased."""
    with desk.home.on_terminal("memory-daemon", "admin", "verify") as screen:
        assert screen.finish() == 0
    assert _settle(screen).startswith("Read ")

    assert desk.home.run("memory-daemon", "admin", "verify").err == b""


def _settle(screen: Screen) -> str:
    """Return what is left to see: each erased line is gone."""
    return re.sub(r"[^\n]*\r\x1b\[K", "", COLOURS.sub("", screen.text))
