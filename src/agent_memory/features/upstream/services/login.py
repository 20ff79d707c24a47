"""Log in to a team's server with the issuer of the team, and get a key for this machine.

The token of a login ends within minutes or hours, and the exchange goes on for months. So the token
is exchanged for a key at once, which admins of the server see and can revoke.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.model.records import LoginMethod
from agent_memory.features.upstream.ports import LoginProvider, LoginServer, PendingLogin


@dataclass(frozen=True, slots=True)
class TeamLogin:
    connect: Callable[[RemoteSettings], LoginServer]
    provider: LoginProvider
    machine: str

    def find_method(self, settings: RemoteSettings) -> LoginMethod | None:
        """Return how people log in to a server; None if it gives out keys alone."""
        return self.connect(replace(settings, key="")).find_login_method()

    def begin(self, method: LoginMethod) -> PendingLogin:
        """Ask the issuer for a code that a person enters in a browser."""
        return self.provider.start(method)

    def finish(
        self,
        settings: RemoteSettings,
        method: LoginMethod,
        pending: PendingLogin,
        wait: Callable[[float], object],
    ) -> str:
        """Wait until the person has entered the code, and return a key for this machine."""
        token = self.provider.wait_for_token(method, pending, wait)
        return self.connect(replace(settings, key=token)).create_key(self.machine)
