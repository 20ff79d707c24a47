"""The secrets filter of `security.secrets = "off"`: every text passes unchanged."""

from collections.abc import Sequence


class PassThrough:
    def clean(self, text: str, /, *, where: str = "") -> str:  # noqa: ARG002
        return text

    def clean_name(self, name: str, /, *, limit: int, where: str = "") -> str:  # noqa: ARG002
        return name

    def is_clean(self, texts: Sequence[str], /) -> bool:  # noqa: ARG002
        return True
