"""A team's server over HTTPS. The key goes to this server alone: redirects are not followed."""

import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from agent_memory.features.index.model.queries import Query, RecallResult
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.recall.ports import TeamRecord
from agent_memory.features.upstream.model import hit_records, records
from agent_memory.features.upstream.model.addresses import check_address
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.model.records import (
    ChangePage,
    ErasureNotice,
    KeyNotice,
    LoginMethod,
    RecordBatch,
    RecordRefused,
    SendOutcome,
    ServerProject,
    TeamIdentity,
)
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.kernel.errors import (
    ConfigError,
    InvalidInput,
    NotFound,
    RemoteUnavailable,
    Unauthorized,
)
from agent_memory.kernel.hosts import is_loopback
from agent_memory.kernel.ids import Millis

PATH = "/api/v1/upstream"
LOGIN_PATH = "/.well-known/agent-memory"
CONNECT_SECONDS = 3.0
SEND_SECONDS = 30.0  # for each read; a batch may wait for the server's disk
ASK_SECONDS = 2.0  # for a question, which recall does not wait for
MAX_ANSWER_BYTES = 64 << 20
KEEP_ALIVE_SECONDS = 120.0  # so that the next question finds a connection
_REFUSED = (400, 413, 422)
_KEY_REFUSED = (401, 403)
_BODY_CHARS = 200


