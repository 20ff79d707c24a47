"""The application, loaded by the first request that needs it: a daemon that serves only hooks and
commands never loads it."""

import asyncio
from collections.abc import Callable, Mapping

from agent_memory.interfaces.http.asgi import Application, Receive, Scope, Send, send_json
from agent_memory.kernel.status import StoreHealth

HEALTHY = b'{"status": "ok"}'
FAILING = b'{"status": "failing", "store": "%s"}'


class LazyApp:
    """An application that loads another on demand.

    It answers `GET /health` itself, with the state of the store from `health`. `mounts` are
    applications by their paths, which do not need the loaded one.
    """

    def __init__(
        self,
        load: Callable[[], Application],
        mounts: Mapping[str, Application] | None = None,
        health: Callable[[], StoreHealth] = StoreHealth,
    ) -> None:
        self._load = load
        self._mounts = mounts or {}
        self._health = health
        self._loaded: Application | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/health":
            health = self._health()
            if health.writable:
                await send_json(send, 200, HEALTHY)
            else:  # without the reason, which may name paths: /health needs no key
                state = b"read_only" if health.readable else b"unavailable"
                await send_json(send, 503, FAILING % state)
            return
        mounted = self._mounts.get(scope["path"])
        if mounted is not None:
            await mounted(scope, receive, send)
            return
        if self._loaded is None:
            async with self._loading:
                if self._loaded is None:
                    self._loaded = await asyncio.to_thread(self._load)
        await self._loaded(scope, receive, send)
