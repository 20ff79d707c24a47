"""OpenID Connect: check tokens of an issuer, and get one through its device flow (RFC 8628).

Tokens are signed by RS256 or ES256 with a key that the issuer publishes. Keys are fetched again
when a token names an unknown one, but rarely, so that bad tokens cost little; and at least hourly,
so that keys which the issuer withdrew end. Everything is fetched over HTTPS, without redirects,
within limits of time and size. Plain HTTP is allowed on loopback, for tests.

To log in, as `memory remote login` does:

    issuer = discover("https://login.example")
    login = start_device_flow(issuer, "agent-memory")
    print(f"Open {login.verification_uri} and enter {login.user_code}")
    token = poll(issuer, "agent-memory", login)
"""

import asyncio
import hashlib
import ipaddress
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt

from agent_memory.kernel.errors import (
    AgentMemoryError,
    ConfigError,
    RemoteUnavailable,
    Unauthorized,
)

ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}  # with the type of their keys
LEEWAY_SECONDS = 30
MAX_ANSWER = 256 << 10  # bytes
MAX_KEYS = 50
KEY_BITS = (2048, 8192)  # of RSA: fewer are weak, and more take long
FETCH_SECONDS = 5.0
FRESH_SECONDS = 3600.0  # after this, keys are fetched again
STALE_SECONDS = 86_400.0  # if they cannot be, they count for so long
REFETCH_SECONDS = 30.0  # between two fetches
REMEMBERED = 1024  # tokens whose signature was checked
MAX_NAME = 256
DEFAULT_INTERVAL = 5.0
MAX_DEVICE_SECONDS = 1800.0
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"

_PUBLIC = ("kty", "crv", "x", "y", "n", "e")  # what a public key is made of

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """What an issuer says of itself."""

    url: str
    jwks_uri: str
    token_endpoint: str = ""
    device_endpoint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLogin:
    """A login that a person finishes in a browser, on any device."""

    user_code: str
    verification_uri: str
    complete_uri: str  # with the code in it; may be empty
    expires_in: float
    interval: float
    device_code: str = field(repr=False)


