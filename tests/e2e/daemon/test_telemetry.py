"""Traces of a real daemon, as a collector receives them."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agent_memory.kernel import tracing
from tests.command_runner import Home
from tests.http_client import STATUS, Web

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
WORDS = "the words of the prompt"


class Collector(ThreadingHTTPServer):
    """Takes spans over OTLP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[bytes] = []

    @property
    def spans(self) -> dict[str, Span]:
        return {
            span.name: span
            for body in self.received
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        self.server.received.append(self.rfile.read(size))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_every_interface_sends_its_operations_and_no_words(collector: Collector) -> None:
    with Home() as home:
        port = collector.server_address[1]
        endpoint = f"http://127.0.0.1:{port}/v1/traces"
        home.configure(f'[telemetry]\notlp_endpoint = "{endpoint}"\n')
        home.serve()
        told = {"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "prompt": WORDS}
        answer = home.run(
            "memory", "hook", "auto", "--agent", "codex", given=json.dumps(told).encode()
        )
        assert answer.code == 0
        assert home.run("memory", "show", "decisions:abcdef123456:0").code == 10
        with Web(home).client() as client:
            head = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            assert client.get(STATUS, headers=head).status_code == 200
        home.stop()
    sent = collector.spans
    asked = sent[f"http GET {STATUS}"]
    assert (asked.trace_id.hex(), asked.parent_span_id.hex()) == (TRACE, PARENT)
    assert asked.status.code != Status.STATUS_CODE_ERROR
    assert asked.end_time_unix_nano > asked.start_time_unix_nano
    prompted = sent["hook user-prompt"]
    assert prompted.trace_id.hex() == tracing.from_name("s-1").trace_id
    assert sent["cli memory show"].status.code == Status.STATUS_CODE_ERROR
    assert not any(WORDS.encode() in body for body in collector.received)


def test_a_collector_that_is_not_there_harms_nobody() -> None:
    with Home() as home:
        home.configure('[telemetry]\notlp_endpoint = "http://127.0.0.1:9/v1/traces"\n')
        home.serve()
        assert home.run("memory", "list").code == 0
        home.stop()
        assert home.pid() is None
