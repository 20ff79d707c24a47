"""The JSON in what a model says."""

import re

_FENCE = re.compile(r"<think>.*?</think>|```\w*", re.DOTALL)


def extract_json(text: str) -> str:
    """The JSON object in what a model says: some think aloud first, or fence it."""
    text = _FENCE.sub("", text)
    return text[text.find("{") : text.rfind("}") + 1] if "{" in text else text
