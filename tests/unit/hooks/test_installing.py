"""Installing: which files are changed, and what the result reports."""

import json
import os
import shlex
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory.features.hooks.adapters.agents import codex
from agent_memory.features.hooks.feature import INSTALLERS
from agent_memory.features.hooks.model.installations import (
    Agent,
    InstallRecord,
    InstallResult,
    InstallScope,
    InstallStatus,
    Launcher,
    ScopeState,
)
from agent_memory.features.hooks.services.config_files import DiskFiles
from agent_memory.features.hooks.services.install_ledger import LedgerFile
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ConfigError, InvalidInput

HERE = Launcher(python="/here/bin/python", script="/here/agent_memory/launch.py")
THERE = Launcher(python="/there/bin/python", script="/there/agent_memory/launch.py")
agents = pytest.mark.parametrize("agent", list(Agent))
scopes = pytest.mark.parametrize("scope", list(InstallScope))
WITHOUT_HOOKS = (Agent.VSCODE, Agent.ROO, Agent.ZED, Agent.AIDER)


def service(launcher: Launcher = HERE, data: Path | None = None) -> Installing:
    return Installing(
        agents={each.agent: each for each in INSTALLERS},
        files=DiskFiles(),
        ledger=LedgerFile(data or Path(os.devnull)),
        launcher=launcher,
    )


class User:
    """A user with a home, in a folder of a repository."""

    def __init__(self, base: Path, **environ: str) -> None:
        self.home, self.root = base / "home", base / "app"
        self.folder = self.root / "src"
        self.home.mkdir()
        self.folder.mkdir(parents=True)
        (self.root / ".git").mkdir()
        self.base = base
        self.data = base.with_name(f"{base.name}-data")
        self.environ = {"HOME": str(self.home), **environ}

    @property
    def caller(self) -> Caller:
        return Caller(folder=str(self.folder), environ=self.environ)

    def install(
        self,
        agent: Agent = Agent.CLAUDE_CODE,
        scope: InstallScope = InstallScope.USER,
        *,
        launcher: Launcher = HERE,
        mcp: bool = False,
        dry_run: bool = False,
    ) -> InstallResult:
        return service(launcher, self.data).install(
            agent, scope, self.caller, mcp=mcp, dry_run=dry_run
        )

    def uninstall(
        self,
        agent: Agent = Agent.CLAUDE_CODE,
        scope: InstallScope = InstallScope.USER,
        *,
        dry_run: bool = False,
    ) -> InstallResult:
        return service(data=self.data).uninstall(agent, scope, self.caller, dry_run=dry_run)

    def standings(
        self, agent: Agent = Agent.CLAUDE_CODE, *, mcp: bool = False
    ) -> list[InstallStatus]:
        return [each.standing for each in self.scopes(agent, mcp=mcp)]

    def scopes(self, agent: Agent = Agent.CLAUDE_CODE, *, mcp: bool = False) -> list[ScopeState]:
        states = service().state(self.caller, mcp=mcp)
        return list(next(each for each in states if each.agent is agent).scopes)

    def files(self) -> dict[str, str]:
        """Return all files by path."""
        return {
            str(path.relative_to(self.base)): path.read_text()
            for path in sorted(self.base.rglob("*"))
            if path.is_file()
        }

    def written(self) -> dict[Path, tuple[int, int]]:
        """Return the inode and the change time of each file; reading changes neither."""
        found = {path: path.stat() for path in self.base.rglob("*")}
        return {path: (each.st_ino, each.st_mtime_ns) for path, each in found.items()}

    def folders(self) -> set[Path]:
        return {path for path in self.base.rglob("*") if path.is_dir()}


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


