"""JSON answers of language models: the schemas to ask with, and the extraction."""

import json
import re
from typing import Any

_FENCE = re.compile(r"```\w*")
_THOUGHT = "</think>"
_LINE_OF_OBJECT = re.compile(r"^\{", re.MULTILINE)
_TRIES = 10


def extract_json(text: str) -> str:
    """Return the JSON object in an answer, without reasoning, code fences and lines around it."""
    text = _FENCE.sub(
        "", text[text.rfind(_THOUGHT) + len(_THOUGHT) :] if _THOUGHT in text else text
    )
    if "{" not in text:
        return text
    whole = text[text.find("{") : text.rfind("}") + 1]
    if _is_json(whole):
        return whole
    # Programs may write lines with braces around the answer. The answer is the last object.
    decoder = json.JSONDecoder()
    for start in [match.start() for match in _LINE_OF_OBJECT.finditer(text)][: -_TRIES - 1 : -1]:
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return text[start:end]
    return whole


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def define_text(longest: int) -> dict[str, Any]:
    """Return the schema of a text that is not empty."""
    return {"type": "string", "minLength": 1, "maxLength": longest}


def define_record(**properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
