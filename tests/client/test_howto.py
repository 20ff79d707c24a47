"""docs/howto/client.md does what it says."""

import re
from pathlib import Path

import pytest

from tests.daemon_process import Daemon

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "client.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_examples_run_in_order(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(daemon.data_dir.parent))
    monkeypatch.delenv("MEMORY_ENDPOINT", raising=False)
    page = HOWTO.read_text()
    blocks = list(BLOCK.finditer(page))
    assert len(blocks) == page.count("```python")

    namespace: dict[str, object] = {"__name__": "howto"}
    for block in blocks:
        # Empty lines first, so that a traceback names the line of the page.
        line = page[: block.start(1)].count("\n")
        code = compile("\n" * line + block[1], str(HOWTO), "exec")
        exec(code, namespace)  # noqa: S102 - it is our own page
