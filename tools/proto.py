"""Generate the wire code from proto/*.proto, or check that the committed code is current."""

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "proto"
GENERATED = ROOT / "src/agent_memory/proto"


def generate(target: Path) -> None:
    sources = sorted(path.name for path in SOURCES.glob("*.proto"))
    include = str(files("grpc_tools") / "_proto")
    arguments = ["protoc", f"-I{SOURCES}", f"-I{include}"]
    arguments += [f"--python_out={target}", f"--pyi_out={target}", *sources]
    if protoc.main(arguments):
        sys.exit("protoc failed")


def main() -> None:
    if sys.argv[1:] != ["--check"]:
        generate(GENERATED)
        return
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    committed = {path.name: path.read_bytes() for path in GENERATED.glob("*_pb2.*")}
    if fresh != committed:
        sys.exit("the generated wire code is not current: run `make proto` and commit the result")


if __name__ == "__main__":
    main()
