"""Names as people type them: the same word in singular or plural, and the nearest known name."""

from collections.abc import Iterable


def find_same(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs from this one at most in case, or in its number."""
    wanted = _to_singular(name)
    return next((each for each in known if _to_singular(each) == wanted), None)


def suggest_nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """Return "; did you mean ...?" with the most similar known name, or an empty string."""
    import difflib  # noqa: PLC0415  takes 15 ms to load and is rarely needed

    close = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""


def _to_singular(name: str) -> str:
    word = name.strip().lower()
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
