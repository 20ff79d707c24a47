"""Private parts of a text, which the user has marked and which are not stored."""

import re

_PRIVATE = re.compile(r"<(/?)private(?:\s[^<>]*)?>", re.IGNORECASE)


def strip_private(text: str) -> str:
    """Return the text without what stands between `<private>` and `</private>`, nested or not.

    Without the closing tag, everything to the end is private. What is computed from a text and
    stored, such as an id, is computed from this: short private words could be guessed from a hash.
    """
    if _PRIVATE.search(text) is None:
        return text
    parts, depth, at = [], 0, 0
    for tag in _PRIVATE.finditer(text):
        if not tag[1]:
            if not depth:
                parts.append(text[at : tag.start()])
            depth += 1
        elif depth:
            depth -= 1
            at = tag.end()
    if not depth:
        parts.append(text[at:])
    left = "".join(parts)
    # The parts around a span may form another tag. Cut there: to look again for its end would take
    # quadratic time.
    again = next((tag.start() for tag in _PRIVATE.finditer(left) if not tag[1]), len(left))
    return left[:again]