@agents
@scopes
class TestInstalling:
    def test_it_writes_the_named_files_and_no_other(
        self, user: User, agent: Agent, scope: InstallScope
    ) -> None:
        done = user.install(agent, scope, mcp=True)
        place = {InstallScope.USER: user.home, InstallScope.PROJECT: user.root}[scope]
        assert sorted(user.files()) == sorted(
            str(Path(change.path).relative_to(user.base)) for change in done.changes
        )
        for change in done.changes:
            assert Path(change.path).is_relative_to(place)
            assert change.before is None
            mode = stat.S_IMODE(Path(change.path).stat().st_mode)
            assert mode == (0o700 if change.executable else 0o600)
        written = "".join(user.files().values())
        hook = replace(HERE, options=("--home", str(user.home))).hook(agent)
        hook = hook if agent is Agent.CLINE else json.dumps(hook)
        assert (hook in written) == (agent not in WITHOUT_HOOKS)
        users = (Agent.CLINE, Agent.WINDSURF)  # they have servers of the user alone
        without = agent is Agent.AIDER or (scope is InstallScope.PROJECT and agent in users)
        assert ('"serve"' in written) != without

    def test_the_second_time_nothing_is_written(
        self, user: User, agent: Agent, scope: InstallScope
    ) -> None:
        user.install(agent, scope, mcp=True)
        before = user.written()
        assert user.install(agent, scope, mcp=True).changes == ()
        assert user.written() == before

    def test_a_rehearsal_writes_nothing(
        self, user: User, agent: Agent, scope: InstallScope
    ) -> None:
        rehearsed = user.install(agent, scope, mcp=True, dry_run=True)
        assert user.files() == {}
        assert user.install(agent, scope, mcp=True).changes == rehearsed.changes

    def test_out_again_nothing_is_left(self, user: User, agent: Agent, scope: InstallScope) -> None:
        user.install(agent, scope, mcp=True)
        installed = user.files()
        rehearsed = user.uninstall(agent, scope, dry_run=True)
        assert user.files() == installed
        done = user.uninstall(agent, scope)
        assert done.changes == rehearsed.changes
        assert user.files() == {}
        assert user.uninstall(agent, scope).changes == ()

    def test_its_state_is_told(self, user: User, agent: Agent, scope: InstallScope) -> None:
        def standing(*, mcp: bool = False) -> InstallStatus:
            return next(
                each.standing for each in user.scopes(agent, mcp=mcp) if each.scope is scope
            )

        assert standing() is InstallStatus.ABSENT
        if agent not in WITHOUT_HOOKS:
            user.install(agent, scope)
            assert standing() is InstallStatus.INSTALLED
            assert standing(mcp=True) is InstallStatus.OUTDATED
            user.install(agent, scope, launcher=THERE)
            assert standing() is InstallStatus.ELSEWHERE
        elif agent is not Agent.AIDER:  # its entries have no paths of an installation
            user.install(agent, scope, mcp=True, launcher=THERE)
            assert standing(mcp=True) is InstallStatus.ELSEWHERE
        user.install(agent, scope, mcp=True)
        assert standing(mcp=True) is InstallStatus.INSTALLED
        user.uninstall(agent, scope)
        assert standing() is InstallStatus.ABSENT


