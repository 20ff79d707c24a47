"""Operations on the daemon itself: its status, failures, disk, settings and hook calls,
and of a team server who did what."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from agent_memory import config
from agent_memory.config import Key, LoadedSettings, Settings, SettingsSource
from agent_memory.features.access.model.audit import AuditEntry, AuditFilter
from agent_memory.features.access.services.audit import AuditLog
from agent_memory.features.hooks.model.installations import AgentState, InstallScope
from agent_memory.features.hooks.services.agent_calls import AgentCalls, AgentCallStats
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.features.log.model.tokens import format_offset, parse_offset
from agent_memory.features.monitoring.services.failures import LoggedFailure, RecentFailures
from agent_memory.features.monitoring.services.metrics import Metrics
from agent_memory.features.secrets.core import build_strict_cleaner
from agent_memory.kernel import limits
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ConfigError, FeatureUnavailable, NotFound
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.operations import operation
from agent_memory.kernel.status import DaemonControl, DaemonStatus
from agent_memory.kernel.structs import Limit, copy_fields
from agent_memory.platform.ports import ModelServer

TAG = "status"

Word = Annotated[str, Meta(max_length=limits.NAME_CHARS)]
Time = Annotated[int, Meta(ge=0, le=MAX_MILLIS, description="Unix milliseconds.")]


class FailureList(Struct, frozen=True, kw_only=True):
    """What the daemon logged as a warning or an error, by name. The log has the details."""

    errors: list[LoggedFailure]


class DiskPart(Struct, frozen=True, kw_only=True):
    kind: str
    bytes: int


class DiskUse(Struct, frozen=True, kw_only=True):
    parts: list[DiskPart]


class Setting(Struct, frozen=True, kw_only=True):
    """A setting. `source` is `default`, `flag`, the path of a file or the name of a variable.
    `restart_needed` tells that it differs on disk from what the daemon uses."""

    key: str
    value: Any
    default: Any
    source: str
    applies: str
    description: str
    restart_needed: bool


class SettingList(Struct, frozen=True, kw_only=True):
    """If the file has an error, the values are those of the last start."""

    settings: list[Setting]
    ignored: list[str]
    problem: str | None


class AgentHooks(Struct, frozen=True, kw_only=True):
    """The hooks of an agent. `installed` is null for calls of an unknown agent. The durations are
    those of the last 1,000 calls, in the daemon."""

    agent: str | None
    title: str
    installed: str | None
    calls: int = 0
    failed: int = 0
    last_ms: int | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None

    @classmethod
    def from_state(cls, state: AgentState | None, stats: AgentCallStats | None) -> "AgentHooks":
        counted = {}
        if stats is not None:
            names = ("calls", "failed", "last_ms", "p50_ms", "p99_ms")
            counted = {name: getattr(stats, name) for name in names}
        return cls(
            agent=None if state is None else state.agent.value,
            title="Unknown agent" if state is None else state.title,
            installed=None if state is None else _describe_installation(state),
            **counted,
        )


class HooksByAgent(Struct, frozen=True, kw_only=True):
    agents: list[AgentHooks]


class AuditQuery(Struct, frozen=True, kw_only=True):
    person: Word = ""
    key: Word = ""
    method: Word = ""
    target: Annotated[str, Meta(max_length=limits.NAME_CHARS, description="A part of it.")] = ""
    refused: Annotated[bool, Meta(description="Only what was refused or failed.")] = False
    from_timestamp_ms: Time = 0
    to_timestamp_ms: Time = MAX_MILLIS
    limit: Limit = 50
    continuation_token: Annotated[str, Meta(max_length=20)] | None = None


class AuditRecord(Struct, frozen=True, kw_only=True):
    """What someone did, or several times alike. `status` is that of HTTP for every interface."""

    number: int
    timestamp_ms: int
    person: str | None
    key: str | None
    interface: str
    method: str
    target: str
    status: int
    count: int

    @classmethod
    def from_entry(cls, entry: AuditEntry) -> "AuditRecord":
        return copy_fields(
            cls,
            entry,
            timestamp_ms=entry.at_ms,
            person=entry.person or None,
            key=entry.key or None,
        )


class AuditListing(Struct, frozen=True, kw_only=True):
    entries: list[AuditRecord]
    continuation_token: str | None


class LoginPlace(Struct, frozen=True, kw_only=True):
    """The issuer of tokens that people of this team server log in with."""

    issuer: str
    audience: str
    client_id: str


class ModelAndDaemon(Struct, frozen=True, kw_only=True):
    """The daemon and its model server, as `kontekst` shows them."""

    bind: str
    endpoint: str
    model_dir: str
    llama_server_healthy: bool
    llama_server_running: bool
    llama_server_pid: int
    uptime_seconds: int
    started_at_rfc3339: str
    data_dir: str


class Stopping(Struct, frozen=True, kw_only=True):
    message: str


@operation("status.read", role=Role.ADMIN, http="GET /api/v1/status/")
def read_status(control: DaemonControl) -> DaemonStatus:
    """Read the status of the daemon and its store."""
    return control.get_status()


@operation("status.read_model", role=Role.ADMIN, rpc="kontekst.DaemonService.GetStatus")
def read_model_status(control: DaemonControl, server: ModelServer) -> ModelAndDaemon:
    """Read the status of the model server and the daemon."""
    daemon, model = control.get_status(), server.status()
    started = datetime.fromtimestamp(daemon.started_ms / 1000, UTC)
    return ModelAndDaemon(
        bind=next(iter(daemon.grpc_addresses), f"unix:{daemon.grpc_socket}"),
        endpoint=model.endpoint,
        model_dir=model.model_dir,
        llama_server_healthy=model.healthy,
        llama_server_running=model.running,
        llama_server_pid=model.pid,
        uptime_seconds=int(daemon.uptime_seconds),
        started_at_rfc3339=started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        data_dir=daemon.data_dir,
    )


@operation("status.stop", role=Role.ADMIN, rpc="kontekst.DaemonService.Shutdown")
def stop_daemon(control: DaemonControl) -> Stopping:
    """Stop the daemon. It answers open calls first, this one too."""
    control.stop()
    return Stopping(message="the daemon is stopping")


@operation("errors.list", role=Role.ADMIN, http="GET /api/v1/errors/", tag=TAG)
def list_failures(failures: RecentFailures) -> FailureList:
    """List recent errors, by name."""
    return FailureList(errors=failures.list_newest())


@operation("disk.measure", role=Role.ADMIN, http="GET /api/v1/disk/", tag=TAG)
def measure_disk(metrics: Metrics) -> DiskUse:
    """Measure what the daemon keeps on disk."""
    sizes = metrics.measure_disk()
    return DiskUse(parts=[DiskPart(kind=kind, bytes=size) for kind, size in sizes.items()])


@operation("hooks.list", http="GET /api/v1/hooks/", tag=TAG)
def list_hooks(installing: Installing, calls: AgentCalls, caller: Caller) -> HooksByAgent:
    """List hook calls since the daemon started, by agent."""
    # The folder is the user's home: entries of projects do not count here.
    home = Caller(folder=caller.environ.get("HOME") or "/", environ=caller.environ)
    counted = {each.agent: each for each in calls.list_agents()}
    rows = [
        AgentHooks.from_state(state, counted.pop(state.agent.value, None))
        for state in installing.state(home, mcp=True)
        if state.present or state.agent.value in counted
    ]
    rows += [AgentHooks.from_state(None, stats) for stats in counted.values()]
    return HooksByAgent(agents=sorted(rows, key=lambda row: -row.calls))


def _describe_installation(state: AgentState) -> str:
    user = next(each for each in state.scopes if each.scope is InstallScope.USER)
    return "plugin" if user.plugin is not None else user.standing.value


@operation("settings.list", role=Role.ADMIN, http="GET /api/v1/settings/", tag=TAG)
def list_settings(source: SettingsSource) -> SettingList:
    """List all settings, with their values and where those come from.

    Secrets are removed. `memory config` changes settings.
    """
    problem = ""
    try:
        loaded = source.load()
    except (ConfigError, OSError) as exc:
        loaded, problem = source.running, str(exc)
    clean = build_strict_cleaner(source.running.settings.security)
    return SettingList(
        settings=[_describe(key, loaded, source.running, clean) for key in config.KEYS.values()],
        ignored=[clean(reason) for reason in loaded.ignored],
        problem=clean(problem) or None,
    )


def _describe(
    key: Key, loaded: LoadedSettings, running: LoadedSettings, clean: Callable[[str], str]
) -> Setting:
    value = loaded.value(key.name)
    return Setting(
        key=key.name,
        value=_clean_value(value, clean),
        default=key.default,
        source=loaded.sources.get(key.name, config.DEFAULT),
        applies=key.applies,
        description=key.doc,
        restart_needed=key.applies == "restart" and running.value(key.name) != value,
    )


def _clean_value(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):  # an option and its value are two items
        line = " ".join(value)
        return value if clean(line) == line else [clean(line)]
    return value


@operation("audit.list", role=Role.ADMIN, http="GET /api/v1/audit/", tag="team")
def list_audit(audit: AuditLog | None, request: AuditQuery) -> AuditListing:
    """List who did what, newest first."""
    if audit is None:
        raise FeatureUnavailable("only a team server has an audit log: set team.enabled")
    token = request.continuation_token
    page = audit.list_entries(
        AuditFilter(
            person=request.person,
            key=request.key,
            method=request.method,
            target=request.target,
            refused=request.refused,
            since=Millis(request.from_timestamp_ms),
            until=Millis(request.to_timestamp_ms),
        ),
        limit=request.limit,
        before=None if token is None else parse_offset(token),
    )
    return AuditListing(
        entries=list(map(AuditRecord.from_entry, page.entries)),
        continuation_token=format_offset(page.next),
    )


@operation("team.describe_login", http="GET /.well-known/agent-memory", tag="team")
def describe_login(settings: Settings) -> LoginPlace:
    """Tell programs without a key how people log in to this team server."""
    team = settings.team
    if not team.oidc_issuer:
        raise NotFound("people of this server have keys: ask an admin for one")
    return LoginPlace(
        issuer=team.oidc_issuer, audience=team.oidc_audience, client_id=team.oidc_client_id
    )
