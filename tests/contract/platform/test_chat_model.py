"""The ChatModel port over real HTTP: what a model says, and every way in which its server fails."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_memory.features.runs.adapters.completions import AGAIN_SECONDS, Completions
from agent_memory.features.runs.model.chats import (
    CallId,
    ChatRequest,
    Message,
    MessageRole,
    ReasoningDelta,
    StreamEnd,
    StreamPart,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from agent_memory.features.runs.ports import ChatModel
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled, ContextTooLong, FeatureUnavailable, LlmFailed
from agent_memory.platform.llm.external import ExternalServer
from agent_memory.platform.llm.leases import Lease
from tests.contract.scripted_llm import (
    TIMEOUT,
    Gate,
    Hang,
    Reply,
    ScriptedLlm,
    Step,
    Streamed,
    completion,
    data,
    error,
    say,
    scripted,
)
from tests.processes import wait_until

KEY = "sk-a-key-like-no-other"
CONTEXT = 4096
SHORT = 0.2  # seconds that a server which is silent is waited for
WORDS = "the vault opens with pelican-42, do not tell anybody about it"
PATH = "The path is /srv/quokka/secret-plans.txt and nobody knows it"
TOOL = ToolSpec(name="look", description="Looks.", parameters={"type": "object", "properties": {}})
REQUEST = ChatRequest(
    messages=[
        Message(role=MessageRole.SYSTEM, content="You help."),
        Message(role=MessageRole.USER, content=WORDS),
        Message(
            role=MessageRole.ASSISTANT,
            content="",
            calls=(
                ToolCall(call_id=CallId("call-a"), name="look", arguments=json.dumps({"at": PATH})),
            ),
        ),
        Message(role=MessageRole.TOOL, content="nothing there", call_id=CallId("call-a")),
    ],
    tools=[TOOL],
    max_tokens=77,
)


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


class Ticking(Clock):
    """One on which time passes with each look."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def __call__(self) -> float:
        self.at += self._seconds
        return self.at


@dataclass(frozen=True)
class FakeServer:
    """A server that may end while it is leased; `entering` is called as it is."""

    url: str
    serial: int = 0
    exit_reason: str | None = None
    entering: Callable[[], None] = lambda: None
    leaving: Callable[[], None] = lambda: None

    @contextmanager
    def lease(self, _halt: CancelToken, /) -> Iterator[Lease]:
        self.entering()
        yield Lease(
            url=self.url, key=KEY, serial=self.serial, get_exit_reason=lambda: self.exit_reason
        )
        self.leaving()


@dataclass
class Bench:
    """A model on a scripted server."""

    llm: ScriptedLlm
    closing: ExitStack
    clock: Clock = field(default_factory=Clock)

    def model(self, url: str = "", **more: Any) -> ChatModel:
        server = ExternalServer(endpoint=url or self.llm.url, api_key=KEY, model_dir="")
        given = {"context_size": CONTEXT, "turn_seconds": TIMEOUT, "timer": self.clock, **more}
        created = Completions(given.pop("server", server), **given)
        self.closing.callback(created.close)
        return created

    def said(self, *script: Step, request: ChatRequest = REQUEST, **more: Any) -> list[StreamPart]:
        self.llm.script = list(script)
        return list(self.model(**more).stream(request, CancelToken()))

    def failure(self, *script: Step, request: ChatRequest = REQUEST, **more: Any) -> LlmFailed:
        """How it fails. Whatever that is, it tells nothing of the conversation or the key."""
        with pytest.raises(LlmFailed) as failed:
            self.said(*script, request=request, **more)
        cause: BaseException | None = failed.value
        while cause is not None:
            for secret in (KEY, "pelican-42", "quokka"):
                assert secret not in str(cause)
            cause = cause.__cause__
        return failed.value

    def payloads(self) -> list[dict[str, Any]]:
        return [each.payload for each in self.llm.received]


@pytest.fixture
def bench() -> Iterator[Bench]:
    with scripted() as llm, ExitStack() as closing:
        yield Bench(llm, closing)


def deltas(*given: Mapping[str, Any], finish: str | None = "stop") -> Streamed:
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": each}]} for each in given]
    if finish is not None:
        chunks.append({"choices": [{"delta": {}, "finish_reason": finish}]})
    return Streamed((*map(data, chunks), b"data: [DONE]\n\n"))


def ended(said: Sequence[StreamPart]) -> StreamEnd:
    """The last thing that is said; nothing else is an end."""
    *before, last = said
    assert not any(isinstance(each, StreamEnd) for each in before)
    assert isinstance(last, StreamEnd)
    return last