class TestFiles:
    def test_without_mcp_no_file_of_servers_is_made(self, user: User) -> None:
        user.install()
        assert list(user.files()) == ["home/.claude/settings.json"]

    def test_nothing_is_written_if_one_file_cannot_be(self, user: User) -> None:
        broken = user.home / ".claude.json"
        broken.write_text("{broken")
        with pytest.raises(ConfigError, match=r"claude\.json: it is not valid JSON.*nothing was"):
            user.install(mcp=True)
        assert user.files() == {"home/.claude.json": "{broken"}

    def test_of_several_files_the_one_that_the_agent_reads_is_changed(self, user: User) -> None:
        rules = user.root / "AGENTS.md"
        rules.write_text("Use tabs.\n")
        user.install(Agent.ZED, InstallScope.PROJECT, mcp=True)
        assert sorted(user.files()) == ["app/.zed/settings.json", "app/AGENTS.md"]
        assert "memory_recall" in rules.read_text()
        # Zed does not read AGENTS.md any more.
        (user.root / ".rules").write_text("Use spaces.\n")
        assert user.scopes(Agent.ZED, mcp=True)[1].standing is InstallStatus.OUTDATED
        user.install(Agent.ZED, InstallScope.PROJECT, mcp=True)
        assert rules.read_text() == "Use tabs.\n"
        assert "memory_recall" in (user.root / ".rules").read_text()
        user.uninstall(Agent.ZED, InstallScope.PROJECT)
        assert user.files() == {"app/.rules": "Use spaces.\n", "app/AGENTS.md": "Use tabs.\n"}

    @pytest.mark.parametrize("agent", [Agent.VSCODE, Agent.ROO, Agent.ZED], ids=str)
    def test_without_hooks_there_is_nothing_without_mcp(self, user: User, agent: Agent) -> None:
        with pytest.raises(InvalidInput, match=f"memory uninstall {agent} --scope user"):
            user.install(agent)

    def test_a_file_of_servers_that_we_made_goes_with_the_server(self, user: User) -> None:
        user.install(Agent.CURSOR, mcp=True)
        user.install(Agent.CURSOR)
        assert list(user.files()) == ["home/.cursor/hooks.json"]

    def test_an_extension_that_is_not_there_gets_no_file(self, user: User) -> None:
        user.install(Agent.CLINE, mcp=True)
        assert not [path for path in user.files() if "globalStorage" in path]
        storage = user.home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings"
        storage.mkdir(parents=True)
        user.install(Agent.CLINE, mcp=True)
        assert '"serve"' in (storage / "cline_mcp_settings.json").read_text()

    def test_a_link_of_a_dotfile_manager_stays_one(self, user: User) -> None:
        real = user.base / "dotfiles.json"
        real.write_text("{}\n")
        link = user.home / ".claude" / "settings.json"
        link.parent.mkdir()
        link.symlink_to(real)
        user.install()
        assert "hooks" in real.read_text()
        user.uninstall()
        assert real.read_text() == "{}\n"
        assert link.is_symlink()

    def test_a_subfolder_installs_at_the_repositorys_root(self, user: User) -> None:
        user.install(Agent.CURSOR, InstallScope.PROJECT)
        assert list(user.files()) == ["app/.cursor/hooks.json"]

    def test_without_a_repository_the_folder_is_the_project(self, user: User) -> None:
        (user.root / ".git").rmdir()
        user.install(Agent.CURSOR, InstallScope.PROJECT)
        assert list(user.files()) == ["app/src/.cursor/hooks.json"]

    def test_a_home_is_no_project(self, user: User) -> None:
        user.folder = user.home
        with pytest.raises(InvalidInput, match="--scope user"):
            user.install(Agent.GEMINI, InstallScope.PROJECT)
        assert [each.scope for each in user.scopes()] == [InstallScope.USER]

    def test_a_home_under_version_control_is_no_project_either(self, user: User) -> None:
        (user.home / ".git").mkdir()
        user.folder = user.home / "tool"
        user.folder.mkdir()
        user.install(Agent.GEMINI, InstallScope.PROJECT)
        assert list(user.files()) == ["home/tool/.gemini/settings.json"]

    @pytest.mark.parametrize("home", ["", "relative"])
    def test_without_a_home_it_is_refused(self, user: User, home: str) -> None:
        user.environ["HOME"] = home
        with pytest.raises(InvalidInput, match="HOME"):
            user.install()

    def test_a_folder_that_cannot_be_made_is_told(self, user: User) -> None:
        (user.home / ".claude").write_text("")
        with pytest.raises(ConfigError, match=r"cannot write .*settings\.json: File exists"):
            user.install()

    def test_moved_configuration_is_found(self, tmp_path: Path) -> None:
        user = User(tmp_path, CODEX_HOME=str(tmp_path / "codex home"))
        user.install(Agent.CODEX)
        assert list(user.files()) == ["codex home/hooks.json"]


class TestNotes:
    def test_a_project_is_told_not_to_commit(self, user: User) -> None:
        (note,) = user.install(scope=InstallScope.PROJECT).notes
        assert "out of commits" in note
        assert user.install().notes != (note,)

    def test_two_levels_are_told(self, user: User) -> None:
        user.install(scope=InstallScope.PROJECT)
        (note,) = user.install().notes
        assert "memory uninstall claude-code --scope project" in note

    def test_hooks_that_are_switched_off_are_told(self, user: User) -> None:
        settings = user.home / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text('{"disableAllHooks": true}')
        (note,) = user.install().notes
        assert "disableAllHooks" in note
        assert user.scopes()[0].off == "disableAllHooks = true"

    def test_what_a_team_shares_is_left_and_told(self, user: User) -> None:
        shared = user.root / ".claude" / "settings.json"
        shared.parent.mkdir()
        text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": "memory hook stop"}]}]}})
        shared.write_text(text)
        assert user.standings() == [InstallStatus.ABSENT, InstallStatus.ELSEWHERE]
        for act in (user.install, user.uninstall):
            done = act(scope=InstallScope.PROJECT)
            assert any(str(shared) in note for note in done.notes)
        assert shared.read_text() == text
        shared.write_text("{broken")
        assert not any(
            str(shared) in note for note in user.install(scope=InstallScope.PROJECT).notes
        )

    @agents
    def test_what_to_do_next_is_told(self, user: User, agent: Agent) -> None:
        done = user.install(agent, mcp=True)
        assert done.title in done.advice
        assert ("trust" in done.advice) == (agent is Agent.CODEX)


