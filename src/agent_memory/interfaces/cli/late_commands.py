"""Commands that are loaded when they are used.

A command brings along the services that it shows, and loading all of them takes a second. A process
without a daemon runs one command and loads that one; a daemon loads all of them at its start, since
an upgrade may replace their files while it runs.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

import click

from agent_memory.features import import_modules

_PACKAGE = __package__


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is: a module, of this package unless it has dots, and the name in it."""

    module: str
    name: str
    summary: str = ""  # the first sentence of its help, for the list of commands

    def load(self) -> click.Command:
        module = self.module if "." in self.module else f"{_PACKAGE}.{self.module}"
        command: click.Command = getattr(import_module(module), self.name)
        return command

    def get_short_help(self, limit: int = 45) -> str:
        """Return the summary, or its beginning, in at most as many characters."""
        return click.Command(self.name, help=self.summary).get_short_help_str(limit)


class FeatureCommand(NamedTuple):
    """A command that a feature adds to a group: under which heading of its help, and after which
    command; without that, at the end.

    A feature lists its own as `COMMANDS` in its module `interfaces.commands`.
    """

    group: str
    name: str
    place: Place
    section: str = ""
    after: str = ""


def list_of_features(group: str) -> list[FeatureCommand]:
    """Return what the features add to a group, such as `memory-daemon admin`."""
    return [
        command
        for module in import_modules("interfaces.commands")
        for command in module.COMMANDS
        if command.group == group
    ]


def add_of_features(
    group: str, sections: Mapping[str, Mapping[str, Place]]
) -> Mapping[str, Mapping[str, Place]]:
    """Return the sections of a group with the commands of the features."""
    listed = {title: list(places.items()) for title, places in sections.items()}
    for command in list_of_features(group):
        places = listed[command.section]
        names = [name for name, _ in places]
        at = names.index(command.after) + 1 if command.after else len(names)
        places.insert(at, (command.name, command.place))
    return {title: dict(places) for title, places in listed.items()}


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
