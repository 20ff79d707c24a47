"""Local-first memory for AI agents."""

__version__ = "0.1.0"
