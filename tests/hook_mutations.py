"""Broken hook inputs: samples of the agents' inputs, mutated by a seed.

`python -m tests.hook_mutations HOOK NUMBER` writes one of them, to repeat a failed test.
"""

import json
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

from agent_memory.interfaces.hooks import inputs
from tests.hook_inputs import SAMPLES

HOOKS = inputs.NAMES
SEED = 20261116
LARGE_TEXT = 5_000_000
_LARGE_EACH = 700  # every so many inputs one is large: they are slow
_PER_SESSION = 8

_EVENTS = {
    "session-start": ("SessionStart",),
    "user-prompt": ("UserPromptSubmit", "BeforeAgent", "beforeSubmitPrompt"),
    "pre-tool": ("PreToolUse", "BeforeTool", "beforeShellExecution"),
    "post-tool": ("PostToolUse", "AfterTool", "afterFileEdit", "afterMCPExecution"),
    "post-tool-failure": ("PostToolUseFailure",),
    "pre-compact": ("PreCompact", "PreCompress"),
    "post-compact": ("PostCompact",),
    "stop": ("Stop", "AfterAgent", "stop"),
    "subagent-start": ("SubagentStart",),
    "subagent-stop": ("SubagentStop",),
    "session-end": ("SessionEnd",),
}
_ALL = tuple(SAMPLES.values())
_OWN = {
    hook: tuple(
        given
        for given in _ALL
        if given.get("hook_event_name", given.get("hook")) in _EVENTS.get(hook, ())
    )
    for hook in HOOKS
}
_FIELDS = tuple(sorted({name for given in _ALL for name in given}))
_NAMES = tuple(sorted({str(given.get("hook_event_name", given.get("hook"))) for given in _ALL}))

# In place of a value, and written as bytes that `json` itself would not write.
_HUGE, _DEEP = "@huge@", "@deep@"
_ODD_TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "x\udfffy", "\udcff/\udc80", "\ufeff", "\u202e\u2028\u2029",
    "".join(map(chr, range(32))), "\x7f\x80\x9f", "\x1b[2J\x1b]0;t\x07", "-->", "--",
    "<!-- hook error: -->", "</memory_context>", "<memory_context>" * 20,
    "<memory_context>a</related_memories></memory_context>", "\U0010ffff", "e\u0301" * 40,
    "🦀" * 300, "null", "{}", "NaN", "%s%n%00", "${HOME}", "`id`", "'; --", "[decision]",
    "[learned] \ud83d", "[blocker]" * 200, "remember: " + "x" * 5_000, "AKIAIOSFODNN7EXAMPLE",
    "password = 'hunter2hunter2'", "\n" * 3_000, "\r", "1" * 5_000,
)  # fmt: skip
_LONG_TEXTS = (
    "a" * 70_000,
    "é" * 70_000,
    "<memory_context>" * 5_000,
    "\\" * 70_000,
    "a\n" * 40_000,
)
_ODD_NAMES = (
    *_ODD_TEXTS, "..", "../../etc/passwd", "/", "//", "a/b/c", "/a", "s" * 256, "s" * 257,
    "é" * 256, "a:b", "a%3Ab", "|", "evt|", "\t", "sess\nion", "s" * 100_000, "🦀" * 256,
    "-", "--help",
)  # fmt: skip
_ODD_FOLDERS = (
    *_ODD_NAMES, "/proc", "/proc/self/fd/0", "/dev/null", "/dev", "/usr", "/root",
    "/" + "a" * 5_000, "/a" * 3_000, "/nowhere/at/all", "~", "~root", ".", "C:\\Users\\ada",
    "\\\\server\\share",
    "file:///usr", "/usr/../usr/.", "/usr\0/x", "/\udcff", "/\ud800", "/" * 4_000,
)  # fmt: skip
_ODD_TIMES: tuple[object, ...] = (
    0, -1, 1e400, -1e400, float("nan"), 1e308, 10**40, 9_999_999_999_999, 10_000_000_000_000,
    99_999_999_999, True, "", "now", "2026-13-45", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59", "2026-11-16T10:00:00Z\0", "2026-11-16", "10:00", _HUGE, [], {},
)  # fmt: skip
_ODD_VALUES: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 2**63, -(2**64), 10**30, 1.5, -0.0, 1e308, float("nan"),
    float("inf"), float("-inf"), _HUGE, _DEEP, [], [[]], [None], [1, "a", {}], ["a"] * 300, {},
    {"": ""}, {"a": {"b": {"c": []}}}, [{"type": "text", "text": 5}], [{"text": "\ud800"}],
    {"content": [{"text": None}]}, {"llmContent": {"llmContent": {"llmContent": "x"}}},
    {"filenames": [1, None, "\0"]}, {"stdout": ["a"], "stderr": {"b": 1}}, {"\ud800": "\ud800"},
    {"file_path": 5}, {"file_path": "a/" * 2_000}, {"command": ["ls"]}, {"file": "x"},
    *_ODD_TEXTS,
)  # fmt: skip
_OPENED = (("[", "]"), ('{"a":', "}"), ('{"llmContent":', "}"), ('[{"content":', "}]"))
_DEPTHS = (3, 40, 300, 5_000, 20_000)
_RECURSION = (800, 1_000)  # where Python's own limit is met, somewhere in the handling

