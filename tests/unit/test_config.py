"""Settings: which layer wins, what is refused and how it is named, where files are looked for."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, get_origin

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_memory import config, config_file
from agent_memory.config import Key
from agent_memory.features.hooks import hook_options
from agent_memory.kernel.errors import ConfigError
from agent_memory.launcher import environment

DEFAULTS = config.Settings()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of someone who has configured nothing."""
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def user_file(environ: dict[str, str]) -> Path:
    """Where that someone's config file goes; its folder is there."""
    path = config.folders(environ).config_file
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The root of a repository."""
    root = tmp_path / "work/project"
    (root / ".git").mkdir(parents=True)
    return root


class TestLayers:
    def test_with_nothing_set_all_is_at_its_default(self, environ: dict[str, str]) -> None:
        loaded = config.load(environ)
        assert loaded.settings == DEFAULTS
        assert loaded.sources == {}
        assert loaded.ignored == ()

    def test_the_defaults_are_those_that_the_documents_promise(self) -> None:
        loaded = config.load({})
        promised = {
            "grpc.port": 50051,
            "http.port": 8000,
            "storage.path": "",
            "storage.url": "",
            "storage.tenant": "default",
            "toc.time_gap_ms": 30 * 60 * 1000,
            "toc.max_tokens": 4096,
            "toc.overlap_ms": 5 * 60 * 1000,
            "toc.overlap_tokens": 500,
            "toc.max_tool_result_chars": 2000,
            "summarizer.provider": "extractive",
            "security.secrets": "redact",
            "llama.model_dir": "~/models",
            "llama.context_size": 4096,
            "llama.endpoint": "",
            "scheduler.enabled": True,
            "grpc.require_key": True,
        }
        assert {name: loaded.value(name) for name in promised} == promised

    def test_the_users_file_wins_over_defaults(
        self, environ: dict[str, str], user_file: Path
    ) -> None:
        user_file.write_text("[grpc]\nport = 1\n")
        loaded = config.load(environ)
        assert loaded.settings.grpc.port == 1
        assert loaded.settings.http == DEFAULTS.http
        assert loaded.sources == {"grpc.port": str(user_file)}

    def test_the_projects_file_wins_over_the_users(
        self, environ: dict[str, str], user_file: Path, project: Path
    ) -> None:
        user_file.write_text("[cli]\ncolor = true\nprogress = false\n")
        (project / "memory.toml").write_text("[cli]\ncolor = false\n")
        loaded = config.load(environ, project_dir=project)
        assert not loaded.settings.cli.color
        assert not loaded.settings.cli.progress
        assert loaded.sources == {
            "cli.color": str(project / "memory.toml"),
            "cli.progress": str(user_file),
        }

    def test_a_variable_that_tightens_wins_over_both_files(
        self, environ: dict[str, str], user_file: Path, project: Path
    ) -> None:
        user_file.write_text("[cli]\ncolor = true\n")
        (project / "memory.toml").write_text("[cli]\ncolor = true\n")
        environ["MEMORY_CLI__COLOR"] = "false"
        loaded = config.load(environ, project_dir=project)
        assert loaded.settings.cli.color is False
        assert loaded.sources == {"cli.color": "MEMORY_CLI__COLOR"}

    def test_flags_win_over_all(self, environ: dict[str, str], user_file: Path) -> None:
        user_file.write_text("[grpc]\nport = 1\n")
        environ["MEMORY_GRPC__PORT"] = "2"
        loaded = config.load(environ, flags={"grpc.port": 3}, started_by_hand=True)
        assert loaded.settings.grpc.port == 3
        assert loaded.sources == {"grpc.port": "flag"}

    def test_a_flag_that_was_not_given_changes_nothing(self, environ: dict[str, str]) -> None:
        environ["MEMORY_GRPC__PORT"] = "2"
        flags = {"grpc.port": None, "http.port": None}
        loaded = config.load(environ, flags=flags, started_by_hand=True)
        assert loaded.settings.grpc.port == 2
        assert loaded.sources == {"grpc.port": "MEMORY_GRPC__PORT"}

    def test_a_named_file_replaces_the_users(
        self, environ: dict[str, str], user_file: Path, tmp_path: Path
    ) -> None:
        user_file.write_text("[grpc]\nport = 1\n")
        other = tmp_path / "other.toml"
        other.write_text("[http]\nport = 2\n")
        loaded = config.load(environ, file=other)
        assert (loaded.settings.grpc.port, loaded.settings.http.port) == (50051, 2)
        assert loaded.sources == {"http.port": str(other)}

    def test_without_a_project_folder_no_project_is_looked_for(
        self, environ: dict[str, str], project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The daemon has none: where it was started must not matter."""
        (project / "memory.toml").write_text("[cli]\ncolor = false\n")
        monkeypatch.chdir(project)
        assert config.load(environ).settings.cli.color

    @pytest.mark.parametrize("name", ["grpc.port", "hooks.session_start.context_token_budget"])
    def test_dotted_keys_and_sections_are_the_same(
        self, environ: dict[str, str], tmp_path: Path, name: str
    ) -> None:
        file = tmp_path / "dotted.toml"
        file.write_text(f"{name} = 7\n")
        assert config.load(environ, file=file).value(name) == 7

    def test_an_empty_file_and_empty_sections_are_fine(
        self, environ: dict[str, str], user_file: Path
    ) -> None:
        for text in ("", "[grpc]\n", "[hooks]\n[hooks.stop]\n", "# nothing\n"):
            user_file.write_text(text)
            assert config.load(environ).settings == DEFAULTS


