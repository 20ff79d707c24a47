"""Who calls: a session of the page stands for the person who opened it, a key for a program."""

from collections.abc import Mapping

from starlette.requests import Request

from agent_memory.interfaces.http.page_sessions import PageSession
from agent_memory.kernel.access import OWNER, Principal
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.tracing import Interface


def find_page_session(request: Request) -> PageSession | None:
    """Return the session of the page that a request has; a key, or the socket, has none."""
    session = getattr(request.state, "page_session", None)
    return session if isinstance(session, PageSession) else None


def read_principal(request: Request) -> Principal:
    """Return who calls, as the gate has found out."""
    principal = getattr(request.state, "principal", OWNER)
    return principal if isinstance(principal, Principal) else OWNER


def build_caller(request: Request, environ: Mapping[str, str]) -> Caller:
    """Return who calls over HTTP: the page is a person's, everything else a program's."""
    session = find_page_session(request)
    return Caller(
        folder="",
        environ=environ,
        interface=Interface.HTTP,
        is_person=session is not None,
        may_accept=session is not None and session.may_accept,
        principal=read_principal(request),
        key=str(getattr(request.state, "caller", "")),
        has_token=not getattr(request.state, "has_key", True),
    )