Given = dict[str, Any]
Dice = random.Random


def mutate(hook: str, number: int) -> bytes:
    """Return the broken input of a hook and a number, always the same."""
    dice = Dice(f"{SEED}:{hook}:{number}")
    own = _OWN[hook]
    sample = dice.choice(own if own and dice.random() < 0.6 else _ALL)
    given: Given = json.loads(json.dumps(sample))
    for name in ("session_id", "conversation_id"):
        if name in given:
            given[name] = f"{given[name][:8]}-{hook}-{number // _PER_SESSION}"
    if number % _LARGE_EACH == _LARGE_EACH - 1:
        return _large(given, dice)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        dice.choice(_CHANGES)(given, dice)
    data = _serialize(given, dice)
    return dice.choice(_DAMAGES)(data, dice) if dice.random() < 0.35 else data


# Changes of the content.


def _wrong_type(given: Given, dice: Dice) -> None:
    place: Any = given
    while True:
        name = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[name]
        if not isinstance(inner, dict | list) or not inner or dice.random() < 0.4:
            place[name] = dice.choice(_ODD_VALUES)
            return
        place = inner


def _missing(given: Given, dice: Dice) -> None:
    given.pop(dice.choice(list(given)))
    given.setdefault("hook", "Nothing")  # never empty: other changes look into it


def _mostly_missing(given: Given, dice: Dice) -> None:
    for name in list(given)[1:]:
        if dice.random() < 0.6:
            del given[name]


def _odd(names: tuple[str, ...], values: tuple[object, ...]) -> Callable[[Given, Dice], None]:
    def change(given: Given, dice: Dice) -> None:
        given[dice.choice(names)] = dice.choice(values)

    return change


def _odd_file(given: Given, dice: Dice) -> None:
    name = dice.choice(("Read", "Edit", "Write", *_ODD_NAMES))
    file = dice.choice((*_ODD_FOLDERS, "a/" * 200 + "b.py", "/" + "ab/" * 5_000, "src/" * 9 + "x"))
    given |= {"tool_name": name, "tool_input": {"file_path": file, "content": "x"}}


def _nest_deeply(given: Given, dice: Dice) -> None:
    names = ("tool_response", "tool_input", "prompt", "session_id", "edits", "key_decisions")
    given[dice.choice((*names, *_FIELDS))] = _DEEP


def _decisions(given: Given, dice: Dice) -> None:
    given["key_decisions"] = [dice.choice(_ODD_VALUES) for _ in range(dice.choice((1, 5, 60)))]
    given["conversation_summary"] = dice.choice(_ODD_TEXTS)


def _strange_fields(given: Given, dice: Dice) -> None:
    for number in range(dice.choice((1, 20, 300))):
        given[f"{dice.choice(_ODD_TEXTS)[:40]}{number}"] = dice.choice(_ODD_VALUES[:30])


def _another_agents(given: Given, dice: Dice) -> None:
    other: Mapping[str, Any] = dice.choice(_ALL)
    for name in dice.sample(list(other), k=min(len(other), 4)):
        given[name] = other[name]


def _without_event(given: Given, dice: Dice) -> None:
    """Remove the event, so that the subcommand decides it."""
    event = given.pop("hook_event_name", "")
    given["hook"] = dice.choice((event, "", "Other", *_NAMES))


