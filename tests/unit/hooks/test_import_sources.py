"""Import: what is particular to a source."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agent_memory.features.hooks.adapters.transcripts import obsidian
from agent_memory.features.hooks.adapters.transcripts.readers import build_readers
from agent_memory.features.hooks.model import vault_notes
from agent_memory.features.hooks.model.import_sources import ImportSource, list_default_paths
from agent_memory.features.hooks.model.transcripts import TranscriptEntry
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import SUMMARIZES, TITLES
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import TIMEOUT, unexpected
from tests.inline_worker import InlineWorker
from tests.memory_engine import MemoryEngine
from tests.past_conversations import WORDS, build_chatgpt, write_gemini, write_obsidian
from tests.transcript_files import START_MS, ImportHarness, iso, write

Said = list[tuple[str, str]]


@pytest.fixture
def importing(tmp_path: Path) -> Iterator[ImportHarness]:
    store = CommittedStore(MemoryEngine(), unexpected)
    yield ImportHarness(store, tmp_path / "data")
    store.close()


def read(source: str, path: Path) -> list[TranscriptEntry]:
    reader = build_readers(InlineWorker())[source]
    found = [chunk for _, chunk in reader.read_chunks(reader.list_sources(str(path)))]
    assert [each.reason for chunk in found for each in chunk.refused] == []
    return [entry for chunk in found for entry in chunk.recorded]


def list_said(entries: list[TranscriptEntry]) -> Said:
    return [(entry.role.name.lower(), entry.text) for entry in entries if entry.text]


def dump(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


class TestGemini:
    def line(self, number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        at = iso(START_MS + number * 1000)
        return {"id": f"m{number}", "timestamp": at, "type": kind, "content": content, **more}

    def call(self, name: str, result: str, **arguments: Any) -> dict[str, Any]:
        response = {"functionResponse": {"response": {"output": result}}}
        return {
            "id": f"call-{name}",
            "name": name,
            "args": arguments,
            "status": "success",
            "timestamp": iso(START_MS + 1500),
            "result": [response] if result else [],
        }

    def test_tools_have_their_names_and_come_once(self, tmp_path: Path) -> None:
        calls = [self.call("run_shell_command", "7 gulls", command="wc gulls"), self.call("x", "")]
        said = self.line(1, "gemini", "I count.", model="g")
        path = write(
            tmp_path / "chats" / "session-1.jsonl",
            [
                {"sessionId": "s", "startTime": iso(START_MS)},
                self.line(0, "user", [{"text": "Count the gulls."}]),
                said,
                {**said, "toolCalls": calls},
                {**said, "toolCalls": calls, "tokens": {}},
                self.line(2, "user", [{"functionResponse": {"response": {"output": "7 gulls"}}}]),
                {"$set": {"summary": "Gulls are counted"}},
            ],
        )
        entries = read("gemini", path)
        assert list_said(entries) == [
            ("user", "Count the gulls."),
            ("assistant", "I count."),
            ("tool", "run_shell_command: wc gulls\n7 gulls"),
            ("system", "Gulls are counted"),
        ]
        assert entries[3].metadata["tool_name"] == "run_shell_command"
        assert entries[4].metadata[TITLES] == "agent"

    def test_context_of_hooks_is_no_prompt(self, tmp_path: Path) -> None:
        words = "<hook_context>&lt;memory_context&gt;x&lt;/memory_context&gt;</hook_context>Go on"
        path = write(
            tmp_path / "chats" / "session-1.jsonl",
            [{"sessionId": "s"}, self.line(0, "user", words)],
        )
        assert list_said(read("gemini", path)) == [("user", "Go on")]

    def test_an_earlier_file_is_one_object_in_a_folder_with_a_hash(self, tmp_path: Path) -> None:
        folder = hashlib.sha256(b"/home/ada/lighthouse").hexdigest()
        dump(tmp_path / ".gemini/projects.json", {"projects": {"/home/ada/lighthouse": "lamp"}})
        session = {
            "sessionId": "s",
            "startTime": iso(START_MS),
            "messages": [
                self.line(0, "user", "This is the Gemini CLI. We are setting up"),
                self.line(1, "user", "Hello"),
                self.line(2, "gemini", "Good day"),
            ],
        }
        path = dump(tmp_path / ".gemini/tmp" / folder / "chats/session-1.json", session)
        entries = read("gemini", path.parents[3])
        assert list_said(entries) == [("user", "Hello"), ("assistant", "Good day")]
        assert {entry.metadata["cwd"] for entry in entries} == {"/home/ada/lighthouse"}

    def test_a_subagent_has_its_own_session(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "chats" / "parent" / "child.jsonl",
            [{"sessionId": "child", "kind": "subagent"}, self.line(0, "user", "Look")],
        )
        start, _ = read("gemini", path.parent.parent)
        assert (start.session_id, start.type) == ("parent/child", EventType.SUBAGENT_START)

    def test_what_a_hook_told_of_a_whole_turn_is_known(
        self, importing: ImportHarness, tmp_path: Path
    ) -> None:
        told = Event(
            event_id=EventId("hook-1"),
            session_id=SessionId("0b46704a-1"),
            at_ms=Millis(START_MS + 3_000),
            type=EventType.ASSISTANT_MESSAGE,
            role=EventRole.ASSISTANT,
            text=f"{WORDS[1]}\n{WORDS[3]}",
        )
        importing.log.append([told]).result(TIMEOUT)
        path = write_gemini(tmp_path)
        assert importing("gemini", path).known == 2
        texts = [event.text for event in importing.events() if event.role is EventRole.ASSISTANT]
        assert texts == [told.text]
        assert importing("gemini", path).created == 0


class TestOpenCode:
    def test_tools_summaries_titles_and_subagents(self, tmp_path: Path) -> None:
        root = tmp_path / "storage"
        child = {"id": "ses_2", "parentID": "ses_1", "title": "Look", "time": {"created": START_MS}}
        dump(root / "session/p/ses_2.json", child)
        dump(root / "message/ses_2/m1.json", {"id": "m1", "role": "user", "time": {"created": 1}})
        dump(root / "part/m1/p1.json", {"type": "text", "text": "Look around"})
        main = {"id": "ses_1", "directory": "/x", "title": "Gulls", "time": {"created": START_MS}}
        dump(root / "session/p/ses_1.json", main)
        answer = {"id": "m2", "role": "assistant", "time": {"created": START_MS}, "modelID": "o"}
        dump(root / "message/ses_1/m2.json", answer)
        state = {
            "status": "completed",
            "input": {"filePath": "/x/a.py", "oldString": "a", "newString": "beacon"},
            "output": "Edit applied.",
            "time": {"end": START_MS + 500},
        }
        parts: list[dict[str, Any]] = [
            {"type": "text", "text": "I edit it."},
            {"type": "tool", "tool": "edit", "callID": "c1", "state": state},
            {"type": "tool", "tool": "bash", "callID": "c2", "state": {"status": "running"}},
            {"type": "text", "text": "Added by the program", "synthetic": True},
        ]
        for number, part in enumerate(parts):
            dump(root / f"part/m2/p{number}.json", part)
        summary = {**answer, "id": "m3", "summary": True, "time": {"created": START_MS + 900}}
        dump(root / "message/ses_1/m3.json", summary)
        dump(root / "part/m3/p1.json", {"type": "text", "text": "All in short"})
        entries = read("opencode", tmp_path)
        assert list_said([entry for entry in entries if entry.session_id == "ses_1"]) == [
            ("system", "Gulls"),
            ("assistant", "I edit it."),
            ("tool", "edit: /x/a.py\nbeacon\nEdit applied."),
            ("system", "All in short"),
        ]
        assert [entry.metadata[SUMMARIZES] for entry in entries if SUMMARIZES in entry.metadata]
        (start, prompt) = (entry for entry in entries if entry.session_id == "ses_1/ses_2")
        assert start.type is EventType.SUBAGENT_START
        assert prompt.text == "Look around"

    def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "opencode.db").write_bytes(b"SQLite format 3\0" + b"\0" * 100)
        with pytest.raises(InvalidInput, match=r"opencode\.db"):
            read("opencode", tmp_path)


class TestCline:
    def write(self, folder: Path, *messages: dict[str, Any]) -> Path:
        return dump(folder / "tasks" / str(START_MS) / "api_conversation_history.json", messages)

    def test_tools_in_blocks(self, tmp_path: Path) -> None:
        call = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a.py"}}
        done = {"type": "tool_use", "name": "attempt_completion", "input": {"result": "It is 7."}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "x = 7"}
        path = self.write(
            tmp_path,
            {"role": "user", "content": "<task>How many?</task>", "ts": START_MS},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [done], "ts": START_MS + 9_000},
        )
        entries = read("cline", path)
        assert list_said(entries) == [
            ("user", "How many?"),
            ("assistant", "I look."),
            ("tool", "read_file: a.py\nx = 7"),
            ("assistant", "It is 7."),
        ]
        assert entries[-1].at_ms == START_MS + 9_000

    def test_tools_in_tags(self, tmp_path: Path) -> None:
        call = "<execute_command>\n<command>wc gulls</command>\n</execute_command>"
        path = self.write(
            tmp_path,
            {"role": "user", "content": [{"type": "text", "text": "<task>\nCount\n</task>"}]},
            {"role": "assistant", "content": f"<thinking>Hm.</thinking>\n\nI count.\n\n{call}"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[execute_command for 'wc gulls'] Result:"},
                    {"type": "text", "text": "Command executed.\nOutput:\n7"},
                    {"type": "text", "text": "<environment_details>x</environment_details>"},
                ],
            },
            {"role": "user", "content": "[ERROR] You did not use a tool in your last response!"},
            {
                "role": "assistant",
                "content": "<attempt_completion><result>\nSeven.\n</result></attempt_completion>",
            },
        )
        entries = read("roo", path.parents[2])
        assert list_said(entries) == [
            ("user", "Count"),
            ("assistant", "I count."),
            ("tool", "execute_command: wc gulls\nCommand executed.\nOutput:\n7"),
            ("assistant", "Seven."),
        ]
        assert {entry.metadata["agent"] for entry in entries} == {"roo"}
        assert entries[0].session_id == str(START_MS)

    def test_what_the_user_replies_to_a_tool_is_said_by_the_user(self, tmp_path: Path) -> None:
        asked = {"type": "tool_use", "id": "q", "name": "ask_followup_question"}
        reply = {"type": "tool_result", "tool_use_id": "q", "content": "<answer>\nBlue\n</answer>"}
        path = self.write(
            tmp_path,
            {"role": "user", "content": "Paint it", "ts": START_MS},
            {"role": "assistant", "content": [{**asked, "input": {"question": "Which colour?"}}]},
            {"role": "user", "content": [reply]},
            {"role": "user", "content": "[x for 'y'] Result:\n<feedback>\nNot now\n</feedback>"},
        )
        assert list_said(read("cline", path)) == [
            ("user", "Paint it"),
            ("assistant", "Which colour?"),
            ("user", "Blue"),
            ("user", "Not now"),
        ]

    def test_sessions_of_the_command_line(self, tmp_path: Path) -> None:
        folder = tmp_path / "sessions" / "17_ab"
        call = {"type": "tool_use", "id": "c", "name": "run_commands", "input": {"commands": ["x"]}}
        parts = [{"query": "x", "result": "7 gulls\n", "success": True}]
        result = {"type": "tool_result", "tool_use_id": "c", "content": parts}
        messages: list[dict[str, Any]] = [
            {"id": "a", "role": "user", "content": '<user_input mode="act">Count</user_input>'},
            {"id": "b", "role": "assistant", "content": [call]},
            {"id": "c", "role": "user", "content": [result]},
            {"id": "d", "role": "user", "content": "x", "metadata": {"displayRole": "system"}},
            {"id": "e", "role": "user", "content": '<hook_context source="x">y</hook_context>'},
        ]
        said = [{**message, "ts": START_MS} for message in messages]
        dump(folder / "17_ab.messages.json", {"version": 1, "messages": said})
        dump(folder / "17_ab.json", {"cwd": "/home/ada/lighthouse"})
        entries = read("cline", tmp_path / "sessions")
        assert list_said(entries) == [
            ("user", "Count"),
            ("tool", 'run_commands: {"commands": ["x"]}\n7 gulls'),
        ]
        assert entries[0].session_id == "17_ab"
        assert entries[0].metadata["cwd"] == "/home/ada/lighthouse"

    def test_the_list_of_tasks_knows_their_folders(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"role": "user", "content": "Hello"})
        item = {"id": str(START_MS), "cwdOnTaskInitialization": "/home/ada/lighthouse"}
        dump(tmp_path / "state" / "taskHistory.json", [item])
        assert read("cline", path)[0].metadata["cwd"] == "/home/ada/lighthouse"


class TestAider:
    def test_commands_and_notices_are_left_out_and_code_is_kept(self, tmp_path: Path) -> None:
        (tmp_path / ".aider.chat.history.md").write_text(
            "\n# aider chat started at 2026-01-02 10:00:00\n\n> Aider v0.86  \n"
            "#### /ask why  \n#### so slow?  \n\nBecause:\n\n```md\n> quoted\n# heading\n```\n\n"
            "> Tokens: 1k  \n\n#### /add x.py  \n> Added x.py  \n\n#### ok  \n\nDone.\n"
            "# aider chat started at 2026-01-03 10:00:00\n\n#### /exit  \n"
        )
        entries = read("aider", tmp_path)
        assert list_said(entries) == [
            ("user", "why\nso slow?"),
            ("assistant", "Because:\n\n```md\n> quoted\n# heading\n```"),
            ("user", "ok"),
            ("assistant", "Done."),
        ]
        began = round(datetime(2026, 1, 2, 10).timestamp() * 1000)
        assert entries[1].at_ms == began
        assert entries[1].metadata["cwd"] == str(tmp_path)


class TestChatGpt:
    def test_hidden_messages_tools_and_pictures_are_left_out(self, tmp_path: Path) -> None:
        talk = build_chatgpt()
        nodes = talk["mapping"]
        nodes["n0"]["message"]["metadata"] = {"is_visually_hidden_from_conversation": True}
        nodes["n1"]["message"]["recipient"] = "python"
        picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
        nodes["n2"]["message"]["content"] = {
            "content_type": "multimodal_text",
            "parts": [picture, "What is this?"],
        }
        path = dump(tmp_path / "conversations.json", [talk])
        assert list_said(read("chatgpt", path)) == [
            ("system", "Lamp"),
            ("user", "What is this?"),
            ("assistant", WORDS[3]),
        ]

    def test_nodes_in_a_circle_end(self, tmp_path: Path) -> None:
        talk = build_chatgpt()
        talk["mapping"]["n0"]["parent"] = "n3"
        assert len(read("chatgpt", dump(tmp_path / "conversations.json", [talk]))) == 6

    def test_messages_without_times_keep_their_order(self, tmp_path: Path) -> None:
        talk = build_chatgpt()
        for node in talk["mapping"].values():
            if node["message"]:
                node["message"]["create_time"] = None
        entries = read("chatgpt", dump(tmp_path / "conversations.json", [talk]))
        assert [text for _, text in list_said(entries)] == ["Lamp", *WORDS]
        assert entries == sorted(entries, key=lambda entry: entry.at_ms)

    def test_another_export_is_told_of(self, tmp_path: Path) -> None:
        path = dump(tmp_path / "conversations.json", [{"chat_messages": []}])
        reader = build_readers(InlineWorker())["chatgpt"]
        ((_, chunk),) = reader.read_chunks(reader.list_sources(str(path)))
        assert "no conversation of ChatGPT" in chunk.refused[0].reason


class TestClaudeAi:
    def test_tools_and_attachments(self, tmp_path: Path) -> None:
        blocks = [
            {"type": "text", "text": "I search."},
            {"type": "tool_use", "name": "web_search", "input": {"query": "gulls"}},
            {
                "type": "tool_result",
                "name": "web_search",
                "content": [{"type": "text", "text": "7"}],
            },
            {"type": "text", "text": "Seven."},
        ]
        file = {"file_name": "a.txt", "extracted_content": "grey gulls"}
        messages = [
            {"uuid": "u1", "sender": "human", "text": "How many?", "attachments": [file]},
            {"uuid": "u2", "sender": "assistant", "content": blocks, "created_at": iso(START_MS)},
        ]
        talk = {"uuid": "c", "created_at": iso(START_MS), "chat_messages": messages}
        path = dump(tmp_path / "conversations.json", [talk])
        entries = read("claude-ai", path)
        assert list_said(entries) == [
            ("user", "How many?\n[a.txt]\ngrey gulls"),
            ("assistant", "I search."),
            ("tool", "web_search: gulls\n7"),
            ("assistant", "Seven."),
        ]
        assert len({entry.event_id for entry in entries}) == len(entries)


class TestObsidian:
    def test_a_daily_note_is_of_its_day(self, tmp_path: Path) -> None:
        (tmp_path / "2026-01-02.md").write_text("---\ncreated: 2020-01-01\n---\nBought oil.\n")
        _, title, note = read("obsidian", tmp_path)
        assert (title.text, note.text) == ("2026-01-02", "Bought oil.")
        assert datetime.fromtimestamp(note.at_ms / 1000).date().isoformat() == "2026-01-02"

    def test_a_changed_note_is_recorded_beside_the_old_one(
        self, importing: ImportHarness, tmp_path: Path
    ) -> None:
        vault = write_obsidian(tmp_path)
        importing("obsidian", vault)
        note = vault / "note 0.md"
        note.write_text(note.read_text().replace("flicker", "glow"))
        assert importing("obsidian", note).created == 1
        assert len({event.session_id for event in importing.events()}) == 4

    def test_a_long_note_is_cut_before_headings(self) -> None:
        parts = [f"## Part {number}\n\n" + "word " * 1_500 for number in range(5)]
        found = list(obsidian.split_note("\n".join(parts).strip()))
        assert [part[:9] for part in found] == ["## Part 0", "## Part 2", "## Part 4"]
        assert " ".join(found).split() == " ".join(parts).split()
        assert "".join(obsidian.split_note("x" * 40_000)) == "x" * 40_000

    def test_notes_of_our_export_are_the_same_events(
        self, importing: ImportHarness, tmp_path: Path
    ) -> None:
        importing("gemini", write_gemini(tmp_path))
        events = importing.events()
        nasty = replace(events[1], event_id=EventId("e"), text='%% {"length": 1} %%\r\n---\n')
        importing.log.append([nasty]).result(TIMEOUT)
        pieces = [vault_notes.format_front(vault_notes.SESSION, {"session": "s"})]
        for event in importing.events():
            pieces += vault_notes.format_event(event, is_shown=bool(event.text))
        vault = tmp_path / "vault"
        vault.mkdir()
        (vault / "s.md").write_bytes("".join(pieces).encode())
        (vault / "d.md").write_text(vault_notes.format_front(vault_notes.DAY, {"date": "x"}))
        again = importing("obsidian", vault)
        assert (again.created, again.known, again.refused) == (0, len(events) + 1, 0)
        store = CommittedStore(MemoryEngine(), unexpected)
        other = ImportHarness(store, tmp_path / "other")
        other("obsidian", vault)
        assert [event.event_id for event in other.events()] == [
            event.event_id for event in importing.events()
        ]
        store.close()

    def test_a_text_that_was_changed_by_hand_is_refused(self) -> None:
        event = Event(
            event_id=EventId("e"),
            session_id=SessionId("s"),
            at_ms=Millis(START_MS),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text="seven gulls",
        )
        note = "".join(vault_notes.format_event(event, is_shown=True))
        assert [each["text"] for each in vault_notes.parse_events(note)] == ["seven gulls"]
        with pytest.raises(InvalidInput, match="was changed"):
            list(vault_notes.parse_events(note.replace("seven", "seventy")))


class TestNotes:
    @pytest.mark.parametrize(
        ("title", "name"),
        [
            ("a/b\\c: d?", "a b c d"),
            ("[[x]] #1 ^y|z", "x 1 y z"),
            ("CON", "CON_"),
            ("..", ""),
            ("é" * 200, "é" * 80),
            ("\U0001f600" * 80, "\U0001f600" * 50),
            ("trailing. ", "trailing"),
        ],
    )
    def test_names_are_valid_everywhere(self, title: str, name: str) -> None:
        assert vault_notes.to_file_name(title) == name

    def test_a_seal_shows_changes(self) -> None:
        seal = vault_notes.NoteSeal()
        pieces = [seal.add(vault_notes.format_front(vault_notes.DAY, {"date": "2026-01-02"}))]
        note = "".join([*pieces, seal.add("# Day\n"), seal.close()])
        assert vault_notes.is_unchanged(note)
        assert not vault_notes.is_unchanged(note.replace("Day", "Days"))
        assert not vault_notes.is_unchanged(note + "more")
        assert not vault_notes.is_unchanged("# Mine\n")


class TestDefaultPlaces:
    def test_agents_have_them_and_exports_do_not(self) -> None:
        home, folder = Path("/home/ada"), Path("/home/ada/code")
        found = {source: list_default_paths(source, {}, home, folder) for source in ImportSource}
        assert found[ImportSource.GEMINI] == [home / ".gemini" / "tmp"]
        assert found[ImportSource.OPENCODE] == [home / ".local/share/opencode"]
        assert found[ImportSource.AIDER] == [folder]
        assert home / ".cline/data/tasks" in found[ImportSource.CLINE]
        roo = home / ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks"
        assert roo in found[ImportSource.ROO]
        without = [source for source, paths in found.items() if not paths]
        assert without == ["chatgpt", "claude-ai", "obsidian", "jsonl"]
        environ = {"XDG_DATA_HOME": "/data", "CLINE_DIR": "/cline"}
        assert list_default_paths(ImportSource.OPENCODE, environ, home, folder) == [
            Path("/data/opencode")
        ]
        assert Path("/cline/data/tasks") in list_default_paths(
            ImportSource.CLINE, environ, home, folder
        )

    def test_the_editor_has_its_settings_where_xdg_says(self) -> None:
        environ = {"XDG_CONFIG_HOME": "/settings"}
        found = list_default_paths(
            ImportSource.ROO, environ, Path("/home/ada"), Path("/home/ada/code")
        )
        extension = "Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks"
        assert Path("/settings") / extension in found
        assert Path("/home/ada/.config") / extension not in found

    @pytest.mark.parametrize(
        ("source", "variable", "path"),
        [
            (ImportSource.CLAUDE_CODE, "CLAUDE_CONFIG_DIR", "/home/ada/code/own/projects"),
            (ImportSource.CODEX, "CODEX_HOME", "/home/ada/code/own/sessions"),
            (ImportSource.GEMINI, "GEMINI_CLI_HOME", "/home/ada/code/own/.gemini/tmp"),
            (ImportSource.OPENCODE, "XDG_DATA_HOME", "/home/ada/code/own/opencode"),
            (ImportSource.CLINE, "CLINE_DIR", "/home/ada/code/own/data/tasks"),
            (ImportSource.CLINE, "CLINE_DATA_DIR", "/home/ada/code/own/tasks"),
        ],
    )
    def test_a_relative_folder_is_the_callers(
        self, source: ImportSource, variable: str, path: str
    ) -> None:
        found = list_default_paths(
            source, {variable: "own"}, Path("/home/ada"), Path("/home/ada/code")
        )
        assert found[0] == Path(path)


class TestPrivateWords:
    """Short words could be guessed from a hash, so no id is made of them."""

    def test_aider(self, tmp_path: Path) -> None:
        def name(words: str) -> list[str]:
            (tmp_path / ".aider.chat.history.md").write_text(
                f"# aider chat started at 2026-01-02 10:00:00\n\n#### {words}  \n\nYes.\n"
            )
            return [f"{entry.session_id} {entry.event_id}" for entry in read("aider", tmp_path)]

        assert name("Pay <private>4711</private> now") == name("Pay <private>0815</private> now")
        assert name("Pay") != name("Play")

    def test_gemini_apps(self, tmp_path: Path) -> None:
        def name(words: str) -> list[str]:
            activity = {
                "header": "Gemini Apps",
                "title": f"Prompted {words}",
                "time": iso(START_MS),
                "safeHtmlItem": [{"html": "<p>Yes.</p>"}],
            }
            path = dump(tmp_path / "MyActivity.json", [activity])
            return [entry.event_id for entry in read("gemini", path)]

        assert name("Pay <private>4711</private> now") == name("Pay <private>0815</private> now")
        assert name("Pay") != name("Play")
