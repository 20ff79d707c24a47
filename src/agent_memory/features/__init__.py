"""The features. Each is built on those before it, and nothing names one that may be left out: its
parts are found by the names of its modules."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

FEATURES = (
    "secrets",
    "access",
    "log",
    "toc",
    "index",
    "memories",
    "knowledge",
    "checkpoints",
    "recall",
    "injections",
    "lessons",
    "hooks",
    "forgetting",
    "jobs",
    "backups",
    "streaming",
    "maintenance",
    "upstream",
    "runs",
    "monitoring",
    "projects",
)


def import_modules(name: str) -> list[ModuleType]:
    """Import the modules of this name, such as `interfaces.commands`, in the order of the
    features."""
    file, folder = f"{name.replace('.', '/')}.py", Path(__file__).parent
    return [
        import_module(f"{__name__}.{feature}.{name}")
        for feature in FEATURES
        if (folder / feature / file).is_file()
    ]
