"""Hooks in JSON: lists by event, of groups of handlers or of handlers alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonContainer, Piece
from agent_memory.features.hooks.model.installations import is_our_command
from agent_memory.kernel.errors import ConfigError

HOOKS = "hooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLists:
    """The lists of hooks by event.

    If `grouped`, a list has groups, each with a matcher and a list of handlers.
    """

    grouped: bool = True

    def reconcile(self, root: JsonContainer, desired: Mapping[str, Json]) -> None:
        """Make our entries the desired ones, one per event; leave all others."""
        piece = root.get(HOOKS)
        if piece is None:
            if desired:
                root.append({event: [entry] for event, entry in desired.items()}, HOOKS)
            return
        if not isinstance(piece.value, dict):
            raise ConfigError(f"{HOOKS!r} is not an object")
        events = root.open(piece)
        for event in [member.key for member in events.pieces]:
            self._reconcile_event(events, event, desired.get(event))
        for event, entry in desired.items():
            if events.get(event) is None:
                events.append([entry], event)
        if not events.pieces and piece.raw != piece.text:
            root.remove(piece)

    def find_commands(self, root: JsonContainer) -> tuple[str, ...]:
        """Return our commands, one per entry."""
        piece = root.get(HOOKS)
        if piece is None or not isinstance(piece.value, dict):
            return ()
        return tuple(
            command
            for entries in piece.value.values()
            if isinstance(entries, list)
            for entry in entries
            for handler in self._get_handlers(entry)
            if (command := _match_command(handler)) is not None
        )

    def _reconcile_event(self, events: JsonContainer, event: str, desired: Json | None) -> None:
        piece = events.get(event)
        if piece is None:
            return
        if not isinstance(piece.value, list):
            if desired is None:
                return  # another setting among the events
            raise ConfigError(f"'{HOOKS}.{event}' is not a list")
        entries = events.open(piece)
        settled = False
        for entry in list(entries.pieces):
            handlers = self._get_handlers(entry.value)
            own = [_match_command(handler) is not None for handler in handlers]
            if not any(own):
                continue
            if not all(own):
                self._remove_own(entries, entry)
            elif desired is None or settled:
                entries.remove(entry)
            else:
                settled = True
                if entry.value != desired:
                    entries.put(entry, desired)
        if desired is not None and not settled:
            entries.append(desired)
        if not entries.pieces and piece.raw != piece.text:
            events.remove(piece)

    def _get_handlers(self, entry: Json) -> list[Json]:
        if not self.grouped:
            return [entry]
        handlers = entry.get(HOOKS) if isinstance(entry, dict) else None
        return handlers if isinstance(handlers, list) else []

    def _remove_own(self, entries: JsonContainer, entry: Piece) -> None:
        """Remove our handlers from a group that has others too."""
        group = entries.open(entry)
        piece = group.get(HOOKS)
        if piece is None:
            return
        handlers = group.open(piece)
        for handler in list(handlers.pieces):
            if _match_command(handler.value) is not None:
                handlers.remove(handler)


def _match_command(handler: Json) -> str | None:
    if not isinstance(handler, dict):
        return None
    command, args = handler.get("command"), handler.get("args")
    if not isinstance(command, str):
        return None
    words = [word for word in args if isinstance(word, str)] if isinstance(args, list) else None
    if not is_our_command(command, words):
        return None
    return command if words is None else " ".join((command, *words))
