"""Commands that are loaded when they are used.

A command brings along the services that it shows, and loading all of them takes a second. A process
without a daemon runs one command and loads that one; a daemon loads all of them at its start, since
an upgrade may replace their files while it runs.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module

import click

_PACKAGE = __package__


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is: a module of this package, and the name in it."""

    module: str
    name: str
    summary: str = ""  # the first sentence of its help, for the list of commands

    def load(self) -> click.Command:
        command: click.Command = getattr(import_module(f"{_PACKAGE}.{self.module}"), self.name)
        return command

    def get_short_help(self, limit: int = 45) -> str:
        """Return the summary, or its beginning, in at most as many characters."""
        return click.Command(self.name, help=self.summary).get_short_help_str(limit)


class LateCommands(MutableMapping[str, click.Command]):
    """The commands of a group, or the programs, by name. Looking one up loads it; asking for the
    names, or whether there is one, loads nothing."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self.places = dict(places)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = self.places[name].load()
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.places or name in self._loaded

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        self.places.pop(name, None)
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter({**self.places, **self._loaded})

    def __len__(self) -> int:
        return len({**self.places, **self._loaded})
