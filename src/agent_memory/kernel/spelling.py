"""Spelling suggestions for unknown names."""

from collections.abc import Iterable


def suggest_nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """Return "; did you mean ...?" with the most similar known name, or an empty string."""
    import difflib  # noqa: PLC0415  takes 15 ms to load and is rarely needed

    close = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""