class TestState:
    def test_an_agent_seems_to_be_there_where_its_folder_is(self, user: User) -> None:
        (user.home / ".codex").mkdir()
        (user.home / ".cursor").write_text("no folder")
        states = service().state(user.caller, mcp=False)
        assert [each.agent for each in states] == list(Agent)
        assert [each.agent for each in states if each.present] == [Agent.CODEX]
        assert states[1].folder == str(user.home / ".codex")

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda path: path.write_text("{broken"),
            lambda path: path.write_text("// mine\n{}"),
            lambda path: path.mkdir(),
        ],
    )
    def test_a_file_that_cannot_be_read_is_a_problem_of_its_own(
        self, user: User, spoil: Callable[[Path], object]
    ) -> None:
        path = user.home / ".claude" / "settings.json"
        path.parent.mkdir()
        spoil(path)
        first, second = user.scopes()
        assert str(path) in first.problem
        assert (first.standing, second.problem) == (InstallStatus.ABSENT, "")
        assert user.scopes(Agent.CODEX)[0].problem == ""

    def test_what_is_called_is_told(self, user: User) -> None:
        user.install(mcp=True)
        hook, server = user.scopes()[0].commands
        assert shlex.split(hook) == [
            *(HERE.python, "-I", "-S", HERE.script),
            *("memory", "--home", str(user.home), "hook", "auto", "--agent", "claude-code"),
            *("||", "echo", "{}"),
        ]
        assert server.endswith(f"memory --home {user.home} serve")

    def test_part_of_it_is_not_all_of_it(self, user: User) -> None:
        user.install()
        path = user.home / ".claude" / "settings.json"
        settings = json.loads(path.read_text())
        del settings["hooks"]["Stop"]
        path.write_text(json.dumps(settings))
        assert user.standings()[0] is InstallStatus.OUTDATED
        user.install()
        assert user.standings()[0] is InstallStatus.INSTALLED


def enable_plugin(user: User, agent: Agent) -> None:
    """Write what the agent writes when our plugin is installed."""
    path, text = {
        Agent.CLAUDE_CODE: (
            ".claude/settings.json",
            '{"enabledPlugins": {"memory@agent-memory": true}}',
        ),
        Agent.CODEX: (".codex/config.toml", '[plugins."memory@agent-memory"]\nenabled = true\n'),
        Agent.GEMINI: (
            ".gemini/extensions/agent-memory/.gemini-extension-install.json",
            '{"source": "/src/plugins/gemini", "type": "local"}',
        ),
    }[agent]
    (user.home / path).parent.mkdir(parents=True, exist_ok=True)
    (user.home / path).write_text(text)


class TestPlugin:
    @pytest.mark.parametrize(
        ("agent", "removal"),
        [
            (Agent.CLAUDE_CODE, "claude plugin uninstall memory@agent-memory"),
            (Agent.CODEX, "codex plugin remove memory@agent-memory"),
            (Agent.GEMINI, "gemini extensions uninstall agent-memory"),
        ],
    )
    def test_it_is_reported(self, user: User, agent: Agent, removal: str) -> None:
        assert user.scopes(agent)[0].plugin is None
        assert not any("plugin" in note for note in user.install(agent).notes)
        user.uninstall(agent)
        enable_plugin(user, agent)
        first, second = user.scopes(agent)
        assert first.plugin is not None
        assert (first.plugin.removal, first.standing) == (removal, InstallStatus.ABSENT)
        assert second.plugin is None
        before = user.files()
        assert any(removal in note for note in user.install(agent).notes)
        assert any(removal in note for note in user.uninstall(agent).notes)
        assert user.files() == before

    @pytest.mark.parametrize(
        "text",
        [
            '{"enabledPlugins": {"memory@agent-memory": false}}',
            '{"enabledPlugins": {"memory@elsewhere": true}}',
            '{"enabledPlugins": ["memory@agent-memory"]}',
        ],
    )
    def test_a_disabled_one_and_others_are_not_ours(self, user: User, text: str) -> None:
        (user.home / ".claude").mkdir()
        (user.home / ".claude/settings.json").write_text(text)
        assert user.scopes()[0].plugin is None

    def test_codex_must_trust_its_hooks(self, user: User) -> None:
        enable_plugin(user, Agent.CODEX)
        path = user.home / ".codex/config.toml"
        plugin = user.scopes(Agent.CODEX)[0].plugin
        assert plugin is not None
        assert "does not trust" in plugin.distrust
        trusted = "".join(
            f'[hooks.state."memory@agent-memory:hooks/hooks.json:{event}:0:0"]\n'
            f'trusted_hash = "sha256:5a"\n'
            for event in codex.EVENTS
        )
        enabled = path.read_text()
        path.write_text(enabled + trusted.replace('trusted_hash = "sha256:5a"', "enabled = false"))
        plugin = user.scopes(Agent.CODEX)[0].plugin
        assert plugin is not None
        assert "does not trust" in plugin.distrust
        path.write_text(enabled + trusted)
        plugin = user.scopes(Agent.CODEX)[0].plugin
        assert plugin is not None
        assert plugin.distrust == ""

    def test_a_project_can_have_it(self, user: User) -> None:
        (user.root / ".claude").mkdir()
        text = '{"enabledPlugins": {"memory@agent-memory": true}}'
        (user.root / ".claude/settings.json").write_text(text)
        assert user.scopes()[1].plugin is not None


