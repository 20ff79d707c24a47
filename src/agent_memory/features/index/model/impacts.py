"""Impacts: how much a document says of a term, and how rare the term is, as whole numbers.

They replace the BM25 of the index where each caller sees other documents: its document
frequencies and its average length are those of all documents, so a score would tell of documents
that the caller may not see. An impact depends on its document alone, and a rarity on the counts
that it is given. Whole numbers have the same sum in any order.
"""

import math
from collections import Counter
from collections.abc import Sequence

TYPICAL_WORDS = 60  # the average length of BM25, which is fixed
ABOUT = 2  # the impact of a term of the tool, file, project or date
_K1, _B = 1.2, 0.75
_MOST = 15
BITS = (1, 2, 4, 8)  # an impact is indexed as the set of its bits, a token for each
_FINE = 64  # steps of a rarity


def list_tokens(terms: Sequence[str]) -> list[str]:
    """Return the tokens that hold the impact of each term of a document."""
    norm = _K1 * (1.0 - _B + _B * len(terms) / TYPICAL_WORDS)
    return [
        name_token(term, bit)
        for term, count in Counter(terms).items()
        for bit in _split(max(1, round(_MOST * count / (count + norm))))
    ]


def name_token(term: str, bit: int) -> str:
    return f"{term}|{bit}"  # no term has this sign


def weigh(documents: int, frequency: int) -> int:
    """Return how rare a term is that so many of the documents have, as in BM25."""
    return round(_FINE * math.log(1.0 + (documents - frequency + 0.5) / (frequency + 0.5)))


def _split(impact: int) -> list[int]:
    return [bit for bit in BITS if impact & bit]
