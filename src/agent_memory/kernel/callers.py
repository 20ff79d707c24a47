"""Who calls an operation, and from where."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from agent_memory.kernel.access import NOBODY, Principal
from agent_memory.kernel.errors import Forbidden
from agent_memory.kernel.tracing import Interface


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The origin of a call. `folder` is the caller's current folder, empty if there is none.

    A person is at a terminal or at the page; a program has a key. `may_accept` is set if the
    person may accept what awaits review. `principal` has the rights of the `key`, by its name, or
    of the token of an issuer. What the caller may see and do on a team server is in
    `access.get_caller`.
    """

    folder: str
    environ: Mapping[str, str] = field(repr=False)
    interface: Interface | None = None
    is_person: bool = False
    may_accept: bool = False
    agent: str = ""  # that runs the command, or as a client of MCP calls itself
    session: str = ""  # of the agent, if it names one
    project: str = ""  # that a client of MCP has named
    principal: Principal = NOBODY
    key: str = ""
    has_token: bool = False
    zone: tzinfo | None = None  # in which dates are read; None is the daemon's

    def require_person(self, what: str, command: str) -> None:
        """Raise Forbidden for a program."""
        if not self.is_person:
            raise Forbidden(
                f"only you can {what}, and a key belongs to a program: use the page (`memory ui`)"
                f" or `{command}`"
            )