def discover(url: str) -> Issuer:
    """Read the configuration of an issuer. Raises ConfigError and RemoteUnavailable."""
    _check_url("the issuer", url)
    found = _fetch("GET", f"{url.rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != url:
        raise ConfigError(f"{url} says that its name is {str(found.get('issuer'))[:MAX_NAME]!r}")
    addresses = {
        name: str(found.get(name) or "")
        for name in ("jwks_uri", "token_endpoint", "device_authorization_endpoint")
    }
    for name, address in addresses.items():
        if address or name == "jwks_uri":
            _check_url(f"{name} of {url}", address)
    return Issuer(
        url=url,
        jwks_uri=addresses["jwks_uri"],
        token_endpoint=addresses["token_endpoint"],
        device_endpoint=addresses["device_authorization_endpoint"],
    )


class TokenChecker:
    """Checks the tokens of one issuer. Use it on one event loop."""

    def __init__(
        self, url: str, audience: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._audience = audience
        self._clock = clock
        self._keys: dict[str, Any] = {}
        self._fetched: float | None = None
        self._tried: float | None = None
        self._fetching = asyncio.Lock()
        self._known: OrderedDict[bytes, Claims] = OrderedDict()

    async def check(self, token: str) -> Claims:
        """Return what a valid token says. Raises Unauthorized."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._known.get(digest)
        if known is not None and known["exp"] > time.time() and not self._is_due(STALE_SECONDS):
            self._known.move_to_end(digest)
            return known
        algorithm, name = _read_header(token)
        key = await self._find_key(ALGORITHMS[algorithm], name)
        try:
            claims: Claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._url,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as exc:
            raise Unauthorized(f"the token is not valid: {_describe(exc)}") from exc
        self._known[digest] = claims
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return claims

    async def _find_key(self, kind: str, name: str) -> Any:
        key = self._choose(kind, name)
        if key is None or self._is_due(FRESH_SECONDS):
            await self._refresh()
            key = self._choose(kind, name)
        if key is None:
            raise Unauthorized("the token is not valid: its issuer has no such key")
        return key

    def _choose(self, kind: str, name: str) -> Any:
        if self._is_due(STALE_SECONDS):
            return None
        if name:
            return self._keys.get(f"{kind} {name}")
        alike = [key for key_name, key in self._keys.items() if key_name.startswith(f"{kind} ")]
        return alike[0] if len(alike) == 1 else None

    def _is_due(self, seconds: float) -> bool:
        return self._fetched is None or self._clock() - self._fetched > seconds

    async def _refresh(self) -> None:
        """Fetch the keys, one caller at a time and not too often."""
        async with self._fetching:
            now = self._clock()
            if self._tried is not None and now - self._tried < REFETCH_SECONDS:
                return
            self._tried = now
            try:
                self._keys = await asyncio.to_thread(_fetch_keys, self._url)
            except AgentMemoryError as exc:
                if self._is_due(STALE_SECONDS):
                    raise Unauthorized(
                        f"tokens cannot be checked now: {exc}; keys of this server work"
                    ) from exc
                return
            self._known.clear()  # a key of one of them may be gone
            self._fetched = self._clock()


def _fetch_keys(url: str) -> dict[str, Any]:
    """Return the keys that sign, by their type and name."""
    listed = _fetch("GET", discover(url).jwks_uri).get("keys")
    keys: dict[str, Any] = {}
    for number, each in enumerate(listed[:MAX_KEYS] if isinstance(listed, list) else []):
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        key = _load_key(each)
        if key is not None:
            keys[f"{each['kty']} {str(each.get('kid') or number)[:MAX_NAME]}"] = key
    if not keys:
        raise RemoteUnavailable(f"{url} publishes no key for RS256 or ES256")
    return keys


def _load_key(each: dict[str, Any]) -> Any:
    """Return a public key, or None for one that we do not use."""
    public: dict[str, Any] = {name: each[name] for name in _PUBLIC if name in each}
    try:
        if each.get("kty") == "RSA":
            key = jwt.PyJWK(public, algorithm="RS256").key
            return key if KEY_BITS[0] <= key.key_size <= KEY_BITS[1] else None
        if each.get("kty") == "EC" and each.get("crv") == "P-256":
            return jwt.PyJWK(public, algorithm="ES256").key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return None


def _read_header(token: str) -> tuple[str, str]:
    """Return the algorithm and the name of the key. Raises Unauthorized."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as exc:
        raise Unauthorized("the token is not valid: it is not a JWT") from exc
    algorithm, name = header.get("alg"), header.get("kid", "")
    if algorithm not in ALGORITHMS:
        raise Unauthorized(f"the token is not valid: only {' and '.join(ALGORITHMS)} are accepted")
    if "crit" in header or not isinstance(name, str) or len(name) > MAX_NAME:
        raise Unauthorized("the token is not valid: its header is not")
    return algorithm, name


def _describe(exc: Exception) -> str:
    """Say what is wrong with a token, without repeating it."""
    reasons = {
        jwt.ExpiredSignatureError: "it has expired",
        jwt.InvalidAudienceError: "it is for another audience",
        jwt.InvalidIssuerError: "it is from another issuer",
        jwt.ImmatureSignatureError: "it does not count yet",
        jwt.InvalidSignatureError: "its signature is wrong",
        jwt.MissingRequiredClaimError: "a claim is missing",
    }
    found = (text for kind, text in reasons.items() if isinstance(exc, kind))
    return next(found, "it is malformed")


def start_device_flow(issuer: Issuer, client_id: str, *, audience: str = "") -> DeviceLogin:
    """Ask an issuer for a code that a person enters in a browser.

    Raises ConfigError and RemoteUnavailable.
    """
    if not issuer.device_endpoint or not issuer.token_endpoint:
        raise ConfigError(f"{issuer.url} does not offer the device flow")
    form = {"client_id": client_id, "scope": "openid profile"}
    if audience:
        form["audience"] = audience
    found = _fetch("POST", issuer.device_endpoint, form)
    login = DeviceLogin(
        user_code=_read_line(found, "user_code"),
        verification_uri=_read_line(found, "verification_uri"),
        complete_uri=str(found.get("verification_uri_complete") or ""),
        expires_in=min(_read_seconds(found, "expires_in", 600.0), MAX_DEVICE_SECONDS),
        interval=_read_seconds(found, "interval", DEFAULT_INTERVAL),
        device_code=_read_line(found, "device_code"),
    )
    _check_url("the page of the login", login.verification_uri)
    if login.complete_uri:
        _check_url("the page of the login", login.complete_uri)
    return login


def poll(
    issuer: Issuer,
    client_id: str,
    login: DeviceLogin,
    *,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Wait until the person has logged in, and return their access token. Raises Unauthorized if
    they refuse or take too long.

    `wait` may raise Cancelled to stop.
    """
    deadline, interval = clock() + login.expires_in, login.interval
    form = {"grant_type": DEVICE_GRANT, "device_code": login.device_code, "client_id": client_id}
    while clock() < deadline:
        wait(interval)
        try:
            answer = _fetch("POST", issuer.token_endpoint, form, refusals=True)
        except RemoteUnavailable:
            interval = min(interval * 2 + 1, 60.0)
            continue
        match answer.get("error"):
            case None:
                return _read_line(answer, "access_token")
            case "authorization_pending":
                continue
            case "slow_down":
                interval += 5.0
            case "access_denied":
                raise Unauthorized("the login was refused")
            case "expired_token":
                break
            case other:
                raise Unauthorized(f"the login failed: {str(other)[:MAX_NAME]!r}")
    raise Unauthorized("the login took too long: begin it again")


def _read_line(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise RemoteUnavailable(f"the issuer gave no {name}")
    return value


def _read_seconds(answer: Mapping[str, Any], name: str, default: float) -> float:
    value = answer.get(name, default)
    return float(value) if isinstance(value, int | float) and value >= 0 else default


def _fetch(
    method: str, url: str, form: Mapping[str, str] | None = None, *, refusals: bool = False
) -> dict[str, Any]:
    """Send a request and return the JSON object of the answer.

    With `refusals`, return also that of a refusal, which OAuth answers with 400. Raises
    RemoteUnavailable.
    """
    try:
        with (
            httpx.Client(timeout=FETCH_SECONDS, follow_redirects=False) as client,
            client.stream(
                method, url, data=dict(form or {}) or None, headers={"accept": "application/json"}
            ) as answer,
        ):
            body = bytearray()
            began = time.monotonic()
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER or time.monotonic() - began > FETCH_SECONDS:
                    raise RemoteUnavailable(f"the answer of {url} is too long")
            status = answer.status_code
    except httpx.HTTPError as exc:
        raise RemoteUnavailable(f"{url} does not answer: {type(exc).__name__}") from exc
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    is_refusal = refusals and status in (400, 401, 403) and isinstance(found, dict)
    if not isinstance(found, dict) or not (status == 200 or (is_refusal and "error" in found)):
        raise RemoteUnavailable(f"{url} answers {status}, and not what was asked for")
    return found


def _check_url(what: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or not url.isprintable():
        raise ConfigError(f"{what} is not a URL: {url[:MAX_NAME]!r}")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise ConfigError(f"{what} is not reached over HTTPS: {url[:MAX_NAME]}")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
