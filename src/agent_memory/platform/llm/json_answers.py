"""Extraction of JSON from the answers of language models."""

import re

_FENCE = re.compile(r"<think>.*?</think>|```\w*", re.DOTALL)


def extract_json(text: str) -> str:
    """Return the JSON object in an answer, without reasoning and code fences around it."""
    text = _FENCE.sub("", text)
    return text[text.find("{") : text.rfind("}") + 1] if "{" in text else text
