"""Logins through the device flow of OpenID Connect."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_memory.features.upstream.model.records import LoginMethod
from agent_memory.features.upstream.ports import PendingLogin
from agent_memory.kernel.errors import FeatureUnavailable

if TYPE_CHECKING:
    from agent_memory.platform import oidc


class OidcLogin:
    """A LoginProvider. Its library is loaded with the first login: few daemons need it."""

    def __init__(self) -> None:
        self._begun: dict[PendingLogin, tuple[oidc.Issuer, oidc.DeviceLogin]] = {}

    def start(self, method: LoginMethod, /) -> PendingLogin:
        try:
            from agent_memory.platform import oidc  # noqa: PLC0415
        except ImportError as exc:
            raise FeatureUnavailable(
                "a login needs the extra `team`: pip install 'agent-memory[team]'; or ask an admin"
                " for a key, and use `memory remote login --key`"
            ) from exc
        issuer = oidc.discover(method.issuer)
        login = oidc.start_device_flow(issuer, method.client_id, audience=method.audience)
        pending = PendingLogin(login.complete_uri or login.verification_uri, login.user_code)
        self._begun = {pending: (issuer, login)}
        return pending

    def wait_for_token(
        self, method: LoginMethod, pending: PendingLogin, wait: Callable[[float], object], /
    ) -> str:
        from agent_memory.platform import oidc  # noqa: PLC0415

        issuer, login = self._begun.pop(pending)
        return oidc.poll(issuer, method.client_id, login, wait=wait)
