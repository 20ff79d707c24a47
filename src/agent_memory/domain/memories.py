"""Memories: what was decided and learned, by namespace."""

NAMESPACES = (
    "decisions",
    "learnings",
    "blockers",
    "progress",
    "reviews",
    "patterns",
    "retrospective",
    "inception",
    "elicitation",
    "research",
)
