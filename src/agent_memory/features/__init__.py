"""The features. Each is built on those before it."""

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