class TestFolders:
    @agents
    @scopes
    def test_uninstalling_removes_those_that_installing_made(
        self, user: User, agent: Agent, scope: InstallScope
    ) -> None:
        before = user.folders()
        user.install(agent, scope, mcp=True)
        created = user.folders() - before

        done = user.uninstall(agent, scope)

        assert user.folders() == before
        assert set(map(Path, done.folders)) == created

    @agents
    def test_those_that_were_there_stay_even_if_they_are_empty(
        self, user: User, agent: Agent
    ) -> None:
        user.install(agent, mcp=True)
        user.uninstall(agent)
        user.install(agent, mcp=True)
        mine = user.folders()
        for path in sorted(user.base.rglob("*"), reverse=True):
            if path.is_file():
                path.unlink()
        LedgerFile(user.data).write(InstallRecord())
        user.install(agent, mcp=True)

        user.uninstall(agent)

        assert user.folders() == mine

    def test_one_with_a_file_of_the_users_stays_and_its_parents_too(self, user: User) -> None:
        user.install(Agent.CURSOR, mcp=True)
        own = user.home / ".cursor/mine.txt"
        own.write_text("mine")

        user.uninstall(Agent.CURSOR)

        assert own.read_text() == "mine"
        assert list(own.parent.iterdir()) == [own]

    def test_one_that_two_agents_share_goes_with_the_last(self, user: User) -> None:
        before = user.folders()
        for agent in (Agent.VSCODE, Agent.ROO):
            user.install(agent, mcp=True)

        user.uninstall(Agent.VSCODE)
        user.uninstall(Agent.ROO)

        assert user.folders() == before

    def test_a_damaged_ledger_removes_nothing(self, user: User) -> None:
        user.install(Agent.CURSOR, mcp=True)
        (user.data / "installations.json").write_text("{")
        before = user.folders()

        assert user.uninstall(Agent.CURSOR).folders == ()

        assert user.folders() == before


class TestEverywhere:
    def test_all_agents_and_projects_are_cleared(self, user: User, tmp_path: Path) -> None:
        other = tmp_path / "other"
        (other / ".git").mkdir(parents=True)
        before = user.files(), user.folders()
        for agent in Agent:
            user.install(agent, mcp=True)
        user.install(Agent.CODEX, InstallScope.PROJECT)
        elsewhere = Caller(folder=str(other), environ=user.environ)
        service(data=user.data).install(Agent.GEMINI, InstallScope.PROJECT, elsewhere, mcp=True)

        done = service(data=user.data).uninstall_all(user.caller)

        assert done.problems == ()
        assert (user.files(), user.folders()) == before

    def test_a_file_that_cannot_be_changed_is_reported_and_the_rest_removed(
        self, user: User
    ) -> None:
        user.install(Agent.CODEX, mcp=True)
        user.install(Agent.CURSOR, mcp=True)
        broken = user.home / ".cursor/mcp.json"
        broken.write_text("{ not JSON")

        done = service(data=user.data).uninstall_all(user.caller)

        assert any(str(broken) in problem for problem in done.problems)
        assert not (user.home / ".codex").exists()
        assert broken.read_text() == "{ not JSON"

    def test_a_dry_run_changes_nothing(self, user: User) -> None:
        user.install(Agent.CODEX, mcp=True)
        before = user.written()

        done = service(data=user.data).uninstall_all(user.caller, dry_run=True)

        assert [result.agent for result in done.results if result.changes] == [Agent.CODEX]
        assert user.written() == before
