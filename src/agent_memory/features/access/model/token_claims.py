"""Who a token stands for: which claims name the person, their role and their projects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_memory.kernel import access
from agent_memory.kernel.access import MAX_PROJECTS, Principal, Role
from agent_memory.kernel.errors import ConfigError, InvalidInput, Unauthorized

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """How claims are read. `roles` maps values of the role claim; `default_role` counts for those
    who have none of them: None refuses them. Without a claim for projects, they see all."""

    person: str = "sub"
    role: str = ""
    roles: Mapping[str, Role] = field(default_factory=dict)
    default_role: Role | None = None
    projects: str = ""

    def read(self, claims: Claims) -> Principal:
        """Return the principal of a token. Raises Unauthorized."""
        person = _find(claims, self.person)
        if not isinstance(person, str) or not access.is_person(person):
            raise Unauthorized(
                f"the claim {self.person} of the token does not name a person with letters, digits,"
                " dots, dashes, underscores, @ or +: choose another with team.oidc_person_claim"
            )
        granted = [self.roles[name] for name in self._list(claims, self.role) if name in self.roles]
        role = max(granted, key=list(Role).index) if granted else self.default_role
        if role is None:
            raise Unauthorized(f"{person} has no role here: see team.oidc_roles")
        projects = None
        if self.projects:  # a token without the claim sees none
            projects = frozenset(self._list(claims, self.projects)[:MAX_PROJECTS])
        try:
            return Principal(person=person, role=role, projects=projects)
        except InvalidInput as exc:
            raise Unauthorized(str(exc)) from exc

    @staticmethod
    def _list(claims: Claims, name: str) -> list[str]:
        found = _find(claims, name) if name else None
        values = [found] if isinstance(found, str) else found
        return (
            [each for each in values if isinstance(each, str)] if isinstance(values, list) else []
        )


def parse_roles(lines: Sequence[str]) -> dict[str, Role]:
    """Parse lines such as `engineers=writer`. Raises ConfigError."""
    roles: dict[str, Role] = {}
    for line in lines:
        name, _, role = line.rpartition("=")
        if not name or role not in list(Role):
            raise ConfigError(
                f"team.oidc_roles: {line!r} is not a rule such as engineers=writer; roles are"
                f" {', '.join(Role)}"
            )
        roles[name] = Role(role)
    return roles


def _find(claims: Claims, name: str) -> Any:
    """Return a claim by its name, or inside others by a path with dots."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
