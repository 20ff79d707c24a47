"""Spelling: what someone may have meant by a name that is not known."""

from collections.abc import Iterable


def suggest_nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """Of those that are known the most alike, as a question to add to a message; else nothing."""
    import difflib  # noqa: PLC0415  takes 15 ms to load, and hardly anyone errs

    close = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""
