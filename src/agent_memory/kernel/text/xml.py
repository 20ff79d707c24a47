"""Escaping of text for XML, and wrapping of lines in an element."""

import re
from collections.abc import Sequence
from html import escape

from agent_memory.kernel.text.untrusted import REPLACEMENT, replace_hidden

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _clean(value: str) -> str:
    """Replace what is hidden, and what XML cannot contain."""
    return _NOT_XML.sub(REPLACEMENT, replace_hidden(value))


def escape_text(value: str) -> str:
    """Escape text for an element, with every run of white space as one blank."""
    return escape(_clean(" ".join(value.split())), quote=False)


def quote_attribute(value: str) -> str:
    """Escape and quote the value of an attribute."""
    return f'"{escape(_clean(value))}"'


def wrap_element(name: str, lines: Sequence[str]) -> str:
    """Wrap lines in an element; return an empty string if there are none."""
    return "\n".join((f"<{name}>", *lines, f"</{name}>")) if lines else ""
