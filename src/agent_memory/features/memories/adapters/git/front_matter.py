"""Front matter: flat YAML of strings and lists of strings.

Each line holds one key or one item, and nothing nested, aliased or tagged: deep nesting crashes the
process in libyaml's binding. YAML has more line ends than a line feed.
"""

import re

import yaml

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
