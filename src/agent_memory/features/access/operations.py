"""Operations on the keys of programs and people."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_memory.features.access.services.access import Access
from agent_memory.kernel.access import MAX_PROJECTS, OWNER, AccessKey, Principal, Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import FeatureUnavailable
from agent_memory.kernel.operations import operation
from agent_memory.kernel.tracing import Interface


class KeyCreate(Struct, frozen=True, kw_only=True):
    """A key. That of a person has a role and projects; an empty person is the owner."""

    name: str
    person: str
    role: Role = Role.READER
    projects: Annotated[
        Annotated[list[str], Meta(max_length=MAX_PROJECTS)] | None,
        Meta(description="Default: all."),
    ] = None

    @property
    def principal(self) -> Principal:
        """Whose key it becomes. Raises InvalidInput."""
        if not self.person:
            return OWNER
        projects = None if self.projects is None else frozenset(self.projects)
        return Principal(person=self.person, role=self.role, projects=projects)


class CreatedKey(Struct, frozen=True, kw_only=True):
    """A new key. `token` is its secret, which is shown only here."""

    name: str
    token: str
    person: str | None
    role: Role | None
    projects: list[str] | None


class KeyName(Struct, frozen=True, kw_only=True):
    name: str


class ListedKey(Struct, frozen=True, kw_only=True):
    """A key, without its secret. `refused` tells that it does not count on this daemon."""

    name: str
    created_ms: int
    person: str | None
    role: Role | None
    projects: list[str] | None
    created_by: str | None
    refused: bool

    @classmethod
    def from_key(cls, key: AccessKey, *, team: bool) -> "ListedKey":
        return cls(
            name=key.name,
            created_ms=key.created_ms,
            person=key.person or None,
            role=key.role if key.person else None,
            projects=_sort(key.projects),
            created_by=key.created_by or None,
            refused=bool(key.person) != team,
        )


class KeyList(Struct, frozen=True, kw_only=True):
    keys: list[ListedKey]


@operation("keys.list", role=Role.ADMIN, http="GET /api/v1/keys/", tag="team")
def list_keys(access: Access, caller: Caller) -> KeyList:
    """List the keys, without their secrets."""
    _check_place(access, caller)
    return KeyList(keys=[ListedKey.from_key(key, team=access.team) for key in access.list()])


@operation(
    "keys.create",
    role=Role.ADMIN,
    http="POST /api/v1/keys/",
    status=201,
    tag="team",
    example={"name": "ada-laptop", "person": "ada", "role": "writer"},
)
def create_key(access: Access, caller: Caller, request: KeyCreate) -> CreatedKey:
    """Create a key."""
    _check_place(access, caller)
    principal = request.principal
    return CreatedKey(
        name=request.name,
        token=access.create(request.name, principal),
        person=principal.person or None,
        role=principal.role if principal.person else None,
        projects=_sort(principal.projects),
    )


@operation(
    "keys.revoke", role=Role.ADMIN, http="DELETE /api/v1/keys/{name}/", status=204, tag="team"
)
def revoke_key(access: Access, caller: Caller, request: KeyName) -> None:
    """Revoke a key."""
    _check_place(access, caller)
    access.revoke(request.name)


def _check_place(access: Access, caller: Caller) -> None:
    """Raise FeatureUnavailable if a program asks a daemon of one's own: its keys are made and
    revoked only in a terminal."""
    if not access.team and caller.interface is not Interface.CLI:
        raise FeatureUnavailable("only a team server has people and an audit log")


def _sort(projects: frozenset[str] | None) -> list[str] | None:
    return None if projects is None else sorted(projects)
