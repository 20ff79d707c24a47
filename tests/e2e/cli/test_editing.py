"""Editing on a real daemon: the user's editor, removed tags and relations, undo, and who captured
what."""

import json
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests import git_repositories
from tests.command_runner import Home, Screen
from tests.git_repositories import Repository
from tests.mcp_clients import LineClient
from tests.memory_commands import INVALID, MISSING, OK, USAGE, MemoryCommand, assert_refused

AUTHOR = "Ann Example <ann@example.org>"
_numbers = count()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture
def repository(home: Home) -> Repository:
    created = git_repositories.make_repository(home.work / f"app{next(_numbers)}")
    created.git("config", "user.name", "Ann Example")
    created.git("config", "user.email", "ann@example.org")
    return created


@pytest.fixture
def memory(home: Home, repository: Repository) -> MemoryCommand:
    return MemoryCommand(home, repository.folder)


class Editor:
    """An editor without a user: each time it is opened, it runs the next script on the file, and
    keeps what it was given."""

    def __init__(self, folder: Path, *scripts: str) -> None:
        self._folder = folder / f"editor{next(_numbers)}"
        self._folder.mkdir()
        for number, script in enumerate(scripts):
            (self._folder / f"{number}.sh").write_text(script)
        program = self._folder / "run me"  # git allows blanks in quotes; so do we
        program.write_text(
            '#!/bin/sh\ncd "$(dirname "$0")"\nn=$(ls given.* 2>/dev/null | wc -l)\n'
            'cp "$2" "given.$n"\nexec sh "./$n.sh" "$2"\n'
        )
        program.chmod(0o700)
        self.environ = {"EDITOR": f"'{program}' --wait"}

    def read_given(self, number: int = 0) -> str:
        return (self._folder / f"given.{number}").read_text()


def fill(**fields: str) -> str:
    """Return a script that sets fields of the document."""
    return "".join(f"sed -i 's/^{name}:.*/{name}: {fields[name]}/' \"$1\"\n" for name in fields)


@pytest.fixture
def open_editor(memory: MemoryCommand, home: Home, tmp_path: Path) -> Any:
    def open_(editor: Editor, *words: str, env: dict[str, str] | None = None) -> Screen:
        environ = {"TMPDIR": str(tmp_path), "NO_COLOR": "1", **editor.environ, **(env or {})}
        return home.on_terminal("memory", *words, env=environ, cwd=memory.folder)

    return open_


def list_drafts(folder: Path) -> list[Path]:
    return list(folder.glob("memory-*/memory.md"))


