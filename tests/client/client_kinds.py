"""Both clients behind one blocking surface, so that a scenario is written once."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, cast

from agent_memory.client import AsyncMemoryClient, MemoryClient


class ClientKind(Protocol):
    """One of the two clients. What it opens is closed on exit."""

    def connect(self, endpoint: str, **options: Any) -> AbstractContextManager[MemoryClient]: ...

    def connect_default(self, **options: Any) -> AbstractContextManager[MemoryClient]: ...


class Blocking:
    def connect(self, endpoint: str, **options: Any) -> MemoryClient:
        return MemoryClient.connect(endpoint, **options)

    def connect_default(self, **options: Any) -> MemoryClient:
        return MemoryClient.connect_default(**options)


class Asynchronous:
    """Runs each call of the asyncio client to its end, on an event loop of its own."""

    @contextmanager
    def connect(self, endpoint: str, **options: Any) -> Iterator[MemoryClient]:
        with asyncio.Runner() as runner:
            client = runner.run(AsyncMemoryClient.connect(endpoint, **options))
            yield from self._entered(runner, client)

    @contextmanager
    def connect_default(self, **options: Any) -> Iterator[MemoryClient]:
        with asyncio.Runner() as runner:
            client = runner.run(AsyncMemoryClient.connect_default(**options))
            yield from self._entered(runner, client)

    def _entered(self, runner: asyncio.Runner, client: AsyncMemoryClient) -> Iterator[MemoryClient]:
        async def leave() -> None:
            await client.__aexit__(None, None, None)

        async def enter() -> AsyncMemoryClient:
            return await client.__aenter__()

        entered = runner.run(enter())
        try:
            # It has the blocking client's methods: tests/client/test_client_kinds.py.
            yield cast(MemoryClient, _Awaited(entered, runner))
        finally:
            runner.run(leave())


class _Awaited:
    def __init__(self, client: AsyncMemoryClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if inspect.isasyncgen(result):
                return self._all(result)
            return self._runner.run(result)

        return call

    def _all(self, items: Any) -> Iterator[Any]:
        async def following() -> list[Any]:
            return [item async for item in items]

        yield from self._runner.run(following())


CLIENT_KINDS: dict[str, ClientKind] = {"blocking": Blocking(), "asyncio": Asynchronous()}
