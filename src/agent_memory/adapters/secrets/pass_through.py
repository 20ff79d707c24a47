"""A secrets filter that lets everything through: `security.secrets = "off"`."""

from collections.abc import Sequence


class PassThrough:
    def clean(self, text: str, /, *, where: str = "") -> str:  # noqa: ARG002
        return text

    def passes(self, texts: Sequence[str], /) -> bool:  # noqa: ARG002
        return True
