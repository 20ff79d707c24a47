"""Recent calls: an agent that has our hooks as a plugin and installed makes each call twice."""

import threading
from collections import OrderedDict

from agent_memory.features.hooks.model.hooks import HookCall

TOGETHER_MS = 2_000  # agents start all hooks of an event at once
MAX_CALLS = 500


class RecentCalls:
    """The last calls by their content, each with its origin and time."""

    def __init__(self) -> None:
        self._calls: OrderedDict[tuple[str, int], tuple[bool, int]] = OrderedDict()
        self._lock = threading.Lock()

    def is_repeat(self, call: HookCall) -> bool:
        """Return whether the other hook has brought this call already. Remember it if not.

        Equal calls of one origin are different events: a tool can give the same result twice.
        """
        key = _build_key(call)
        with self._lock:
            origin, at_ms = self._calls.get(key, (call.plugin, 0))
            if origin is not call.plugin and abs(call.at_ms - at_ms) <= TOGETHER_MS:
                return True
            self._calls[key] = call.plugin, call.at_ms
            self._calls.move_to_end(key)
            if len(self._calls) > MAX_CALLS:
                self._calls.popitem(last=False)
            return False


def _build_key(call: HookCall) -> tuple[str, int]:
    """Return what both calls have in common. Texts can be long or secret: only a hash is kept."""
    about = tuple(sorted(call.about.items()))
    content = (call.kind, call.call_id, call.text, call.title, call.use, call.folder, about)
    return call.session, hash(content)
