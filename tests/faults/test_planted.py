"""The faults that are planted into copies of the package still fit it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import planted
from tests.faults.planted import PACKAGE, PLANTED, Planted


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_each_has_its_place_and_can_be_compiled(fault: Planted, tmp_path: Path) -> None:
    path = tmp_path / fault.file
    path.parent.mkdir(parents=True)
    shutil.copy(PACKAGE / fault.file, path)
    fault.apply(tmp_path)
    compile(path.read_text(), str(path), "exec")
    assert path.read_text() != (PACKAGE / fault.file).read_text()


def test_the_copy_is_what_its_interpreter_imports(tmp_path: Path) -> None:
    python = planted.install(PLANTED[0], tmp_path)
    words = [str(python), "-I", "-c", "import agent_memory, grpc; print(agent_memory.__file__)"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert Path(ran.stdout.strip()).is_relative_to(tmp_path)
    assert str(python) != sys.executable
