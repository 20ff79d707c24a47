"""A team's server and people's laptops as real daemons, each in a home of its own."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests import git_repositories
from tests.command_runner import Home
from tests.http_client import Web
from tests.memory_commands import OK, MemoryCommand

OK_STATUS = 200
# What other machines ask to erase, and conversations that may leave.
AT_ONCE = "[upstream]\nerase_hours = 0\ndelay_minutes = 0\n"
AT = 1_767_225_600_000


def set_erase_hours(home: Home, hours: int) -> None:
    answer = home.run("memory", "config", "set", "upstream.erase_hours", str(hours))
    assert answer.code == OK, answer


class TeamServerHome:
    """A daemon that stands for the server, and its keys. With `people`, it is a team server."""

    def __init__(self, home: Home, *, people: bool = False) -> None:
        self.home = home
        self.keys: dict[str, str] = {}
        self._people = people
        self._numbers = count()
        home.configure(("[team]\nenabled = true\n" if people else "") + AT_ONCE)
        home.serve()
        self.web = Web(home)
        self.url = f"{self.web.record['http_scheme']}://{self.web.place}"

    def wait_before_erasing(self, hours: int) -> None:
        set_erase_hours(self.home, hours)

    def keep_address(self) -> None:
        """Use the present port again after a restart."""
        self.home.settings["http.port"] = str(self.web.record["http_port"])

    def create_key(self, person: str, *options: str, role: str = "writer") -> str:
        of_person = (f"{person}-{next(self._numbers)}", "--person", person, "--role", role)
        words = ("token", "create", *(of_person if self._people else (person,)), *options)
        answer = self.home.run("memory-daemon", *words, "--format", "json")
        assert answer.code == OK, answer
        return str(answer.json()["token"])

    def find_event(self, event_id: str) -> dict[str, Any] | None:
        return next((each for each in self.list_events() if each["event_id"] == event_id), None)

    def list_events(self) -> list[dict[str, Any]]:
        words = ("query", "events", "--from", "0", "--limit", "1000", "--format", "json")
        answer = self.home.run("memory-daemon", *words)
        assert answer.code == OK, answer
        events: list[dict[str, Any]] = answer.json()["events"]
        return events


def get_repository(project: str) -> str:
    """Return the identity of the repository of a project: everyone's clones have one remote."""
    return f"git.example/acme/{project}"


class Laptop:
    """A person's machine. It shares the projects that it is told to."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.memory = MemoryCommand(home, home.work)
        if not home.read_config().strip():  # conversations leave as soon as they may
            home.configure("[upstream]\ndelay_minutes = 0\n")

    def clone(self, project: str, folder: str = "", remote: str = "") -> Path:
        """Make a clone of a project's repository, which this machine knows from now on."""
        created = git_repositories.make_repository(self.home.work / (folder or project))
        created.git("remote", "add", "origin", f"https://{remote or get_repository(project)}.git")
        MemoryCommand(self.home, created.folder).json("list")
        return created.folder

    def wait_before_erasing(self, hours: int) -> None:
        set_erase_hours(self.home, hours)

    def connect(self, server: TeamServerHome, key: str, *projects: str) -> None:
        self.home.serve()
        assert self.memory("remote", "add", server.url).code == OK
        self.log_in(key)
        if projects:
            self.share(*projects)

    def log_in(self, key: str) -> None:
        answer = self.memory("remote", "login", given=f"{key}\n".encode())
        assert answer.code == OK, answer

    def share(self, *projects: str) -> None:
        """Share these projects with their conversations, and no others."""
        wanted = [project if project == "user" else get_repository(project) for project in projects]
        for project in set(projects) - {"user"}:
            if not (self.home.work / project).exists():
                self.clone(project)
        shared: list[str] = self.memory.json("remote", "status")["projects"]
        if new := [each for each in wanted if each not in shared]:
            options = [word for each in new for word in ("--project", each)]
            answer = self.memory("remote", "add", *options, "--conversations", "--yes")
            assert answer.code == OK, answer
        if old := [each for each in shared if each not in wanted]:
            options = [word for each in old for word in ("--project", each)]
            answer = self.memory("remote", "remove", *options)
            assert answer.code == OK, answer

    def sync(self) -> dict[str, Any]:
        found: dict[str, Any] = self.memory.json("remote", "sync")
        return found

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.memory.json("remote", "status")
        return found

    def record(self, event_id: str, text: str, project: str, session: str = "s-1") -> None:
        body = {
            "event_id": event_id,
            "session_id": session,
            "text": text,
            "timestamp_ms": AT,
            "metadata": {
                "project": project,
                "repository": get_repository(project),
                "agent": "claude-code",
            },
        }
        with Web(self.home).over_socket() as client:
            answer = client.post("/api/v1/events/", json=body)
        assert answer.status_code == 201, answer.text

    def state_fact(self, scope: str, key: str, value: str) -> dict[str, Any]:
        body = {"scope": scope, "key": key, "value": value}
        with Web(self.home).over_socket() as client:
            answer = client.post("/api/v1/memories/facts/", json=body)
        assert answer.status_code == 201, answer.text
        stated: dict[str, Any] = answer.json()
        return stated

    def find_fact(self, name: str) -> dict[str, Any] | None:
        with Web(self.home).over_socket() as client:
            answer = client.get(f"/api/v1/memories/facts/{name}/")
        return answer.json() if answer.status_code == OK_STATUS else None

    def has_event(self, event_id: str) -> bool:
        return self.memory("show", f"memory://events/{event_id}").code == OK

    def recall(self, *words: str) -> dict[str, Any]:
        answer = self.memory("recall", *words, "--format", "json")
        assert answer.code == OK, answer
        found: dict[str, Any] = json.loads(answer.out)
        return found


@contextmanager
def open_team(
    laptops: int = 2, *, people: bool = False
) -> Iterator[tuple[TeamServerHome, list[Laptop]]]:
    with ExitStack() as stack:
        server = TeamServerHome(stack.enter_context(Home()), people=people)
        homes = [stack.enter_context(Home()) for _ in range(laptops)]
        for home in homes:
            home.configure(AT_ONCE)
        yield server, list(map(Laptop, homes))
