"""Logins through the device flow of OpenID Connect."""

from agent_memory.features.upstream.model.records import LoginMethod
from agent_memory.features.upstream.ports import PendingLogin
from agent_memory.kernel.errors import FeatureUnavailable


def start_login(method: LoginMethod) -> PendingLogin:
    """Begin a login. The library is loaded with the first one: few daemons need it."""
    try:
        from agent_memory.platform import oidc  # noqa: PLC0415
    except ImportError as exc:
        raise FeatureUnavailable(
            "a login needs the extra `team`: pip install 'agent-memory[team]'; or ask an admin"
            " for a key, and use `memory remote login --key`"
        ) from exc
    issuer = oidc.discover(method.issuer)
    login = oidc.start_device_flow(issuer, method.client_id, audience=method.audience)
    return PendingLogin(
        page=login.complete_uri or login.verification_uri,
        code=login.user_code,
        wait_for_token=lambda wait: oidc.poll(issuer, method.client_id, login, wait=wait),
    )
