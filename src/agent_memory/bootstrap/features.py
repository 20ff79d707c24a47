"""Build the features, one after the other."""

from agent_memory.features import import_modules
from agent_memory.kernel.composition import Composition


def build_cores(context: Composition) -> None:
    """Build what answers a hook: the module `core` of each feature that has one."""
    for module in import_modules("core"):
        module.build_core(context)


def build_rest(context: Composition) -> None:
    """Build all else: the module `feature` of each feature that has one."""
    for module in import_modules("feature"):
        module.build(context)
