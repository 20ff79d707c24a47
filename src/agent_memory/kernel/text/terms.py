"""Terms: the stem and the weight of each word, for comparing sentences."""

import re
from functools import lru_cache
from typing import NamedTuple

from agent_memory.kernel.text.vocabulary import COMMON, GRAMMAR

MAX_WORD = 40  # characters; longer ones are hashes, keys and base64

_TOKEN = re.compile(r"https?://\S+|\w+(?:['\u2019./\-]\w+)*|[^\w\s]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_IDENTIFIER = re.compile(r"\w*[a-z][A-Z]|\w+_\w|__\w|\w+(?:/[\w.-]+)*\.[A-Za-z]|\w+/\w+/\w")

_PLURAL_ES = ("sses", "shes", "ches", "xes", "zes")


class Term(NamedTuple):
    """The stem of a word, and how distinctive it is: 0 for grammatical words."""

    stem: str
    weight: float
    named: bool  # written like a name: capitalized, or an identifier


NOTHING = Term("", 0.0, False)


def tokenize(text: str) -> list[str]:
    """Split text into words, numbers, identifiers, file names, URLs and punctuation marks."""
    return _TOKEN.findall(text)


def shorten_path(token: str) -> str:
    """Return the file name of a path, or an empty string if it is too long to be one."""
    last = token.rpartition("/")[2]
    shown = last if "." in last or "_" in last or len(token) > MAX_WORD else token
    return shown if len(shown) <= MAX_WORD else ""


@lru_cache(maxsize=1 << 14)
def to_terms(token: str) -> tuple[Term, ...]:
    """Return one term per word; text in scripts without blanks gives one per character pair."""
    if not token or not (token[0].isalnum() or token[0] == "_"):
        return ()
    if not token.isascii() and _CJK.search(token):
        pairs = [token[i : i + 2] for i in range(len(token) - 1)] or [token]
        return tuple(Term(pair, 0.8, False) for pair in pairs)
    return (_term(token),)


def _term(token: str) -> Term:
    if _IDENTIFIER.match(token) and token.lower() not in GRAMMAR:
        name = shorten_path(token).lower()
        return Term(name, 1.3 if len(name) > 3 else 0.9, True)
    word = token.lower().replace("\u2019", "'").partition("'")[0]
    if word in GRAMMAR or token.startswith(("http://", "https://")):
        return NOTHING
    if word.replace(".", "").replace("-", "").isdigit():
        return Term(word, 0.3, False)
    if word in COMMON:
        return Term(stem(word), 0.25, False)
    if len(word) == 1:
        return Term(word, 0.1, False)
    return Term(stem(word), 1.0, token[0].isupper())


def stem(word: str) -> str:
    """Strip the most common English endings, so that the forms of a word compare equal."""
    size = len(word)
    if size > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif size > 4 and word.endswith(_PLURAL_ES):
        word = word[:-2]
    elif size > 3 and word[-1] == "s" and word[-2] not in "sui":
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word
