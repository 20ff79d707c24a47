"""Addresses in text, as others may see them."""

import re

_USERINFO = re.compile(r"(?<=://)[^/\s'\"]*@")  # up to the last @ before the path
_QUERY = re.compile(r"(://[^\s'\"?]*)\?[^\s'\"]*")


def hide_credentials(text: str) -> str:
    """Remove the user, the password and the query from every URL in a text."""
    return _QUERY.sub(r"\1", _USERINFO.sub("", text))
