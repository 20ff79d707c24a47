"""The headers of every answer, whoever gives it: the application, the gate, or uvicorn itself.

A browser loads nothing from elsewhere for what we answer, runs no script that stands in a document,
and makes no markup of text, except by a trusted type, which only the files of `/docs` create.
"""

POLICY = b"content-security-policy"
_RULES = (
    b"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none';"
    b" frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'"
)
HEADERS = (
    (POLICY, _RULES),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
