"""Front matter: flat YAML of strings and lists of strings, and the times in it.

Each line holds one key or one item, and nothing nested, aliased or tagged: deep nesting crashes the
process in libyaml's binding. YAML has more line ends than a line feed.
"""

import re
from datetime import UTC, datetime, timedelta

import yaml

from agent_memory.kernel.ids import Millis

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_REST = r"[^\n\r\x85\u2028\u2029]*"
_KEY = rf"[a-z_]+:(?: +(?![\s&*!|>{{%@`]|[-?]\s|\[.*[\[{{&*!]){_REST})?"
_VALUE = rf"(?![\s&*!|>{{%@`\[]|[-?](?:\s|$)){_REST}"
_FLAT = re.compile(rf"(?:(?:{_KEY}|- +{_VALUE})\n)+")
_FOLDED = re.compile(rf"(?:(?:{_KEY}|(?:  )?- +{_VALUE}|  +{_VALUE}|)\n)+")


def load(text: str, *, folded: bool = False) -> dict[str, object]:
    """Parse front matter. `folded` allows indented items and continued values. Raises
    ValueError."""
    if not (_FOLDED if folded else _FLAT).fullmatch(text):
        raise ValueError("not flat")
    try:
        # A BaseLoader builds nothing but strings, lists and mappings.
        values = yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506
    except yaml.YAMLError as exc:
        raise ValueError("no YAML") from exc
    if not isinstance(values, dict):
        raise ValueError("no mapping")
    return values


def format_time(at: Millis) -> str:
    then = _EPOCH + at * _MILLISECOND
    return then.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03}Z"


def parse_time(text: str) -> Millis:
    """Parse a time in ISO 8601; without a zone it is UTC. Raises ValueError."""
    then = datetime.fromisoformat(text)
    return Millis(((then if then.tzinfo else then.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND)
