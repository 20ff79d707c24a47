"""docs/howto/client.md and langgraph.md do what they say."""

import re
from pathlib import Path

import pytest

from tests.daemon_process import Daemon

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", ["client.md", "langgraph.md"])
def test_the_examples_run_in_order(
    name: str, shared_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(shared_daemon.data_dir.parent))
    monkeypatch.delenv("MEMORY_ENDPOINT", raising=False)
    path = HOWTO / name
    page = path.read_text()
    blocks = list(BLOCK.finditer(page))
    assert len(blocks) == page.count("```python")

    namespace: dict[str, object] = {"__name__": "howto"}
    for block in blocks:
        # Empty lines first, so that a traceback names the line of the page.
        line = page[: block.start(1)].count("\n")
        code = compile("\n" * line + block[1], str(path), "exec")
        exec(code, namespace)  # noqa: S102 - it is our own page
