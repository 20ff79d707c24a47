"""Installing: our hooks, and our MCP server, into the configuration of agents, and out again."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath

from agent_memory.features.hooks.model.installations import (
    Agent,
    AgentState,
    ConfigChange,
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallResult,
    InstallScope,
    InstallStatus,
    InstallTarget,
    Launcher,
    ScopeState,
)
from agent_memory.features.hooks.ports import AgentSetup, ConfigFiles
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.kernel.errors import ConfigError, InvalidInput

NOTHING = DesiredConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Installing:
    """`launcher` is this installation's."""

    agents: Mapping[Agent, AgentSetup]
    files: ConfigFiles
    launcher: Launcher

    def install(
        self, agent: Agent, scope: InstallScope, caller: Caller, *, mcp: bool, dry_run: bool = False
    ) -> InstallResult:
        """Nothing is written unless every file can be read and changed."""
        seat = self._resolve_target(scope, caller)
        done = self._apply_changes(
            agent, seat, self._build_entries(agent, mcp=mcp), dry_run=dry_run
        )
        return replace(done, notes=(*done.notes, *self._notes(agent, seat)))

    def uninstall(
        self, agent: Agent, scope: InstallScope, caller: Caller, *, dry_run: bool = False
    ) -> InstallResult:
        seat = self._resolve_target(scope, caller)
        done = self._apply_changes(agent, seat, NOTHING, dry_run=dry_run)
        return replace(done, notes=(*done.notes, *self._note_shared_files(agent, seat)))

    def state(self, caller: Caller, *, mcp: bool) -> list[AgentState]:
        """What every agent's configuration says of us; a file that cannot be read is told."""
        return [self._state(agent, caller, mcp=mcp) for agent in self.agents]

    def _state(self, agent: Agent, caller: Caller, *, mcp: bool) -> AgentState:
        user = _build_target(InstallScope.USER, caller, caller.folder)
        seats = [user]
        root = self._root(caller)
        if root != user.home:
            seats.append(_build_target(InstallScope.PROJECT, caller, root))
        setup = self.agents[agent]
        folder = setup.get_folder(user)
        return AgentState(
            agent=agent,
            title=setup.title,
            folder=folder,
            present=self.files.is_folder(folder),
            scopes=tuple(self._scope_state(agent, seat, mcp=mcp) for seat in seats),
        )

    def _scope_state(self, agent: Agent, seat: InstallTarget, *, mcp: bool) -> ScopeState:
        setup = self.agents[agent]
        files = (*setup.list_files(seat), *setup.list_shared_files(seat))
        paths = tuple(file.path for file in files)
        absent = ScopeState(scope=seat.scope, standing=InstallStatus.ABSENT, files=paths)
        try:
            found = [self._ours(setup, file) for file in files]
            commands = tuple(dict.fromkeys(_commands(found)))
            off = next((each.off for each in found if each.off), "")
            if not commands:
                return replace(absent, off=off)
            return replace(
                absent,
                standing=self._standing(agent, seat, found, mcp=mcp),
                commands=commands,
                off=off,
            )
        except ConfigError as exc:
            return replace(absent, problem=str(exc))

    def _standing(
        self, agent: Agent, seat: InstallTarget, found: list[InstalledEntries], *, mcp: bool
    ) -> InstallStatus:
        hook, server = self.launcher.hook(agent), self.launcher.server()
        if any(each != hook for ours in found for each in ours.hooks):
            return InstallStatus.ELSEWHERE
        if any(each != server for ours in found for each in ours.servers):
            return InstallStatus.ELSEWHERE
        pending = self._changes(agent, seat, self._build_entries(agent, mcp=mcp))
        return InstallStatus.OUTDATED if any(pending) else InstallStatus.INSTALLED

    def _apply_changes(
        self, agent: Agent, seat: InstallTarget, wanted: DesiredConfig, *, dry_run: bool
    ) -> InstallResult:
        setup = self.agents[agent]
        changes = tuple(self._changes(agent, seat, wanted))
        if not dry_run:
            for change in changes:
                self.files.apply(change)
        return InstallResult(
            agent=agent,
            title=setup.title,
            scope=seat.scope,
            files=tuple(file.path for file in setup.list_files(seat)),
            changes=changes,
            advice=setup.get_advice(seat),
        )

    def _changes(
        self, agent: Agent, seat: InstallTarget, wanted: DesiredConfig
    ) -> Iterator[ConfigChange]:
        setup = self.agents[agent]
        for file in setup.list_files(seat):
            before = self.files.read(file.path)
            edited = _edit_file(setup, file, before or "", wanted)
            if edited.text != (before or ""):
                bare = edited.bare and wanted == NOTHING
                yield ConfigChange(
                    path=file.path,
                    before=before,
                    after=None if bare else edited.text,
                    emptied=edited.text,
                )

    def _notes(self, agent: Agent, seat: InstallTarget) -> Iterator[str]:
        setup = self.agents[agent]
        if seat.scope is InstallScope.PROJECT:
            yield (
                "What was written names programs of this machine: keep it out of commits, for"
                " example by .git/info/exclude."
            )
        for each in self._scopes(agent, seat):
            if each.off:
                yield f"{each.off} in {setup.title}'s {each.scope} settings switches all hooks off."
            if each.scope is not seat.scope and each.commands:
                yield (
                    f"Hooks are installed at {each.scope} level too, and {setup.title} may run"
                    f" both: `memory uninstall {agent} --{each.scope}` removes those."
                )
        yield from self._note_shared_files(agent, seat)

    def _scopes(self, agent: Agent, seat: InstallTarget) -> tuple[ScopeState, ...]:
        caller = Caller(folder=seat.folder, environ=seat.environ)
        return self._state(agent, caller, mcp=False).scopes

    def _note_shared_files(self, agent: Agent, seat: InstallTarget) -> Iterator[str]:
        """A file that others use too is left to them, but told."""
        setup = self.agents[agent]
        for file in setup.list_shared_files(seat):
            with suppress(ConfigError):  # it is none that we change
                if self._ours(setup, file).hooks:
                    yield f"{file.path} has hooks of ours too, for all who use it; they were left."

    def _ours(self, setup: AgentSetup, file: ConfigFile) -> InstalledEntries:
        try:
            return setup.find_entries(file, self.files.read(file.path) or "")
        except ConfigError as exc:
            raise ConfigError(_format_error(file, exc)) from exc

    def _build_entries(self, agent: Agent, *, mcp: bool) -> DesiredConfig:
        server = self.launcher.server() if mcp else None
        return DesiredConfig(hook=self.launcher.hook(agent), server=server)

    def _resolve_target(self, scope: InstallScope, caller: Caller) -> InstallTarget:
        seat = _build_target(scope, caller, self._root(caller))
        if scope is InstallScope.PROJECT and seat.root == seat.home:
            raise InvalidInput(
                f"{seat.root} is your home, not a project: go to a project's folder, or use --user"
            )
        return seat

    def _root(self, caller: Caller) -> str:
        """A repository that is the whole home holds many projects, and is none."""
        root = self.files.find_root(caller.folder)
        return caller.folder if root == _home(caller) else root


def _build_target(scope: InstallScope, caller: Caller, root: str) -> InstallTarget:
    return InstallTarget(
        scope=scope,
        home=_home(caller),
        root=root,
        folder=caller.folder,
        environ=caller.environ,
    )


def _home(caller: Caller) -> str:
    home = caller.environ.get("HOME", "")
    if not PurePath(home).is_absolute():
        raise InvalidInput("HOME is not set: it is where agents have their configuration")
    return str(PurePath(home))


def _edit_file(
    setup: AgentSetup, file: ConfigFile, text: str, wanted: DesiredConfig
) -> EditedConfig:
    try:
        return setup.edit_file(file, text, wanted)
    except ConfigError as exc:
        raise ConfigError(f"{_format_error(file, exc)}; nothing was changed") from exc


def _format_error(file: ConfigFile, exc: ConfigError) -> str:
    said = str(exc)
    return said if file.path in said else f"{file.path}: {said}"


def _commands(found: list[InstalledEntries]) -> Iterator[str]:
    for ours in found:
        yield from ours.hooks
        yield from (" ".join((each.command, *each.args)) for each in ours.servers)
