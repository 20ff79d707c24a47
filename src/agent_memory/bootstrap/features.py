"""Build the features, one after the other."""

from importlib import import_module
from importlib.util import find_spec

from agent_memory.features import FEATURES
from agent_memory.kernel.composition import Composition


def build_cores(context: Composition) -> None:
    """Build what answers a hook: the module `core` of each feature that has one."""
    _build(context, "core", "build_core")


def build_rest(context: Composition) -> None:
    """Build all else: the module `feature` of each feature that has one."""
    _build(context, "feature", "build")


def _build(context: Composition, module: str, function: str) -> None:
    for feature in FEATURES:
        name = f"agent_memory.features.{feature}.{module}"
        if find_spec(name) is not None:
            getattr(import_module(name), function)(context)
