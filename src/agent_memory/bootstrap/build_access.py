"""Build what finds out who calls, by keys or the tokens of an issuer, and the audit log."""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import structlog

from agent_memory.bootstrap.build_platform import Platform
from agent_memory.config import TeamSettings
from agent_memory.features.access.adapters.audit_store import StoredAudit
from agent_memory.features.access.adapters.key_ring import StoredKeyRing
from agent_memory.features.access.adapters.revoked_keys import FILE as REVOKED_KEYS
from agent_memory.features.access.adapters.revoked_keys import RevokedKeyFile
from agent_memory.features.access.model.audit import AuditEntry
from agent_memory.features.access.model.token_claims import ClaimRules, parse_roles
from agent_memory.features.access.services.access import Access
from agent_memory.features.access.services.audit import AuditLog
from agent_memory.interfaces.guard import BearerGuard, Identity, VerifyToken
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import AgentMemoryError, ConfigError, FeatureUnavailable
from agent_memory.platform.store import families

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFeature:
    access: Access
    audit: AuditLog | None  # of a team server


def build_access(platform: Platform) -> AccessFeature:
    audit = _build_audit(platform)
    keys = StoredKeyRing(platform.store, RevokedKeyFile(platform.folders.data / REVOKED_KEYS))
    if platform.sharing is not None:
        platform.sharing.marks.listen(families.ACCESS_KEYS, keys.refresh_soon)

    def note_change(action: str, name: str) -> None:
        if audit is not None:
            audit.note_acts("keys", action, {name: 200})

    access = Access(
        keys=keys,
        clock=platform.clock,
        new_secret=lambda: f"am_{secrets.token_urlsafe(32)}",
        team=platform.settings.team.enabled,
        on_change=note_change,
    )
    return AccessFeature(access=access, audit=audit)


def _build_audit(platform: Platform) -> AuditLog | None:
    if not platform.settings.team.enabled:
        return None
    audit = AuditLog(
        StoredAudit(platform.store),
        platform.clock,
        days=platform.settings.team.audit_days,
        on_failure=_log_audit,
    )
    platform.closing.callback(audit.close)
    return audit


def _log_audit(entries: Sequence[AuditEntry], exc: AgentMemoryError) -> None:
    """Log entries that could not be stored: they must not be lost."""
    for entry in entries:
        logger.warning("audit.not_stored", error=str(exc), **asdict(entry))


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