def refusing_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class TestSaying:
    def test_words_come_in_order_and_the_end_comes_last(self, bench: Bench) -> None:
        assert bench.said(say("All is  well.\n")) == [
            *(TextDelta("All "), TextDelta("is  "), TextDelta("well.\n")),
            StreamEnd(),
        ]

    def test_words_come_as_soon_as_they_are_said(self, bench: Bench) -> None:
        gate = Gate()
        bench.llm.script = [say("one two", gate=gate)]
        said = bench.model().stream(REQUEST, CancelToken())
        gate.let(2)  # the role, and the first word
        assert next(said) == TextDelta("one ")
        gate.let()
        assert next(said) == TextDelta("two")
        gate.open()
        assert list(said) == [StreamEnd()]

    @pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
    def test_thoughts_are_told_apart(self, bench: Bench, name: str) -> None:
        said = bench.said(deltas({name: "Hm, "}, {name: "well."}, {"content": "Yes."}))
        assert said == [
            ReasoningDelta("Hm, "),
            ReasoningDelta("well."),
            TextDelta("Yes."),
            StreamEnd(),
        ]

    def test_a_thought_that_is_told_by_both_names_is_one(self, bench: Bench) -> None:
        both = {"reasoning_content": "Hm.", "reasoning": "Hm.", "content": "Yes."}
        assert bench.said(deltas(both)) == [ReasoningDelta("Hm."), TextDelta("Yes."), StreamEnd()]

    @pytest.mark.parametrize(
        "delta", [{}, {"role": "assistant"}, {"content": None}, {"content": ""}, {"refusal": None}]
    )
    def test_pieces_of_nothing_are_passed_by(self, bench: Bench, delta: dict[str, Any]) -> None:
        assert bench.said(deltas(delta, {"content": "a"}, delta)) == [TextDelta("a"), StreamEnd()]

    def test_an_answer_may_be_empty(self, bench: Bench) -> None:
        assert bench.said(deltas({"role": "assistant"})) == [StreamEnd()]

    def test_an_answer_that_ran_into_its_limit_is_not_whole(self, bench: Bench) -> None:
        said = bench.said(say("so it", finish="length", usage=None))
        assert said == [TextDelta("so "), TextDelta("it"), StreamEnd(whole=False)]

    @pytest.mark.parametrize(
        "pieces",
        [
            (data({"choices": [{"delta": {"content": "a"}}]}), b"data: [DONE]\n\n"),
            (data({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}),),
            (
                data({"choices": [{"delta": {"content": "a"}}]}),
                b'data: {"choices":[{"finish_reason":"stop"}]}',  # the end is cut short
            ),
        ],
        ids=["no finish", "no done", "cut"],
    )
    def test_one_sign_of_its_end_is_enough(self, bench: Bench, pieces: tuple[bytes, ...]) -> None:
        assert bench.said(Streamed(pieces)) == [TextDelta("a"), StreamEnd()]

    def test_nothing_counts_after_the_end(self, bench: Bench) -> None:
        streamed = say("a", usage=None)
        later = data({"choices": [{"delta": {"content": "b"}}]})
        assert bench.said(Streamed((*streamed.pieces, later, b"data: {]\n\n")))[:-1] == [
            TextDelta("a")
        ]

    @pytest.mark.parametrize(
        "chunk",
        [
            {"usage": {"prompt_tokens": 5}},
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
            {"choices": None, "usage": None},
            {},
        ],
    )
    def test_pieces_that_say_nothing_are_passed_by(
        self, bench: Bench, chunk: dict[str, Any]
    ) -> None:
        first, *rest = say("a", usage=None).pieces
        for pieces in ((first, data(chunk), *rest), (first, *rest[:-1], data(chunk) + rest[-1])):
            assert bench.said(Streamed(pieces)) == [TextDelta("a"), StreamEnd()]
            bench.llm.received.clear()

    def test_of_several_answers_the_first_is_taken(self, bench: Bench) -> None:
        both = data({"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]})
        assert bench.said(Streamed((both, b"data: [DONE]\n\n"))) == [TextDelta("a"), StreamEnd()]

    @pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "text/plain", ""])
    @pytest.mark.parametrize("end", [b"\r\n", b"\r"])
    def test_a_stream_may_be_written_in_many_ways(
        self, bench: Bench, kind: str, end: bytes
    ) -> None:
        whole = b"".join(say("Grüße 😀!", usage=None).pieces).replace(b"data: ", b"data:")
        whole = b": hello\n\n" + whole.replace(b"\n\n", b"\nevent: message\n\n: ping\n\n")
        whole = whole.replace(b"\n", end)
        pieces = tuple(whole[at : at + 7] for at in range(0, len(whole), 7))
        said = bench.said(Streamed(pieces, content_type=kind))
        assert said == [TextDelta("Grüße "), TextDelta("😀!"), StreamEnd()]

    def test_an_answer_may_come_all_at_once(self, bench: Bench) -> None:
        assert bench.said(completion("All is well.")) == [
            TextDelta("All is well."),
            StreamEnd(),
        ]
        bench.llm.received.clear()
        assert ended(bench.said(completion("All", whole=False))).whole is False

    def test_thoughts_and_calls_may_come_all_at_once_too(self, bench: Bench) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        message = {"content": None, "reasoning_content": "Hm.", "tool_calls": [call]}
        body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
        assert bench.said(Reply(json.dumps(body).encode())) == [
            ReasoningDelta("Hm."),
            StreamEnd(calls=(ToolCall(call_id=CallId("c1"), name="look", arguments="{}"),)),
        ]


def piece(**given: Any) -> dict[str, Any]:
    """A delta with a piece of a call."""
    function = {key: given.pop(key) for key in ("name", "arguments") if key in given}
    return {"tool_calls": [{**given, "function": function}]}


