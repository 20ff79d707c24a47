"""Log in to a team's server, with the issuer of the team or with a key.

The token of a login ends within minutes or hours, and the exchange goes on for months. So the token
is exchanged for a key at once, which admins of the server see and can revoke.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.model.records import LoginMethod
from agent_memory.features.upstream.ports import LoginServer, PendingLogin, RemoteKeys, StartLogin
from agent_memory.features.upstream.services.back_off import BackOff


@dataclass(frozen=True, slots=True)
class TeamLogin:
    connect: Callable[[RemoteSettings], AbstractContextManager[LoginServer]]
    start: StartLogin
    keys: RemoteKeys
    back_off: BackOff
    machine: str

    def find_method(self, settings: RemoteSettings) -> LoginMethod | None:
        """Return how people log in to a server; None if it gives out keys alone."""
        with self.connect(replace(settings, key="")) as server:
            return server.find_login_method()

    def begin(self, method: LoginMethod) -> PendingLogin:
        """Ask the issuer for a code that a person enters in a browser."""
        return self.start(method)

    def finish(
        self, settings: RemoteSettings, pending: PendingLogin, wait: Callable[[float], object]
    ) -> str:
        """Wait until the person has entered the code, and return a key for this machine."""
        token = pending.wait_for_token(wait)
        with self.connect(replace(settings, key=token)) as server:
            return server.create_key(self.machine)

    def find_person(self, settings: RemoteSettings, key: str) -> str:
        """Return whose key it is. Raises Unauthorized and RemoteUnavailable."""
        with self.connect(replace(settings, key=key)) as server:
            return server.identify().person

    def store_key(self, settings: RemoteSettings, key: str) -> None:
        """Use a key from now on, beginning at once."""
        self.keys.write(settings.url, key)
        self.back_off.reset()

    def remove_key(self) -> None:
        self.keys.remove()
