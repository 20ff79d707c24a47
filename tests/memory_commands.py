"""The `memory` command in a folder, and its exit codes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command_runner import Answer, Home, Word

OK, GENERAL, USAGE, CONFIG, STORAGE, NETWORK, LLM = range(7)
MISSING, INVALID, BLOCKED = 10, 11, 12


@dataclass(frozen=True, slots=True)
class MemoryCommand:
    """The `memory` command of a home, in a folder. Call it to run it."""

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
        """Return its standard output. Warnings are allowed."""
        answer = self(*words, given=given)
        assert answer.code == OK, answer
        return answer.text

    def capture(self, namespace: str, summary: str, *words: Word, given: bytes = b"") -> str:
        """Capture a new memory, and return its id."""
        captured = self.json("capture", namespace, summary, *words, given=given)
        assert captured["created"], captured
        return str(captured["memory_id"])

    def show(self, name: str) -> dict[str, Any]:
        memory: dict[str, Any] = self.json("show", name)
        return memory

    def recall_ids(self, *words: Word) -> list[str]:
        """Return the ids that recall finds in this folder's project, best first."""
        recalled = self.json("recall", "--domain", "project", *words)
        return [hit["id"] for hit in recalled["results"]]

    def list_ids(self, *words: Word) -> list[str]:
        listed = self.json("list", "--domain", "project", *words)
        return [memory["id"] for memory in listed["memories"]]


def assert_refused(answer: Answer, code: int, *words: str) -> None:
    """Check the exit code, that the error contains all words, and that there is no output."""
    assert (answer.code, answer.text) == (code, ""), answer
    assert "error: " in answer.errors
    assert "Traceback" not in answer.errors
    for word in words:
        assert word in answer.errors, answer.errors
