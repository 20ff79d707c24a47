"""A secrets filter that lets everything through: `security.secrets = "off"`."""

from collections.abc import Sequence


class PassThrough:
    def clean(self, text: str, /, *, where: str = "") -> str:  # noqa: ARG002
        return text

    def clean_name(self, name: str, /, *, limit: int, where: str = "") -> str:  # noqa: ARG002
        return name

    def is_clean(self, texts: Sequence[str], /) -> bool:  # noqa: ARG002
        return True