class TestEditor:
    def test_a_memory_opens_as_a_document_and_what_is_saved_is_kept(
        self, memory: MemoryCommand, open_editor: Any, tmp_path: Path
    ) -> None:
        other = memory.capture("blockers", "The disk is full")
        name = memory.capture(
            *("decisions", "Use: 'PostgreSQL' # 17", "--tags", "db,draft"),
            *("--relates-to", other, "--content", "---\nIt has JSONB.\n\n"),
        )
        editor = Editor(tmp_path, fill(tags="db, sql", relates_to=""))
        with open_editor(editor, "edit", name) as screen:
            assert screen.finish() == OK
        assert f"Changed: {name}" in screen.text
        given = editor.read_given()
        assert "\nsummary: Use: 'PostgreSQL' # 17\ntags: db, draft\nspec:\n" in given
        assert given.endswith(f"\nrelates_to: {other}\n---\n---\nIt has JSONB.\n\n\n")
        shown = memory.show(name)
        assert (shown["tags"], shown["relates_to"]) == (["db", "sql"], [])
        assert shown["content"] == "---\nIt has JSONB.\n\n"
        assert list_drafts(tmp_path) == []
        editor = Editor(tmp_path, fill(summary="Use PostgreSQL: 18"))
        with open_editor(editor, "edit", name) as screen:
            assert screen.finish() == OK
        assert f"Superseded {name} by: " in screen.text
        new = memory.show(memory.show(name)["superseded_by"])
        assert (new["summary"], new["tags"]) == ("Use PostgreSQL: 18", ["db", "sql"])
        assert new["content"] == "---\nIt has JSONB.\n\n"

    def test_what_is_wrong_is_said_by_line_and_nothing_has_to_be_typed_again(
        self, memory: MemoryCommand, open_editor: Any, tmp_path: Path
    ) -> None:
        name = memory.capture("decisions", "Short")
        wrong = fill(summary="x" * 101) + 'sed -i \'s/^tags/tagz/\' "$1"\necho Why >> "$1"\n'
        editor = Editor(tmp_path, wrong, fill(summary="Shorter") + 'sed -i s/^tagz/tags/ "$1"')
        with open_editor(editor, "edit", name) as screen:
            screen.read_until("Edit again?")
            screen.type("\n")
            assert screen.finish() == OK
        assert "line 6: the summary has 101 characters; the limit is 100" in screen.text
        assert "line 7: there is no field 'tagz': did you mean 'tags'?" in screen.text
        assert "x" * 101 in editor.read_given(1)
        new = memory.show(memory.show(name)["superseded_by"])
        assert (new["summary"], new["content"]) == ("Shorter", "Why")

    def test_who_gives_up_is_told_where_the_text_is(
        self, memory: MemoryCommand, open_editor: Any, tmp_path: Path
    ) -> None:
        editor = Editor(tmp_path, "echo 'My long thoughts' >> \"$1\"")
        with open_editor(editor, "capture", "learnings") as screen:
            screen.read_until("Edit again?")
            screen.type("n\n")
            assert screen.finish() == INVALID
        (draft,) = list_drafts(tmp_path)
        assert f"your text is in {draft}" in screen.text.replace("\r\n", "")
        assert draft.read_text().endswith("My long thoughts\n")
        assert draft.stat().st_mode & 0o077 == 0
        assert draft.parent.stat().st_mode & 0o077 == 0
        assert memory.list_ids() == []

    @pytest.mark.parametrize("script", ["", ': > "$1"'], ids=["unchanged", "emptied"])
    def test_without_a_change_nothing_happens(
        self, memory: MemoryCommand, open_editor: Any, tmp_path: Path, script: str
    ) -> None:
        name = memory.capture("decisions", "Stays")
        for words in (("edit", name), ("capture", "decisions")):
            with open_editor(Editor(tmp_path, script), *words) as screen:
                assert screen.finish() == OK
            assert "Nothing was " in screen.text
        assert memory.list_ids() == [name]
        assert list_drafts(tmp_path) == []

    def test_an_editor_that_fails_changes_nothing(
        self, memory: MemoryCommand, open_editor: Any, tmp_path: Path
    ) -> None:
        editor = Editor(tmp_path, "exit 3")
        with open_editor(editor, "capture", "decisions") as screen:
            assert screen.finish() == INVALID
        assert "ended with code 3" in screen.text
        missing = {"EDITOR": "no-such-editor"}
        with open_editor(editor, "capture", "decisions", env=missing) as screen:
            assert screen.finish() == INVALID
        assert "set EDITOR" in screen.text
        assert memory.list_ids() == []

    def test_visual_comes_first_and_options_fill_the_document(
        self, memory: MemoryCommand, open_editor: Any, tmp_path: Path
    ) -> None:
        editor = Editor(tmp_path, fill(summary="Measure first") + "echo '# Heading' >> \"$1\"")
        environ = {"EDITOR": "false", "VISUAL": editor.environ["EDITOR"]}
        words = ("capture", "learnings", "--tags", "speed", "--domain", "user")
        with open_editor(editor, *words, env=environ) as screen:
            assert screen.finish() == OK
        (found,) = memory.json("list", "--domain", "user", "--tags", "speed")["memories"]
        assert (found["summary"], found["tags"]) == ("Measure first", ["speed"])
        assert memory.show(found["uri"])["content"] == "# Heading"

    def test_without_a_person_at_a_terminal_it_is_a_usage_error(
        self, memory: MemoryCommand, home: Home
    ) -> None:
        name = memory.capture("decisions", "Stays")
        assert_refused(memory("edit", name), USAGE, "--summary", "your editor opens")
        assert_refused(memory("capture", "decisions"), USAGE, 'memory capture decisions "')
        with home.on_terminal("memory", "capture", "decisions", env={"CLAUDECODE": "1"}) as screen:
            assert screen.finish() == USAGE


