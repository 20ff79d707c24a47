"""gRPC, loaded when its first name is used: it takes 10 MB, and a daemon has this library for a few
commands that ask another daemon. Annotations with `grpc` are quoted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["grpc"]

if TYPE_CHECKING:
    import grpc
    import grpc.aio
else:

    class _LateGrpc:
        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("grpc"), name)
            setattr(self, name, value)  # found without this function from now on
            return value

    grpc = _LateGrpc()
