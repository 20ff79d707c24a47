"""Conversations in the formats of other programs, written by hand: two prompts and two answers."""

import json
import sqlite3
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.transcript_files import START_MS, Claude, iso, rollout, text, write

PROMPT, ANSWER = "Why does the lamp flicker?", "The dimmer drops to 0.93."
NEXT_PROMPT, NEXT_ANSWER = "Is that too low?", "Yes: the lamp needs 0.95."
WORDS = (PROMPT, ANSWER, NEXT_PROMPT, NEXT_ANSWER)
SECOND = 1_000

Words = Sequence[str]
Object = dict[str, Any]


def _times() -> list[int]:
    return [START_MS + number * SECOND for number in range(len(WORDS))]


def _dump(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_claude_code(folder: Path, words: Words = WORDS) -> Path:
    session = Claude()
    lines = [
        session.prompt(words[0], promptId="p1"),
        session.says("m1", text(words[1])),
        session.prompt(words[2], promptId="p2"),
        session.says("m2", text(words[3])),
    ]
    return write(folder / "projects" / "a.jsonl", lines).parent


def write_codex(folder: Path, words: Words = WORDS) -> Path:
    meta = rollout()[0]
    lines = [
        {
            "timestamp": iso(at),
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": ("user", "assistant")[number % 2],
                "content": [{"type": "input_text", "text": said}],
            },
        }
        for number, (at, said) in enumerate(zip(_times(), words, strict=True))
    ]
    return write(
        folder / "sessions" / "a.jsonl", [{**meta, "timestamp": iso(START_MS)}, *lines]
    ).parent


def write_gemini(folder: Path, words: Words = WORDS) -> Path:
    """Write a session of Gemini CLI: the second message comes again, with the call of a tool."""
    project = folder / ".gemini" / "tmp" / "lighthouse"
    project.mkdir(parents=True, exist_ok=True)
    (project / ".project_root").write_text("/home/ada/lighthouse")
    messages: list[Object] = [
        {
            "id": f"m{number}",
            "timestamp": iso(at),
            "type": ("user", "gemini")[number % 2],
            "content": [{"text": said}] if number % 2 == 0 else said,
        }
        for number, (at, said) in enumerate(zip(_times(), words, strict=True))
    ]
    setup = {"id": "s", "timestamp": iso(START_MS), "type": "user", "content": "<session_context>x"}
    lines: list[Object] = [
        {"sessionId": "0b46704a-1", "projectHash": "h", "startTime": iso(START_MS)},
        {"$set": {"messages": [setup], "lastUpdated": iso(START_MS)}},
        *messages[:2],
        {**messages[1], "tokens": {"total": 3}},
        {"$set": {"lastUpdated": iso(START_MS)}},
        *messages[2:],
        {"id": "i", "timestamp": iso(START_MS), "type": "info", "content": "Update available"},
    ]
    write(project / "chats" / "session-1.jsonl", lines)
    return folder / ".gemini"


def write_opencode(folder: Path, words: Words = WORDS) -> Path:
    """Write a database as OpenCode 1.2 and later have it."""
    root = folder / "opencode"
    root.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(root / "opencode.db")) as database, database:
        database.executescript(
            "CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT,"
            " time_created INTEGER);"
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER,"
            " data TEXT);"
            "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);"
        )
        database.execute(
            "INSERT INTO session VALUES ('ses_1', NULL, '/home/ada/lighthouse',"
            " 'New session - 2026', ?)",
            (START_MS,),
        )
        for number, (at, said) in enumerate(zip(_times(), words, strict=True)):
            message = {"role": ("user", "assistant")[number % 2], "time": {"created": at}}
            part = {"type": "text", "text": said}
            database.execute(
                "INSERT INTO message VALUES (?, 'ses_1', ?, ?)",
                (f"msg_{number}", at, json.dumps(message)),
            )
            database.execute(
                "INSERT INTO part VALUES (?, ?, 'ses_1', ?)",
                (f"prt_{number}", f"msg_{number}", json.dumps(part)),
            )
    return root


def write_opencode_tree(folder: Path, words: Words = WORDS) -> Path:
    """Write the files of an earlier OpenCode."""
    root = folder / "opencode" / "storage"
    session = {
        "id": "ses_1",
        "directory": "/home/ada/lighthouse",
        "title": "Lamp",
        "time": {"created": START_MS},
    }
    _dump(root / "session" / "p" / "ses_1.json", session)
    for number, (at, said) in enumerate(zip(_times(), words, strict=True)):
        role = ("user", "assistant")[number % 2]
        message = {"id": f"msg_{number}", "role": role, "time": {"created": at}}
        _dump(root / "message" / "ses_1" / f"msg_{number}.json", message)
        part = {"id": f"prt_{number}", "type": "text", "text": said}
        _dump(root / "part" / f"msg_{number}" / f"prt_{number}.json", part)
    return folder / "opencode"


def write_cline(folder: Path, words: Words = WORDS) -> Path:
    """Write a task without times: those that were shown have them."""
    task = folder / "tasks" / str(START_MS)
    details = "<environment_details>\n# Current Working Directory (/home/ada/lighthouse) Files\n"
    first = [
        {"type": "text", "text": f"<task>\n{words[0]}\n</task>"},
        {"type": "text", "text": f"{details}a.py\n</environment_details>"},
    ]
    said = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": [{"type": "text", "text": words[1]}]},
        {"role": "user", "content": f"<feedback>\n{words[2]}\n</feedback>"},
        {"role": "assistant", "content": [{"type": "text", "text": words[3]}]},
    ]
    shown = [
        {"ts": at, "type": "say", "say": "text", "conversationHistoryIndex": number - 1}
        for number, at in enumerate(_times())
    ]
    _dump(task / "api_conversation_history.json", said)
    _dump(task / "ui_messages.json", shown)
    return folder / "tasks"


