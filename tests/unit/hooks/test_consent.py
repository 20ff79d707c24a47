"""Consent: where hooks record, what a pause and a `.memoryignore` do, and what is found on disk."""

import json
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.hooks.adapters.pause_file import NAME, PauseFile
from agent_memory.features.hooks.adapters.project_folders import ProjectFolders
from agent_memory.features.hooks.consent_rule import build_consent
from agent_memory.features.hooks.hook_options import load_options
from agent_memory.features.hooks.model import consent, tool_use
from agent_memory.features.hooks.model.consent import (
    ConsentReason,
    ConsentRules,
    FolderNames,
    Pause,
)
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.features.hooks.services.consent import PROJECT_VARIABLE, RecordingConsent
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.json_fields import Fields
from agent_memory.kernel.text import globs
from agent_memory.kernel.text.globs import FolderGlob
from tests.git_repositories import make_repository

NOW = 1_000_000


def pattern(text: str) -> FolderGlob:
    return globs.parse_folder_glob(text, "/home/ada", lambda path: path)


def names(*paths: str) -> FolderNames:
    return FolderNames(own=paths)


class TestPatterns:
    @pytest.mark.parametrize(
        ("text", "folder", "matches"),
        [
            ("~/clients/*", "/home/ada/clients/acme", True),
            ("~/clients/*", "/home/ada/clients/acme/src/deep", True),
            ("~/clients/*", "/home/ada/clients", False),
            ("~/clients", "/home/ada/clients", True),
            ("~/clients/", "/home/ada/clients/acme", True),
            ("~/clients", "/home/ada/clients-old", False),
            ("~/a/../clients", "/home/ada/clients/x", True),
            ("/srv/*/private", "/srv/a/private/b", True),
            ("/srv/*/private", "/srv/a/b/private", False),
            ("/srv/**/private", "/srv/a/b/private", True),
            ("**/private", "/any/where/private/x", True),
            ("**/acme-*", "/w/acme-shop", True),
            ("/", "/any", True),
            ("~", "/home/ada/x", True),
            ("~", "/home/bob", False),
            ("/A", "/a", False),
        ],
    )
    def test_a_folder_and_everything_below_it(self, text: str, folder: str, matches: bool) -> None:
        assert globs.is_folder_glob(text)
        assert pattern(text).matches(folder) is matches

    @given(st.lists(st.text("ab*?[]{},.~ \\", min_size=1, max_size=6), min_size=1, max_size=4))
    def test_an_escaped_folder_matches_itself_and_what_is_below(self, parts: list[str]) -> None:
        folder = os.path.normpath("/" + "/".join(parts))
        found = pattern(globs.escape_folder(folder))
        assert found.matches(folder)
        assert found.matches(f"{folder}/below")
        assert folder == "/" or not found.matches("/else")

    def test_a_link_in_the_pattern_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "real/acme").mkdir(parents=True)
        (tmp_path / "link").symlink_to(tmp_path / "real")
        found = globs.parse_folder_glob(f"{tmp_path}/link/*", "/", os.path.realpath)
        assert found.matches(f"{tmp_path}/real/acme")
        assert found.matches(f"{tmp_path}/link/acme")


