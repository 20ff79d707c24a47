"""Typed access to JSON objects of unknown shape: a value of another type counts as missing."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


class Fields:
    """A JSON object with fields of any type."""

    __slots__ = ("_content",)

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content

    def __contains__(self, name: str) -> bool:
        return name in self._content

    def value(self, name: str) -> object:
        return self._content.get(name)

    def text(self, *names: str) -> str:
        """Return the first of these fields that is a non-empty string, else an empty string."""
        for name in names:
            value = self._content.get(name)
            if isinstance(value, str) and value:
                return value
        return ""

    def true(self, name: str) -> bool:
        return self._content.get(name) is True

    def fields(self, name: str) -> "Fields":
        value = self._content.get(name)
        return Fields(value if isinstance(value, dict) else {})

    def blocks(self, name: str) -> list["Fields"]:
        """Return the content blocks of a message; a plain string is one block of type `text`."""
        value = self._content.get(name)
        if isinstance(value, str):
            return [Fields({"type": "text", "text": value})]
        if not isinstance(value, list):
            return []
        return [Fields(block) for block in value if isinstance(block, dict)]

    def strings(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of every field."""
        for name, value in self._content.items():
            yield name, value if isinstance(value, str) else _dump_value(value)

    def dump(self) -> str:
        """Return the object as JSON, or an empty string if it has no fields."""
        return _dump_value(self._content) if self._content else ""


def _dump_value(value: object) -> str:
    """Return the value as JSON, or an empty string if it is nested too deeply to be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""
