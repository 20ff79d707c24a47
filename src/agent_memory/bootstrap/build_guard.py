"""Build the check of keys and of the tokens of an issuer."""

from agent_memory.config import TeamSettings
from agent_memory.features.access.model.token_claims import ClaimRules, parse_roles
from agent_memory.features.access.services.access import Access
from agent_memory.interfaces.guard import BearerGuard, Identity, VerifyToken
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
    return BearerGuard(access, _build_verifier(settings, rules))


def _build_verifier(settings: TeamSettings, rules: ClaimRules) -> VerifyToken:
    try:  # late: few servers need it, and it loads a library of cryptography
        from agent_memory.platform.oidc import TokenChecker
    except ImportError as exc:
        raise FeatureUnavailable(
            "team.oidc_issuer needs a library: pip install 'agent-memory[team]'"
        ) from exc

    checker = TokenChecker(settings.oidc_issuer, settings.oidc_audience)

    async def verify(token: str) -> Identity:
        claims = await checker.check(token)
        principal = rules.read(claims)
        return Identity(
            name=f"{principal.person} (token)", principal=principal, until=float(claims["exp"])
        )

    return verify
