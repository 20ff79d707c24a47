"""Changes of files, as they were shown: what was approved is what is done, or nothing is."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_memory.features.runs.model import edits, workspaces
from agent_memory.features.runs.model.chats import Call
from agent_memory.features.runs.model.workspaces import MAX_FILE_BYTES, Content, is_binary, shown
from agent_memory.features.runs.ports import Workspace
from agent_memory.kernel.cancellation import Halt
from agent_memory.kernel.errors import ToolFailed

MAX_SHOWN = 64  # that wait to be made

Make = Callable[[Content], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A file as it is to be. `failure`: it cannot be, which is then what was shown."""

    path: str = ""
    before: bytes | None = None
    after: str = ""
    failure: str = ""

    @property
    def digest(self) -> str:
        return Content(path=self.path, data=self.before).digest

    def shown(self, most: int) -> str:
        if self.failure:
            raise ToolFailed(self.failure)
        return edits.bounded(self._difference(), most)

    def _difference(self) -> str:
        if self.before is None:
            return edits.difference(self.path, None, self.after)
        try:
            before = None if is_binary(self.before) else self.before.decode()
        except UnicodeDecodeError:
            before = None
        if before is None:
            note = f"replaces {len(self.before):,} bytes that are no UTF-8 text\n"
            return note + edits.difference(self.path, None, self.after)
        return edits.difference(self.path, before, self.after)


@dataclass(slots=True)
class Changes:
    """Of one run. Where a model wants several at once, each is shown on top of those before it."""

    folder: Workspace
    _shown: dict[Call, Plan] = field(default_factory=dict)

    def planned(self, call: Call, path: str, make: Make) -> Plan:
        """What it would do, which is kept."""
        self._shown.pop(call, None)
        if len(self._shown) >= MAX_SHOWN:
            plan = Plan(failure=f"more than {MAX_SHOWN} changes are waiting to be decided on")
        else:
            plan = self._plan(path, make)
        self._shown[call] = plan
        return plan

    def made(self, call: Call, path: str, make: Make, halt: Halt) -> Plan:
        """Do it as it was shown, if it was. Raises ToolFailed."""
        plan = self._taken(call) or self._plan(path, make)
        if plan.failure:
            raise ToolFailed(plan.failure)
        found = self.folder.content(path, most=MAX_FILE_BYTES)
        if not found.whole or found.path != plan.path or found.digest != plan.digest:
            raise ToolFailed(f"{shown(plan.path)}: {workspaces.CHANGED}")
        halt.check()
        self.folder.replace(plan.path, plan.after.encode(), plan.digest)
        return plan

    def _taken(self, call: Call) -> Plan | None:
        """What was shown of it. Calls are made in the order in which they were shown: those before
        it that are still here were denied, and nothing is to be shown on top of them."""
        if call not in self._shown:
            return None
        while next(iter(self._shown)) != call:
            del self._shown[next(iter(self._shown))]
        return self._shown.pop(call)

    def _plan(self, path: str, make: Make) -> Plan:
        try:
            content = self.folder.content(path, most=MAX_FILE_BYTES)
            for earlier in self._shown.values():
                if earlier.path == content.path and not earlier.failure:
                    content = replace(content, data=earlier.after.encode(), whole=True)
            workspaces.check_size(content)
            workspaces.check_writable(content.path)
            after = make(content)
            if len(after.encode()) > MAX_FILE_BYTES:
                raise ToolFailed(f"it would have more than {MAX_FILE_BYTES >> 20} MiB")
            return Plan(path=content.path, before=content.data, after=after)
        except ToolFailed as exc:
            return Plan(failure=str(exc))