class TestRule:
    def decide(
        self,
        folder: str = "/home/ada/app",
        *,
        around: str = "",
        pause: Pause | None = None,
        claimed: str = "",
        projects: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        opt_in: bool = False,
        enabled: bool = True,
        unreadable: str = "",
    ) -> tuple[str, str]:
        rules = ConsentRules(
            enabled=enabled,
            opt_in=opt_in,
            projects=tuple(map(pattern, projects)),
            exclude=tuple(map(pattern, exclude)),
            unreadable=unreadable,
        )
        own = FolderNames(own=(folder,), claimed=(claimed,) if claimed else ())
        found = consent.decide(rules, own, [names(around)] if around else [], pause, NOW)
        return found.reason.value, found.detail

    def test_everything_is_recorded_by_default(self) -> None:
        assert self.decide() == ("on", "")

    def test_opt_in_records_what_is_chosen(self) -> None:
        assert self.decide(opt_in=True) == ("not-in-projects", "")
        assert self.decide(opt_in=True, projects=("~/app",)) == ("on", "")
        assert self.decide("/home/ada/app/src", opt_in=True, projects=("~/app",)) == ("on", "")

    def test_an_excluded_folder_is_never_recorded(self) -> None:
        for opt_in in (False, True):
            found = self.decide(opt_in=opt_in, projects=("~/app",), exclude=("/x", "~/*"))
            assert found == ("excluded", "~/*")

    def test_no_folder_of_the_session_may_be_excluded(self) -> None:
        assert self.decide("/srv/x", around="/home/ada/app", exclude=("~/app",)) == (
            "excluded",
            "~/app",
        )

    def test_a_folder_around_it_does_not_choose_it(self) -> None:
        found = self.decide("/srv/x", around="/home/ada/app", projects=("~/app",), opt_in=True)
        assert found == ("not-in-projects", "")

    def test_a_claim_can_exclude_and_not_choose(self) -> None:
        assert self.decide("/srv/x", claimed="/home/ada/app", exclude=("~/app",))[0] == "excluded"
        found = self.decide("/srv/x", claimed="/home/ada/app", projects=("~/app",), opt_in=True)
        assert found == ("not-in-projects", "")

    def test_a_pause_ends_at_its_time(self) -> None:
        assert self.decide(pause=Pause())[0] == "paused"
        assert self.decide(pause=Pause(until_ms=Millis(NOW + 1)))[0] == "paused"
        assert self.decide(pause=Pause(until_ms=Millis(NOW)))[0] == "on"
        assert self.decide(pause=Pause(problem="it is damaged")) == ("paused", "it is damaged")

    def test_switched_off_and_unreadable(self) -> None:
        assert self.decide(enabled=False) == ("hooks-disabled", "")
        assert self.decide(unreadable="why") == ("settings-unreadable", "why")


FOLDERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda x: "/" + "/".join(x))
PATTERNS = st.lists(
    FOLDERS | st.sampled_from(("/*", "/a/*", "**/b", "/a/**/c", "/")), max_size=3
).map(lambda texts: tuple(map(pattern, texts)))


class TestRuleProperties:
    @given(FOLDERS, FOLDERS, PATTERNS, PATTERNS, PATTERNS, st.booleans())
    def test_more_exclusions_and_fewer_projects_never_switch_it_on(
        self,
        folder: str,
        other: str,
        projects: tuple[FolderGlob, ...],
        exclude: tuple[FolderGlob, ...],
        more: tuple[FolderGlob, ...],
        opt_in: bool,
    ) -> None:
        def is_given(rules: ConsentRules) -> bool:
            return consent.decide(rules, names(folder), [names(other)], None, NOW).is_given

        wide = ConsentRules(opt_in=opt_in, projects=(*projects, *more), exclude=exclude)
        for narrow in (
            ConsentRules(opt_in=opt_in, projects=(*projects, *more), exclude=(*exclude, *more)),
            ConsentRules(opt_in=opt_in, projects=projects, exclude=exclude),
            ConsentRules(opt_in=True, projects=(*projects, *more), exclude=exclude),
        ):
            assert is_given(wide) or not is_given(narrow)

    @given(FOLDERS, PATTERNS, PATTERNS, st.booleans())
    def test_what_is_below_a_folder_that_is_off_is_off(
        self,
        folder: str,
        projects: tuple[FolderGlob, ...],
        exclude: tuple[FolderGlob, ...],
        opt_in: bool,
    ) -> None:
        rules = ConsentRules(opt_in=opt_in, projects=projects, exclude=exclude)
        above = consent.decide(rules, names(folder), [], None, NOW)
        below = consent.decide(rules, names(f"{folder}/x"), [], None, NOW)
        if above.reason is ConsentReason.EXCLUDED:
            assert below.reason is ConsentReason.EXCLUDED
        if below.reason is ConsentReason.NOT_CHOSEN:
            assert not above.is_given


