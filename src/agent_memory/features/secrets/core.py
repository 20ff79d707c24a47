"""Secrets: the filter of what is stored, and the one of the log."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from agent_memory.config import SecuritySettings, Settings
from agent_memory.features.secrets.adapters import factory
from agent_memory.features.secrets.model.secrets import WITHHELD, Incident
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import ContentBlocked
from agent_memory.kernel.text.addresses import hide_credentials

log = structlog.get_logger()


def build_core(context: Composition) -> None:
    settings = context[Settings].security
    secrets = factory.build_filter(settings.secrets, settings.allow, _log_incident)
    context.provide(SecretsFilter, secrets)


def build_log_cleaner(settings: SecuritySettings) -> Callable[[str], str]:
    """Build what takes secrets out of a log line. It redacts where the store would block."""
    mode = settings.secrets if settings.secrets == factory.OFF else "redact"
    secrets = factory.build_filter(mode, settings.allow)

    def clean(text: str) -> str:
        try:
            return secrets.clean(text)
        except ContentBlocked:
            return WITHHELD

    return clean


def build_strict_cleaner(settings: SecuritySettings) -> Callable[[str], str]:
    """Build what takes secrets out of settings that are shown to others, also those of addresses
    that look like any name. It works however `security.secrets` is set."""
    clean = build_log_cleaner(replace(settings, secrets="redact"))
    return lambda text: clean(hide_credentials(text))


def _log_incident(incident: Incident) -> None:
    """Log that a secret was seen, without anything that would help to find it out."""
    log.warning(
        "secrets.found",
        kind=incident.kind,
        length=incident.length,
        where=incident.where,
        outcome=incident.outcome,
    )
