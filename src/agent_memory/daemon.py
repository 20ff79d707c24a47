"""The daemon process: lock, listeners, signals, ordered stop."""

import asyncio
import fcntl
import json
import os
import signal
import sys
from pathlib import Path

import structlog
import uvloop

from agent_memory import app, config
from agent_memory.domain.errors import AgentMemoryError, StorageLocked
from agent_memory.interfaces import wire

log = structlog.get_logger()

DRAIN_SECONDS = 3.0
# A thread that holds the GIL gives way soon enough for a hook's answer (default: 5 ms).
SWITCH_INTERVAL = 0.0005


def main() -> int:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    sys.setswitchinterval(SWITCH_INTERVAL)
    os.umask(0o077)
    try:
        uvloop.run(_serve(config.load(os.environ)))
    except AgentMemoryError as exc:
        sys.stderr.write(f"error: {exc}\n")
        return wire.codes(exc).exit
    return 0


async def _serve(settings: config.Settings) -> None:
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = _lock(settings.data_dir)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    built = app.build(settings)
    try:
        # Ours to unlink: we hold the lock.
        socket = settings.runtime_dir / "grpc.sock"
        socket.unlink(missing_ok=True)
        built.grpc.listen(settings.grpc_hosts, settings.grpc_port, socket)
        await built.grpc.start()
        _announce(settings.data_dir, port=built.grpc.port, socket=socket)
        log.info("daemon.ready", pid=os.getpid(), grpc_port=built.grpc.port)
        await stop.wait()
        log.info("daemon.stopping")
        await built.grpc.stop(DRAIN_SECONDS)
    finally:
        await asyncio.to_thread(built.close)
        (settings.data_dir / "daemon.json").unlink(missing_ok=True)
        os.close(lock)


def _lock(data_dir: Path) -> int:
    """Hold the data folder's lock until the process ends."""
    descriptor = os.open(data_dir / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StorageLocked(f"a daemon is already running on {data_dir}") from None
    return descriptor


def _announce(data_dir: Path, *, port: int, socket: Path) -> None:
    """Tell clients where we are; written whole or not at all."""
    path = data_dir / "daemon.json"
    draft = path.with_suffix(".new")
    draft.write_text(
        json.dumps({"pid": os.getpid(), "grpc_port": port, "grpc_socket": str(socket)})
    )
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