class TestProjectFile:
    def test_it_is_found_from_any_folder_of_the_project(self, project: Path) -> None:
        file = project / "memory.toml"
        file.touch()
        deep = project / "a/b/c"
        deep.mkdir(parents=True)
        assert config.find_project_file(project) == file
        assert config.find_project_file(deep) == file

    def test_the_nearest_one_counts(self, project: Path) -> None:
        (project / "memory.toml").touch()
        inner = project / "a/memory.toml"
        (project / "a/b").mkdir(parents=True)
        inner.touch()
        assert config.find_project_file(project / "a/b") == inner

    def test_it_is_not_looked_for_above_the_repository(self, project: Path) -> None:
        (project.parent / "memory.toml").touch()
        (project / "a").mkdir()
        assert config.find_project_file(project) is None
        assert config.find_project_file(project / "a") is None

    def test_the_root_of_a_worktree_is_a_root_too(self, tmp_path: Path) -> None:
        (tmp_path / "memory.toml").touch()
        worktree = tmp_path / "worktree"
        worktree.mkdir()
        (worktree / ".git").write_text("gitdir: elsewhere\n")
        assert config.find_project_file(worktree) is None

    def test_a_folder_of_that_name_is_not_one(self, project: Path) -> None:
        (project / "memory.toml").mkdir()
        assert config.find_project_file(project) is None

    def test_what_belongs_to_the_daemon_is_ignored_there_and_reported(
        self, environ: dict[str, str], project: Path
    ) -> None:
        file = project / "memory.toml"
        file.write_text(
            '[grpc]\nport = 1\n[security]\nsecrets = "off"\n[cli]\ncolor = false\n[hooks]\n'
            "enabled = false\n"
        )
        loaded = config.load(environ, project_dir=project)
        assert loaded.settings.grpc == DEFAULTS.grpc
        assert loaded.settings.security == DEFAULTS.security
        assert not loaded.settings.cli.color
        assert not loaded.settings.hooks.enabled
        assert set(loaded.sources) == {"cli.color", "hooks.enabled"}
        assert [each.split(" in ")[0] for each in loaded.ignored] == [
            "grpc.port",
            "security.secrets",
        ]
        assert all(str(file) in each for each in loaded.ignored)

    def test_nothing_there_sends_anything_anywhere_or_captures(
        self, environ: dict[str, str], project: Path
    ) -> None:
        (project / "memory.toml").write_text(
            "[hooks.stop]\npush_remote = true\n[hooks.session_start]\nfetch_remote = true\n"
            "[memories]\nremote = 'ssh://elsewhere/x'\n"
            "[hooks.user_prompt]\nauto_capture = true\nrecall = true\n"
            "signal_patterns = ['the']\n[hooks.pre_compact]\nconfidence_threshold = 0.1\n"
        )
        loaded = config.load(environ, project_dir=project)
        patterns = loaded.settings.hooks.user_prompt.signal_patterns
        assert patterns == []
        assert loaded.settings.memories == DEFAULTS.memories
        others = replace(
            loaded.settings.hooks,
            user_prompt=replace(
                loaded.settings.hooks.user_prompt,
                signal_patterns=DEFAULTS.hooks.user_prompt.signal_patterns,
            ),
        )
        assert others == DEFAULTS.hooks
        assert len(loaded.ignored) == 7

    @pytest.mark.parametrize(
        ("users", "projects", "result", "noted"),
        [
            ("hooks.stop.enabled = true", "false", False, ""),
            ("hooks.stop.enabled = false", "true", False, "switch it off"),
            ("hooks.stop.enabled = true", "true", True, ""),
            ("hooks.session_start.context_token_budget = 500", "100", 100, ""),
            ("hooks.session_start.context_token_budget = 500", "501", 500, "lower it"),
            ("hooks.pre_compact.confidence_threshold = 0.5", "0.9", 0.9, ""),
            ("hooks.pre_compact.confidence_threshold = 0.5", "0.4", 0.5, "raise it"),
            ("hooks.post_tool_use.trigger_tools = ['A', 'B']", "['B']", ["B"], ""),
            ("hooks.post_tool_use.trigger_tools = ['A', 'B']", "['B', 'C']", ["B"], "leave some"),
            ("hooks.post_tool_use.exclude_patterns = ['a']", "['b', 'a']", ["a", "b"], ""),
            ("hooks.session_start.guidance_detail = 'standard'", "'minimal'", "minimal", ""),
            ("hooks.session_start.guidance_detail = 'standard'", "'detailed'", "standard", "less"),
            ("hooks.push = 'all'", "'start'", "start", ""),
            ("hooks.push = 'start'", "'off'", "off", ""),
            ("hooks.push = 'off'", "'all'", "off", "less"),
            ("cli.default_format = 'yaml'", "'quiet'", "yaml", "only the user"),
        ],
    )
    def test_it_only_tightens(
        self,
        environ: dict[str, str],
        user_file: Path,
        project: Path,
        users: str,
        projects: str,
        result: Any,
        noted: str,
    ) -> None:
        name = users.partition(" = ")[0]
        user_file.write_text(users)
        (project / "memory.toml").write_text(f"{name} = {projects}\n")
        loaded = config.load(environ, project_dir=project)
        assert loaded.value(name) == result
        assert [noted in each for each in loaded.ignored] == ([True] if noted else [])

    @given(st.data())
    def test_whatever_it_says_nothing_is_looser(self, data: st.DataObject) -> None:
        """A second file that says what came of the first changes nothing more."""
        key = data.draw(st.sampled_from([k for k in config.KEYS.values() if k.project]))
        assert key.project is not None
        if key.type is bool:
            values: st.SearchStrategy[Any] = st.booleans()
        elif key.type in (int, float):
            values = st.integers(0, 1 if key.maximum == 1 else 5000)
        elif key.choices:
            values = st.sampled_from(key.choices)
        else:
            values = st.lists(st.sampled_from("abcd"), unique=True)
        users, own = data.draw(values), data.draw(values)
        once = key.project.combine(users, own)
        assert key.project.combine(users, once) == once
        assert key.project.combine(users, users) == users

    def test_every_setting_is_the_users_alone_unless_it_says_how_it_is_tightened(self) -> None:
        tightened = {key.name for key in config.KEYS.values() if key.project}
        assert all(config.KEYS[name].applies in ("live", "personal") for name in tightened)
        assert not {"memories.remote", "cli.default_format"} & tightened

    @pytest.mark.parametrize("kind", ["fifo", "link", "device", "sparse", "long"])
    def test_what_is_no_file_of_the_project_is_a_message(
        self, environ: dict[str, str], project: Path, kind: str
    ) -> None:
        file = project / "memory.toml"
        if kind == "fifo":
            os.mkfifo(file)
        elif kind == "link":
            (project / "other.toml").write_text("[hooks]\nenabled = false\n")
            file.symlink_to("other.toml")
        elif kind == "device":
            file.symlink_to("/dev/zero")
        else:
            file.write_bytes(b"# ")
            os.truncate(file, 2 << 30 if kind == "sparse" else config.MAX_PROJECT_FILE_BYTES + 1)
        with pytest.raises(ConfigError, match="cannot read") as told:
            config.load(environ, project_dir=project)
        assert str(file) in str(told.value)

    @pytest.mark.parametrize(
        "text",
        [
            "[" * 60_000,
            "a = " + "[" * 60_000,
            "a = " + "{a=" * 20_000,
            ".".join(["a"] * 30_000) + " = 1",
            "\n".join("[" + ".".join(["a"] * n) + "]" for n in range(1, 99)),
            "grpc.port = " + "9" * 60_000,
            "hooks.post_tool_use.exclude_patterns = [" + "'*', " * 10_000 + "]",
            "'" + "k" * 60_000 + "' = 1",
        ],
    )
    def test_what_takes_long_to_read_is_a_message(
        self, environ: dict[str, str], project: Path, text: str
    ) -> None:
        (project / "memory.toml").write_text(text)
        with pytest.raises(ConfigError) as told:
            config.load(environ, project_dir=project)
        assert len(str(told.value)) < 1000
        assert hook_options.load_settings(environ, str(project)) == DEFAULTS

    def test_the_users_own_file_is_read_within_bounds_too(
        self, environ: dict[str, str], user_file: Path
    ) -> None:
        user_file.write_text("a = " + "[" * 100_000)
        with pytest.raises(ConfigError, match="nested too deeply"):
            config.load(environ)
        with pytest.raises(ConfigError, match="nested too deeply"):
            config_file.change(user_file, "cli.color", False)
        os.truncate(user_file, 2 << 30)
        with pytest.raises(ConfigError, match="longer than"):
            config.load(environ)
        user_file.unlink()
        os.mkfifo(user_file)
        with pytest.raises(ConfigError, match="not a regular file"):
            config.load(environ)

    def test_no_key_of_the_daemon_can_be_set_there(
        self, environ: dict[str, str], project: Path
    ) -> None:
        of_the_daemon = [key for key in config.KEYS.values() if key.project is None]
        (project / "memory.toml").write_text(
            "".join(f"{key.name} = {toml(key.default)}\n" for key in of_the_daemon)
        )
        loaded = config.load(environ, project_dir=project)
        assert loaded.sources == {}
        assert len(loaded.ignored) == len(of_the_daemon)

    def test_a_mistake_there_is_named_with_its_place(
        self, environ: dict[str, str], project: Path
    ) -> None:
        file = project / "memory.toml"
        file.write_text("[cli]\ncolour = false\n")
        with pytest.raises(ConfigError, match=r"unknown setting 'cli.colour'.*'cli.color'") as told:
            config.load(environ, project_dir=project)
        assert str(told.value).startswith(f"{file}:2:")