class HttpTeamServer:
    """A TeamServer."""

    def __init__(self, url: str, key: str, certificates: str = "") -> None:
        self._url = httpx.URL(check_address(url))
        self._client = httpx.Client(
            base_url=self._url,
            headers={"authorization": f"Bearer {key}"} if key else {},
            follow_redirects=False,
            trust_env=not is_loopback(self._url.host),  # a proxy cannot reach this machine
            verify=_build_context(self._url, certificates),
            limits=httpx.Limits(
                max_connections=8,
                max_keepalive_connections=8,
                keepalive_expiry=KEEP_ALIVE_SECONDS,
            ),
        )

    def identify(self, client: str = "", /) -> TeamIdentity:
        answer = self._ask("GET", f"{PATH}/", SEND_SECONDS, params={"client": client})
        projects = answer.get("projects")
        return TeamIdentity(
            person=str(answer.get("person", "")),
            role=str(answer.get("role", "")),
            projects=tuple(map(str, projects)) if isinstance(projects, list) else None,
            version=str(answer.get("version", "")),
            receipt=_read_receipt(answer),
            keys=tuple(map(str, _read_list(answer, "keys"))),
            erasures=_read_number(answer, "erasures"),
        )

    def list_keys(self) -> list[KeyNotice]:
        answer = self._ask("GET", f"{PATH}/keys/", SEND_SECONDS)
        try:
            return [
                KeyNotice(
                    name=str(each["name"]),
                    rights=str(each["rights"]),
                    created_ms=Millis(int(each["created_ms"])),
                    created_by=str(each["created_by"]),
                )
                for each in answer["keys"]
            ]
        except (KeyError, TypeError, ValueError) as exc:
            raise RemoteUnavailable(_describe_odd(self._url)) from exc

    def list_erasures(self) -> list[ErasureNotice]:
        answer = self._ask("GET", f"{PATH}/erasures/", SEND_SECONDS)
        try:
            return [
                ErasureNotice(
                    kind=str(each["kind"]),
                    name=str(each["name"]),
                    asked_by=str(each["asked_by"]),
                    asked_ms=Millis(int(each["asked_ms"])),
                    due_ms=Millis(int(each["due_ms"])),
                )
                for each in answer["erasures"]
            ]
        except (KeyError, TypeError, ValueError) as exc:
            raise RemoteUnavailable(_describe_odd(self._url)) from exc

    def keep(self, names: Sequence[str], /) -> int:
        body = {"names": list(names)}
        answer = self._ask("POST", f"{PATH}/erasures/keep/", SEND_SECONDS, json=body)
        return _read_number(answer, "kept")

    def find_login_method(self) -> LoginMethod | None:
        try:
            answer = self._ask("GET", LOGIN_PATH, SEND_SECONDS)
        except (NotFound, Unauthorized):
            return None
        issuer, client_id = str(answer.get("issuer") or ""), str(answer.get("client_id") or "")
        if not issuer or not client_id:
            return None
        audience = str(answer.get("audience") or "")
        return LoginMethod(issuer=issuer, client_id=client_id, audience=audience)

    def create_key(self, machine: str, /) -> str:
        answer = self._ask("POST", f"{PATH}/keys/", SEND_SECONDS, json={"machine": machine})
        key = answer.get("key")
        if not isinstance(key, str) or not key:
            raise RemoteUnavailable(_describe_odd(self._url))
        return key

    def send(self, batch: RecordBatch, /) -> SendOutcome:
        body = records.encode_batch(batch)
        answer = self._ask("POST", f"{PATH}/records/", SEND_SECONDS, json=body)
        try:
            return SendOutcome(
                taken=int(answer["taken"]),
                known=int(answer["known"]),
                refused=tuple(
                    RecordRefused(
                        kind=str(each["kind"]), name=str(each["name"]), reason=str(each["reason"])
                    )
                    for each in answer["refused"]
                ),
                receipt=_read_receipt(answer),
                lowered=tuple(
                    each
                    for each in map(records.decode_change, _read_list(answer, "lowered"))
                    if isinstance(each, Memory | Fact | FactTombstone)
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as exc:
            raise RemoteUnavailable(_describe_odd(self._url)) from exc

    def list_changes(
        self, after: str, scope: SharedScope, /, *, client: str = "", limit: int
    ) -> ChangePage:
        params = {
            "after": after,
            "limit": limit,
            "project": sorted(scope.names),
            "client": client,
        }
        answer = self._ask("GET", f"{PATH}/changes/", SEND_SECONDS, params=params)
        changes = answer.get("changes")
        if not isinstance(changes, list):
            raise RemoteUnavailable(_describe_odd(self._url))
        try:
            decoded = [records.decode_change(each) for each in changes]
        except (InvalidInput, AttributeError) as exc:
            raise RemoteUnavailable(_describe_odd(self._url)) from exc
        return ChangePage(
            changes=tuple(change for change in decoded if change is not None),
            people={
                change.key if isinstance(change, Memory) else change.id: str(each.get("person", ""))
                for each, change in zip(changes, decoded, strict=True)
                if isinstance(change, Memory | Fact)
            },
            next=str(answer.get("next", after)),
            more=answer.get("more") is True,
            receipt=_read_receipt(answer),
        )

    def search(self, query: Query, scope: SharedScope, /) -> RecallResult:
        body = hit_records.encode_question(query, scope)
        return hit_records.decode_result(
            self._ask("POST", f"{PATH}/search/", ASK_SECONDS, json=body)
        )

    def open(self, uri: str, scope: SharedScope, /, *, around: int) -> TeamRecord:
        params = {"uri": uri, "around": around, "project": sorted(scope.names)}
        return records.decode_opened(
            self._ask("GET", f"{PATH}/record/", SEND_SECONDS, params=params)
        )

    def find_project(self, repository: str, name: str, /) -> ServerProject:
        params = {"repository": repository, "name": name}
        answer = self._ask_named("GET", params=params)
        return ServerProject(
            name=str(answer.get("name") or ""), taken_by=str(answer.get("taken_by") or "")
        )

    def claim_project(self, repository: str, name: str, /, *, join: bool = False) -> str:
        body = {"repository": repository, "name": name, "join": join}
        return str(self._ask_named("POST", json=body).get("name") or "")

    def close(self) -> None:
        self._client.close()

    def _ask_named(self, method: str, **content: Any) -> Mapping[str, Any]:
        try:
            return self._ask(method, f"{PATH}/projects/", SEND_SECONDS, **content)
        except NotFound as exc:
            raise RemoteUnavailable(
                f"{self._url.host} is of an earlier version, which knows projects by their names"
                " alone: upgrade it first"
            ) from exc

    def _ask(self, method: str, path: str, seconds: float, **content: Any) -> Mapping[str, Any]:
        timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        try:
            with self._client.stream(method, path, timeout=timeout, **content) as answer:
                return self._read(answer)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as exc:
            raise RemoteUnavailable(_describe_failure(self._url, exc)) from exc
        except RuntimeError as exc:
            if not self._client.is_closed:
                raise
            raise RemoteUnavailable("the settings of the server have just changed") from exc

    def _read(self, answer: httpx.Response) -> Mapping[str, Any]:
        parts: list[bytes] = []
        size = 0
        for part in answer.iter_bytes():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise RemoteUnavailable(f"the answer of {self._url.host} is too long")
            parts.append(part)
        body = b"".join(parts)
        if answer.is_success:
            try:
                content = json.loads(body)
            except ValueError as exc:
                raise RemoteUnavailable(_describe_odd(self._url)) from exc
            if not isinstance(content, dict):
                raise RemoteUnavailable(_describe_odd(self._url))
            return content
        reason = _read_reason(body)
        if answer.status_code in _KEY_REFUSED:
            raise Unauthorized(f"{self._url.host} does not accept the key: {reason}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise NotFound(reason or f"{self._url.host} has no such record")
        if answer.status_code in _REFUSED:
            raise InvalidInput(f"{self._url.host}: {reason}")
        if answer.is_redirect:
            raise RemoteUnavailable(
                f"{self._url.host} sends its callers elsewhere: add the address it moved to"
            )
        raise RemoteUnavailable(f"{self._url.host} answers {answer.status_code}: {reason}")


def _build_context(url: httpx.URL, certificates: str) -> ssl.SSLContext | bool:
    if url.scheme != "https":
        return False  # there is nothing to verify, and loading the certificates takes 50 ms
    context = httpx.create_ssl_context()
    if certificates:
        try:
            context.load_verify_locations(certificates)
        except (OSError, ssl.SSLError) as exc:
            raise ConfigError(f"upstream.certificates: cannot read {certificates}: {exc}") from exc
    return context


def _describe_failure(url: httpx.URL, failure: Exception) -> str:
    """Say why there is no answer. A certificate that is not trusted is no silence."""
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"this machine does not trust the certificate of {url.host}:"
                f" {cause.verify_message or cause}. If your team has an authority of its own, name"
                " its file: memory config set upstream.certificates FILE"
            )
        cause = cause.__cause__ or cause.__context__
    reason = str(failure) or type(failure).__name__
    if url.scheme == "http" and isinstance(failure, httpx.RemoteProtocolError):
        reason += " (does its address begin with https://?)"
    return f"{url.host} does not answer: {reason}"


def _read_receipt(answer: Mapping[str, Any]) -> int:
    return _read_number(answer, "receipt")


def _read_number(answer: Mapping[str, Any], name: str) -> int:
    number = answer.get(name)
    return number if isinstance(number, int) else 0


def _read_list(answer: Mapping[str, Any], name: str) -> list[Any]:
    found = answer.get(name)
    return found if isinstance(found, list) else []


def _read_reason(body: bytes) -> str:
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = body[:_BODY_CHARS].decode(errors="replace")
    text = detail if isinstance(detail, str) else json.dumps(detail)
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain[:_BODY_CHARS].strip()


def _describe_odd(url: httpx.URL) -> str:
    return f"{url.host} does not answer as a server of Agent Memory"
