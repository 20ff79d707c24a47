"""Who calls: by keys or the tokens of an issuer; and the audit log."""

import secrets
from collections.abc import Sequence
from dataclasses import asdict

import structlog

from agent_memory.config import Settings, TeamSettings
from agent_memory.features.access.adapters.audit_store import StoredAudit
from agent_memory.features.access.adapters.key_ring import StoredKeyRing
from agent_memory.features.access.adapters.revoked_keys import FILE as REVOKED_KEYS
from agent_memory.features.access.adapters.revoked_keys import RevokedKeyFile
from agent_memory.features.access.model.audit import AuditEntry
from agent_memory.features.access.services.access import Access
from agent_memory.features.access.services.audit import AuditLog
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.platform.base import Platform
from agent_memory.platform.store import families

logger = structlog.get_logger()


def build(context: Composition) -> None:
    platform, settings = context[Platform], context[Settings].team
    audit = _build_audit(platform, settings)
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
        team=settings.enabled,
        on_change=note_change,
    )
    context.add(access)
    if audit is not None:
        context.add(audit)


def _build_audit(platform: Platform, settings: TeamSettings) -> AuditLog | None:
    if not settings.enabled:
        return None
    audit = AuditLog(
        StoredAudit(platform.store),
        platform.clock,
        days=settings.audit_days,
        on_failure=_log_audit,
    )
    platform.closing.callback(audit.close)
    return audit


def _log_audit(entries: Sequence[AuditEntry], exc: AgentMemoryError) -> None:
    """Log entries that could not be stored: they must not be lost."""
    for entry in entries:
        logger.warning("audit.not_stored", error=str(exc), **asdict(entry))
