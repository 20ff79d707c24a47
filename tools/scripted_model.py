"""A model that says what a script tells it to, on loopback: it stands in for those of real agents.

It speaks as much of Anthropic Messages, OpenAI Responses, OpenAI Chat and Gemini as coding agents
need for a session. The first part of the address names the script: `http://127.0.0.1:PORT/NAME/...`.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the model answers to one request: a text, or the call of a tool.

    The tool is the first on offer whose name ends with `tool`: agents put a prefix before it.
    """

    text: str = ""
    tool: str = ""
    arguments: Body = field(default_factory=dict)


DONE = Turn(text="Done.")


class ScriptedModel(ThreadingHTTPServer):
    """Serves scripts by name, and keeps the requests that offered tools."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: dict[str, list[Body]] = {}
        self._scripts: dict[str, Iterator[Turn]] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def play(self, name: str, turns: Sequence[Turn]) -> None:
        """Set the turns of a script, and drop its earlier requests."""
        with self._lock:
            self._scripts[name] = iter(turns)
            self.requests[name] = []

    def take_turn(self, name: str, body: Body) -> Turn:
        with self._lock:
            self.requests.setdefault(name, []).append(body)
            return next(self._scripts.get(name, iter(())), DONE)


@contextmanager
def serve() -> Iterator[ScriptedModel]:
    model = ScriptedModel()
    thread = threading.Thread(target=model.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.shutdown()
        model.server_close()
        thread.join()


def list_tools(body: Body) -> list[tuple[str, str]]:
    """List the tools of a request, each with its namespace, which only Codex has."""
    tools: list[tuple[str, str]] = []
    offered = list(body.get("tools") or ())
    for item in body.get("input") or ():
        if isinstance(item, dict) and item.get("type") == "additional_tools":
            offered += item["tools"]
    for tool in offered:
        if "functionDeclarations" in tool:
            tools += [("", function["name"]) for function in tool["functionDeclarations"]]
        elif tool.get("type") == "namespace":
            tools += [(tool["name"], inner["name"]) for inner in tool["tools"]]
        else:
            tools.append(("", tool.get("function", tool).get("name", "")))
    return tools


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedModel

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        _, name, *parts = self.path.partition("?")[0].split("/")
        tools = list_tools(body)
        # Agents also ask for titles and the like, with no tools or one.
        turn = self.server.take_turn(name, body) if len(tools) > 1 else DONE
        space, tool = _find_tool(tools, turn.tool)
        match parts[-1]:
            case "messages":
                self._stream(_answer_messages(turn, tool))
            case "responses":
                self._stream(_answer_responses(turn, space, tool))
            case "completions" if body.get("stream"):
                self._stream(_stream_chat(turn, tool), end="data: [DONE]\n\n")
            case "completions":
                self._send("application/json", json.dumps(_answer_chat(turn, tool)))
            case verb if verb.endswith("streamGenerateContent"):
                self._stream([_answer_gemini(turn, tool)])
            case verb if verb.endswith("generateContent"):
                self._send("application/json", json.dumps(_answer_gemini(turn, tool)))
            case _:
                self._send("application/json", "{}")

    def do_GET(self) -> None:
        self._send("application/json", '{"data": [], "models": []}')

    def do_HEAD(self) -> None:
        self._send("application/json", "")

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def _stream(self, events: Sequence[Body], end: str = "") -> None:
        lines = (
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            if "type" in event
            else f"data: {json.dumps(event)}\n\n"
            for event in events
        )
        self._send("text/event-stream", "".join(lines) + end)

    def _send(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def _find_tool(tools: Sequence[tuple[str, str]], ending: str) -> tuple[str, str]:
    found = (tool for tool in tools if ending and tool[1].endswith(ending))
    return next(found, ("", ending))


def _answer_messages(turn: Turn, tool: str) -> list[Body]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted"}
    usage = {"input_tokens": 1, "output_tokens": 1}
    if tool:
        block = {"type": "tool_use", "id": f"toolu_{id(turn)}", "name": tool, "input": {}}
        written = json.dumps(turn.arguments)
        delta = {"type": "input_json_delta", "partial_json": written}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": turn.text}
    reason = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    return [
        {
            "type": "message_start",
            "message": {**message, "content": [], "stop_reason": None, "usage": usage},
        },
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": reason, "usage": usage},
        {"type": "message_stop"},
    ]


def _answer_responses(turn: Turn, space: str, tool: str) -> list[Body]:
    item: Body
    if tool:
        item = {
            "type": "function_call",
            "id": f"fc_{id(turn)}",
            "call_id": f"call_{id(turn)}",
            "name": tool,
            "arguments": json.dumps(turn.arguments),
            **({"namespace": space} if space else {}),
        }
    else:
        text = {"type": "output_text", "text": turn.text, "annotations": []}
        item = {"type": "message", "id": f"msg_{id(turn)}", "role": "assistant", "content": [text]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]


def _answer_chat(turn: Turn, tool: str, kind: str = "message") -> Body:
    call = {"name": tool, "arguments": json.dumps(turn.arguments)}
    calls = [{"index": 0, "id": f"call_{id(turn)}", "type": "function", "function": call}]
    said = {"role": "assistant", "content": turn.text, **({"tool_calls": calls} if tool else {})}
    reason = "tool_calls" if tool else "stop"
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, kind: said, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _stream_chat(turn: Turn, tool: str) -> list[Body]:
    whole = {**_answer_chat(turn, tool, "delta"), "object": "chat.completion.chunk"}
    (choice,) = whole["choices"]
    first = {**whole, "choices": [{**choice, "finish_reason": None}], "usage": None}
    return [first, {**whole, "choices": [{**choice, "delta": {}}]}]


def _answer_gemini(turn: Turn, tool: str) -> Body:
    call = {"functionCall": {"name": tool, "args": turn.arguments}}
    part = call if tool else {"text": turn.text}
    return {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }
