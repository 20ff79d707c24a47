"""An issuer of tokens for tests: a process of its own that signs with real keys.

It serves what OpenID Connect and RFC 8628 describe, and under `/test/` what tests steer it with.
"""

import http.server
import json
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "agent-memory"
CLIENT = "agent-memory-cli"


class _State:
    """The keys and logins of the issuer."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.number = 0
        self.fetches = 0
        self.logins: dict[str, str] = {}  # device codes, and what became of them
        self.login_claims: dict[str, Any] = {}
        self.rotate()

    def rotate(self) -> None:
        """Replace all keys."""
        self.number += 1
        self.keys: dict[str, tuple[str, Any]] = {
            f"rsa-{self.number}": ("RS256", rsa.generate_private_key(65537, 2048)),
            f"ec-{self.number}": ("ES256", ec.generate_private_key(ec.SECP256R1())),
            f"weak-{self.number}": ("RS256", rsa.generate_private_key(65537, 1024)),  # noqa: S505  # to be refused
        }

    def list_keys(self) -> dict[str, Any]:
        self.fetches += 1
        found = []
        for name, (algorithm, key) in self.keys.items():
            encode = RSAAlgorithm if algorithm == "RS256" else ECAlgorithm
            public = json.loads(encode.to_jwk(key.public_key()))
            found.append({**public, "kid": name, "use": "sig", "alg": algorithm})
        return {"keys": found}

    def sign(self, claims: dict[str, Any], kind: str = "rsa", **header: Any) -> str:
        name = f"{kind}-{self.number}"
        algorithm, key = self.keys[name]
        return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": name, **header})

    def build_claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 600}
        return {name: value for name, value in {**claims, **changes}.items() if value is not None}


class _Handler(http.server.BaseHTTPRequestHandler):
    state: _State

    def do_GET(self) -> None:
        state = self.state
        match self.path:
            case "/.well-known/openid-configuration":
                self._answer(
                    {
                        "issuer": state.url,
                        "jwks_uri": f"{state.url}/keys",
                        "token_endpoint": f"{state.url}/token",
                        "device_authorization_endpoint": f"{state.url}/device",
                    }
                )
            case "/keys":
                self._answer(state.list_keys())
            case "/test/fetches":
                self._answer({"fetches": state.fetches})
            case _:
                self._answer({}, 404)

    def do_POST(self) -> None:
        state = self.state
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        match self.path:
            case "/device":
                form = parse_qs(body.decode())
                code = f"device-{len(state.logins)}"
                state.logins[code] = "pending"
                page = f"{state.url}/activate"
                self._answer(
                    {
                        "device_code": code,
                        "user_code": f"WDJB-{form['client_id'][0]}",
                        "verification_uri": page,
                        "verification_uri_complete": f"{page}?code=1",
                        "expires_in": 60,
                        "interval": 0,
                    }
                )
            case "/token":
                self._answer_token(parse_qs(body.decode()))
            case "/test/sign":
                asked = json.loads(body)
                claims = state.build_claims(**asked.get("claims", {}))
                header = asked.get("header", {})
                self._answer({"token": state.sign(claims, asked.get("kind", "rsa"), **header)})
            case "/test/rotate":
                state.rotate()
                self._answer({})
            case "/test/approve":  # every login, with these claims
                state.login_claims = json.loads(body)
                state.logins = dict.fromkeys(state.logins, "approved")
                self._answer({})
            case "/test/decide":
                state.logins.update(json.loads(body))
                self._answer({})
            case _:
                self._answer({}, 404)

    def _answer_token(self, form: dict[str, list[str]]) -> None:
        state = self.state
        code = form["device_code"][0]
        became, _, later = state.logins.get(code, "expired_token").partition(" ")
        if became != "approved":
            state.logins[code] = later or became  # what the next answer is
            errors = {"pending": "authorization_pending"}
            self._answer({"error": errors.get(became, became)}, 400)
            return
        token = state.sign(state.build_claims(**state.login_claims))
        self._answer({"access_token": token, "refresh_token": "refresh-1", "expires_in": 600})

    def _answer(self, body: dict[str, Any], status: int = 200) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class IssuerProcess:
    """The issuer, running."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.oidc_issuer"], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def sign(self, kind: str = "rsa", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token; a claim of None is left out."""
        asked = {"kind": kind, "claims": claims, "header": header or {}}
        return str(self.steer("sign", asked)["token"])

    def count_fetches(self) -> int:
        return int(httpx.get(f"{self.url}/test/fetches", trust_env=False).json()["fetches"])

    def steer(self, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = httpx.post(f"{self.url}/test/{what}", json=body or {}, trust_env=False)
        found: dict[str, Any] = answer.json()
        return found


def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    _Handler.state = _State(f"http://127.0.0.1:{server.server_port}")
    sys.stdout.write(f"{_Handler.state.url}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
