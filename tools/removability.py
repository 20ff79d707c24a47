"""Check that each of some features can be left out: without its folder and its line in FEATURES,
everything else is imported, starts and answers."""

import contextlib
import json
import os
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent.parent / "src"
FEATURES = ("runs", "checkpoints", "upstream", "streaming", "backups")
TRIAL_SECONDS = 300
START_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.05
SETTINGS = '[grpc]\nport = 0\n[http]\nport = 0\n[embedder]\nprovider = "none"\n'
TEXT = "We chose heron as the name of the queue"
QUESTION = "name of the queue"


def main() -> None:
    if sys.argv[1:2] == ["--trial"]:
        try_all(Path(sys.argv[2]))
        return
    chosen = sys.argv[1:] or FEATURES
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = dict(zip(chosen, pool.map(leave_out, chosen), strict=True))
    for feature, complaint in complaints.items():
        sys.stdout.write(f"without {feature}: {complaint.strip() or 'works'}\n")
    if any(complaints.values()):
        sys.exit("a feature cannot be left out any more: what needs it belongs into its folder")


def leave_out(feature: str) -> str:
    """Try a copy of the sources without a feature. Return what broke; empty: nothing."""
    with tempfile.TemporaryDirectory(prefix="without-") as folder:
        copy = Path(folder, "src")
        shutil.copytree(SOURCES, copy)  # with what is compiled: that takes longer than the rest
        features = copy / "agent_memory/features"
        shutil.rmtree(features / feature)
        listed = features / "__init__.py"
        text, count = re.subn(rf'^    "{feature}",\n', "", listed.read_text(), flags=re.MULTILINE)
        if count != 1:
            return f"{feature} has not one line in {listed.name}"
        listed.write_text(text)
        trial = subprocess.run(  # noqa: S603  our own; no shell
            [sys.executable, __file__, "--trial", folder],
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
    return "" if trial.returncode == 0 else f"{trial.stdout}{trial.stderr}" or "it crashed"


def try_all(folder: Path) -> None:
    """Import all modules of the copy in a folder, and let its daemon answer."""
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("it takes too long"))
    signal.alarm(TRIAL_SECONDS)
    if broken := import_all(folder):
        sys.exit("\n".join(["cannot be imported:", *broken]))
    with run_daemon(folder / "home") as announced:
        ask(announced)


def import_all(folder: Path) -> list[str]:
    """Import every module, and return each line at which that fails."""
    package = import_module("agent_memory")
    if not Path(str(package.__file__)).is_relative_to(folder):
        return [f"  this is {package.__file__}"]
    broken = set()
    for module in pkgutil.walk_packages(package.__path__, "agent_memory."):
        if module.name.endswith(".__main__"):
            continue
        try:
            import_module(module.name)
        except Exception as exc:
            frames = traceback.extract_tb(exc.__traceback__)
            own = [frame for frame in frames if frame.filename.startswith(str(folder))]
            path = Path(own[-1].filename).relative_to(folder)
            broken.add(f"  {path}:{own[-1].lineno}: {exc}")
    return sorted(broken)


@contextlib.contextmanager
def run_daemon(home: Path) -> Iterator[dict[str, Any]]:
    """Start a daemon in an empty home, and stop it. Yield what it announces."""
    settings = home / ".config/agent-memory/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS)
    words = [sys.executable, "-m", "agent_memory.daemon", "--home", str(home)]
    daemon = subprocess.Popen(words, stdout=sys.stderr)  # noqa: S603  our own; no shell
    try:
        yield wait_announced(daemon, home / ".local/share/agent-memory/daemon.json")
    finally:
        daemon.send_signal(signal.SIGTERM)
        code = daemon.wait(STOP_SECONDS)
    if code:
        sys.exit(f"the daemon ended with {code}")


def wait_announced(daemon: "subprocess.Popen[bytes]", file: Path) -> dict[str, Any]:
    deadline = time.monotonic() + START_SECONDS
    while not file.exists():
        if daemon.poll() is not None or time.monotonic() > deadline:
            sys.exit("the daemon does not start")
        time.sleep(POLL_SECONDS)
    announced: dict[str, Any] = json.loads(file.read_text())
    return announced


def ask(announced: dict[str, Any]) -> None:
    """Record an event, recall it, and read what HTTP answers without a key."""
    blocking = import_module("agent_memory.client.blocking")  # of the copy
    values = import_module("agent_memory.client.values")
    with blocking.MemoryClient.connect(f"unix:{announced['grpc_socket']}") as client:
        event = values.Event(
            session_id="removability",
            timestamp=datetime.now(UTC),
            event_type=values.EventType.USER_MESSAGE,
            role=values.EventRole.USER,
            text=TEXT,
        )
        client.ingest(event)
        found = client.search(QUESTION)
        if TEXT not in str(found):
            sys.exit(f"the event is not found: {found}")
    for path in ("/health", "/openapi.json"):
        url = f"http://127.0.0.1:{announced['http_port']}{path}"
        with urllib.request.urlopen(url, timeout=START_SECONDS) as answer:
            json.load(answer)


if __name__ == "__main__":
    main()