class TestCalling:
    @pytest.mark.parametrize(
        "given",
        [
            [piece(index=0, id="c1", name="look", arguments='{"a": 1}')],
            [
                piece(index=0, id="c1", name="look", arguments=""),
                *(piece(index=0, arguments=each) for each in ('{"', "a", '": ', "1}")),
            ],
            [
                piece(index=0, id="c1", name="look"),
                piece(index=0, id=None, name=None, arguments='{"a": 1}'),
                piece(index=0, id="", name="", arguments=""),
            ],
            [
                piece(index=0, id="c1", name="look", arguments='{"a"'),
                piece(index=0, id="c1", name="look", arguments=": 1}"),
            ],
            [
                piece(id="c1", name="look", arguments='{"a"'),
                piece(id="c1", name="look", arguments=": 1}"),
            ],
            [piece(id="c1", name="look"), piece(arguments='{"a"'), piece(arguments=": 1}")],
            [piece(index=0, id="c1"), piece(index=0, name="look", arguments='{"a": 1}')],
            [piece(index=7, id="c1", name="look", arguments='{"a": 1}', type="function")],
            [{"tool_calls": [{"index": 0, "id": "c1"}]}, piece(name="look", arguments='{"a": 1}')],
            [{"tool_calls": None, "content": ""}, piece(id="c1", name="look", arguments={"a": 1})],
        ],
    )
    def test_one_call_however_it_is_told(self, bench: Bench, given: list[dict[str, Any]]) -> None:
        (call,) = ended(bench.said(deltas(*given, finish="tool_calls"))).calls
        assert (call.call_id, call.name, json.loads(call.arguments)) == ("c1", "look", {"a": 1})

    @pytest.mark.parametrize(
        "given",
        [
            [
                piece(index=0, id="c1", name="look", arguments="{}"),
                piece(index=1, id="c2", name="see", arguments="{}"),
            ],
            [
                piece(index=0, id="c1", name="look"),
                piece(index=1, id="c2", name="see"),
                piece(index=0, arguments="{"),
                piece(index=1, arguments="{}"),
                piece(index=0, arguments="}"),
            ],
            [
                {
                    "tool_calls": [
                        *piece(id="c1", name="look", arguments="{}")["tool_calls"],
                        *piece(id="c2", name="see", arguments="{}")["tool_calls"],
                    ]
                }
            ],
            [piece(index=0, id="c1", name="look"), piece(index=0, id="c2", name="see")],
            [
                piece(index=0, id="", name="look", arguments="{}"),
                piece(index=0, id="", name="see", arguments="{}"),
            ],
            [piece(name="look", arguments="{}"), piece(name="see", arguments="{}")],
        ],
    )
    def test_two_calls_however_they_are_told(
        self, bench: Bench, given: list[dict[str, Any]]
    ) -> None:
        first, second = ended(bench.said(deltas(*given, finish="tool_calls"))).calls
        assert (first.name, first.arguments) == ("look", "{}")
        assert (second.name, second.arguments) == ("see", "{}")
        assert first.call_id != second.call_id
        assert first.call_id
        assert second.call_id

    @pytest.mark.parametrize("index", [{}, {"index": 0}])
    def test_two_calls_of_the_same_tool_are_told_apart_without_ids(
        self, bench: Bench, index: dict[str, int]
    ) -> None:
        given = [piece(**index, name="look", arguments=json.dumps({"at": at})) for at in (1, 2)]
        calls = ended(bench.said(deltas(*given))).calls
        assert [json.loads(call.arguments) for call in calls] == [{"at": 1}, {"at": 2}]

    def test_words_and_calls_come_together(self, bench: Bench) -> None:
        said = bench.said(say("Let me see.", reasoning="Hm.", calls=[("look", {"at": "x"}, "c1")]))
        assert said == [
            *(ReasoningDelta("Hm."), TextDelta("Let "), TextDelta("me "), TextDelta("see.")),
            StreamEnd(
                calls=(ToolCall(call_id=CallId("c1"), name="look", arguments='{"at": "x"}'),),
            ),
        ]

    def test_no_call_has_the_id_of_one_in_the_conversation(self, bench: Bench) -> None:
        calls = ended(bench.said(say(calls=[("look", {}, "call-a"), ("look", {}, "c2")]))).calls
        assert calls[0].call_id not in ("call-a", "c2")
        assert calls[1].call_id == "c2"

    def test_calls_of_an_answer_that_was_cut_by_its_limit_are_told(self, bench: Bench) -> None:
        last = ended(bench.said(say(calls=[("look", '{"at": "/srv')], finish="length")))
        assert not last.whole
        assert last.calls[0].arguments == '{"at": "/srv'


class TestAsking:
    def test_the_conversation_is_sent_as_the_api_has_it(self, bench: Bench) -> None:
        bench.said(say("a"), model="tiny")
        (received,) = bench.llm.received
        assert received.path == "/v1/chat/completions"
        assert received.headers["authorization"] == f"Bearer {KEY}"
        assert received.headers["content-type"] == "application/json"
        assert received.payload == {
            "model": "tiny",
            "stream": True,
            "max_tokens": 77,
            "messages": [
                {"role": "system", "content": "You help."},
                {"role": "user", "content": WORDS},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "id": "call-a",
                            "type": "function",
                            "function": {"name": "look", "arguments": json.dumps({"at": PATH})},
                        }
                    ],
                },
                {"role": "tool", "content": "nothing there", "tool_call_id": "call-a"},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "look",
                        "description": "Looks.",
                        "parameters": {"type": "object", "properties": {}},
                    },
                }
            ],
        }

    def test_what_is_not_set_is_not_sent(self, bench: Bench) -> None:
        message = Message(role=MessageRole.USER, content="hi")
        bench.said(say("a"), request=ChatRequest(messages=[message], max_tokens=5))
        (payload,) = bench.payloads()
        assert not {"model", "temperature", "tools"} & payload.keys()

    def test_a_temperature_of_nought_is_sent(self, bench: Bench) -> None:
        bench.said(say("a"), request=ChatRequest(messages=[], max_tokens=5, temperature=0.0))
        assert bench.payloads()[0]["temperature"] == 0

    @pytest.mark.parametrize(
        ("path", "asked"),
        [
            ("", "/v1/chat/completions"),
            ("/", "/v1/chat/completions"),
            ("/v1", "/v1/chat/completions"),
            ("/v1/", "/v1/chat/completions"),
            ("/api/openai", "/api/openai/chat/completions"),
        ],
    )
    def test_the_api_may_begin_elsewhere(self, bench: Bench, path: str, asked: str) -> None:
        bench.said(say("a"), url=bench.llm.url + path)
        assert bench.llm.received[0].path == asked

    def test_a_password_in_the_address_is_sent_as_such(self, bench: Bench) -> None:
        bench.said(say("a"), url=bench.llm.url.replace("//", "//ada:hush-hush@"))
        assert bench.llm.received[0].headers["authorization"].startswith("Basic ")

    @pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://[::1", "http://"])
    def test_an_address_that_is_none_is_told_by_its_setting(self, bench: Bench, url: str) -> None:
        for ask in (
            lambda model: list(model.stream(REQUEST, CancelToken())),
            lambda model: model.get_context_size(CancelToken()),
            lambda model: model.count_tokens(["a"], CancelToken()),
        ):
            with pytest.raises(FeatureUnavailable, match=r"^llama\.endpoint: "):
                ask(bench.model(url=url))


