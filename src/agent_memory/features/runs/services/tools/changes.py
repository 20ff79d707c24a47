"""Changes of files. The change that was previewed and approved is made exactly, or not at all."""

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
from agent_memory.features.runs.services.workspaces.folders import GuardedFolder
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed

MAX_SHOWN = 64  # previewed changes that are not made yet

Make = Callable[[FileContent], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """The new content of a file, or the `failure` that the preview shows instead."""

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
            note = f"replaces {len(self.before):,} bytes that are not UTF-8 text\n"
            return note + edits.render_diff(self.path, None, self.after)
        return edits.render_diff(self.path, before, self.after)


@dataclass(slots=True)
class FileChanges:
    """The changes of one run. Each preview builds on the previewed changes before it."""

    folder: GuardedFolder
    _shown: dict[ToolCall, PlannedChange] = field(default_factory=dict)

    def plan(self, call: ToolCall, path: str, make: Make) -> PlannedChange:
        """Plan a change for its preview, and store the plan."""
        self._shown.pop(call, None)
        if len(self._shown) >= MAX_SHOWN:
            plan = PlannedChange(
                failure=f"more than {MAX_SHOWN} changes wait for a decision: propose fewer at once"
            )
        else:
            plan = self._build_plan(path, make)
        self._shown[call] = plan
        return plan

    def apply(self, call: ToolCall, path: str, make: Make, cancel: CancelToken) -> PlannedChange:
        """Make the change as previewed, or plan it now. Raises ToolFailed."""
        plan = self._take_shown(call) or self._build_plan(path, make)
        if plan.failure:
            raise ToolFailed(plan.failure)
        content = self.folder.read(path, most=MAX_FILE_BYTES)
        if not content.whole or content.path != plan.path or content.digest != plan.digest:
            raise ToolFailed(f"{quote_path(plan.path)}: {workspaces.CHANGED}")
        cancel.check()
        self.folder.replace(plan.path, plan.after.encode(), plan.digest)
        return plan

    def _take_shown(self, call: ToolCall) -> PlannedChange | None:
        """Take the stored plan. Calls run in the order of their previews, so earlier plans that
        are still stored were denied: drop them, since nothing may build on them."""
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
                raise ToolFailed(f"the file would exceed {MAX_FILE_BYTES >> 20} MiB")
            return PlannedChange(path=content.path, before=content.data, after=after)
        except ToolFailed as exc:
            return PlannedChange(failure=str(exc))
