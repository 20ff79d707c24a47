"""Tokens and the device flow, with a real issuer that signs with real keys."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest

from agent_memory.features.access.model.token_claims import ClaimRules, parse_roles
from agent_memory.features.upstream.adapters.oidc_login import start_login
from agent_memory.features.upstream.model.records import LoginMethod
from agent_memory.kernel.access import Principal, Role
from agent_memory.kernel.errors import ConfigError, RemoteUnavailable, Unauthorized
from agent_memory.platform import oidc
from agent_memory.platform.oidc import Claims, TokenChecker
from tests.oidc_issuer import AUDIENCE, CLIENT, IssuerProcess


@pytest.fixture(scope="module")
def issuer() -> Iterator[IssuerProcess]:
    with IssuerProcess() as running:
        yield running


class Checking:
    """A checker with a clock that a test sets."""

    def __init__(self, url: str, audience: str = AUDIENCE) -> None:
        self.now = 1_000.0
        self._checker = TokenChecker(url, audience, lambda: self.now)
        self._runner = asyncio.Runner()

    def __call__(self, token: str) -> Claims:
        return self._runner.run(self._checker.check(token))

    def check_all(self, tokens: list[str]) -> list[object]:
        async def check() -> list[object]:
            checks = (self._checker.check(token) for token in tokens)
            return list(await asyncio.gather(*checks, return_exceptions=True))

        return self._runner.run(check())

    def close(self) -> None:
        self._runner.close()


@pytest.fixture
def check(issuer: IssuerProcess) -> Iterator[Checking]:
    checking = Checking(issuer.url)
    yield checking
    checking.close()


@pytest.mark.parametrize("kind", ["rsa", "ec"])
def test_a_token_of_the_issuer_counts(issuer: IssuerProcess, check: Checking, kind: str) -> None:
    assert check(issuer.sign(kind))["sub"] == "ada"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "a claim is missing"),
        ({"iat": None}, "a claim is missing"),
        ({"nbf": 9_999_999_999}, "does not count yet"),
        ({"iat": 9_999_999_999}, "does not count yet"),
        ({"aud": "another"}, "another audience"),
        ({"aud": None}, "a claim is missing"),
        ({"iss": "https://evil.example"}, "another issuer"),
    ],
)
def test_claims_are_checked(
    issuer: IssuerProcess, check: Checking, claims: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Unauthorized, match=reason):
        check(issuer.sign(**claims))


def test_a_small_difference_of_clocks_is_forgiven(issuer: IssuerProcess, check: Checking) -> None:
    now = int(time.time())
    assert check(issuer.sign(exp=now - 5))
    assert check(issuer.sign(iat=now + 5, nbf=now + 5))


def _encode(part: object) -> str:
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def test_other_signatures_are_refused(issuer: IssuerProcess, check: Checking) -> None:
    good = issuer.sign()
    head, body, signature = good.split(".")
    public = json.dumps({"iss": issuer.url})
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "eve", "iat": 1, "exp": 9_999_999_999}
    name = jwt.get_unverified_header(good)["kid"]
    for bad in (
        f"{head}.{_encode(claims)}.{signature}",
        f"{head}.{body}.{_encode(b'x' * 256)}",
        f"{_encode({'alg': 'none'})}.{_encode(claims)}.",
        jwt.encode(claims, public * 4, algorithm="HS256", headers={"kid": name}),
        f"{_encode({'alg': 'ES256', 'kid': name})}.{body}.{signature}",  # the key of another type
        f"{_encode({'alg': 'RS512', 'kid': name})}.{body}.{signature}",
        issuer.sign(header={"crit": ["exp"], "exp": 1}),
        issuer.sign(header={"kid": "unknown"}),
        issuer.sign("weak"),
        "a.b.c",
        "..",
        f"{_encode(b'[' * 5000)}.{body}.{signature}",
    ):
        with pytest.raises(Unauthorized):
            check(bad)
    assert check(good)


def test_keys_are_rotated(issuer: IssuerProcess, check: Checking) -> None:
    old = issuer.sign()
    assert check(old)
    issuer.steer("rotate")
    new = issuer.sign()
    with pytest.raises(Unauthorized):  # it has just fetched them
        check(new)
    check.now += oidc.REFETCH_SECONDS + 1
    assert check(new)
    with pytest.raises(Unauthorized, match="no such key"):
        check(old)


def test_a_withdrawn_key_ends_within_the_hour(issuer: IssuerProcess, check: Checking) -> None:
    old = issuer.sign()
    assert check(old)
    issuer.steer("rotate")
    check.now += oidc.FRESH_SECONDS + 1
    check(issuer.sign())
    with pytest.raises(Unauthorized):
        check(old)


def test_bad_tokens_fetch_little(issuer: IssuerProcess, check: Checking) -> None:
    check(issuer.sign())
    before = issuer.count_fetches()
    check.now += oidc.REFETCH_SECONDS + 1
    found = check.check_all([issuer.sign(header={"kid": f"made-up-{n}"}) for n in range(20)])
    assert all(isinstance(each, Unauthorized) for each in found)
    assert issuer.count_fetches() == before + 1


def test_keys_outlive_a_pause_of_the_issuer_for_a_day() -> None:
    with IssuerProcess() as issuer:
        checking = Checking(issuer.url)
        token, second = issuer.sign(), issuer.sign(sub="bob")
        assert checking(token)
    checking.now += oidc.FRESH_SECONDS + 1
    assert checking(second)["sub"] == "bob"
    checking.now += oidc.STALE_SECONDS
    with pytest.raises(Unauthorized, match="cannot be checked now"):
        checking(token)
    checking.close()


@pytest.mark.parametrize(
    "url", ["http://login.example", "ftp://login.example", "nothing", "", "https://", "http://[::1"]
)
def test_an_issuer_is_reached_over_https(url: str) -> None:
    with pytest.raises(ConfigError):
        oidc.discover(url)


def test_an_issuer_must_have_the_name_it_is_asked_for(issuer: IssuerProcess) -> None:
    with pytest.raises(ConfigError, match="its name is"):
        oidc.discover(issuer.url.replace("127.0.0.1", "localhost"))


class TestDeviceFlow:
    def test_a_person_logs_in_with_a_browser(self, issuer: IssuerProcess, check: Checking) -> None:
        found = oidc.discover(issuer.url)
        login = oidc.start_device_flow(found, CLIENT)
        assert login.user_code == f"WDJB-{CLIENT}"
        assert login.device_code not in repr(login)
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                issuer.steer("decide", {login.device_code: "approved"})
            elif len(waits) == 1:
                issuer.steer("decide", {login.device_code: "slow_down pending"})

        token = oidc.poll(found, CLIENT, login, wait=wait)
        assert waits == [0.0, 5.0, 5.0]
        assert check(token)["sub"] == "ada"

    def test_two_logins_at_a_time_do_not_disturb_each_other(
        self, issuer: IssuerProcess, check: Checking
    ) -> None:
        method = LoginMethod(issuer=issuer.url, client_id=CLIENT, audience="")
        pending = [start_login(method), start_login(method)]
        issuer.steer("approve", {"sub": "ada"})
        for each in pending:
            assert each.page == f"{issuer.url}/activate?code=1"
            assert check(each.wait_for_token(lambda _: None))["sub"] == "ada"

    @pytest.mark.parametrize(
        ("became", "reason"),
        [("access_denied", "refused"), ("expired_token", "too long"), ("server_error", "failed")],
    )
    def test_it_may_fail(self, issuer: IssuerProcess, became: str, reason: str) -> None:
        found = oidc.discover(issuer.url)
        login = oidc.start_device_flow(found, CLIENT)
        issuer.steer("decide", {login.device_code: became})
        with pytest.raises(Unauthorized, match=reason):
            oidc.poll(found, CLIENT, login, wait=lambda _: None)

    def test_it_ends_by_itself(self, issuer: IssuerProcess) -> None:
        found = oidc.discover(issuer.url)
        login = oidc.start_device_flow(found, CLIENT)
        ticks = iter(range(0, 1_000, 30))
        with pytest.raises(Unauthorized, match="too long"):
            oidc.poll(found, CLIENT, login, wait=lambda _: None, clock=lambda: float(next(ticks)))

    def test_an_issuer_that_is_away(self) -> None:
        with IssuerProcess() as gone:
            found = oidc.discover(gone.url)
        with pytest.raises(RemoteUnavailable):
            oidc.start_device_flow(found, CLIENT)


class TestClaims:
    RULES = ClaimRules(
        person="email",
        role="realm.groups",
        roles=parse_roles(["engineers=writer", "cn=leads,o=x=admin"]),
        projects="projects",
    )

    def test_they_name_the_person_with_role_and_projects(self) -> None:
        claims = {
            "email": "ada@example.org",
            "realm": {"groups": ["engineers", "other"]},
            "projects": ["shop", 7],
        }
        assert self.RULES.read(claims) == Principal(
            person="ada@example.org", role=Role.WRITER, projects=frozenset({"shop"})
        )
        leads = claims | {"realm.groups": ["engineers", "cn=leads,o=x"]}
        assert self.RULES.read(leads).role is Role.ADMIN

    def test_a_missing_claim_gives_less_and_never_more(self) -> None:
        claims = {"email": "ada", "realm": {"groups": "engineers"}}
        assert self.RULES.read(claims).projects == frozenset()
        with pytest.raises(Unauthorized, match="has no role"):
            self.RULES.read({"email": "ada", "realm": "engineers"})
        for person in ("", "a b", "../x", 7, None, "a" * 200):
            with pytest.raises(Unauthorized, match="does not name a person"):
                self.RULES.read(claims | {"email": person})
        with pytest.raises(Unauthorized):
            self.RULES.read(claims | {"projects": ["../etc"]})

    @pytest.mark.parametrize("line", ["engineers", "engineers=owner", "=admin", ""])
    def test_a_wrong_rule_is_told_of(self, line: str) -> None:
        with pytest.raises(ConfigError, match=r"team\.oidc_roles"):
            parse_roles([line])
