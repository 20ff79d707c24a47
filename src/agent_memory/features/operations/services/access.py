"""Bearer keys by name: create, list, revoke, check."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_memory.features.operations.ports import KeyRing
from agent_memory.kernel import access
from agent_memory.kernel.access import AccessKey
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.platform.ports import Clock


@dataclass(frozen=True, slots=True)
class Access:
    keys: KeyRing
    clock: Clock
    new_secret: Callable[[], str]

    def create(self, name: str) -> str:
        """Create a key and return its secret, which is shown once and not stored."""
        secret = self.new_secret()
        key = AccessKey(name=name, digest=access.hash_secret(secret), created_ms=self.clock.now())
        if not self.keys.add(key):
            raise InvalidInput(
                f"there is a key {name!r} already: revoke it first, or choose a name"
            )
        return secret

    def list(self) -> list[AccessKey]:
        return sorted(self.keys.list_keys(), key=lambda key: (key.created_ms, key.name))

    def revoke(self, name: str) -> None:
        if not self.keys.remove(name):
            raise NotFound(f"no key {name!r}; `memory-daemon token list` shows all")

    def knows(self, name: str) -> bool:
        """Tell whether the key still exists."""
        return any(key.name == name for key in self.keys.list_keys())

    def check(self, secret: str) -> AccessKey | None:
        """Return the key that a secret belongs to, if any."""
        return access.find_key(secret, self.keys.list_keys())
