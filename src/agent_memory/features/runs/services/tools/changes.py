"""Changes of files, as they were shown: what was approved is what is done, or nothing is."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_memory.features.runs.model import edits, workspaces
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.features.runs.model.workspaces import (
    MAX_FILE_BYTES,
    FileContent,
    is_binary,
    quote_path,
)
from agent_memory.features.runs.ports import Workspace
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed

MAX_SHOWN = 64  # that wait to be made

Make = Callable[[FileContent], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A file as it is to be. `failure`: it cannot be, which is then what was shown."""

    path: str = ""
    before: bytes | None = None
    after: str = ""
    failure: str = ""

    @property
    def digest(self) -> str:
        return FileContent(path=self.path, data=self.before).digest

    def render(self, most: int) -> str:
        if self.failure:
            raise ToolFailed(self.failure)
        return edits.truncate_text(self._difference(), most)

    def _difference(self) -> str:
        if self.before is None:
            return edits.render_diff(self.path, None, self.after)
        try:
            before = None if is_binary(self.before) else self.before.decode()
        except UnicodeDecodeError:
            before = None
        if before is None:
            note = f"replaces {len(self.before):,} bytes that are no UTF-8 text\n"
            return note + edits.render_diff(self.path, None, self.after)
        return edits.render_diff(self.path, before, self.after)


@dataclass(slots=True)
class FileChanges:
    """Of one run. Where a model wants several at once, each is shown on top of those before it."""

    folder: Workspace
    _shown: dict[ToolCall, PlannedChange] = field(default_factory=dict)

    def plan(self, call: ToolCall, path: str, make: Make) -> PlannedChange:
        """What it would do, which is kept."""
        self._shown.pop(call, None)
        if len(self._shown) >= MAX_SHOWN:
            plan = PlannedChange(
                failure=f"more than {MAX_SHOWN} changes are waiting to be decided on"
            )
        else:
            plan = self._build_plan(path, make)
        self._shown[call] = plan
        return plan

    def apply(self, call: ToolCall, path: str, make: Make, halt: CancelToken) -> PlannedChange:
        """Do it as it was shown, if it was. Raises ToolFailed."""
        plan = self._take_shown(call) or self._build_plan(path, make)
        if plan.failure:
            raise ToolFailed(plan.failure)
        found = self.folder.read(path, most=MAX_FILE_BYTES)
        if not found.whole or found.path != plan.path or found.digest != plan.digest:
            raise ToolFailed(f"{quote_path(plan.path)}: {workspaces.CHANGED}")
        halt.check()
        self.folder.replace(plan.path, plan.after.encode(), plan.digest)
        return plan

    def _take_shown(self, call: ToolCall) -> PlannedChange | None:
        """What was shown of it. Calls are made in the order in which they were shown: those before
        it that are still here were denied, and nothing is to be shown on top of them."""
        if call not in self._shown:
            return None
        while next(iter(self._shown)) != call:
            del self._shown[next(iter(self._shown))]
        return self._shown.pop(call)

    def _build_plan(self, path: str, make: Make) -> PlannedChange:
        try:
            content = self.folder.read(path, most=MAX_FILE_BYTES)
            for earlier in self._shown.values():
                if earlier.path == content.path and not earlier.failure:
                    content = replace(content, data=earlier.after.encode(), whole=True)
            workspaces.check_size(content)
            workspaces.check_writable(content.path)
            after = make(content)
            if len(after.encode()) > MAX_FILE_BYTES:
                raise ToolFailed(f"it would have more than {MAX_FILE_BYTES >> 20} MiB")
            return PlannedChange(path=content.path, before=content.data, after=after)
        except ToolFailed as exc:
            return PlannedChange(failure=str(exc))
