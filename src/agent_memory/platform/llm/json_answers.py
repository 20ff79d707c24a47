"""JSON answers of language models: the schemas to ask with, and the extraction."""

import re
from typing import Any

_FENCE = re.compile(r"<think>.*?</think>|```\w*", re.DOTALL)


def extract_json(text: str) -> str:
    """Return the JSON object in an answer, without reasoning and code fences around it."""
    text = _FENCE.sub("", text)
    return text[text.find("{") : text.rfind("}") + 1] if "{" in text else text


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