class TestPauseFile:
    @pytest.fixture
    def file(self, tmp_path: Path) -> PauseFile:
        return PauseFile(tmp_path / "data")

    def test_it_is_written_read_and_removed(self, file: PauseFile, tmp_path: Path) -> None:
        assert file.read() is None
        file.write(Millis(NOW))
        assert file.read() == Pause(until_ms=Millis(NOW))
        assert (tmp_path / "data" / NAME).stat().st_mode & 0o777 == 0o600
        file.write(None)
        assert file.read() == Pause()
        file.remove()
        file.remove()
        assert file.read() is None

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b"7",
            b"{}",
            b'{"until_ms": "soon"}',
            b'{"until_ms": -1}',
            b'{"until_ms": true}',
            b'{"until_ms": 1e3}',
            b"\xff",
            b"[" * 4_000,
            b'{"until_ms": 1}' + b" " * 5_000,
        ],
    )
    def test_a_broken_file_is_a_pause(
        self, file: PauseFile, tmp_path: Path, content: bytes
    ) -> None:
        file.write(None)
        (tmp_path / "data" / NAME).write_bytes(content)
        pause = file.read()
        assert pause is not None
        assert pause.problem
        assert not pause.is_over(10**15)

    @pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
    def test_what_is_no_file_is_a_pause(self, file: PauseFile, tmp_path: Path, kind: str) -> None:
        data = tmp_path / "data"
        data.mkdir()
        if kind == "link":
            (data / "other").write_text('{"until_ms": 1}')
            (data / NAME).symlink_to("other")
        elif kind == "folder":
            (data / NAME).mkdir()
        else:
            os.mkfifo(data / NAME)
        assert file.read() is not None


class TestIgnoreFiles:
    @pytest.fixture
    def folders(self) -> ProjectFolders:
        return ProjectFolders()

    def is_ignored(self, folders: ProjectFolders, path: Path) -> bool:
        stack = folders.read_ignore_rules(str(path.parent))
        return consent.find_ignoring(stack, str(path), folder=False) is not None

    def is_off(self, folders: ProjectFolders, folder: Path) -> bool:
        stack = folders.read_ignore_rules(str(folder))
        return consent.find_all_ignoring(stack, str(folder)) is not None

    def test_it_has_the_syntax_of_gitignore(self, folders: ProjectFolders, tmp_path: Path) -> None:
        (tmp_path / ".memoryignore").write_text("# mine\n*.env\nsecrets/\n!shown.env\n/top.txt\n")
        for name, ignored in {
            ".env": True,
            "deep/er/x.env": True,
            "shown.env": False,
            "secrets/a/b.txt": True,
            "secrets/shown.env": True,
            "top.txt": True,
            "deep/top.txt": False,
            "main.py": False,
        }.items():
            assert self.is_ignored(folders, tmp_path / name) is ignored, name
        assert not self.is_off(folders, tmp_path)
        assert self.is_off(folders, tmp_path / "secrets")
        assert self.is_off(folders, tmp_path / "secrets/deep")

    def test_the_innermost_file_decides(self, folders: ProjectFolders, tmp_path: Path) -> None:
        (tmp_path / "inner").mkdir()
        (tmp_path / ".memoryignore").write_text("*.log\n")
        (tmp_path / "inner/.memoryignore").write_text("!kept.log\n")
        assert not self.is_ignored(folders, tmp_path / "inner/kept.log")
        assert self.is_ignored(folders, tmp_path / "inner/other.log")

    @pytest.mark.parametrize("text", ["*", "/*", "**", "/", ".", "a\n*\n", "  /", "**/*"])
    def test_a_rule_for_everything_switches_the_project_off(
        self, folders: ProjectFolders, tmp_path: Path, text: str
    ) -> None:
        (tmp_path / ".memoryignore").write_text(text)
        assert self.is_off(folders, tmp_path)
        assert self.is_off(folders, tmp_path / "below")

    @pytest.mark.parametrize("text", ["", "#*", "a*", "*.py", "*/", "!*", "*\n!docs/\n"])
    def test_other_rules_do_not(self, folders: ProjectFolders, tmp_path: Path, text: str) -> None:
        (tmp_path / ".memoryignore").write_text(text)
        assert not self.is_off(folders, tmp_path)

    def test_a_change_counts_at_once(self, folders: ProjectFolders, tmp_path: Path) -> None:
        file = tmp_path / ".memoryignore"
        assert not self.is_off(folders, tmp_path)
        file.write_text("*")
        assert self.is_off(folders, tmp_path)
        file.write_text("*.env")
        assert not self.is_off(folders, tmp_path)
        file.unlink()
        assert not self.is_ignored(folders, tmp_path / ".env")

    @pytest.mark.parametrize("kind", ["link", "fifo", "large", "many"])
    def test_a_file_that_cannot_be_used_whole_switches_off(
        self, folders: ProjectFolders, tmp_path: Path, kind: str
    ) -> None:
        file = tmp_path / ".memoryignore"
        if kind == "link":
            (tmp_path / "rules").write_text("a")
            file.symlink_to("rules")
        elif kind == "fifo":
            os.mkfifo(file)
        else:
            file.write_text("#" * (1 << 17) if kind == "large" else "a\n" * 1_001)
        assert self.is_off(folders, tmp_path)

    def test_a_folder_of_that_name_has_no_meaning(
        self, folders: ProjectFolders, tmp_path: Path
    ) -> None:
        (tmp_path / ".memoryignore").mkdir()
        assert not self.is_off(folders, tmp_path)


