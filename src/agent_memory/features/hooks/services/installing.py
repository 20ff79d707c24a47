"""Installing: add our hooks and MCP server to the configuration of agents, or remove them."""

from collections.abc import Iterable, Iterator, Mapping
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
    Removal,
    ScopeState,
)
from agent_memory.features.hooks.ports import AgentSetup
from agent_memory.features.hooks.services.config_files import DiskFiles
from agent_memory.features.hooks.services.install_ledger import LedgerFile
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ConfigError, InvalidInput
from agent_memory.launcher import environment

NOTHING = DesiredConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Installing:
    """Edits the config files of agents. `launcher` is that of this installation."""

    agents: Mapping[Agent, AgentSetup]
    files: DiskFiles
    ledger: LedgerFile
    launcher: Launcher

    def install(
        self, agent: Agent, scope: InstallScope, caller: Caller, *, mcp: bool, dry_run: bool = False
    ) -> InstallResult:
        """Install into an agent. Nothing is written unless every file can be edited."""
        target = self._resolve_target(scope, caller)
        setup = self.agents[agent]
        files = setup.list_files(target)
        if not mcp and any(file.servers for file in files) and not any(f.hooks for f in files):
            raise InvalidInput(
                f"{setup.title} has no hooks of ours: without the MCP server there is nothing to"
                f" install; to remove it, run `memory uninstall {agent} --scope {scope}`"
            )
        desired = self._build_entries(agent, target, mcp=mcp)
        result = self._apply_changes(agent, target, desired, dry_run=dry_run)
        if not dry_run and result.changes:
            projects = (target.root,) if target.scope is InstallScope.PROJECT else ()
            self.note(result.folders, projects)
        return replace(result, notes=tuple(self._build_notes(agent, target)))

    def uninstall(
        self, agent: Agent, scope: InstallScope, caller: Caller, *, dry_run: bool = False
    ) -> InstallResult:
        """Remove all our entries from an agent, and folders that we made for them if they are empty
        now."""
        target = self._resolve_target(scope, caller)
        result = self._apply_changes(agent, target, NOTHING, dry_run=dry_run)
        notes = (*self._note_plugin(agent, caller), *self._note_shared_files(agent, target))
        folders = () if dry_run else self.remove_folders()
        return replace(result, notes=notes, folders=folders)

    def uninstall_all(self, caller: Caller, *, dry_run: bool = False) -> Removal:
        """Remove all our entries: the user's, those of the caller's project, and those of every
        project that we installed into. A file that cannot be changed does not keep the others."""
        places = [(InstallScope.USER, caller)]
        roots = {self._find_root(caller), *self.ledger.read().projects}
        places += [
            (InstallScope.PROJECT, replace(caller, folder=root))
            for root in sorted(roots - {_get_home(caller)})
            if self.files.is_folder(root)
        ]
        results, problems = [], []
        for scope, place in places:
            for agent in self.agents:
                try:
                    results.append(self.uninstall(agent, scope, place, dry_run=dry_run))
                except (ConfigError, InvalidInput) as exc:
                    problems.append(str(exc))
        return Removal(
            results=tuple(result for result in results if result.changes or result.notes),
            problems=tuple(dict.fromkeys(problems)),
        )

    def note(self, folders: Iterable[str], projects: Iterable[str] = ()) -> None:
        """Enter folders that were made, and projects with entries of ours, into the ledger."""
        before = self.ledger.read()
        after = replace(
            before,
            folders=before.folders.union(folders),
            projects=before.projects.union(projects),
        )
        if after != before:
            self.ledger.write(after)

    def remove_folders(self) -> tuple[str, ...]:
        """Remove the folders that we made and that are empty now."""
        before = self.ledger.read()
        innermost_first = sorted(before.folders, key=len, reverse=True)
        gone = tuple(folder for folder in innermost_first if self.files.remove_folder(folder))
        if gone:
            self.ledger.write(replace(before, folders=before.folders.difference(gone)))
        return gone

    def state(self, caller: Caller, *, mcp: bool) -> list[AgentState]:
        """Return the state of our entries in every agent. Unreadable files are reported."""
        return [self._get_state(agent, caller, mcp=mcp) for agent in self.agents]

    def _get_state(self, agent: Agent, caller: Caller, *, mcp: bool) -> AgentState:
        user = _build_target(InstallScope.USER, caller, caller.folder)
        targets = [user]
        root = self._find_root(caller)
        if root != user.home:
            targets.append(_build_target(InstallScope.PROJECT, caller, root))
        setup = self.agents[agent]
        folder = setup.get_folder(user)
        return AgentState(
            agent=agent,
            title=setup.title,
            folder=folder,
            present=self.files.is_folder(folder),
            scopes=tuple(self._get_scope_state(agent, target, mcp=mcp) for target in targets),
        )

    def _get_scope_state(self, agent: Agent, target: InstallTarget, *, mcp: bool) -> ScopeState:
        setup = self.agents[agent]
        files = (
            *self._list_files(setup, target),
            *self._list_unused(setup, target),
            *setup.list_shared_files(target),
        )
        paths = tuple(file.path for file in files)
        absent = ScopeState(scope=target.scope, standing=InstallStatus.ABSENT, files=paths)
        try:
            entries = [self._find_entries(setup, file) for file in files]
            commands = tuple(dict.fromkeys(_list_commands(entries)))
            state = replace(
                absent,
                off=next((entry.off for entry in entries if entry.off), ""),
                plugin=next((entry.plugin for entry in entries if entry.plugin), None),
            )
            if not commands and not any(entry.rules for entry in entries):
                return state
            standing = self._find_status(agent, target, entries, mcp=mcp)
            distrust = setup.find_distrust(target, self.files.read)
            return replace(state, standing=standing, commands=commands, distrust=distrust)
        except ConfigError as exc:
            return replace(absent, problem=str(exc))

    def _find_status(
        self, agent: Agent, target: InstallTarget, entries: list[InstalledEntries], *, mcp: bool
    ) -> InstallStatus:
        launcher = self._find_launcher(target)
        hook, server = launcher.hook(agent), launcher.server()
        if any(command != hook for entry in entries for command in entry.hooks):
            return InstallStatus.ELSEWHERE
        if any(other != server for entry in entries for other in entry.servers):
            return InstallStatus.ELSEWHERE
        desired = self._build_entries(agent, target, mcp=mcp)
        pending = self._plan_changes(agent, target, desired)
        return InstallStatus.OUTDATED if any(pending) else InstallStatus.INSTALLED

    def _apply_changes(
        self, agent: Agent, target: InstallTarget, desired: DesiredConfig, *, dry_run: bool
    ) -> InstallResult:
        setup = self.agents[agent]
        changes = tuple(self._plan_changes(agent, target, desired))
        folders: list[str] = []
        if not dry_run:
            for change in changes:
                folders += self.files.apply(change)
        return InstallResult(
            agent=agent,
            title=setup.title,
            scope=target.scope,
            files=tuple(file.path for file in self._list_files(setup, target)),
            changes=changes,
            advice=setup.get_advice(target),
            folders=tuple(folders),
        )

    def _plan_changes(
        self, agent: Agent, target: InstallTarget, desired: DesiredConfig
    ) -> Iterator[ConfigChange]:
        setup = self.agents[agent]
        planned = [
            *((file, desired) for file in self._list_files(setup, target)),
            *((file, NOTHING) for file in self._list_unused(setup, target)),
        ]
        for file, wanted in planned:
            before = self.files.read(file.path)
            edited = _edit_file(setup, file, before or "", wanted)
            if edited.text != (before or ""):
                yield ConfigChange(
                    path=file.path,
                    before=before,
                    after=None if edited.bare else edited.text,
                    emptied=edited.text,
                    executable=edited.executable,
                )

    def _list_files(self, setup: AgentSetup, target: InstallTarget) -> list[ConfigFile]:
        """Return the files to edit: of several that the agent reads, the first that exists."""
        return [
            replace(file, path=next(self._find_existing(file), file.path))
            for file in setup.list_files(target)
            if not file.optional or self.files.is_folder(str(PurePath(file.path).parent))
        ]

    def _list_unused(self, setup: AgentSetup, target: InstallTarget) -> list[ConfigFile]:
        """Return files that the agent ignores now, and that may have entries of ours."""
        return [
            replace(file, path=path)
            for file in setup.list_files(target)
            for path in list(self._find_existing(file))[1:]
        ]

    def _find_existing(self, file: ConfigFile) -> Iterator[str]:
        return filter(self.files.is_file, (file.path, *file.alternatives))

    def _build_notes(self, agent: Agent, target: InstallTarget) -> Iterator[str]:
        setup = self.agents[agent]
        if target.scope is InstallScope.PROJECT:
            yield (
                "The new entries have paths of this machine: keep these files out of commits, for"
                " example with .git/info/exclude."
            )
        caller = Caller(folder=target.folder, environ=target.environ)
        for state in self._get_state(agent, caller, mcp=False).scopes:
            if state.off:
                yield f"{state.off} in the {state.scope} settings of {setup.title} turns hooks off."
            if state.scope is not target.scope and state.commands:
                yield (
                    f"Hooks are installed at {state.scope} level too, and {setup.title} may run"
                    f" both: remove those with `memory uninstall {agent} --scope {state.scope}`."
                )
            if state.plugin is not None:
                yield (
                    f"The plugin {state.plugin.name} has the same hooks. Nothing is recorded twice,"
                    f" but one of the two is enough: `{state.plugin.removal}` removes the plugin."
                )
        yield from self._note_shared_files(agent, target)

    def _note_plugin(self, agent: Agent, caller: Caller) -> Iterator[str]:
        for state in self._get_state(agent, caller, mcp=False).scopes:
            if state.plugin is not None:
                yield (
                    f"The plugin {state.plugin.name} stays and has the same hooks:"
                    f" `{state.plugin.removal}` removes it."
                )

    def _note_shared_files(self, agent: Agent, target: InstallTarget) -> Iterator[str]:
        """Report our entries in shared files, which we do not change."""
        setup = self.agents[agent]
        for file in setup.list_shared_files(target):
            with suppress(ConfigError):  # we do not change it, so its errors do not matter
                if self._find_entries(setup, file).hooks:
                    yield (
                        f"{file.path} has hooks of Agent Memory too. It is shared with others and"
                        " was not changed."
                    )

    def _find_entries(self, setup: AgentSetup, file: ConfigFile) -> InstalledEntries:
        try:
            return setup.find_entries(file, self.files.read(file.path) or "")
        except ConfigError as exc:
            raise ConfigError(_format_error(file, exc)) from exc

    def _build_entries(self, agent: Agent, target: InstallTarget, *, mcp: bool) -> DesiredConfig:
        launcher = self._find_launcher(target)
        server = launcher.server() if mcp else None
        return DesiredConfig(hook=launcher.hook(agent), server=server)

    def _find_launcher(self, target: InstallTarget) -> Launcher:
        """Return the launcher for the home of the target."""
        return replace(self.launcher, options=tuple(environment.home_option(target.home)))

    def _resolve_target(self, scope: InstallScope, caller: Caller) -> InstallTarget:
        target = _build_target(scope, caller, self._find_root(caller))
        if scope is InstallScope.PROJECT and target.root == target.home:
            raise InvalidInput(
                f"{target.root} is your home, not a project: change to a project, or use"
                " --scope user"
            )
        return target

    def _find_root(self, caller: Caller) -> str:
        """Return the project's folder. A repository of the whole home folder is not a project."""
        root = self.files.find_root(caller.folder)
        return caller.folder if root == _get_home(caller) else root


def _build_target(scope: InstallScope, caller: Caller, root: str) -> InstallTarget:
    return InstallTarget(
        scope=scope,
        home=_get_home(caller),
        root=root,
        folder=caller.folder,
        environ=caller.environ,
    )


def _get_home(caller: Caller) -> str:
    home = caller.environ.get("HOME", "")
    if not PurePath(home).is_absolute():
        raise InvalidInput("HOME is not set to an absolute path: agents have their settings there")
    return str(PurePath(home))


def _edit_file(
    setup: AgentSetup, file: ConfigFile, text: str, desired: DesiredConfig
) -> EditedConfig:
    try:
        return setup.edit_file(file, text, desired)
    except ConfigError as exc:
        raise ConfigError(f"{_format_error(file, exc)}; nothing was changed") from exc


def _format_error(file: ConfigFile, exc: ConfigError) -> str:
    message = str(exc)
    return message if file.path in message else f"{file.path}: {message}"


def _list_commands(entries: list[InstalledEntries]) -> Iterator[str]:
    for entry in entries:
        yield from entry.hooks
        yield from (" ".join((server.command, *server.args)) for server in entry.servers)
