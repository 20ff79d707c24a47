"""Libraries that are loaded at their first use.

A daemon loads its own modules at its start, because an upgrade may replace their files while it
runs. A library of others may come later, because it is loaded whole: `numpy` takes 80 ms and 13 MB,
and an unused daemon never needs it.
"""

from importlib import import_module
from typing import Any


class LatePackage:
    """Stands for a package and loads it when one of its names is used.

        if TYPE_CHECKING:
            import numpy as np
        else:
            np = LatePackage("numpy")

    Annotations must not use it: begin the module with `from __future__ import annotations`.
    """

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        # Of threads that come at once, one loads it, and the others wait for all of it.
        value = getattr(import_module(self._package), name)
        setattr(self, name, value)  # found without this function from now on
        return value