class TestNames:
    def test_a_link_has_two(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        found = ProjectFolders().list_names(f"{tmp_path}/link")
        assert found == names(f"{tmp_path}/link", f"{tmp_path}/real")

    @pytest.mark.parametrize("folder", ["", "/", "/no/where", "a\0b", "/" + "x" * 5_000])
    def test_nothing_fails(self, folder: str) -> None:
        folders = ProjectFolders()
        assert folders.list_names(folder).own
        assert folders.find_root(folder)
        assert folders.read_ignore_rules(folder) == []

    def test_a_worktree_has_the_name_of_the_main_one(self, tmp_path: Path) -> None:
        repository = make_repository(tmp_path / "app")
        repository.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
        (tmp_path / "tree/src").mkdir()
        folders = ProjectFolders()
        assert f"{tmp_path}/app/src" in folders.list_names(f"{tmp_path}/tree/src").own
        assert folders.find_root(f"{tmp_path}/tree/src") == f"{tmp_path}/app"
        assert folders.find_root(f"{tmp_path}/app") == f"{tmp_path}/app"

    def test_a_repository_that_only_says_so_does_not(self, tmp_path: Path) -> None:
        make_repository(tmp_path / "app")
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        (stranger / ".git").write_text(f"gitdir: {tmp_path}/app/.git/worktrees/tree\n")
        found = ProjectFolders().list_names(str(stranger))
        assert found == FolderNames(own=(str(stranger),), claimed=(f"{tmp_path}/app",))
        assert ProjectFolders().find_root(str(stranger)) == str(stranger)


class TestService:
    @pytest.fixture
    def service(self, tmp_path: Path) -> RecordingConsent:
        return build_consent(tmp_path / "data")

    @pytest.fixture
    def environ(self, tmp_path: Path) -> dict[str, str]:
        return {"HOME": str(tmp_path)}

    def configure(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / ".config/agent-memory/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def check(
        self,
        service: RecordingConsent,
        environ: dict[str, str],
        folder: Path,
        use: ToolUse | None = None,
    ) -> ConsentReason:
        call = HookCall(
            kind=HookKind.TOOL,
            session="s",
            at_ms=1,
            nonce="n",
            folder=str(folder),
            use=use or ToolUse(name="Read"),
        )
        rules = load_options(environ, str(folder)).consent
        return service.check_call(call, str(folder), environ, rules).reason

    def test_a_pause_holds_for_everyone_who_reads_the_folder(
        self, service: RecordingConsent, environ: dict[str, str], tmp_path: Path
    ) -> None:
        other = build_consent(tmp_path / "data")
        service.pause(None)
        assert self.check(other, environ, tmp_path) is ConsentReason.PAUSED
        assert other.resume()
        assert not other.resume()
        assert self.check(service, environ, tmp_path) is ConsentReason.GIVEN
        service.pause(60_000)
        assert json.loads((tmp_path / "data" / NAME).read_text())["until_ms"] > 0
        assert self.check(other, environ, tmp_path) is ConsentReason.PAUSED

    def test_a_session_that_began_in_an_excluded_folder(
        self, service: RecordingConsent, environ: dict[str, str], tmp_path: Path
    ) -> None:
        self.configure(tmp_path, 'hooks.exclude = ["~/acme"]')
        environ[PROJECT_VARIABLE] = str(tmp_path / "acme")
        assert self.check(service, environ, tmp_path / "build") is ConsentReason.EXCLUDED

    @pytest.mark.parametrize(
        ("use", "left_out"),
        [
            (ToolUse(name="Read", file="APP/.env"), True),
            (ToolUse(name="Read", file=".env"), True),
            (ToolUse(name="Read", file="APP/src/../.env"), True),
            (ToolUse(name="Read", file="APP/link"), True),
            (ToolUse(name="Read", file="APP/main.py"), False),
            (ToolUse(name="Read", file="ELSE/key"), True),
            (ToolUse(name="Read", file="OFF/main.py"), True),
            (ToolUse(name="Bash", asked="cat .env | wc"), True),
            (ToolUse(name="Bash", asked="cat 'APP/.env'"), True),
            (ToolUse(name="Bash", asked="docker run --env-file=.env x"), True),
            (ToolUse(name="Bash", asked="cat main.py"), False),
            (ToolUse(name="Bash", asked="cat OFF/main.py"), True),
            (ToolUse(name="Bash", asked="cat ~/off/main.py"), True),
            (ToolUse(name="Bash", asked="cd ../off && ls"), True),
            (ToolUse(name="Bash", asked="cat ./away/main.py"), True),
            (ToolUse(name="Bash", asked="cat ELSE/key"), True),
            (ToolUse(name="Bash", asked="cat ELSE/other"), False),
            (ToolUse(name="Bash", asked="git -C ELSE/closed log"), True),
            (ToolUse(name="Bash", asked="sed s/a/b/ /etc/hosts"), False),
            (ToolUse(name="LS", asked="APP/secrets"), True),
            (ToolUse(name="Bash", asked="grep -r x customers"), True),
            (ToolUse(name="Bash", asked="rg x ./customers"), True),
            (tool_use.parse_use("Grep", Fields({"pattern": "x", "path": "APP/.env"})), True),
            (tool_use.parse_use("Grep", Fields({"pattern": "x", "glob": ".env"})), True),
            (tool_use.parse_use("Grep", Fields({"pattern": "x", "path": "customers"})), True),
            (tool_use.parse_use("Grep", Fields({"pattern": "x", "path": "src"})), False),
            (tool_use.parse_use("Glob", Fields({"pattern": "customers/**"})), True),
            (tool_use.parse_use("read_many_files", Fields({"paths": ["a", ".env"]})), True),
            (tool_use.parse_use("read_many_files", Fields({"include": [".env", 7]})), True),
            (tool_use.parse_use("read_many_files", Fields({"include": ["a", "b"]})), False),
            (ToolUse(name="Grep", asked="who reads .env"), False),
            (ToolUse(name="apply_patch", file="a", written="*** Update File: .env\n+x"), True),
            (ToolUse(name="apply_patch", file="a", written="*** Move to: .env\n"), True),
            (ToolUse(name="apply_patch", file="a", written="*** Add File: b\n"), False),
        ],
    )
    def test_the_use_of_a_tool_on_an_ignored_file(
        self,
        service: RecordingConsent,
        environ: dict[str, str],
        tmp_path: Path,
        use: ToolUse,
        left_out: bool,
    ) -> None:
        app, other = tmp_path / "app", tmp_path / "else"
        app.mkdir()
        other.mkdir()
        (app / ".memoryignore").write_text(".env\nsecrets\ncustomers/\n")
        (other / ".memoryignore").write_text("key\n")
        (other / "closed").mkdir()
        (other / "closed/.memoryignore").write_text("*\n")
        (app / "link").symlink_to(app / ".env")
        (app / "away").symlink_to(tmp_path / "off")
        self.configure(tmp_path, 'hooks.exclude = ["~/off"]')
        places = {"APP": str(app), "ELSE": str(other), "OFF": str(tmp_path / "off")}
        file, asked = use.file, use.asked
        for name, place in places.items():
            file, asked = file.replace(name, place), asked.replace(name, place)
        looked = tuple(each.replace("APP", str(app)) for each in use.places)
        moved = replace(use, asked=asked, file=file, places=looked)
        expected = ConsentReason.IGNORED if left_out else ConsentReason.GIVEN
        assert self.check(service, environ, app, moved) is expected

    @pytest.mark.parametrize(
        "text",
        [
            'hooks.mode = "optin"\n',
            'hooks.exclude = ["~/acme"]\nnonsense = [',
            '[hooks]\nprojects = ["~/app"]\n[log]\nlevel = 7\n',
            "[hooks]\nenabled = false\n[log]\nlevel = 7\n",
        ],
    )
    def test_settings_that_may_forbid_it_and_cannot_be_read(
        self, service: RecordingConsent, environ: dict[str, str], tmp_path: Path, text: str
    ) -> None:
        self.configure(tmp_path, text)
        assert self.check(service, environ, tmp_path) is ConsentReason.UNREADABLE

    @pytest.mark.parametrize("text", ["", "[log]\nlevel = 7\n"])
    def test_variables_that_may_forbid_it_and_cannot_be_read(
        self, service: RecordingConsent, environ: dict[str, str], tmp_path: Path, text: str
    ) -> None:
        self.configure(tmp_path, text)
        environ |= {"MEMORY_HTTP__PORT": "many"}  # which does not count
        assert self.check(service, environ, tmp_path) is ConsentReason.GIVEN
        environ |= {"MEMORY_HOOKS__ENABLED": "maybe"}
        assert self.check(service, environ, tmp_path) is ConsentReason.UNREADABLE

    # For each field: the user's wish, and variables that a repository could set against it.
    LOOSENED: ClassVar[Mapping[str, tuple[str, dict[str, str]]]] = {
        "enabled": ("hooks.enabled = false", {"MEMORY_HOOKS__ENABLED": "true"}),
        "opt_in": ('hooks.mode = "opt-in"', {"MEMORY_HOOKS__MODE": "all"}),
        "projects": (
            'hooks.mode = "opt-in"\nhooks.projects = ["/x"]',
            {"MEMORY_HOOKS__PROJECTS": "/x,/"},
        ),
        "exclude": ('hooks.exclude = ["/"]', {"MEMORY_HOOKS__EXCLUDE": ""}),
        "unreadable": ('hooks.mode = "optin"', {"MEMORY_HOOKS__MODE": "all"}),
    }

    @pytest.mark.parametrize("name", [each.name for each in fields(ConsentRules)])
    def test_variables_loosen_nothing(
        self, service: RecordingConsent, environ: dict[str, str], tmp_path: Path, name: str
    ) -> None:
        text, variables = self.LOOSENED[name]
        self.configure(tmp_path, text)
        before = self.check(service, environ, tmp_path)
        assert before is not ConsentReason.GIVEN
        assert self.check(service, environ | variables, tmp_path) is before

    def test_other_settings_that_cannot_be_read_stop_nothing(
        self, service: RecordingConsent, environ: dict[str, str], tmp_path: Path
    ) -> None:
        self.configure(tmp_path, "nonsense = [")
        assert self.check(service, environ, tmp_path) is ConsentReason.GIVEN

    def test_a_project_cannot_choose_itself(
        self, service: RecordingConsent, environ: dict[str, str], tmp_path: Path
    ) -> None:
        self.configure(tmp_path, 'hooks.mode = "opt-in"\nhooks.projects = ["~/app"]\n')
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        (stranger / "memory.toml").write_text(
            f'[hooks]\nmode = "all"\nprojects = ["{stranger}"]\nexclude = []\n'
        )
        assert self.check(service, environ, stranger) is ConsentReason.NOT_CHOSEN
        environ |= {"MEMORY_HOOKS__MODE": "all", "MEMORY_HOOKS__PROJECTS": str(stranger)}
        assert self.check(service, environ, stranger) is ConsentReason.NOT_CHOSEN

    @pytest.mark.parametrize("name", ["app", "a*[b]?", "{a,b}", "x y"])
    def test_off_and_on_undo_each_other(
        self, service: RecordingConsent, environ: dict[str, str], tmp_path: Path, name: str
    ) -> None:
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / ".git").mkdir()
        root, pattern = service.build_pattern(str(tmp_path / name / "src"))
        assert root == str(tmp_path / name)
        self.configure(tmp_path, f"hooks.exclude = {json.dumps(['/x', pattern, f'~/{name}'])}")
        assert self.check(service, environ, tmp_path / name) is ConsentReason.EXCLUDED
        choice = service.choose(str(tmp_path / name / "src"), environ)
        assert pattern in choice.unwanted
        assert choice.missing == ""
        self.configure(tmp_path, 'hooks.mode = "opt-in"')
        choice = service.choose(str(tmp_path / name), environ)
        assert (choice.unwanted, choice.missing) == (frozenset(), pattern)
        self.configure(tmp_path, f'hooks.mode = "opt-in"\nhooks.projects = {json.dumps([pattern])}')
        assert self.check(service, environ, tmp_path / name) is ConsentReason.GIVEN
        assert service.choose(str(tmp_path / name), environ).missing == ""

    def test_a_path_that_is_too_long_is_refused(
        self, service: RecordingConsent, tmp_path: Path
    ) -> None:
        with pytest.raises(InvalidInput, match="more than 1,000 characters"):
            service.build_pattern(str(tmp_path) + "/long" * 300)