class TestMistakesInFiles:
    @pytest.mark.parametrize(
        ("text", "line", "name", "nearest"),
        [
            ("[grpc]\nhost = 'localhost'\nprt = 1\n", 3, "grpc.prt", "grpc.port"),
            ("grpc.prt = 1\n", 1, "grpc.prt", "grpc.port"),
            ("# a\u2028b\x85\n[grpc]\r\nprt = 1\n", 3, "grpc.prt", "grpc.port"),
            ("\n\n[grcp]\nport = 1\n", 4, "grcp.port", "grpc.port"),
            ("[toc]\n# max = 1\nmax_token = 1\n", 3, "toc.max_token", "toc.max_tokens"),
            ("[hooks.stop]\n'enable' = true\n", 2, "hooks.stop.enable", "hooks.stop.enabled"),
            ("[hooks.stop]\n enabled=true\n pushremote=true\n", 3, "hooks.stop.pushremote",
             "hooks.stop.push_remote"),
            ("[summarizer]\n[hooks.user_prompts]\n", 2, "hooks.user_prompts",
             "hooks.user_prompt.recall"),
            ("[hooks]\nuser_promt = {recall = true}\n", 2, "hooks.user_promt.recall",
             "hooks.user_prompt.recall"),
        ],
    )  # fmt: skip
    def test_an_unknown_key_is_named_with_file_line_and_the_nearest_known_one(
        self,
        environ: dict[str, str],
        user_file: Path,
        text: str,
        line: int,
        name: str,
        nearest: str,
    ) -> None:
        user_file.write_text(text)
        with pytest.raises(ConfigError) as told:
            config.load(environ)
        assert str(told.value) == (
            f"{user_file}:{line}: unknown setting {name!r}; did you mean {nearest!r}?"
        )

    def test_a_key_like_no_other_leads_to_the_list(
        self, environ: dict[str, str], user_file: Path
    ) -> None:
        user_file.write_text("zzzz = 1\n")
        with pytest.raises(ConfigError, match=r":1: unknown setting 'zzzz'; `memory config list`"):
            config.load(environ)

    @pytest.mark.parametrize(
        ("setting", "expected"),
        [
            ("grpc.require_key = 1", "true or false"),
            ("grpc.require_key = 'true'", "true or false"),
            ("grpc.port = '1'", "a whole number from 0 to 65535"),
            ("grpc.port = 1.5", "a whole number from 0 to 65535"),
            ("grpc.port = true", "a whole number from 0 to 65535"),
            ("grpc.port = -1", "a whole number from 0 to 65535"),
            ("grpc.port = 65536", "a whole number from 0 to 65535"),
            ("grpc.port = [1]", "a whole number from 0 to 65535"),
            ("grpc.port = 2026-01-30", "a whole number from 0 to 65535"),
            ("grpc = {port = {x = 1}}", "a whole number from 0 to 65535"),
            ("toc.max_tokens = 0", "a whole number of at least 1"),
            ("log.max_bytes = 65535", "a whole number of at least 65536"),
            ("hooks.pre_compact.confidence_threshold = 'high'", "a number from 0 to 1"),
            ("hooks.pre_compact.confidence_threshold = true", "a number from 0 to 1"),
            ("hooks.pre_compact.confidence_threshold = 1.01", "a number from 0 to 1"),
            ("hooks.pre_compact.confidence_threshold = -0.01", "a number from 0 to 1"),
            ("hooks.pre_compact.confidence_threshold = nan", "a number from 0 to 1"),
            ("hooks.pre_compact.confidence_threshold = inf", "a number from 0 to 1"),
            ("storage.path = 1", "a string"),
            ("storage.path = ['a']", "a string"),
            ("security.secrets = 'none'", "one of redact, block, warn, off"),
            ("security.secrets = true", "one of redact, block, warn, off"),
            ("hooks.user_prompt.signal_patterns = 'a'", "a list of strings"),
            ("hooks.user_prompt.signal_patterns = [1]", "a list of strings"),
            ("hooks.user_prompt.signal_patterns = ['a', 1]", "a list of strings"),
        ],
    )
    def test_a_wrong_value_is_refused_with_what_it_must_be(
        self, environ: dict[str, str], user_file: Path, setting: str, expected: str
    ) -> None:
        user_file.write_text(f"# mine\n{setting}\n")
        with pytest.raises(ConfigError) as told:
            config.load(environ)
        message = str(told.value)
        assert message.startswith(f"{user_file}:2: ")
        assert f"must be {expected}, not " in message

    @pytest.mark.parametrize("value", ["0", "1", "0.0", "1.0", "0.8"])
    def test_a_number_may_be_whole_and_at_either_end(
        self, environ: dict[str, str], user_file: Path, value: str
    ) -> None:
        user_file.write_text(f"[hooks.pre_compact]\nconfidence_threshold = {value}\n")
        found = config.load(environ).settings.hooks.pre_compact.confidence_threshold
        assert found == float(value)

    def test_broken_toml_is_named_with_its_line(
        self, environ: dict[str, str], user_file: Path
    ) -> None:
        user_file.write_text("[grpc]\nport = 1\nport =\n")
        with pytest.raises(ConfigError, match=r"is not valid TOML: .*line 3") as told:
            config.load(environ)
        assert str(user_file) in str(told.value)

    def test_a_key_set_twice_is_broken_toml(self, environ: dict[str, str], user_file: Path) -> None:
        user_file.write_text("[grpc]\nport = 1\nport = 2\n")
        with pytest.raises(ConfigError, match=r"is not valid TOML: .*line 3"):
            config.load(environ)

    def test_bytes_that_are_no_text_are_broken_toml(
        self, environ: dict[str, str], user_file: Path
    ) -> None:
        user_file.write_bytes(b"[grpc]\nhost = '\xff'\n")
        with pytest.raises(ConfigError, match="is not valid TOML"):
            config.load(environ)

    def test_a_named_file_must_be_there(self, environ: dict[str, str], tmp_path: Path) -> None:
        missing = tmp_path / "missing.toml"
        with pytest.raises(ConfigError, match="cannot read") as told:
            config.load(environ, file=missing)
        assert str(missing) in str(told.value)

    def test_a_folder_is_no_config_file(self, environ: dict[str, str], tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot read"):
            config.load(environ, file=tmp_path)


class TestWords:
    """`summarizer.command` is a list of words, or one line that is split as a shell does."""

    WORDS: ClassVar = ["claude", "-p", "--tools", "", "--model", "a b"]
    LINE = """claude -p --tools "" --model 'a b'"""

    @pytest.mark.parametrize(
        "value", ['["claude", "-p", "--tools", "", "--model", "a b"]', f"'''{LINE}'''"]
    )
    def test_a_file_may_have_either(
        self, environ: dict[str, str], user_file: Path, value: str
    ) -> None:
        user_file.write_text(f"summarizer.command = {value}")
        assert config.load(environ).settings.summarizer.command == self.WORDS

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (LINE, WORDS),
            ("/opt/a,b/claude", ["/opt/a,b/claude"]),
            ("claude -p --tools Read,Grep", ["claude", "-p", "--tools", "Read,Grep"]),
            ("", []),
        ],
    )
    def test_config_set_takes_a_line(self, text: str, words: list[str]) -> None:
        assert config.parse("summarizer.command", text) == words

    def test_an_open_quote_is_refused(self, environ: dict[str, str], user_file: Path) -> None:
        user_file.write_text("summarizer.command = 'claude \"-p'")
        with pytest.raises(ConfigError, match=r"summarizer\.command cannot be split into words"):
            config.load(environ)

    @pytest.mark.parametrize("value", ["[1]", "1", "true"])
    def test_other_types_are_refused(
        self, environ: dict[str, str], user_file: Path, value: str
    ) -> None:
        user_file.write_text(f"summarizer.command = {value}")
        with pytest.raises(ConfigError, match="a list of strings, or one line of words"):
            config.load(environ)

    def test_no_project_names_a_program(self, environ: dict[str, str], tmp_path: Path) -> None:
        (tmp_path / "memory.toml").write_text(
            "[summarizer]\nprovider = 'command'\ncommand = 'sh evil.sh'"
        )
        loaded = config.load(environ, project_dir=tmp_path)
        assert loaded.settings.summarizer == DEFAULTS.summarizer
        assert [each.split(" in ")[0] for each in loaded.ignored] == [
            "summarizer.provider",
            "summarizer.command",
        ]

    def test_no_variable_names_a_program(self, environ: dict[str, str], user_file: Path) -> None:
        user_file.write_text("summarizer.command = ['claude', '-p']")
        loaded = config.load(environ | {"MEMORY_SUMMARIZER__COMMAND": "sh evil.sh"})
        assert loaded.settings.summarizer.command == ["claude", "-p"]
        assert loaded.ignored == (refuse("summarizer.command", user_file),)

    def test_a_warning_repeats_no_password(self, environ: dict[str, str], user_file: Path) -> None:
        address = "postgresql://ada:s3cr3tpass@db.example/memory"
        loaded = config.load(environ | {"MEMORY_STORAGE__URL": address})
        assert loaded.settings.storage.url == ""
        assert loaded.ignored == (refuse("storage.url", user_file),)


