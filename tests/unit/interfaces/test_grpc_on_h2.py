"""The way out: the gRPC server on h2, the library that jh2 began as (docs/decisions/0002)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_floods_end_the_same_on_h2() -> None:
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-p", "tests.on_h2"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/unit/interfaces/test_grpc_floods.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-4_000:] + found.stderr[-2_000:]