_EVERY_TEXT = ("prompt", "last_assistant_message", "text", "error", "tool_response", "output")
_CHANGES: tuple[Callable[[Given, Dice], None], ...] = (
    _wrong_type,
    _wrong_type,
    _wrong_type,
    _missing,
    _mostly_missing,
    _odd(("hook_event_name", "hook"), (*_NAMES, *_ODD_VALUES)),
    _odd(("session_id", "agent_id", "conversation_id"), (*_ODD_NAMES, *_ODD_VALUES)),
    _odd(("cwd", "project_path", "workspace_roots"), (*_ODD_FOLDERS, ["\0"], ["/usr"], [[]])),
    _odd(("prompt_id", "turn_id", "tool_use_id", "generation_id"), _ODD_NAMES),
    _odd(("timestamp",), _ODD_TIMES),
    _odd(_EVERY_TEXT, (*_ODD_TEXTS, *_LONG_TEXTS)),
    _odd(_EVERY_TEXT, _ODD_VALUES),
    _odd(("git_branch", "model", "source", "reason", "agent_type"), _ODD_TEXTS),
    _odd_file,
    _nest_deeply,
    _decisions,
    _strange_fields,
    _another_agents,
    _without_event,
)


# Changes of the JSON text.


def _serialize(given: Given, dice: Dice) -> bytes:
    plain = dice.random() < 0.3
    text = json.dumps(given, ensure_ascii=not plain, separators=dice.choice(((",", ":"), None)))
    if _HUGE in text:
        number = dice.choice(("9" * 4_299, "9" * 5_000, "-" + "1" * 100_000, "1e99999", "1" * 400))
        text = text.replace(f'"{_HUGE}"', number, 1).replace(_HUGE, "huge")
    if _DEEP in text:
        before, after = dice.choice(_OPENED)
        depth = dice.randrange(*_RECURSION) if dice.random() < 0.6 else dice.choice(_DEPTHS)
        text = text.replace(f'"{_DEEP}"', before * depth + "1" + after * depth, 1)
        text = text.replace(_DEEP, "deep")
    if dice.random() < 0.05:  # the same name twice
        name, value = dice.choice(_FIELDS), json.dumps(dice.choice(_ODD_TEXTS))
        text = f'{{"{name}": {value}, {text[1:-1]}, "{name}": {value}}}'
    return text.encode("utf-8", "surrogatepass")


def _large(given: Given, dice: Dice) -> bytes:
    part = dice.choice(("word ", "é", "a/", "[decision] x. ", "\0", "<memory_context>", "🦀"))
    name = dice.choice((*_EVERY_TEXT, "cwd", "file_path", "file_path"))
    if name == "file_path":  # with all folders that there can be
        given |= {"hook_event_name": "PostToolUse", "tool_name": "Read"}
        given["tool_input"] = {name: "a/" * (LARGE_TEXT // 2)}
    else:
        given[name] = part * (LARGE_TEXT // (len(_dump(part)) - 2))
    return _dump(given)


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


# Damages of the bytes.


def _cut(data: bytes, dice: Dice) -> bytes:
    return data[: dice.randrange(len(data))]


def _flip_bytes(data: bytes, dice: Dice) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 2, 8, 64))):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def _insert_junk(data: bytes, dice: Dice) -> bytes:
    at = dice.randrange(len(data))
    more = dice.choice((b"\0", b"\0" * 50, b"\x80\xff", b"\xed\xa0\x80", dice.randbytes(30), b"\n"))
    return data[:at] + more + data[at:]


def _double_part(data: bytes, dice: Dice) -> bytes:
    start, end = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    return data[:end] + data[start:]


def _reencode(data: bytes, dice: Dice) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(dice.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig")), "replace")


def _wrap(data: bytes, dice: Dice) -> bytes:
    before, after = dice.choice(
        ((b"[", b"]"), (b'"', b'"'), (b"", data), (b"", b"\n\n" + data), (b"x", b""), (b"", b"}"))
    )
    return before + data + after


def _something_else(_data: bytes, dice: Dice) -> bytes:
    return dice.choice(
        (
            b"", b" ", b"\n", b"\0", b"{", b"}", b"[]", b"{}", b"null", b"true", b"5", b'"hook"',
            b"NaN", b"\xff\xfe", b"\xef\xbb\xbf", b'{"hook"', b'{"hook": "Stop"', b"hook: Stop\n",
            b"{" * 10_000, b"[" * 50_000, b'{"a":' * 9_000, b"\x1f\x8b\x08", b"<html></html>",
            dice.randbytes(1), dice.randbytes(100), dice.randbytes(20_000), b'{"hook":"\xff"}',
        )
    )  # fmt: skip


_DAMAGES: tuple[Callable[[bytes, Dice], bytes], ...] = (
    _cut,
    _cut,
    _flip_bytes,
    _flip_bytes,
    _insert_junk,
    _double_part,
    _reencode,
    _wrap,
    _something_else,
)


if __name__ == "__main__":
    sys.stdout.buffer.write(mutate(sys.argv[1], int(sys.argv[2])))
