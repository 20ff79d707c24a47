"""Text that others wrote, made safe to show.

What a reader does not see may still steer a model: tags of Unicode, which spell ASCII without any
glyph, marks that reorder text, characters without a width, selectors behind a character. Each is
replaced by one visible character, so that places in the text stay what they are.

Kept is what writing needs, where it stands as it should: joiners within emoji and within the
scripts that have them (Arabic, Indic and others), the selectors of emoji, CJK and Mongolian, the
flags of England, Scotland and Wales, and single direction marks in a text with letters from right
to left. Embeddings, overrides and isolates are replaced even there: they can show any order.
"""

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_HIDDEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935"
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_CJK = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MONGOLIAN = "\u1820-\u18aa"
_RIGHT_TO_LEFT = (
    "\u0590-\u05ff\u0620-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
)
# Scripts whose letters take another form beside a joiner.
_JOINED = (
    f"\u0620-\u06dc\u06de-\u070e\u0710-\u08e1\u08e3-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u17ff"
    f"{_MONGOLIAN}\u1a00-\u1bff\ua840-\ua87f\ufb50-\ufdff\ufe70-\ufefc"
)
_FLAGS = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in name) for name in ("gbeng", "gbsct", "gbwls")
)
_KEPT = (
    rf"(?<=[{_EMOJI}])[\ufe0e\ufe0f]|(?<=[#*0-9])\ufe0f(?=\u20e3)"
    rf"|(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f))\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_JOINED}])[\u200c\u200d](?![{_HIDDEN}])"
    rf"|(?<=[{_CJK}])[\ufe00-\ufe02\U000e0100-\U000e010f]|(?<=[{_MONGOLIAN}])[\u180b-\u180d\u180f]"
    rf"|(?<=\U0001f3f4)(?:{_FLAGS})\U000e007f"
)
_MARKS = rf"|(?<![{_HIDDEN}])[\u061c\u200e\u200f](?![{_HIDDEN}])"
_ANY_HIDDEN = re.compile(f"[{_HIDDEN}]")

# What agents and their models take for the words of a system, a user or a tool, and our own frames.
_MARKUP = (
    r"(?i)<(?=\s{0,9}/?\s{0,9}(?:[\w.-]{1,40}:)?(?:system|developer|assistant|user|human|tool|function|invoke"
    r"|parameter|instruction|important|antml|hook_context|memory_c|related_memories"
    r"|capture_detected|auto_captured|command-|local-command|task-notification"
    r"|environment_context))|<(?=\|)|<(?=</?sys)|\[(?=/?inst\])"
)
_HARMLESS = {"<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", "[": "("}


def replace_hidden(text: str) -> str:
    """Replace the characters that a reader would not see, one for one."""
    if _ANY_HIDDEN.search(text) is None:
        return text
    return _compile(text).sub(lambda found: found[1] or REPLACEMENT, text)


def _compile(text: str) -> re.Pattern[str]:
    """Compile what is kept and what is hidden in a text: at first use, because it takes 10 ms."""
    marks = _MARKS if re.search(f"[{_RIGHT_TO_LEFT}]", text) else ""
    return re.compile(f"({_KEPT}{marks})|[{_HIDDEN}]")


def disarm(text: str) -> str:
    """Replace what is hidden, and the first character of what looks like markup of a system."""
    return re.sub(_MARKUP, lambda found: _HARMLESS[found[0]], replace_hidden(text))