def refuse(name: str, user_file: Path) -> str:
    variable = f"MEMORY_{name.upper().replace('.', '__')}"
    return f"{variable}: variables do not count here: set {name} in {user_file}"


class TestConsent:
    """Where hooks record is the user's decision. A project and a variable can only tighten it."""

    @pytest.mark.parametrize(
        ("setting", "users", "own", "combined"),
        [
            ("mode", "all", "opt-in", "opt-in"),
            ("mode", "opt-in", "all", "opt-in"),
            ("projects", ["/a", "/b"], ["/b", "/mine"], ["/b"]),
            ("exclude", ["/a"], ["/b"], ["/a", "/b"]),
            ("exclude", ["/a"], [], ["/a"]),
        ],
    )
    def test_it_is_tightened_and_not_loosened(
        self,
        environ: dict[str, str],
        user_file: Path,
        tmp_path: Path,
        setting: str,
        users: Any,
        own: Any,
        combined: Any,
    ) -> None:
        user_file.write_text(f"hooks.{setting} = {toml(users)}")
        by_variable = config.load(environ | {f"MEMORY_HOOKS__{setting.upper()}": as_text(own)})
        (tmp_path / "memory.toml").write_text(f"hooks.{setting} = {toml(own)}")
        by_project = config.load(environ, project_dir=tmp_path)
        for loaded in (by_variable, by_project):
            assert loaded.value(f"hooks.{setting}") == combined
            is_honored = own == combined or (setting == "exclude")
            assert bool(loaded.ignored) is not is_honored

    @pytest.mark.parametrize("folder", ["clients/*", "", "*", "~ada", "a/b", "/" + "x" * 1000])
    def test_what_is_no_folder_is_refused(
        self, environ: dict[str, str], user_file: Path, folder: str
    ) -> None:
        user_file.write_text(f"hooks.exclude = {toml([folder])}")
        with pytest.raises(ConfigError, match=r"hooks\.exclude must be a list of folders"):
            config.load(environ)


