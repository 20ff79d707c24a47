"""What stands in a JSON object, by type: whatever has another type is taken as not there."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


class Fields:
    """A JSON object that may hold anything."""

    __slots__ = ("_found",)

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def value(self, name: str) -> object:
        return self._found.get(name)

    def text(self, *names: str) -> str:
        """The first of these that is a text with something in it."""
        for name in names:
            found = self._found.get(name)
            if isinstance(found, str) and found:
                return found
        return ""

    def true(self, name: str) -> bool:
        return self._found.get(name) is True

    def fields(self, name: str) -> "Fields":
        found = self._found.get(name)
        return Fields(found if isinstance(found, dict) else {})

    def blocks(self, name: str) -> list["Fields"]:
        """The parts of a content; a plain text is one of type `text`."""
        found = self._found.get(name)
        if isinstance(found, str):
            return [Fields({"type": "text", "text": found})]
        if not isinstance(found, list):
            return []
        return [Fields(each) for each in found if isinstance(each, dict)]

    def strings(self) -> Iterator[tuple[str, str]]:
        """All entries, as text."""
        for name, value in self._found.items():
            yield name, value if isinstance(value, str) else _dump_value(value)

    def dump(self) -> str:
        """All of it; empty where there is nothing."""
        return _dump_value(self._found) if self._found else ""


def _dump_value(value: object) -> str:
    """Empty where it is so deep that it could just be read: nobody wrote that to be found."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""
