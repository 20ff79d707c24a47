"""Counts with their noun."""


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: 1 file, 1,200 files, 2 memories."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
