"""Text for XML elements and attributes."""

import re
from collections.abc import Sequence
from html import escape

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape_text(value: str) -> str:
    return escape(remove_control_characters(" ".join(value.split())), quote=False)


def quote_attribute(value: str) -> str:
    return f'"{escape(value)}"'


def remove_control_characters(value: str) -> str:
    """Without characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)


def wrap_element(name: str, lines: Sequence[str]) -> str:
    return "\n".join((f"<{name}>", *lines, f"</{name}>")) if lines else ""