def write_aider(folder: Path, words: Words = WORDS) -> Path:
    """Write a history. Aider writes the local time, without its zone."""
    began = datetime.fromtimestamp(START_MS / SECOND).strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"# aider chat started at {began}", "", "> Aider v0.86", "", "#### /add app.py  ", ""]
    for number, said in enumerate(words):
        quoted = "  \n".join(f"#### {line}" for line in said.split("\n"))
        lines += [
            said if number % 2 else quoted + "  ",
            "",
            *(["> Tokens: 1k sent"] * (number % 2)),
        ]
    path = folder / "lighthouse" / ".aider.chat.history.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path.parent


def build_chatgpt(words: Words = WORDS) -> Object:
    """Build a conversation with a branch that the user has left."""
    mapping: Object = {"root": {"id": "root", "message": None, "parent": None, "children": ["n0"]}}
    for number, (at, said) in enumerate(zip(_times(), words, strict=True)):
        mapping[f"n{number}"] = {
            "id": f"n{number}",
            "parent": f"n{number - 1}" if number else "root",
            "message": {
                "id": f"n{number}",
                "author": {"role": ("user", "assistant")[number % 2]},
                "create_time": at / SECOND + 0.0001,
                "content": {"content_type": "text", "parts": [said]},
                "recipient": "all",
                "weight": 1.0,
            },
        }
    left = {"author": {"role": "assistant"}, "content": {"content_type": "text", "parts": ["No."]}}
    mapping["left"] = {"id": "left", "parent": "n0", "message": left}
    return {
        "conversation_id": "8f3a2b1c-1",
        "title": "Lamp",
        "create_time": START_MS / SECOND,
        "current_node": f"n{len(words) - 1}",
        "mapping": mapping,
    }


def write_chatgpt(folder: Path, words: Words = WORDS) -> Path:
    return pack(folder / "chatgpt.zip", {"conversations.json": json.dumps([build_chatgpt(words)])})


def write_claude_ai(folder: Path, words: Words = WORDS) -> Path:
    messages = [
        {
            "uuid": f"u{number}",
            "sender": ("human", "assistant")[number % 2],
            "created_at": iso(at),
            "text": said,
            "content": [{"type": "text", "text": said}],
        }
        for number, (at, said) in enumerate(zip(_times(), words, strict=True))
    ]
    talk = {
        "uuid": "c0ffee-1",
        "name": "Lamp",
        "created_at": iso(START_MS),
        "chat_messages": messages,
    }
    return pack(folder / "claude.zip", {"data/conversations.json": json.dumps([talk])})


def write_gemini_apps(folder: Path, words: Words = WORDS) -> Path:
    """Write activities, newest first, with one of another kind and one of another product."""
    activities: list[Object] = [
        {
            "header": "Gemini Apps",
            "title": f"Prompted {words[number]}",
            "time": iso(_times()[number]),
            "products": ["Gemini Apps"],
            "safeHtmlItem": [{"html": f"<p>{words[number + 1]}</p>"}],
        }
        for number in (0, 2)
    ]
    others = [
        {"header": "Gemini Apps", "title": "Used an Assistant feature", "time": iso(START_MS)},
        {"header": "YouTube", "title": "Watched a lamp", "time": iso(START_MS)},
    ]
    return _dump(folder / "Takeout" / "MyActivity.json", [*activities[::-1], *others]).parent


def write_obsidian(folder: Path, words: Words = WORDS) -> Path:
    vault = folder / "lighthouse"
    (vault / ".obsidian").mkdir(parents=True, exist_ok=True)
    for number, (at, said) in enumerate(zip(_times(), words, strict=True)):
        front = f"---\ncreated: {iso(at)}\ntags: [lamp]\n---\n"
        (vault / f"note {number}.md").write_text(f"{front}{said}\n", encoding="utf-8")
    return vault


def write_plain(folder: Path, words: Words = WORDS) -> Path:
    lines = [
        {
            "session_id": "talk",
            "timestamp_ms": at,
            "role": ("user", "assistant")[number % 2],
            "text": said,
            "metadata": {"project": "lighthouse"},
        }
        for number, (at, said) in enumerate(zip(_times(), words, strict=True))
    ]
    return write(folder / "talks" / "talk.jsonl", lines).parent


def pack(path: Path, members: Mapping[str, str | bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


# By the name of a format: the source that reads it, and a function that writes it.
FORMATS: Mapping[str, tuple[str, Callable[[Path, Words], Path]]] = {
    "claude-code": ("claude-code", write_claude_code),
    "codex": ("codex", write_codex),
    "gemini": ("gemini", write_gemini),
    "gemini-apps": ("gemini", write_gemini_apps),
    "opencode": ("opencode", write_opencode),
    "opencode-tree": ("opencode", write_opencode_tree),
    "cline": ("cline", write_cline),
    "roo": ("roo", write_cline),
    "aider": ("aider", write_aider),
    "chatgpt": ("chatgpt", write_chatgpt),
    "claude-ai": ("claude-ai", write_claude_ai),
    "obsidian": ("obsidian", write_obsidian),
    "jsonl": ("jsonl", write_plain),
}
