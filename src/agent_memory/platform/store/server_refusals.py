"""What to do when a database server answers and refuses.

A refused login has no code in the driver: the words of the server tell what it was.
"""

import re

_PASSFILE = (
    "put the password into ~/.pgpass, as a line HOST:PORT:DATABASE:USER:PASSWORD, and"
    " `chmod 600 ~/.pgpass`"
)
_SCHEMA = "agent_memory"
_ADVICE = (
    ("28P01", r"password authentication failed", f"The password is wrong: {_PASSFILE}"),
    ("", r"no password supplied", f"It asks for a password: {_PASSFILE}"),
    (
        "3D000",
        r'database "(?P<name>[^"]*)" does not exist',
        "Create it with `createdb {name}`, or correct the name in the address",
    ),
    (
        "28000",
        r'role "(?P<name>[^"]*)" does not exist',
        "Create it with `createuser {name}`, or name another role in the address",
    ),
    ("28000", r"no pg_hba\.conf entry", "Allow this machine and role in pg_hba.conf of the server"),
    (
        "42501",
        r"permission denied for database",
        "Let a role that may create a schema start the daemon once, or GRANT CREATE ON DATABASE",
    ),
    (
        "42501",
        r"permission denied",
        f"GRANT USAGE ON SCHEMA {_SCHEMA} and SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN it",
    ),
    (
        "53300",
        r"too many (?:clients|connections)|remaining connection slots",
        "It has no free connection: raise max_connections there, or stop what holds them",
    ),
)


def find_advice(code: str | None, reason: str) -> str:
    """Return the next step after a refusal, as the end of a message; empty if there is none."""
    for _, words, advice in _ADVICE:
        found = re.search(words, reason)
        if found is not None:
            return f". {advice.format(**found.groupdict())}"
    # A server that speaks another language.
    unnamed = (advice for known, _, advice in _ADVICE if code and known == code)
    advice = next((each for each in unnamed if "{" not in each), "")
    return f". {advice}" if advice else ""


def is_answer(reason: str) -> bool:
    """Tell whether a failure to connect is the word of a server: it does answer."""
    return "FATAL:" in reason or "no password supplied" in reason
