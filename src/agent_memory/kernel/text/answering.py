"""What answers nothing: questions, and announcements of what an agent is about to look at.

"Let me check the tests" shares its words with a question about the tests, and tells nothing.
"""

import re

MOST_CHARS = 2_000  # a longer text tells something

_FILLER = (
    r"(?:(?:ok|okay|good|great|perfect|excellent|alright|now|next|first|then|so|and|also)\b"
    r"[,.!:;\s]*)*"
)
_INTENT = r"(?:let me|let's|i'll|i will|i'm going to|i need to|i should|i want to)"
_MEANWHILE = r"(?:(?:now|also|first|then|quickly|just|next) )*"
_LOOKING = (
    "(?:analy[sz]e|begin|check|continue|examine|explore|find|get|grep|inspect|investigate|list|look"
    "|open|proceed|read|review|run|scan|search|see|start|take|understand|verify|view)"
)
_ANNOUNCEMENT = re.compile(rf"\W*{_FILLER}{_INTENT}\s{_MEANWHILE}{_LOOKING}\b", re.IGNORECASE)
_AUXILIARIES = """
am are can could did do does had has have is may might must shall should was were will would
"""
_AUXILIARY = f"(?:{'|'.join(_AUXILIARIES.split())})"
_QUESTION = re.compile(
    rf"\W*(?:(?:how|what|which|who|whom|whose|why)(?:\s+\S+){{0,4}}?\s+{_AUXILIARY}"
    rf"|(?:when|where)\s+{_AUXILIARY}"
    rf"|{_AUXILIARY}\s+(?:any|i|it|my|our|that|the|there|these|they|this|those|we|you))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?!\s|$)[^.!?\n]+)*[.!?\n]*")


def asks(text: str) -> bool:
    """Tell whether a text asks something: with a question mark, or with the words of a question at
    its beginning."""
    return "?" in text or _QUESTION.match(text) is not None


def measure_non_answer(text: str) -> float:
    """Return the share of a text's words in sentences that ask or announce, from 0 to 1."""
    if len(text) > MOST_CHARS:
        return 0.0
    words = non_answer = 0
    for sentence in _SENTENCE.findall(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        size = len(sentence.split())
        words += size
        if (
            sentence.rstrip().endswith("?")
            or _QUESTION.match(sentence)
            or _ANNOUNCEMENT.match(sentence)
        ):
            non_answer += size
    return non_answer / words if words else 0.0
