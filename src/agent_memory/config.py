"""Settings: read once at the start, frozen, handed on as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data_dir: Path
    db_path: Path
    runtime_dir: Path
    grpc_hosts: tuple[str, ...]
    grpc_port: int


def load(environ: Mapping[str, str]) -> Settings:
    home = Path(environ.get("HOME", "/"))
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share") / "agent-memory"
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "agent-memory"
    runtime = environ.get("XDG_RUNTIME_DIR")
    host = environ.get("MEMORY_GRPC__HOST", "localhost")
    return Settings(
        data_dir=data,
        db_path=Path(environ.get("MEMORY_STORAGE__PATH") or data / "db"),
        runtime_dir=Path(runtime) / "agent-memory" if runtime else cache / "run",
        grpc_hosts=("127.0.0.1", "::1") if host == "localhost" else (host,),
        grpc_port=int(environ.get("MEMORY_GRPC__PORT", "50051")),
    )