class TestRemoving:
    def test_tags_and_relations(self, memory: MemoryCommand) -> None:
        other = memory.capture("blockers", "The disk is full")
        name = memory.capture("decisions", "One", "--tags", "a,b,c", "--relates-to", other)
        memory.text("edit", name, "--remove-tag", "a,b", "--tags", "d", "--remove-tag", "c")
        assert memory.show(name)["tags"] == ["d"]
        answer = memory("edit", name, "--remove-tag", "a")
        assert_refused(answer, INVALID, "no tag 'a'", "its tags are d")
        answer = memory("edit", name, "--remove-relation", "ffff")
        assert_refused(answer, INVALID, f"it relates to {other}")
        memory.text("edit", name, "--remove-relation", other.split(":")[1][:6])
        assert memory.show(name)["relates_to"] == []

    def test_what_was_removed_stays_removed_in_other_clones(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        remote = git_repositories.make_repository(
            memory.home.work / f"remote{next(_numbers)}.git", bare=True
        )
        repository.git("remote", "add", "origin", str(remote.folder))
        repository.git("push", "-q", "origin", "HEAD")
        other = memory.capture("blockers", "The disk is full")
        name = memory.capture("decisions", "Share", "--tags", "draft,db", "--relates-to", other)
        memory.text("sync", "--remote", "--domain", "project")
        with Home() as second:
            second.serve()
            clone = second.work / repository.folder.name
            git_repositories.clone_repository(remote, clone)
            theirs = MemoryCommand(second, clone)
            theirs.text("sync", "--remote", "--domain", "project")
            assert theirs.show(name)["tags"] == ["db", "draft"]
            memory.text("edit", name, "--remove-tag", "draft", "--remove-relation", other)
            theirs.text("resolve", name)  # later, and it still has both
            theirs.text("edit", name, "--tags", "theirs")
            memory.text("sync", "--remote", "--domain", "project")
            theirs.text("sync", "--remote", "--domain", "project")
            memory.text("sync", "--remote", "--domain", "project")
            for each in (memory, theirs):
                shown = each.show(name)
                assert shown["tags"] == ["db", "theirs"]
                assert (shown["relates_to"], shown["status"]) == ([], "resolved")
            theirs.text("edit", name, "--tags", "draft")
            theirs.text("sync", "--remote", "--domain", "project")
        memory.text("sync", "--remote", "--domain", "project")
        assert memory.show(name)["tags"] == ["db", "draft", "theirs"]


class TestUndo:
    def undo(self, memory: MemoryCommand) -> dict[str, Any]:
        done: dict[str, Any] = memory.json("undo")
        return done

    def test_step_by_step_all_is_as_it_was(self, memory: MemoryCommand) -> None:
        name = memory.capture("decisions", "Use PostgreSQL", "--tags", "db")
        memory.text("edit", name, "--tags", "sql", "--remove-tag", "db")
        memory.text("resolve", name)
        new = memory.json("edit", name, "--summary", "Use PostgreSQL 17")["id"]
        memory.text("archive", new)
        done = self.undo(memory)
        assert (done["action"], done["restored"], done["archived"]) == ("archive", [new], [])
        assert memory.show(new)["status"] == "active"
        done = self.undo(memory)
        assert (done["action"], done["restored"], done["archived"]) == ("edit", [name], [new])
        shown = memory.show(name)
        assert (shown["status"], shown["superseded_by"]) == ("resolved", None)
        assert memory.show(new)["status"] == "archived"
        assert self.undo(memory)["action"] == "resolve"
        assert memory.show(name)["status"] == "active"
        assert memory.show(name)["tags"] == ["sql"]
        assert self.undo(memory)["action"] == "edit"
        assert memory.show(name)["tags"] == ["db"]
        done = self.undo(memory)
        assert (done["action"], done["archived"]) == ("capture", [name])
        assert memory.show(name)["status"] == "archived"

    def test_it_says_what_it_will_do_and_asks(self, memory: MemoryCommand, home: Home) -> None:
        name = memory.capture("decisions", "Hasty")
        text = memory.text("undo", "--dry-run")
        assert text.startswith("Last change: capture, ")
        assert f"Archive {name}  Hasty\n" in text
        assert memory.show(name)["status"] == "active"
        for answer, status in (("n", "active"), ("y", "archived")):
            with home.on_terminal("memory", "undo", cwd=memory.folder) as screen:
                screen.read_until("Undo this?")
                screen.type(f"{answer}\n")
                assert screen.finish() == OK
            assert f"Archive {name}" in screen.text
            assert memory.show(name)["status"] == status

    def test_a_consolidation_and_what_was_before_it(self, memory: MemoryCommand) -> None:
        older = memory.capture("decisions", "Use PostgreSQL as the shop's database", "--tags", "a")
        newer = memory.capture("decisions", "Use PostgreSQL as the shop database", "--tags", "b")
        memory.text("consolidate", "--domain", "project", "--full", "--yes")
        assert memory.show(newer)["tags"] == ["a", "b"]
        assert memory.show(older)["status"] == "archived"
        assert self.undo(memory)["action"] == "consolidate"
        assert [memory.show(each)["tags"] for each in (older, newer)] == [["a"], ["b"]]
        assert memory.show(older)["status"] == "active"
        assert self.undo(memory)["archived"] == [newer]
        assert self.undo(memory)["archived"] == [older]

    def test_an_import_is_one_change(self, memory: MemoryCommand) -> None:
        given = b"- {namespace: decisions, summary: One}\n- {namespace: decisions, summary: Two}"
        assert memory("import", given=given).code == OK
        assert len(self.undo(memory)["archived"]) == 2
        assert memory.list_ids() == []

    def test_more_than_a_thousand_memories_are_not_undone(self, memory: MemoryCommand) -> None:
        stored = memory.capture("decisions", "Before the import")
        records = ({"namespace": "progress", "summary": f"Step {n}"} for n in range(1_001))
        given = "\n".join(map(json.dumps, records)).encode()
        assert memory("import", given=given).code == OK
        assert_refused(memory("undo"), INVALID, "changed 1,001 memories", "at most 1,000")
        assert self.undo(memory)["archived"] == [stored]

    def test_forgetting_cannot_be_undone_and_the_change_before_it_can(
        self, memory: MemoryCommand
    ) -> None:
        stored = memory.capture("decisions", "Stays known")
        gone = memory.capture("decisions", "Goes for good")
        memory.text("forget", gone, "--yes")
        for words in (("undo", "--dry-run"), ("undo",)):
            assert_refused(memory(*words), INVALID, "forgot 1 memory", "cannot be undone")
        self.undo(memory)  # the capture of what is forgotten: nothing is left of it
        assert self.undo(memory)["archived"] == [stored]

    def test_what_was_changed_since_and_what_agents_do_stays(self, memory: MemoryCommand) -> None:
        name = memory.capture("blockers", "The disk is full")
        agent = {"CLAUDECODE": "1"}
        assert memory("resolve", name, env=agent).code == OK
        assert memory("capture", "decisions", "By an agent", env=agent).code == OK
        assert_refused(memory("undo", env=agent), INVALID, "only you can undo your changes")
        done = self.undo(memory)
        assert (done["action"], done["archived"], done["left"]) == ("capture", [], [name])
        assert memory.show(name)["status"] == "resolved"

    def test_nothing_to_undo(self) -> None:
        with Home() as fresh:
            fresh.serve()
            answer = fresh.run("memory", "undo")
            assert_refused(answer, MISSING, "nothing to undo")


class TestWhoCaptured:
    def test_a_person_on_the_command_line(
        self, memory: MemoryCommand, repository: Repository
    ) -> None:
        name = memory.capture("decisions", "Ours")
        shown = memory.show(name)
        assert (shown["author"], shown["agent"], shown["interface"]) == (AUTHOR, None, "cli")
        assert f"Captured by: {AUTHOR}, on the command line\n" in memory.text("show", name)
        assert f"By: {AUTHOR}, on the command line\n" in memory.text("why", name)
        why = memory.json("why", name)["memory"]
        assert (why["author"], why["commit"]) == (AUTHOR, repository.head)
        memory.text("sync", "--domain", "project")
        assert f"author: {AUTHOR}\n".encode() in repository.note("decisions")
        user = memory.capture("patterns", f"Mine {next(_numbers)}", "--domain", "user")
        assert memory.json("list", "--domain", "user")["memories"][0]["id"] == user
        assert memory.json("list", "--domain", "user")["memories"][0]["author"] == AUTHOR

    def test_an_agent_in_its_shell(self, memory: MemoryCommand) -> None:
        environ = {"CODEX_THREAD_ID": "thread-7", "GIT_AUTHOR_NAME": "Ben"}
        answer = memory("capture", "decisions", "Theirs", "--format", "json", env=environ)
        shown = memory.show(answer.json()["memory_id"])
        assert (shown["agent"], shown["session_id"]) == ("codex", "thread-7")
        assert shown["author"] == "Ben <ann@example.org>"

    def test_a_hook_of_an_agent(self, memory: MemoryCommand) -> None:
        prompt = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": f"talk-{next(_numbers)}",
            "cwd": str(memory.folder),
            "prompt": "[decision] Use tabs in Makefiles",
        }
        capturing = {"hooks.user_prompt.auto_capture": "true"}
        answer = memory("hook", "auto", given=json.dumps(prompt).encode(), env=capturing)
        assert "awaits the user's review" in answer.text
        (found,) = memory.json("list", "--domain", "project", "--status", "pending")["memories"]
        assert (found["author"], found["agent"], found["interface"]) == (
            AUTHOR,
            "claude-code",
            "hook",
        )
        assert found["session_id"] == prompt["session_id"]
        name = found["id"]
        with memory.home.on_terminal("memory", "review", "--accept", name) as screen:
            assert screen.finish() == OK
        assert memory.show(name)["agent"] == "claude-code"
        done = memory.json("undo")
        assert (done["action"], done["archived"]) == ("review", [name])

    def test_a_client_over_mcp(self, home: Home, memory: MemoryCommand) -> None:
        words = f"Answer in one page {next(_numbers)}"
        with LineClient(home) as client:
            client.call(1, "memory_capture", namespace="patterns", summary=words, domain="user")
            while "result" not in (answer := client.receive()):
                pass  # a notification
            found = answer["result"]["structuredContent"]
        shown = memory.show(found["memory_id"])
        assert (shown["agent"], shown["interface"]) == ("by hand", "mcp")
        text = memory.text("why", found["memory_id"])
        assert "with by hand, over MCP\n" in text