class TestByHand:
    """`grpc.require_key = false` is the user's own word: in a file of theirs, and nowhere else."""

    def test_the_users_file_may(self, environ: dict[str, str], user_file: Path) -> None:
        user_file.write_text("grpc.require_key = false")
        assert config.load(environ).settings.grpc.require_key is False

    def test_a_file_named_on_the_command_line_may(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        file = tmp_path / "other.toml"
        file.write_text("grpc.require_key = false")
        assert config.load(environ, file=file).settings.grpc.require_key is False

    @pytest.mark.parametrize("text", ["false", "0", "No", "OFF"])
    def test_the_environment_may_not(
        self, environ: dict[str, str], user_file: Path, text: str
    ) -> None:
        loaded = config.load(environ | {"MEMORY_GRPC__REQUIRE_KEY": text})
        assert loaded.settings.grpc.require_key is True
        assert loaded.sources == {}
        assert loaded.ignored == (refuse("grpc.require_key", user_file),)

    def test_a_project_may_not(self, environ: dict[str, str], tmp_path: Path) -> None:
        (tmp_path / "memory.toml").write_text("grpc.require_key = false")
        loaded = config.load(environ, project_dir=tmp_path)
        assert loaded.settings.grpc.require_key is True
        assert len(loaded.ignored) == 1


class TestReview:
    def test_only_the_users_file_may_switch_it_off(
        self, environ: dict[str, str], user_file: Path
    ) -> None:
        loaded = config.load(environ | {"MEMORY_HOOKS__REVIEW": "false"})
        assert loaded.settings.hooks.review is True
        assert loaded.ignored == (refuse("hooks.review", user_file),)
        user_file.write_text("hooks.review = false")
        assert config.load(environ).settings.hooks.review is False


class TestEnvironment:
    """A repository can choose the variables of hooks and commands that an agent runs there."""

    # None of them says where data goes or comes from, which program runs, or who is let in.
    BY_HAND: ClassVar = {
        "grpc.port", "grpc.tls_cert", "grpc.tls_key", "http.port", "http.tls_cert", "http.tls_key",
        "log.level",
    }  # fmt: skip

    def test_the_list_of_those_that_count_is_closed(self) -> None:
        assert {name for name, key in config.KEYS.items() if key.variable} == self.BY_HAND

    @pytest.mark.parametrize("by_hand", [False, True])
    @pytest.mark.parametrize("key", config.KEYS.values(), ids=lambda key: key.name)
    def test_a_variable_only_tightens_unless_its_setting_is_marked(
        self, environ: dict[str, str], key: Key, by_hand: bool
    ) -> None:
        assert key.project is None or not key.variable
        for value in list_other_values(key):
            variables = environ | {variable_of(key): as_text(value)}
            loaded = config.load(variables, started_by_hand=by_hand)
            if key.project is not None:
                assert loaded.value(key.name) == key.project.combine(key.default, value)
            elif key.variable and by_hand:
                assert loaded.value(key.name) == value
                assert loaded.sources == {key.name: variable_of(key)}
            else:
                assert loaded.settings == DEFAULTS
                assert loaded.sources == {}
                (reason,) = loaded.ignored
                assert reason.startswith(f"{variable_of(key)}: ")
                assert key.name in reason

    @pytest.mark.parametrize("by_hand", [False, True])
    @pytest.mark.parametrize("key", config.KEYS.values(), ids=lambda key: key.name)
    def test_one_that_does_not_count_may_be_nonsense(
        self, environ: dict[str, str], key: Key, by_hand: bool
    ) -> None:
        counts = key.project is not None or (key.variable and by_hand)
        if not counts:
            variables = environ | {variable_of(key): "\0nonsense"}
            assert config.load(variables, started_by_hand=by_hand).settings == DEFAULTS

    @pytest.mark.parametrize(
        ("variable", "name", "text", "value"),
        [
            ("MEMORY_GRPC__PORT", "grpc.port", "0", 0),
            ("MEMORY_HTTP__TLS_CERT", "http.tls_cert", "/a b", "/a b"),
            ("MEMORY_HOOKS__ENABLED", "hooks.enabled", "false", False),
            ("MEMORY_CLI__COLOR", "cli.color", "Off", False),
            ("MEMORY_HOOKS__PRE_COMPACT__CONFIDENCE_THRESHOLD",
             "hooks.pre_compact.confidence_threshold", "1", 1.0),
            ("MEMORY_HOOKS__POST_TOOL_USE__TRIGGER_TOOLS", "hooks.post_tool_use.trigger_tools",
             "Read, Edit,", ["Read", "Edit"]),
            ("MEMORY_HOOKS__POST_TOOL_USE__TRIGGER_TOOLS", "hooks.post_tool_use.trigger_tools",
             "", []),
        ],
    )  # fmt: skip
    def test_two_underscores_stand_between_levels(
        self, environ: dict[str, str], variable: str, name: str, text: str, value: Any
    ) -> None:
        loaded = config.load(environ | {variable: text}, started_by_hand=True)
        assert loaded.value(name) == value
        assert loaded.sources == {name: variable}

    def test_an_unknown_key_is_named_with_its_variable_and_the_nearest_known_one(
        self, environ: dict[str, str]
    ) -> None:
        assert config.load(environ | {"MEMORY_GRPC__PRT": "1"}).ignored == (
            "MEMORY_GRPC__PRT: unknown setting 'grpc.prt'; did you mean 'grpc.port'?",
        )

    @pytest.mark.parametrize("variable", ["XDG_DATA_HOME", "XDG_CONFIG_HOME"])
    def test_a_folder_that_is_not_used_any_more_is_named(
        self, environ: dict[str, str], tmp_path: Path, variable: str
    ) -> None:
        moved = tmp_path / "moved"
        assert config.load(environ | {variable: str(moved)}).ignored == ()
        (moved / "agent-memory").mkdir(parents=True)
        (reason,) = config.load(environ | {variable: str(moved)}).ignored
        assert reason.startswith(f"{variable}: to use {moved}/agent-memory, move it to {tmp_path}")
        places = config.folders(environ)
        used = places.data if variable == "XDG_DATA_HOME" else places.config
        used.parent.mkdir(parents=True, exist_ok=True)
        if not used.exists():
            used.symlink_to(moved / "agent-memory")
            assert config.load(environ | {variable: str(moved)}).ignored == ()

    @pytest.mark.parametrize(
        ("variable", "text", "expected"),
        [
            ("MEMORY_GRPC__PORT", "", "a whole number from 0 to 65535"),
            ("MEMORY_GRPC__PORT", "x", "a whole number from 0 to 65535"),
            ("MEMORY_GRPC__PORT", "1.5", "a whole number from 0 to 65535"),
            ("MEMORY_GRPC__PORT", "65536", "a whole number from 0 to 65535"),
            ("MEMORY_GRPC__PORT", "9" * 5000, "a whole number from 0 to 65535"),
            ("MEMORY_HOOKS__ENABLED", "maybe", "true or false"),
            ("MEMORY_HOOKS__ENABLED", "", "true or false"),
            ("MEMORY_LOG__LEVEL", "INFO", "one of trace, debug, info, warn, error"),
            ("MEMORY_HOOKS__PRE_COMPACT__CONFIDENCE_THRESHOLD", "2", "a number from 0 to 1"),
            ("MEMORY_HOOKS__PRE_COMPACT__CONFIDENCE_THRESHOLD", "nan", "a number from 0 to 1"),
            ("MEMORY_HOOKS__PRE_COMPACT__CONFIDENCE_THRESHOLD", "a", "a number from 0 to 1"),
        ],
    )
    def test_a_wrong_value_is_refused_with_its_variable_and_what_it_must_be(
        self, environ: dict[str, str], variable: str, text: str, expected: str
    ) -> None:
        with pytest.raises(ConfigError) as told:
            config.load(environ | {variable: text}, started_by_hand=True)
        message = str(told.value)
        assert message.startswith(f"{variable}: ")
        assert f"must be {expected}, not " in message

    @pytest.mark.parametrize(
        "variable",
        ["MEMORY_LIMIT", "MEMORY_GRPC", "MEMORY_OTHER__PORT", "MEMORY___PORT", "OTHER_GRPC__PORT",
         "MEMORY_ENDPOINT", "MEMORY__"],
    )  # fmt: skip
    def test_what_is_outside_the_known_sections_is_someone_elses(
        self, environ: dict[str, str], variable: str
    ) -> None:
        assert config.load(environ | {variable: "?"}).settings == DEFAULTS


class TestFlags:
    def test_a_wrong_value_is_refused(self, environ: dict[str, str]) -> None:
        with pytest.raises(ConfigError, match=r"the command line: grpc\.port must be"):
            config.load(environ, flags={"grpc.port": 70_000})

    def test_an_unknown_one_is_refused(self, environ: dict[str, str]) -> None:
        with pytest.raises(ConfigError, match=r"unknown setting 'grpc\.prt'"):
            config.load(environ, flags={"grpc.prt": 1})


class TestFolders:
    def test_all_are_under_home_where_nothing_is_said(self) -> None:
        found = config.folders({"HOME": "/home/someone"})
        assert found == config.Folders(
            config=Path("/home/someone/.config/agent-memory"),
            data=Path("/home/someone/.local/share/agent-memory"),
            cache=Path("/home/someone/.cache/agent-memory"),
            runtime=Path("/home/someone/.cache/agent-memory/run"),
        )
        assert found.config_file == Path("/home/someone/.config/agent-memory/config.toml")

    def test_no_variable_but_home_moves_them(self) -> None:
        names = ("CONFIG_HOME", "DATA_HOME", "CACHE_HOME", "STATE_HOME", "RUNTIME_DIR")
        environ = {"HOME": "/home/someone"} | {f"XDG_{name}": "/x" for name in names}
        assert config.folders(environ) == config.folders({"HOME": "/home/someone"})

    def test_sockets_are_where_the_system_wants_them_for_the_users_own_home(self) -> None:
        found = config.folders({"HOME": environment.find_home()})
        system = Path(f"/run/user/{os.getuid()}")
        own = found.cache / "run"
        assert found.runtime == (system / "agent-memory" if system.exists() else own)

    @pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
    def test_without_a_home_there_still_are_some(self, environ: Mapping[str, str]) -> None:
        assert config.folders(environ).data == Path("/.local/share/agent-memory")


class TestKeys:
    def test_a_known_one_says_what_it_is(self) -> None:
        key = config.find_key("grpc.port")
        assert (key.type, key.default, key.applies) == (int, 50051, "restart")
        assert key.doc

    def test_an_unknown_one_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(ConfigError, match=r"'toc\.max_token'; did you mean 'toc\.max_tokens'"):
            config.find_key("toc.max_token")

    def test_a_section_is_no_setting(self) -> None:
        with pytest.raises(ConfigError, match="unknown setting 'grpc'"):
            config.find_key("grpc")

    @pytest.mark.parametrize("key", config.KEYS.values(), ids=lambda key: key.name)
    def test_each_is_described_and_has_a_default_that_would_be_accepted(self, key: Key) -> None:
        assert key.doc.endswith(".")
        assert "None" not in key.expects()
        assert config.parse(key.name, as_text(key.default)) == key.default

    def test_a_value_in_force_is_found_by_name(self, environ: dict[str, str]) -> None:
        loaded = config.load(environ | {"MEMORY_HOOKS__STOP__ENABLED": "no"})
        assert loaded.value("hooks.stop.enabled") is False
        with pytest.raises(ConfigError, match="unknown setting"):
            loaded.value("hooks.stop.enable")

    def test_settings_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            DEFAULTS.grpc.port = 1  # type: ignore[misc]

    def test_text_gives_a_value_or_a_refusal(self) -> None:
        assert config.parse("grpc.port", "+80") == 80
        assert config.parse("cli.color", "on") is True
        assert config.parse("hooks.post_tool_use.trigger_tools", "Read") == ["Read"]
        with pytest.raises(ConfigError, match=r"grpc\.port must be a whole number"):
            config.parse("grpc.port", "http")
        with pytest.raises(ConfigError, match=r"did you mean 'grpc\.port'"):
            config.parse("grpc.prt", "1")


# What TOML, its reader or its writer could trip over.
AWKWARD = "ab.,=#[]{}'\"\\%$ \t\n\r\0\x1b\x7f\x85\u2028é\u0301日😀"
texts = st.text(st.sampled_from(AWKWARD))


def values_of(key: Key) -> st.SearchStrategy[Any]:
    """Any value that this key takes."""
    if key.choices:
        return st.sampled_from(key.choices)
    if key.rule is config.TIME_ZONE:
        return st.sampled_from(("", "UTC", "Europe/Berlin", "Asia/Kolkata"))
    if key.type is bool:
        return st.booleans()
    if key.type is int:
        return st.integers(key.minimum, key.maximum or 2**53)
    if key.type is float:
        return st.floats(key.minimum, key.maximum)
    if key.rule is config.TENANT:
        return st.sampled_from(("default", "a", "team-7.eu_west"))
    if key.rule is config.DATABASE_ADDRESS:
        return st.sampled_from(["", "postgresql://me@db.example/memory"])
    if key.rule is config.SHARED_REPOSITORIES:
        entries = ["user", "git.example/acme/my app", "/srv/notes", "my-app", "project:shop"]
        return st.lists(st.sampled_from(entries), max_size=3)
    if key.rule is config.SERVER_ADDRESS:
        return st.sampled_from(("", "https://memory.example", "http://localhost:8000"))
    if key.rule is config.FOLDERS:
        return st.lists(st.sampled_from(("~", "/", "~/clients/*", "/srv/a b", "**/private")))
    if get_origin(key.type) is list:
        return st.lists(texts)
    return texts


VALUES = {name: values_of(key) for name, key in config.KEYS.items()}
one_setting = st.sampled_from(list(VALUES)).flatmap(
    lambda name: st.tuples(st.just(name), VALUES[name])
)
assignments = st.lists(one_setting, max_size=8).map(dict)


unhurried = settings(deadline=None)  # a busy machine is no failure
fewer = settings(deadline=None, max_examples=20)  # each writes a file or several


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all examples of a property, each of which writes its files anew."""
    return tmp_path_factory.mktemp("properties")


class TestProperties:
    @unhurried
    @given(values=assignments, sections=st.booleans())
    def test_what_is_written_is_what_is_read(
        self, folder: Path, values: dict[str, Any], sections: bool
    ) -> None:
        file = folder / "written.toml"
        file.write_text(document(values, sections=sections))
        loaded = config.load({}, file=file)
        assert {name: loaded.value(name) for name in values} == values
        assert loaded.sources == dict.fromkeys(values, str(file))
        assert all(loaded.value(n) == k.default for n, k in config.KEYS.items() if n not in values)

    @fewer
    @given(values=assignments, sections=st.booleans(), change=one_setting)
    @example(
        values={"hooks.enabled": False, "storage.path": ""},
        sections=False,
        change=("hooks.session_start.enabled", False),
    )
    def test_a_changed_file_has_the_change_and_all_that_it_had(
        self, folder: Path, values: dict[str, Any], sections: bool, change: tuple[str, Any]
    ) -> None:
        name, value = change
        file = folder / "changed.toml"
        file.write_text("# mine\n" + document(values, sections=sections))
        config_file.change(file, name, value)
        loaded = config.load({}, file=file)
        assert {each: loaded.value(each) for each in loaded.sources} == values | {name: value}
        assert file.read_text().startswith("# mine\n")

    @fewer
    @given(changes=st.lists(one_setting, max_size=8))
    def test_changes_one_after_another_all_stay(
        self, folder: Path, changes: list[tuple[str, Any]]
    ) -> None:
        file = folder / "grown.toml"
        file.unlink(missing_ok=True)
        for name, value in changes:
            config_file.change(file, name, value)
        loaded = config.load({}, file=file) if changes else config.load({})
        assert {each: loaded.value(each) for each in loaded.sources} == dict(changes)

    def test_several_changes_are_written_all_or_none(self, folder: Path) -> None:
        file = folder / "several.toml"
        file.write_text("[cli]\ncolor = true\n")
        values = {"cli.color": False, "backup.path": "/b", "backup.keep": 3}
        config_file.change_all(file, values)
        loaded = config.load({}, file=file)
        assert {each: loaded.value(each) for each in loaded.sources} == values
        before = file.read_bytes()
        with pytest.raises(ConfigError, match="cannot be added"):
            config_file.change_all(file, {"backup.keep": 4, "backup.path": "\ud800"})
        assert file.read_bytes() == before

    @unhurried
    @given(name=texts)
    def test_any_name_is_a_known_one_or_refused(self, name: str) -> None:
        if name in config.KEYS:
            assert config.find_key(name).name == name
        else:
            with pytest.raises(ConfigError):
                config.find_key(name)

    @unhurried
    @given(key=st.sampled_from(list(config.KEYS.values())), text=texts)
    def test_any_text_is_a_value_that_a_file_could_hold_or_refused(
        self, folder: Path, key: Key, text: str
    ) -> None:
        try:
            value = config.parse(key.name, text)
        except ConfigError:
            return
        file = folder / "parsed.toml"
        file.write_text(document({key.name: value}, sections=False))
        assert config.load({}, file=file).value(key.name) == value

    @unhurried
    @given(text=texts)
    def test_any_file_is_read_or_refused(self, folder: Path, text: str) -> None:
        file = folder / "random.toml"
        file.write_text(text)
        try:
            loaded = config.load({}, file=file)
        except ConfigError:
            return
        assert loaded.settings == DEFAULTS


def document(values: Mapping[str, Any], *, sections: bool) -> str:
    """These settings as TOML, under headers or with dotted keys."""
    if not sections:
        return "".join(f"{name} = {toml(value)}\n" for name, value in values.items())
    grouped: dict[str, list[str]] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        grouped.setdefault(section, []).append(f"{key} = {toml(value)}\n")
    return "".join(f"[{section}]\n{''.join(lines)}" for section, lines in grouped.items())


def toml(value: Any) -> str:
    """A value as TOML: as JSON, but for the one character that only TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def as_text(value: Any) -> str:
    """A value as it is written in a variable or on a command line."""
    if isinstance(value, list):
        return ",".join(value)
    return str(value)


def list_other_values(key: Key) -> list[Any]:
    """Some values of a key that are not its default."""
    if key.choices:
        return [choice for choice in key.choices if choice != key.default]
    if key.type is bool:
        return [not key.default]
    if key.type in (int, float):
        values = {key.minimum, key.maximum, (key.default + (key.maximum or 9)) // 2}
        return [value for value in values if value not in (None, key.default)]
    if get_origin(key.type) is list:
        lists: list[Any] = [[], ["/x"] if key.rule is config.FOLDERS else ["x"]]
        return [value for value in lists if value != key.default]
    text = {
        config.TIME_ZONE: "Europe/Berlin",
        config.DATABASE_ADDRESS: "postgresql://me@db.example/memory",
        config.SERVER_ADDRESS: "https://memory.example",
    }
    return [text.get(key.rule, "other")] if key.rule else ["other"]


def variable_of(key: Key) -> str:
    return "MEMORY_" + key.name.upper().replace(".", "__")
