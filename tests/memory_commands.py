"""The `memory` command in a folder, as a user runs it, and what it answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.launching import Answer, Home, Word

OK, GENERAL, USAGE, CONFIG, STORAGE, NETWORK, LLM = range(7)
MISSING, INVALID, BLOCKED = 10, 11, 12


@dataclass(frozen=True, slots=True)
class MemoryCommand:
    """Calling it runs the command."""

    home: Home
    folder: Path

    def __call__(
        self, *words: Word, given: bytes = b"", env: dict[str, str] | None = None
    ) -> Answer:
        return self.home.run("memory", *words, given=given, env=env, cwd=self.folder)

    def json(self, *words: Word, given: bytes = b"") -> Any:
        answer = self(*words, "--format", "json", given=given)
        assert answer.code == OK, answer
        return answer.json()

    def text(self, *words: Word, given: bytes = b"") -> str:
        """What it says on standard output; it may warn."""
        answer = self(*words, given=given)
        assert answer.code == OK, answer
        return answer.text

    def capture(self, namespace: str, summary: str, *words: Word, given: bytes = b"") -> str:
        """The new memory's id."""
        told = self.json("capture", namespace, summary, *words, given=given)
        assert told["created"], told
        found: str = told["memory_id"]
        return found

    def show(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.json("show", name)
        return found

    def recall_ids(self, *words: Word) -> list[str]:
        """The ids of what is found in this folder's project, best first."""
        found = self.json("recall", "--domain", "project", *words)
        return [each["id"] for each in found["results"]]

    def list_ids(self, *words: Word) -> list[str]:
        found = self.json("list", "--domain", "project", *words)
        return [each["id"] for each in found["memories"]]


def assert_refused(answer: Answer, code: int, *words: str) -> None:
    """Ended with this code and an error that says so, and nothing on standard output."""
    assert (answer.code, answer.text) == (code, ""), answer
    assert "error: " in answer.errors
    assert "Traceback" not in answer.errors
    for word in words:
        assert word in answer.errors, answer.errors
