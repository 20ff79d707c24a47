"""`tools/first_week.py`: every step of a new user's first week does what it should."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "tools/first_week.py"
STEPS = 100
SECONDS = 300.0


def replay(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *words],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_every_step_of_the_week_does_what_it_should() -> None:
    done = replay()

    unexpected = re.findall(
        r"^\$ .*\n(?:    .*\n|\n)*.*NOT AS EXPECTED.*", done.stdout, re.MULTILINE
    )
    assert not unexpected, "\n\n".join(unexpected)
    assert done.returncode == 0, done.stderr
    counted = re.fullmatch(r"(\d+) of (\d+) steps .*", done.stdout.splitlines()[-1])
    assert counted is not None
    assert counted[1] == counted[2]
    assert int(counted[2]) > STEPS


def test_programs_that_do_nothing_do_not_pass(tmp_path: Path) -> None:
    for name in ("memory", "memory-daemon", "kontekst", "python"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o700)

    done = replay("--programs", str(tmp_path))

    assert done.returncode == 1
    assert "$ memory config path\n  [exit 0] NOT AS EXPECTED; not there: " in done.stdout


def test_a_folder_without_the_programs_is_refused(tmp_path: Path) -> None:
    done = replay("--programs", str(tmp_path))

    assert done.returncode == 2
    assert f"there is no memory-daemon in {tmp_path}" in done.stderr
