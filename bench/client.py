"""A client that costs little: requests come serialized from a file, answers stay bytes.

Asked by lines on stdin: {port or ports, callers | 0 for streams, first, seconds, limit}. Callers
are spread over the ports, or each of these gets a stream.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import uvloop

from bench import processes
from bench.conversation import Corpus

EVENTS_PER_MESSAGE = 100
CALLERS_PER_CHANNEL = 32
IN_FLIGHT = 128  # messages without an answer, over all streams


async def unary(
    corpus: Corpus, ports: Sequence[int], callers: int, first: int, seconds: float, limit: int
) -> list[float]:
    """Send for some seconds or until the limit; how long each answer took."""
    count = max(len(ports), -(-callers // CALLERS_PER_CHANNEL))
    channels = [_channel(ports[number % len(ports)]) for number in range(count)]
    end = min(first + limit, len(corpus))
    deadline = time.monotonic() + seconds
    turn = iter(range(first, end))
    took: list[float] = []

    async def caller(channel: grpc.aio.Channel) -> None:
        call: Any = channel.unary_unary("/memory.MemoryService/IngestEvent", None, None)
        for number in turn:
            began = time.monotonic()
            await call(corpus.joined(number, 1))
            now = time.monotonic()
            took.append(now - began)
            if now > deadline:
                return

    await asyncio.gather(*(caller(channels[i % len(channels)]) for i in range(callers)))
    await asyncio.gather(*(channel.close(None) for channel in channels))
    return took


async def stream(
    corpus: Corpus, ports: Sequence[int], first: int, seconds: float, limit: int
) -> tuple[int, float]:
    """Do the same over one stream to each port, 100 events a message; how many, and the longest
    pause between two answers of a stream."""
    end = min(first + limit, len(corpus))
    deadline = time.monotonic() + seconds
    sent = 0
    pause = 0.0
    turn = iter(range(first, end, EVENTS_PER_MESSAGE))

    async def messages(room: asyncio.Semaphore) -> AsyncIterator[bytes]:
        nonlocal sent
        for number in turn:
            count = min(EVENTS_PER_MESSAGE, end - number)
            yield corpus.joined(number, count)
            sent += count
            await room.acquire()
            if time.monotonic() > deadline:
                return

    async def run(port: int) -> None:
        nonlocal pause
        async with _channel(port) as channel:
            call: Any = channel.stream_stream("/memory.MemoryService/IngestEvents", None, None)
            last: float | None = None
            room = asyncio.Semaphore(IN_FLIGHT // len(ports))
            async for _ in call(messages(room)):
                room.release()
                now = time.monotonic()
                pause, last = max(pause, now - (last or now)), now

    await asyncio.gather(*map(run, ports))
    return sent, pause


def _channel(port: int) -> grpc.aio.Channel:
    # A pool of its own: channels to one address would otherwise share one connection.
    return grpc.aio.insecure_channel(
        f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
    )


async def _measure(corpus: Corpus, asked: dict[str, Any]) -> Mapping[str, object]:
    callers, port = asked.pop("callers"), asked.pop("port", None)
    asked.setdefault("ports", [port])
    began = time.monotonic()
    if not callers:
        events, pause = await stream(corpus, **asked)
        return {"events": events, "seconds": time.monotonic() - began, "pause": pause}
    took = sorted(await unary(corpus, callers=callers, **asked))
    return {
        "events": len(took),
        "seconds": time.monotonic() - began,
        "p50": took[len(took) // 2] * 1000,
        "p99": took[len(took) * 99 // 100] * 1000,
    }


def main() -> None:
    corpus = Corpus(Path(sys.argv[1]))
    processes.serve_lines(lambda asked: uvloop.run(_measure(corpus, asked)))


if __name__ == "__main__":
    main()