class TestWhatAServerDoesNotKnow:
    @pytest.mark.parametrize(
        ("text", "without", "other"),
        [
            (
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
                "max_tokens",
                {"max_completion_tokens": 77},
            ),
            ("temperature does not support 0", "temperature", {}),
        ],
    )
    def test_it_is_left_out_and_not_tried_again(
        self, bench: Bench, text: str, without: str, other: dict[str, Any]
    ) -> None:
        request = ChatRequest(messages=REQUEST.messages, max_tokens=77, temperature=0.0)
        bench.llm.script = [error(400, text), say("one"), say("two")]
        model = bench.model()
        for _ in range(2):
            assert ended(list(model.stream(request, CancelToken()))).whole
        first, *later = bench.payloads()
        assert without in first
        expected = {key: value for key, value in first.items() if key != without} | other
        assert later == [expected, expected]

    def test_it_may_learn_one_thing_after_the_other(self, bench: Bench) -> None:
        said = bench.said(
            *(error(422, name) for name in ("max_tokens", "tools unsupported")),
            say("one"),
        )
        assert said[0] == TextDelta("one")
        assert not {"max_tokens", "tools"} & bench.payloads()[-1].keys()

    def test_what_it_does_not_know_by_any_name_is_an_error(self, bench: Bench) -> None:
        told = bench.failure(*[error(400, "no max_tokens or max_completion_tokens")] * 2)
        assert "refused" in str(told)
        assert len(bench.llm.received) == 2

    @pytest.mark.parametrize(
        ("status", "text"),
        [
            (500, "tools param requires --jinja flag"),
            (400, "registry.example/library/tiny:latest does not support tools"),
            (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
            (400, "Unsupported param: tools"),
            (404, "`tool calling` is not supported with this model"),
        ],
    )
    def test_a_model_without_tools_is_asked_without_them(
        self, bench: Bench, status: int, text: str
    ) -> None:
        bench.llm.script = [error(status, text), say("one"), say("two")]
        model = bench.model()
        for _ in range(2):
            assert ended(list(model.stream(REQUEST, CancelToken()))).whole
        assert ["tools" in payload for payload in bench.payloads()] == [True, False, False]

    def test_nothing_is_left_out_of_what_is_too_long(self, bench: Bench) -> None:
        text = "max_tokens is too large: this model's maximum context length is 10 tokens"
        with pytest.raises(ContextTooLong):
            bench.said(error(400, text))
        assert len(bench.llm.received) == 1


class TestCounting:
    def test_tokens_are_the_servers_own(self, bench: Bench) -> None:
        model = bench.model()
        assert model.count_tokens(["one two", "", "Grüße 😀"], CancelToken()) == [2, 0, 2]
        assert bench.llm.asides == ["/tokenize"] * 3
        assert model.count_tokens([], CancelToken()) == []

    def test_the_server_is_told_which_model_and_who_asks(self, bench: Bench) -> None:
        with answering(b'{"tokens": [1, "two", {"id": 3}]}') as (url, heard):
            model = bench.model(url=url, model="tiny")
            assert model.count_tokens(["some words"], CancelToken()) == [3]
            assert model.get_context_size(CancelToken()) == CONTEXT
        (head, body), (asked, _) = heard
        assert head.startswith("POST /tokenize HTTP/1.1\r\n")
        assert f"authorization: bearer {KEY}\r\n" in head.lower()
        assert json.loads(body) == {"content": "some words", "model": "tiny"}
        assert asked.startswith("GET /props?model=tiny HTTP/1.1\r\n")
        assert f"authorization: bearer {KEY}\r\n" in asked.lower()

    def test_asides_are_beside_the_api(self, bench: Bench) -> None:
        bench.llm.n_ctx = 1024
        model = bench.model(url=f"{bench.llm.url}/v1/")
        assert model.count_tokens(["one"], CancelToken()) == [1]
        assert model.get_context_size(CancelToken()) == 1024

    def test_what_was_counted_is_not_counted_again(self, bench: Bench) -> None:
        model = bench.model()
        model.count_tokens(["one two", "three"], CancelToken())
        assert model.count_tokens(["three", "four", "one two"], CancelToken()) == [1, 1, 2]
        assert len(bench.llm.asides) == 3

    def test_only_so_much_is_remembered(self, bench: Bench) -> None:
        model = bench.model(max_counts=2)
        for text in ("a", "b", "a", "c", "a", "b"):  # what was used last is kept
            model.count_tokens([text], CancelToken())
        assert len(bench.llm.asides) == 4

    def test_one_that_does_not_know_is_asked_again_after_a_while(self, bench: Bench) -> None:
        text = "a text that has eight words in it"
        model = bench.model()
        bench.llm.tokens = None
        assert model.count_tokens([text, text * 2], CancelToken()) == [
            estimate_tokens(text),
            estimate_tokens(text * 2),
        ]
        assert len(bench.llm.asides) == 1, "the others would not be known either"
        bench.llm.tokens = lambda text: len(text.split())
        bench.clock.at += AGAIN_SECONDS - 1
        assert model.count_tokens([text], CancelToken()) == [estimate_tokens(text)]
        bench.clock.at += 1
        assert model.count_tokens([text], CancelToken()) == [8]
        assert len(bench.llm.asides) == 2

    @pytest.mark.parametrize(
        "body", [b"", b"<html>", b"[]", b'{"tokens": 7}', b'{"count": 7}', b'{"tokens": [7']
    )
    def test_garbage_is_no_count(self, bench: Bench, body: bytes) -> None:
        with answering(body) as (url, _):
            model = bench.model(url=url)
            assert model.count_tokens(["twelve chars"], CancelToken()) == [3]
            assert model.get_context_size(CancelToken()) == CONTEXT

    def test_a_server_that_is_gone_is_no_failure_yet(self, bench: Bench) -> None:
        model = bench.model(url=f"http://127.0.0.1:{refusing_port()}")
        assert model.count_tokens(["twelve chars"], CancelToken()) == [3]
        assert model.get_context_size(CancelToken()) == CONTEXT

    def test_that_one_server_did_not_know_says_nothing_of_the_next(self, bench: Bench) -> None:
        """A llama-server that was started again has another address."""
        servers = [
            FakeServer(f"http://127.0.0.1:{refusing_port()}"),
            FakeServer(bench.llm.url, serial=1),
        ]
        model = bench.model(server=Succession(servers))
        assert model.count_tokens(["one two three four"], CancelToken()) == [
            estimate_tokens("one two three four")
        ]
        assert model.count_tokens(["one two three four"], CancelToken()) == [4]

    def test_counting_can_be_halted(self, bench: Bench) -> None:
        cancel = CancelToken()

        def tokens(_text: str) -> int:
            cancel.set()
            return 1

        bench.llm.tokens = tokens
        with pytest.raises(Cancelled):
            bench.model().count_tokens(["one", "two"], cancel)
        assert len(bench.llm.asides) == 1


@dataclass
class Succession:
    """One server after the other."""

    servers: list[FakeServer]

    def lease(self, cancel: CancelToken, /) -> Any:
        return self.servers.pop(0).lease(cancel)


class TestTheWindow:
    @pytest.mark.parametrize(
        ("told", "expected"), [(1024, 1024), (CONTEXT * 2, CONTEXT), (0, CONTEXT), (None, CONTEXT)]
    )
    def test_it_is_what_the_server_has_and_at_most_what_is_configured(
        self, bench: Bench, told: int | None, expected: int
    ) -> None:
        bench.llm.n_ctx = told
        model = bench.model()
        assert [model.get_context_size(CancelToken()), model.get_context_size(CancelToken())] == [
            expected,
            expected,
        ]
        assert bench.llm.asides == ["/props"]

    def test_it_is_asked_for_again_after_a_while(self, bench: Bench) -> None:
        model = bench.model()
        assert model.get_context_size(CancelToken()) == CONTEXT
        bench.llm.n_ctx = 1024
        assert model.get_context_size(CancelToken()) == CONTEXT
        bench.clock.at += AGAIN_SECONDS
        assert model.get_context_size(CancelToken()) == 1024

    def test_it_is_asked_for_again_where_another_server_runs(self, bench: Bench) -> None:
        servers = [FakeServer(bench.llm.url, serial=serial) for serial in (1, 1, 2)]
        model = bench.model(server=Succession(servers))
        assert model.get_context_size(CancelToken()) == CONTEXT
        bench.llm.n_ctx = 1024
        assert model.get_context_size(CancelToken()) == CONTEXT
        assert model.get_context_size(CancelToken()) == 1024


class TestFailing:
    @pytest.mark.parametrize(
        ("status", "told"),
        [
            (401, "rejects the key, status 401 (oh dear): set llama.api_key_env"),
            (403, "rejects the key, status 403 (oh dear): set llama.api_key_env"),
            (404, "no such address or model, status 404 (oh dear): check llama.endpoint"),
            (302, "no such address or model, status 302 (oh dear): check llama.endpoint"),
            (400, "refused the request, status 400 (oh dear)"),
            (422, "refused the request, status 422 (oh dear)"),
            (418, "refused the request, status 418 (oh dear)"),
            (408, "too busy, status 408 (oh dear)"),
            (429, "too busy, status 429 (oh dear)"),
            (500, "failed, status 500 (oh dear)"),
            (503, "failed, status 503 (oh dear)"),
        ],
    )
    def test_what_the_server_says_is_told(self, bench: Bench, status: int, told: str) -> None:
        failed = bench.failure(error(status, "oh\n  dear"))
        assert told in str(failed)
        assert len(bench.llm.received) == 1

    @pytest.mark.parametrize(
        ("body", "told"),
        [
            (b'{"error": "out of memory"}', " (out of memory)"),
            (b'{"message": "out of memory"}', " (out of memory)"),
            (b'{"detail": "out of memory"}', " (out of memory)"),
            (b'{"error": {"message": "out \\u001b[31mof\\u0000 memory"}}', " (out [31mof memory)"),
            (json.dumps({"error": "x" * 400}).encode(), f" ({'x' * 300})"),
            (b'{"error": {"code": 7}}', ""),
            (b'{"detail": [{"loc": ["body"]}]}', ""),
            (b"<html><h1>502</h1>", ""),
            (b'"' + b"x" * 100_000, ""),
            (b"[" * 5000, ""),
            (b"\xff\xfe", ""),
            (b"", ""),
        ],
    )
    def test_in_whatever_form_it_says_it(self, bench: Bench, body: bytes, told: str) -> None:
        failed = bench.failure(Reply(body, 502))
        assert str(failed) == f"the model server failed, status 502{told}"

    @pytest.mark.parametrize(
        "step",
        [
            error(400, "the request exceeds the available context size, try increasing it"),
            error(400, "This model's maximum context length is 4096 tokens"),
            error(413, "prompt is too long: 9000 tokens"),
            error(500, "context size exceeded"),
            Streamed((data({"error": {"message": "exceeds the available context size"}}),)),
            Reply(b'{"error": {"message": "input is too large to process"}}'),
        ],
    )
    def test_a_conversation_that_is_too_long_is_told_as_such(
        self, bench: Bench, step: Step
    ) -> None:
        assert isinstance(bench.failure(step), ContextTooLong)

    @pytest.mark.parametrize(
        "step",
        [
            Reply(b"<html>"),
            Reply(b"<html>", headers={"content-type": "text/html"}),
            Reply(b"", headers={"content-type": "text/plain"}),
            Reply(b""),
            Reply(b"{}"),
            Reply(b'{"status": "ok"}'),
            Reply(b'{"choices": []}'),
            Reply(b'{"choices": {}}'),
            Reply(b"[]"),
            Reply(b"[" * 5000),
            Streamed((b"data: {]\n\n",)),
            Streamed((b"data: hello\n\n",)),
            Streamed((b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',)),
            Streamed((b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n',)),
            Streamed((b"data: [DONE]\n\n",)),
        ],
    )
    def test_what_is_no_answer_leads_to_the_endpoint(self, bench: Bench, step: Step) -> None:
        assert "an invalid answer: check that llama.endpoint" in str(bench.failure(step))

    @pytest.mark.parametrize(
        ("chunk", "told"),
        [
            ({"error": {"message": "slot lost", "code": 500}}, "failed: slot lost"),
            ({"error": "slot lost"}, "failed: slot lost"),
            ({"error": {"code": 500}}, "failed"),
            ({"error": 500, "choices": [{"delta": {"content": "b"}}]}, "failed"),
        ],
    )
    def test_an_error_amid_the_answer(self, bench: Bench, chunk: dict[str, Any], told: str) -> None:
        bench.llm.script = [Streamed((*say("a", cut=True).pieces, data(chunk), *say("b").pieces))]
        said = bench.model().stream(REQUEST, CancelToken())
        assert next(said) == TextDelta("a")
        with pytest.raises(LlmFailed, match=rf"^the model server {told}$"):
            next(said)

    @pytest.mark.parametrize(
        ("step", "told"),
        [
            (say("half an", cut=True), "connection to the model server was lost"),
            (Streamed(say("half an", cut=True).pieces), "broke off in the middle"),
            (Streamed(()), "broke off in the middle"),
            (Reply(b'{"choices":', promised=10), "connection to the model server was lost"),
        ],
    )
    def test_an_answer_that_breaks_off(self, bench: Bench, step: Step, told: str) -> None:
        assert told in str(bench.failure(step))

    def test_what_came_before_is_told(self, bench: Bench) -> None:
        bench.llm.script = [say("half an", cut=True)]
        said = bench.model().stream(REQUEST, CancelToken())
        assert [next(said), next(said)] == [TextDelta("half "), TextDelta("an")]
        with pytest.raises(LlmFailed):
            next(said)

    @pytest.mark.parametrize(
        "step",
        [
            Streamed((data({"choices": [{"delta": {"content": "x" * 1_000_000}}]}),) * 50),
            Streamed((data({"choices": [{"delta": {"reasoning": "x" * 1_000_000}}]}),) * 50),
            Streamed((data({"choices": [{"delta": piece(arguments="x" * 1_000_000)}]}),) * 50),
            Streamed((data({"choices": [{"delta": piece(arguments=["x" * 1_000_000])}]}),) * 50),
            Streamed(
                tuple(
                    data({"choices": [{"delta": piece(index=at, name="f")}]}) for at in range(300)
                )
            ),
            Streamed((b"data: ", *[b"x" * 1_000_000] * 50)),
            Streamed((b"data: x\n" * 100_000,) * 50),
            Streamed((b": ping\n\n" * 125_000,) * 100),
            Streamed((b"x" * 1_000_000,) * 50, content_type="application/json"),
        ],
        ids=["text", "thought", "call", "object", "calls", "line", "event", "comments", "json"],
    )
    def test_an_answer_without_an_end_is_given_up(self, bench: Bench, step: Step) -> None:
        assert str(bench.failure(step)) == "the answer of the model is too long"

    @pytest.mark.parametrize("step", [Hang(), Hang(begun=True), say("a", gate=Gate())])
    def test_a_server_that_stays_silent_is_given_up(self, bench: Bench, step: Step) -> None:
        failed = bench.failure(step, turn_seconds=SHORT)
        assert "has been silent for 0.2 s (runs.turn_seconds)" in str(failed)
        assert bench.llm.received[0].gone.wait(TIMEOUT)

    @pytest.mark.parametrize(
        "alive",
        [b": ping\n\n", data({"choices": [{"delta": {}}]}), data({"choices": [], "usage": None})],
    )
    def test_signs_of_life_are_no_answer(self, bench: Bench, alive: bytes) -> None:
        pieces = (say("a", cut=True).pieces[1], *[alive] * 9, *say("b").pieces)
        timer = Ticking(0.4 * TIMEOUT)
        assert "silent" in str(bench.failure(Streamed(pieces), timer=timer))

    @pytest.mark.parametrize(
        "delta", [{"content": "a"}, {"reasoning": "a"}, piece(index=0, name="f", arguments=" ")]
    )
    def test_a_long_answer_is_not_silent(self, bench: Bench, delta: dict[str, Any]) -> None:
        """Neither one that is a call, of which nothing is told before its end."""
        answer = deltas(*[delta] * 9)
        assert ended(bench.said(answer, timer=Ticking(0.4 * TIMEOUT))).whole

    def test_nobody_there(self, bench: Bench) -> None:
        failed = bench.failure(url=f"http://127.0.0.1:{refusing_port()}")
        assert str(failed) == "the model server at 127.0.0.1 cannot be reached (ConnectError)"

    def test_somebody_else_there(self, bench: Bench) -> None:
        with answering(b"", head=b"220 mail.example ESMTP\r\n") as (url, _):
            model = bench.model(url=url)
            with pytest.raises(LlmFailed, match="connection to the model server was lost"):
                list(model.stream(REQUEST, CancelToken()))

    def test_after_a_failure_all_is_well_again(self, bench: Bench) -> None:
        bench.llm.script = [error(500), say("a", cut=True), Reply(b"<html>"), say("fine")]
        model = bench.model()
        for _ in range(3):
            with pytest.raises(LlmFailed):
                list(model.stream(REQUEST, CancelToken()))
        assert next(iter(model.stream(REQUEST, CancelToken()))) == TextDelta("fine")


class TestSecrets:
    """`Bench.failure` looks for them in all errors."""

    @pytest.mark.parametrize(
        "text",
        [
            f"invalid key {KEY}",
            f"invalid key {'x' * 280} {KEY}",
            f"cannot parse {WORDS!r}",
            f"cannot parse {WORDS[:45]}",
            f"cannot parse {'x' * 250} {WORDS}",
            f"cannot parse {WORDS.replace(' ', chr(10))}",
            f"bad arguments {json.dumps({'at': PATH})}",
            f"bad path {PATH}",
        ],
    )
    @pytest.mark.parametrize("where", ["answer", "stream"])
    def test_what_a_server_repeats_is_not_told(self, bench: Bench, text: str, where: str) -> None:
        step = error(400, text) if where == "answer" else Streamed((data({"error": text}),))
        told = str(bench.failure(step))
        assert ("***" in told) == (KEY in text)

    def test_a_short_message_may_be_the_same_by_accident(self, bench: Bench) -> None:
        request = ChatRequest(
            messages=[Message(role=MessageRole.USER, content="memory")], max_tokens=5
        )
        assert "out of memory" in str(bench.failure(error(500, "out of memory"), request=request))

    def test_the_key_is_sent_nowhere_else(self, bench: Bench) -> None:
        with scripted(say("a")) as other:
            failed = bench.failure(
                Reply(b"", 307, {"location": f"{other.url}/v1/chat/completions"})
            )
            assert "status 307" in str(failed)
            assert other.received == []

    def test_a_lease_does_not_show_its_key(self, bench: Bench) -> None:
        with FakeServer(bench.llm.url).lease(CancelToken()) as lease:
            assert KEY not in repr(lease)


class TestALeasedServer:
    EXIT_REASON = "llama-server ended (killed by signal 9): out of memory"

    @pytest.mark.parametrize("end", ["cut", "broke off", "refused"])
    def test_one_that_ended_meanwhile_says_why(self, bench: Bench, end: str) -> None:
        url = bench.llm.url if end != "refused" else f"http://127.0.0.1:{refusing_port()}"
        step = say("half", cut=True)
        bench.llm.script = [step if end == "cut" else Streamed(step.pieces)]
        model = bench.model(server=FakeServer(url, exit_reason=self.EXIT_REASON))
        with pytest.raises(LlmFailed) as failed:
            list(model.stream(REQUEST, CancelToken()))
        assert str(failed.value) == self.EXIT_REASON

    def test_one_that_still_runs_says_nothing(self, bench: Bench) -> None:
        failed = bench.failure(say("half", cut=True), server=FakeServer(bench.llm.url))
        assert "connection to the model server was lost" in str(failed)

    @pytest.mark.parametrize("step", [error(500, "oh dear"), Reply(b"<html>")])
    def test_an_answer_of_its_own_counts_more(self, bench: Bench, step: Step) -> None:
        failed = bench.failure(step, server=FakeServer(bench.llm.url, exit_reason=self.EXIT_REASON))
        assert self.EXIT_REASON not in str(failed)

    def test_it_is_leased_until_its_last_word(self, bench: Bench) -> None:
        happened: list[str] = []
        server = FakeServer(
            bench.llm.url,
            entering=lambda: happened.append("leased"),
            leaving=lambda: happened.append("returned"),
        )
        bench.llm.script = [say("a b")]
        said = bench.model(server=server).stream(REQUEST, CancelToken())
        assert happened == []
        for each in said:
            assert happened == ["leased"], each
        assert happened == ["leased", "returned"]


class TestHalting:
    def test_before_it_began_nothing_is_asked(self, bench: Bench) -> None:
        cancel = CancelToken()
        cancel.set()
        for model in (bench.model(), bench.model(server=FakeServer(bench.llm.url))):
            with pytest.raises(Cancelled):
                list(model.stream(REQUEST, cancel))
        with pytest.raises(Cancelled):
            bench.model().get_context_size(cancel)
        with pytest.raises(Cancelled):
            bench.model().count_tokens(["a"], cancel)
        assert bench.llm.received == []
        assert bench.llm.asides == []

    def test_while_it_connects(self, bench: Bench) -> None:
        """The server takes nobody: its queue is full, so the handshake is not answered."""
        cancel = CancelToken()
        with (
            socket.socket() as listener,
            socket.socket() as first,
            ThreadPoolExecutor(1) as pool,
        ):
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            first.connect(("127.0.0.1", port))
            model = bench.model(url=f"http://127.0.0.1:{port}", turn_seconds=1)
            waiting = pool.submit(lambda: list(model.stream(REQUEST, cancel)))
            wait_until(lambda: is_connecting(port))
            cancel.set()
            with pytest.raises(Cancelled):
                waiting.result(TIMEOUT)

    @pytest.mark.parametrize("begun", [False, True])
    def test_while_it_is_silent(self, bench: Bench, begun: bool) -> None:
        cancel = CancelToken()
        bench.llm.script = [Hang(begun)]
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: list(bench.model().stream(REQUEST, cancel)))
            bench.llm.wait_for_requests(1)
            cancel.set()
            with pytest.raises(Cancelled):
                waiting.result(TIMEOUT)
        assert bench.llm.received[0].gone.wait(TIMEOUT), "the model still works on it"

    @pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
    def test_in_the_middle_of_an_answer(self, bench: Bench, kind: str) -> None:
        cancel, gate = CancelToken(), Gate()
        bench.llm.script = [Streamed(say("one two").pieces, gate=gate, content_type=kind)]
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: list(bench.model().stream(REQUEST, cancel)))
            gate.let(2)
            gate.wait_until_held()
            cancel.set()
            with pytest.raises(Cancelled):
                waiting.result(TIMEOUT)
        assert bench.llm.received[0].gone.wait(TIMEOUT), "the model still works on it"

    @pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
    def test_what_is_cut_short_by_it_is_no_garbage(self, bench: Bench, kind: str) -> None:
        """Without a length, an answer ends where its connection does."""
        cancel = CancelToken()
        with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
            model = bench.model(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
            waiting = pool.submit(lambda: list(model.stream(REQUEST, cancel)))
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n"
                connection.sendall(head.encode() + b'data: {"choices": [')
                cancel.set()
                with pytest.raises(Cancelled):
                    waiting.result(TIMEOUT)

    def test_between_two_words(self, bench: Bench) -> None:
        cancel, gate = CancelToken(), Gate()
        bench.llm.script = [say("one two", gate=gate)]
        said = bench.model().stream(REQUEST, cancel)
        gate.let(2)
        assert next(said) == TextDelta("one ")
        cancel.set()
        with pytest.raises(Cancelled):
            next(said)
        assert bench.llm.received[0].gone.wait(TIMEOUT)

    def test_who_listens_no_more_ends_it_too(self, bench: Bench) -> None:
        gate = Gate()
        bench.llm.script = [say("one two", gate=gate)]
        with closing(bench.model().stream(REQUEST, CancelToken())) as said:  # type: ignore[type-var]
            gate.let(2)
            assert next(said) == TextDelta("one ")
        assert bench.llm.received[0].gone.wait(TIMEOUT)

    def test_others_are_left_alone(self, bench: Bench) -> None:
        cancel, gate = CancelToken(), Gate()
        bench.llm.deciding = lambda _: say("one two", gate=gate)
        model = bench.model()
        with ThreadPoolExecutor(2) as pool:
            halted = pool.submit(lambda: list(model.stream(REQUEST, cancel)))
            other = pool.submit(lambda: list(model.stream(REQUEST, CancelToken())))
            gate.wait_until_held(2)
            cancel.set()
            with pytest.raises(Cancelled):
                halted.result(TIMEOUT)
            gate.open()
            assert other.result(TIMEOUT)[-1] == StreamEnd()

    def test_a_server_that_was_ended_for_it_is_no_failure(self, bench: Bench) -> None:
        """It is asked how the server ended, which takes a moment."""
        cancel = CancelToken()
        model = bench.model(server=HaltedMeanwhile(bench.llm.url, cancel))
        bench.llm.script = [say("half", cut=True)]
        with pytest.raises(Cancelled):
            list(model.stream(REQUEST, cancel))

    def test_many_answers_come_at_once(self, bench: Bench) -> None:
        gate = Gate()
        bench.llm.deciding = lambda _: say("one", gate=gate)
        model = bench.model()
        with ThreadPoolExecutor(50) as pool:
            waiting = [
                pool.submit(lambda: list(model.stream(REQUEST, CancelToken()))) for _ in range(50)
            ]
            gate.wait_until_held(50)
            gate.open()
            assert all(each.result(TIMEOUT)[0] == TextDelta("one") for each in waiting)


@dataclass(frozen=True)
class HaltedMeanwhile:
    url: str
    cancel: CancelToken

    @contextmanager
    def lease(self, _halt: CancelToken, /) -> Iterator[Lease]:
        def ended() -> str:
            self.cancel.set()
            return "llama-server was stopped"

        yield Lease(url=self.url, key=KEY, get_exit_reason=ended)


def is_connecting(port: int) -> bool:
    """Whether somebody waits for this port to take him."""
    asked, syn_sent = f":{port:04X}", "02"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return any(row[2].endswith(asked) and row[3] == syn_sent for row in rows)


@contextmanager
def answering(
    body: bytes, head: bytes | None = None
) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server that says the same to all, and what it was told: heads and bodies."""
    heard: list[tuple[str, bytes]] = []
    head = (
        head if head is not None else b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    )

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                told = b""
                while (line := lines.readline()) not in (b"\r\n", b""):
                    told += line
                if not told:
                    return
                fields = dict(each.lower().split(b": ") for each in told.splitlines()[1:])
                heard.append((told.decode(), lines.read(int(fields.get(b"content-length", 0)))))
                connection.sendall(head + body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard
        finally:
            socket.create_connection(listener.getsockname()).close()  # who asks nothing ends it
            thread.join(TIMEOUT)
