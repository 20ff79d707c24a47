"""An HTTP client of a daemon that a test has started."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.command_runner import Home

STATUS = "/api/v1/status/"
SECONDS = 30.0


def print_page_url(home: Home, *, on_terminal: bool = False) -> str:
    """Return the URL of `memory ui`, with its code. In a pipe, its session may accept nothing."""
    if not on_terminal:
        return str(home.run("memory", "ui", "--print", "--format", "json").json()["url"])
    with home.on_terminal("memory", "ui", "--print", columns=200) as screen:
        assert screen.finish() == 0
        found = re.search(r"https?://\S+#code=[\w-]+", screen.text)
        assert found, screen.text
        return found.group()


class Web:
    """A daemon's HTTP address and keys."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.record: dict[str, Any] = json.loads((home.data / "daemon.json").read_text())
        key = home.data / "key"
        self.key = key.read_text().strip() if key.exists() else ""  # a team server has none
        self.place = f"127.0.0.1:{self.record['http_port']}"

    def client(self, *, key: str | None = None, **options: Any) -> httpx.Client:
        """Return a client with the daemon's first key, with another one, or with none ("")."""
        token = self.key if key is None else key
        return httpx.Client(
            base_url=f"{self.record['http_scheme']}://{self.place}",
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=SECONDS,
            trust_env=False,
            **options,
        )

    @contextmanager
    def open_page(self, *, on_terminal: bool = False) -> Iterator[httpx.Client]:
        """Provide a client with a session of the page, and without a key."""
        code = print_page_url(self.home, on_terminal=on_terminal).partition("#code=")[2]
        with self.client(key="") as client:
            answer = client.post("/ui/session", json={"code": code})
            assert answer.status_code == 200, answer.text
            client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
            yield client

    def over_socket(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=self.record["http_socket"])
        return httpx.Client(transport=transport, base_url="http://memory", timeout=SECONDS)

    def ask(self, method: str = "GET", path: str = STATUS, **options: Any) -> httpx.Response:
        with self.client(key=options.pop("key", None)) as client:
            return client.request(method, path, **options)

    def audit(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.home.log().splitlines()]
        return [line for line in lines if line["event"] == "audit"]
