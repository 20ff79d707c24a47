"""JSON in the answers of models."""

import re

_FENCE = re.compile(r"<think>.*?</think>|```\w*", re.DOTALL)


def extract_json(text: str) -> str:
    """Extract the JSON object from an answer that may contain reasoning or code fences."""
    text = _FENCE.sub("", text)
    return text[text.find("{") : text.rfind("}") + 1] if "{" in text else text
