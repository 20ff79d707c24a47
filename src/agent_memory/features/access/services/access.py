"""Bearer keys by name: create, list, revoke, check."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.access.ports import KeyRing
from agent_memory.kernel import access
from agent_memory.kernel.access import OWNER, AccessKey, Principal
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.platform.ports import Clock

MAX_MACHINES = 50  # of a person, with a key from a login
_LOGIN = "login-"


@dataclass(frozen=True, slots=True)
class Access:
    keys: KeyRing
    clock: Clock
    new_secret: Callable[[], str]
    team: bool = False  # this daemon serves a team: a key belongs to a person
    on_change: Callable[[str, str], None] = lambda _action, _name: None

    def create(self, name: str, principal: Principal = OWNER) -> str:
        """Create a key and return its secret, which is shown once and not stored."""
        if self.team and not principal.person:
            raise InvalidInput(
                "on a team server a key belongs to a person: add --person NAME, with --role"
                " reader, writer or admin"
            )
        if not self.team and principal != OWNER:
            raise InvalidInput(
                "keys of people are for a team server, and this daemon is your own: set"
                " team.enabled first, or create a key without --person"
            )
        secret = self.new_secret()
        caller = access.get_caller()
        key = AccessKey(
            name=name,
            digest=access.hash_secret(secret),
            created_ms=self.clock.now(),
            person=principal.person,
            role=principal.role,
            projects=principal.projects,
            created_by="" if caller is None else caller.person,
        )
        if not self.keys.add(key):
            raise InvalidInput(
                f"there is a key {name!r} already: revoke it first, or choose a name"
            )
        self.on_change("create", f"{name} ({principal.description})" if principal.person else name)
        return secret

    def create_for_machine(self, principal: Principal, machine: str) -> str:
        """Create a key with the rights of a person who has just logged in, and return its secret.
        It replaces the one that they have for this machine."""
        own = [key for key in self.keys.list_keys() if key.person == principal.person]
        name = _name_login(principal.person, machine)
        if any(key.name == name for key in own):
            self.revoke(name)
        elif sum(key.name.startswith(_LOGIN) for key in own) >= MAX_MACHINES:
            raise InvalidInput(
                f"you have logged in on {MAX_MACHINES} machines: ask an admin to revoke some keys"
            )
        return self.create(name, principal)

    def list(self) -> list[AccessKey]:
        return sorted(self.keys.list_keys(), key=lambda key: (key.created_ms, key.name))

    def list_of(self, person: str) -> Sequence[AccessKey]:
        """List the keys of a person, whoever made them, the oldest first."""
        return [key for key in self.list() if key.person == person]

    def revoke(self, name: str) -> None:
        if not self.keys.remove(name):
            raise NotFound(f"no key {name!r}; `memory-daemon token list` shows all")
        self.on_change("revoke", name)

    def knows(self, known: AccessKey) -> bool:
        """Tell whether the key still exists, with the same rights."""
        return any(key == known for key in self.keys.list_keys())

    def check(self, secret: str) -> AccessKey | None:
        """Return the key that a secret belongs to, if any."""
        return access.find_key(secret, self.keys.list_keys())


def _name_login(person: str, machine: str) -> str:
    """Return the name of a machine's key. Names of people and machines may have other signs than
    names of keys."""
    digest = hashlib.sha256(f"{person}\0{machine}".encode("utf-8", "surrogatepass"))
    return _LOGIN + digest.hexdigest()[:20]
