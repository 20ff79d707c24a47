"""Commands that are loaded when they are used."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent_memory.interfaces.cli.late_commands import LateCommands, Place

# None of these is needed without a daemon, and each takes as long to load as the rest.
HEAVY = (
    "agent_memory.features.recall",
    "asyncio",
    "fastapi",
    "google",
    "grpc",
    "numpy",
    "pydantic",
)
RUN = """
import sys
from agent_memory.daemon import standalone
code = standalone.main(sys.argv[1], sys.argv[2:])
print(code, *sorted(sys.modules), file=sys.stderr)
"""


def test_asking_for_names_loads_nothing() -> None:
    commands = LateCommands({"missing": Place("no_such_module", "command")})

    assert list(commands) == ["missing"]
    assert len(commands) == 1
    assert "missing" in commands
    assert "other" not in commands
    assert commands.get("other") is None
    with pytest.raises(ModuleNotFoundError):
        commands["missing"]


@pytest.mark.parametrize(
    "words",
    [
        "memory help",
        "memory --help",
        "memory config get cli.color",
        "memory-daemon --help",
        "memory-daemon stop",
        "kontekst stop",
    ],
)
def test_a_command_without_a_daemon_loads_only_what_it_needs(words: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", RUN, *words.split()],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    code, *modules = ended.stderr.split()
    assert code == "0"
    assert "agent_memory.interfaces.cli.commands" in modules
    assert [module for module in modules if module.startswith(HEAVY)] == []
