"""Build what finds out who calls: keys, and tokens of an issuer if one is set."""

import time

from agent_memory.config import TeamSettings
from agent_memory.features.operations.model.token_claims import ClaimRules, parse_roles
from agent_memory.features.operations.services.access import Access
from agent_memory.interfaces.guard import BearerGuard, Identity, TokenVerifier
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import ConfigError, FeatureUnavailable


def build_guard(access: Access, settings: TeamSettings) -> BearerGuard:
    """Build the check of keys and tokens. Raises ConfigError and FeatureUnavailable."""
    if not settings.oidc_issuer:
        return BearerGuard(access)
    if not settings.enabled or not settings.oidc_audience:
        raise ConfigError("team.oidc_issuer needs team.enabled = true and team.oidc_audience")
    rules = ClaimRules(
        person=settings.oidc_person_claim,
        role=settings.oidc_role_claim,
        roles=parse_roles(settings.oidc_roles),
        default_role=Role(settings.oidc_default_role) if settings.oidc_default_role else None,
        projects=settings.oidc_project_claim,
    )
    return BearerGuard(access, _build_tokens(settings, rules))


def _build_tokens(settings: TeamSettings, rules: ClaimRules) -> TokenVerifier:
    try:  # late: few servers need it, and it loads a library of cryptography
        from agent_memory.platform.oidc import TokenChecker
    except ImportError as exc:
        raise FeatureUnavailable(
            "team.oidc_issuer needs a library: pip install 'agent-memory[team]'"
        ) from exc

    class IssuedTokens:
        """The tokens of the issuer that the settings name."""

        def __init__(self) -> None:
            self._checker = TokenChecker(settings.oidc_issuer, settings.oidc_audience)

        async def verify(self, token: str, /) -> Identity:
            claims = await self._checker.check(token)
            principal = rules.read(claims)
            return Identity(
                name=f"{principal.person} (token)",
                principal=principal,
                until=float(claims["exp"]),
            )

        def is_over(self, identity: Identity, /) -> bool:
            return identity.until is not None and time.time() > identity.until

    return IssuedTokens()
