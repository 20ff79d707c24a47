"""A secrets filter that lets everything through: `security.secrets = "off"`."""


class PassThrough:
    def clean(self, text: str, /) -> str:
        return text