class TestPassing:
    @pytest.mark.parametrize("format_", ["yaml", "json", "jsonl", "markdown"])
    def test_an_export_of_an_import_has_the_same_bytes(
        self, memory: MemoryCommand, format_: str
    ) -> None:
        one = memory.capture("decisions", "Use PostgreSQL", "--tags", "db,draft")
        memory.text("edit", one, "--remove-tag", "draft")
        new = memory.json("edit", one, "--summary", "Use PostgreSQL 17")["id"]
        memory.capture("blockers", "Full", "--relates-to", new, "--content", "a: b\n\n---\n")
        memory.text("resolve", memory.capture("progress", "Done"))
        words = ("export", "--domain", "project", "--include-archived", "--format", format_)
        exported = memory(*words)
        assert b"superseded_by" in exported.out
        assert b"tag_changes" in exported.out
        with Home() as fresh:
            fresh.serve()
            # Of the same name, and without the commits that the memories are about.
            there = git_repositories.make_repository(fresh.work / memory.folder.name)
            elsewhere = MemoryCommand(fresh, there.folder)
            assert elsewhere("import", "--format", format_, given=exported.out).code == OK
            assert elsewhere(*words).out == exported.out
            elsewhere.text("sync", "--domain", "project")
            assert elsewhere(*words).out == exported.out


def test_the_launcher_keeps_the_text_if_the_daemon_dies(tmp_path: Path) -> None:
    with Home() as home:
        pid = home.serve()
        editor = Editor(tmp_path, f"kill -9 {pid}\necho 'My thoughts' >> \"$1\"")
        environ = {"TMPDIR": str(tmp_path), "NO_COLOR": "1", **editor.environ}
        with home.on_terminal("memory", "capture", "decisions", env=environ) as screen:
            assert screen.finish() != OK
        (draft,) = list_drafts(tmp_path)
        assert "your text is in " in screen.text
        assert "My thoughts" in draft.read_text()
        shutil.rmtree(draft.parent)
