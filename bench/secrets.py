"""How many secrets are found, plain and wrapped, how many look-alikes are touched, and how fast.

python -m bench.secrets [examples.json] [--show N]

`examples.json`: a list of {"rule", "kind": "tp" | "fp", "text", "secrets"}, made outside of this
repository from somebody else's examples. A secret counts as found where it is gone from the text.
An innocent of one rule may hold the secret of another: such figures stand apart from our own.
"""

import argparse
import base64
import hashlib
import html
import json
import quopri
import random
import string
import sys
import sysconfig
import textwrap
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.model import secrets
from agent_memory.kernel.errors import ContentBlocked
from bench import secret_contexts, secret_values, tables

PER_KIND = 50
GOAL_FOUND, GOAL_TOUCHED, GOAL_SPEED = 0.95, 0.0, 20.0
GOAL_WRAPPED = 0.98
SIZES = (128 << 10, 256 << 10, 512 << 10, 1 << 20)

LOWER, HEXDIGITS = string.ascii_lowercase, "0123456789abcdef"
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ALNUM = string.ascii_letters + string.digits


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORDS = _words(
    "user account session invoice order payment customer address profile report handler "
    "service manager factory builder parser token password secret cache index worker queue "
    "request response header cookie config client server stream buffer message event memory "
    "search vector window"
)
PLACEHOLDERS = (
    "YOUR_API_KEY",
    "your-api-key-here",
    "<token>",
    "<YOUR_TOKEN>",
    "${API_KEY}",
    "$API_KEY",
    "xxxx",
    "xxxxxxxxxxxxxxxx",
    "XXXXXXXXXXXXXXXXXXXXXXXX",
    "changeme",
    "change-me",
    "CHANGE_ME",
    "********",
    "{{ api_key }}",
    "%API_KEY%",
    "dummy",
    "example",
    "placeholder",
    "REPLACE_ME",
    "[REDACTED]",
    "<redacted>",
    "...",
    "null",
    "None",
    "true",
    "undefined",
    "$(cat token.txt)",
    "insert-key-here",
    "process.env.API_KEY",
    'os.environ["API_KEY"]',
    'os.getenv("API_KEY")',
    "env.API_KEY",
    "settings.API_KEY",
    "config.get('api_key')",
    "await getToken()",
    "self._token",
    "req.body.token",
    "secrets.API_KEY",
    "${{ secrets.API_KEY }}",
    "var.api_key",
    "!ref ApiKey",
    "&token",
    "token",
    "data.aws_secret.value",
    "${env:API_KEY}",
    "ENC[vault]",
    "0000000000000000",
    "sk-...",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "<your password>",
)
NAMES = _words(
    "api_key API_KEY apiKey token access_token AUTH_TOKEN password DB_PASSWORD "
    "client_secret secret secretKey"
)
FORMS = ('{n} = "{v}"', "{n}={v}", "{n}: {v}", '"{n}": "{v}"', "--{n} {v}", "export {n}={v}")

CODE = (
    "token = self._lexer.next_token()",
    "const token = await auth.getAccessToken();",
    "password: str = Field(min_length=8)",
    "def login(username: str, password: str) -> Session:",
    "if password != confirm_password:",
    "password = getpass.getpass()",
    "secret = hmac.new(key, message, hashlib.sha256)",
    "tokens = tokenizer.encode(text)",
    "max_tokens=4096, temperature=0.7",
    "total_tokens: 1234567",
    '{"type": "password", "name": "password", "required": true}',
    '<input type="password" name="password" placeholder="Enter your password">',
    'password: "Passwort"',
    '"password": "Please enter your password"',
    "interface Props { token: string; secret?: string }",
    "private readonly apiKey: string;",
    "apiKey: config.apiKey,",
    "token: TokenType.Identifier,",
    "case Token::OpenBrace => self.parse_block(),",
    "let key = cache_key(&request);",
    "map.set(key, value)",
    "for key, value in sorted(items.items()):",
    "PRIMARY KEY (id), FOREIGN KEY (user_id) REFERENCES users(id)",
    'key="user-profile-settings-page"',
    "secret_name: my-database-credentials",
    "secretName: tls-certificate-production",
    "valueFrom: { secretKeyRef: { name: db, key: password } }",
    "token_type: bearer",
    "grant_type=client_credentials",
    "The password must be at least 8 characters long.",
    "The token is invalid. Your password was changed.",
    "password is required, token is expired",
    "Forgot password? Reset password: we send a link.",
    "--password-stdin --token-file /run/secrets/token",
    "docker run -u 1000:1000 -p 8080:8080 nginx:1.25.3",
    "access_key_id and secret_access_key are read from the environment",
    "Authorization: Bearer <token>",
    'headers = {"Authorization": f"Bearer {token}"}',
    "-----BEGIN PUBLIC KEY-----",
    'if "-----BEGIN RSA PRIVATE KEY-----" in text:',
    "postgres://${USER}:${PASSWORD}@localhost:5432/app",
    "https://user@example.org:8443/path?x=1",
    "redis://localhost:6379/0",
    "git@github.com:owner/project.git",
    "public_key = ssh.load(path)",
    "pad_token_id=0, eos_token_id=50256",
    "csrf_token: {{ csrf_token() }}",
    "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "password=hashlib.sha256(raw).hexdigest()",
    "PasswordResetTokenExpiredExceptionHandlerFactoryBean",
)

DOCUMENTS = (
    "Passwort ist erforderlich. Das Passwort war falsch. Kennwort ist abgelaufen.",
    "Das Passwort für den Server ist im Tresor.",
    "Le mot de passe est obligatoire. Mot de passe : minimum 12 caractères",
    "La contraseña es obligatoria. contraseña: mínimo 8 caracteres",
    "A senha é obrigatória; la password è obbligatoria.",
    "密码是必填项。密码\uff1a不能为空",
    "パスワードは必須です。パスワード\uff1a半角英数字",
    "the password for the staging server is in the vault",
    "The token for this is rotated every week; the secret of success is work.",
    "echo $PASSWORD | docker login --username me --password-stdin",
    'echo "$DOCKER_TOKEN" | docker login -u "$USER" --password-stdin ghcr.io',
    "docker login -u <user> -p <password> registry.example",
    "docker run -p 8080:80 -it nginx; docker compose -p project up",
    "mkdir -p src/components && cp -p a b; ssh -p 2222 host; nmap -p 80,443 host",
    "mysql -u root -p app < dump.sql; mysqldump -p --all-databases",
    "zip -r backup.zip docs; unzip -P ${ZIP_PASSWORD} a.zip; sqlcmd -S host -P $PW",
    "redis-cli -h localhost -p 6379 ping; ldapsearch -x -W -b dc=example",
    "aws configure set region eu-central-1; aws configure set output json",
    "git config set user.name Jane; npm config set registry https://host.example/",
    "ENV NODE_ENV production\nENV PATH /usr/local/bin\nARG TOKEN\nARG API_KEY",
    "set password policy to strong; set the token as described above",
    "CREATE USER bob IDENTIFIED BY '<password>'; ALTER USER bob WITH PASSWORD '${PW}';",
    "src/app.py:5432:def:foo:bar\nREADME.md:12:a:b:c",
    "hostname:port:database:username:password",
    "htpasswd -c .htpasswd me; htpasswd -B -C 12 .htpasswd me",
    "hash = bcrypt.hashpw(pw, bcrypt.gensalt())  # $2b$12$...",
    "curl -u $USER:$TOKEN https://host.example/; curl --user me https://host.example/",
    "kubectl create secret generic db --from-literal=password=$PW",
    "gh secret set NPM_TOKEN --body $NPM_TOKEN",
    "openssl rsa -passin env:PW; openssl enc -pass file:pw.txt",
)


def _coloured(rng: random.Random) -> str:
    level, colour = rng.choice((("INFO", 32), ("WARN", 33), ("ERROR", 31)))
    return (
        f"\x1b[2m2024-05-0{rng.randrange(1, 9)}T08:09:10Z\x1b[0m \x1b[{colour}m{level}\x1b[0m "
        f"\x1b[1m{'.'.join(_some(rng, 3))}\x1b[0m: {_sentence(rng)} \x1b[36mid\x1b[0m="
        f"{uuid.UUID(int=rng.getrandbits(128), version=4)}"
    )


def _diff(rng: random.Random) -> str:
    old, new = _of(rng, HEXDIGITS, 7), _of(rng, HEXDIGITS, 7)
    name = "/".join(_some(rng, 3))
    return (
        f"\x1b[1mdiff --git a/{name}.py b/{name}.py\x1b[m\n\x1b[1mindex {old}..{new} 100644\x1b[m\n"
        f"\x1b[36m@@ -1,7 +1,7 @@\x1b[m\n\x1b[31m-{_camel(rng, 2)} = {_camel(rng, 3)}()\x1b[m\n"
        f"\x1b[32m+\x1b[m\x1b[32m{_camel(rng, 2)} = {_camel(rng, 4)}({_of(rng, '0123456789', 4)})"
    )


def _encoded_url(rng: random.Random) -> str:
    words = "%20".join(_some(rng, 4))
    target = f"https%3A%2F%2F{rng.choice(WORDS)}.example%2F{'%2F'.join(_some(rng, 3))}%3Fpage%3D2"
    return f"https://host.example/search?q={words}&redirect_uri={target}&state={_of(rng, LOWER, 6)}"


def _hex_dump(rng: random.Random) -> str:
    data = _sentence(rng).encode()[:48]
    return "\n".join(
        f"{at:08x}  {data[at : at + 16].hex(' ')}  |{data[at : at + 16].decode()}|"
        for at in range(0, len(data), 16)
    )


def _certificate(rng: random.Random) -> str:
    body = "MIID" + _encoded(rng, 700)
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----"


def _requirements(rng: random.Random) -> str:
    return "\n".join(
        f"{'-'.join(_some(rng, 3))}=={rng.randrange(9)}.{rng.randrange(30)}.{rng.randrange(9)}"
        for _ in range(6)
    )


def _wrapped_prose(rng: random.Random) -> str:
    return textwrap.fill(" ".join(_sentence(rng) for _ in range(4)), rng.choice((40, 60, 80)))


def _tree(rng: random.Random) -> str:
    return "\n".join(
        f"src/{'/'.join(_some(rng, 3))}/{'_'.join(_some(rng, 3))}.py" for _ in range(8)
    )


def _escaped_json(rng: random.Random) -> str:
    return json.dumps(json.dumps({"text": f"{_sentence(rng)} — ünïcödé \u2028", "token": None}))


def _page(rng: random.Random) -> str:
    return (
        f"<p class=&quot;{rng.choice(WORDS)}&quot;>{html.escape(_sentence(rng) + ' <&>')}"
        f"</p>&nbsp;&#8212;&#x2019; <code>password&nbsp;=&nbsp;&lt;your password&gt;</code>"
    )


def innocents(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Kinds of look-alikes, each with a text."""
    kinds: dict[str, Callable[[random.Random], str]] = {
        "git hash": lambda r: f"commit {_of(r, HEXDIGITS, 40)}\nAuthor: A. B.",
        "short hash": lambda r: f"fixed in {_of(r, HEXDIGITS, 7)}..{_of(r, HEXDIGITS, 8)}",
        "sha256": lambda r: f"sha256:{_of(r, HEXDIGITS, 64)}  {r.choice(WORDS)}.tar.gz",
        "md5": lambda r: f"{_of(r, HEXDIGITS, 32)}  {r.choice(WORDS)}.iso",
        "lock file": _lock_entry,
        "uuid": lambda r: f'"id": "{uuid.UUID(int=r.getrandbits(128), version=4)}"',
        "ulid": lambda r: f"event {_of(r, '01', 1)}{_of(r, CROCKFORD, 25)} stored",
        "base64 of prose": lambda r: base64.b64encode(_sentence(r).encode()).decode(),
        "base64 of an image": lambda r: f"data:image/png;base64,{_encoded(r, 300)}",
        "placeholder": lambda r: r.choice(FORMS).format(
            n=r.choice(NAMES), v=r.choice(PLACEHOLDERS)
        ),
        "code": lambda r: r.choice(CODE),
        "identifier": lambda r: (
            f"{_camel(r, 5)} = new {_camel(r, 6)}({_camel(r, 3)}.{_camel(r, 4)});"
        ),
        "constant": lambda r: f"{'_'.join(_some(r, 5)).upper()} = {'-'.join(_some(r, 4))!r}",
        "path": lambda r: f"key_file = /home/{'/'.join(_some(r, 4))}/{'_'.join(_some(r, 2))}.py:42",
        "url": lambda r: (
            f"https://{r.choice(WORDS)}.example.org/{'/'.join(_some(r, 3))}?page=3#top"
        ),
        "version": lambda r: (
            f"api-token-client=={r.randrange(9)}.{r.randrange(99)}.{r.randrange(99)}rc1"
        ),
        "phone": lambda r: (
            f"call +1 {r.randrange(200, 999)}-{r.randrange(200, 999)}-{_of(r, '0123456789', 4)}"
        ),
        "timestamp": lambda r: (
            f"at 2024-0{r.randrange(1, 9)}-1{r.randrange(9)}T08:09:10.123456Z, "
            f"{r.randrange(10**12, 2 * 10**12)}"
        ),
        "order id": lambda r: f"order #{_of(r, '123456789', r.choice((8, 10, 12)))} shipped",
        "minified": _minified,
        "public key": lambda r: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_of(r, ALNUM, 43)} me@host",
        "image digest": lambda r: f"FROM python@sha256:{_of(r, HEXDIGITS, 64)}",
        "etag": lambda r: f'ETag: W/"{_of(r, HEXDIGITS, 32)}"',
        "cache key": lambda r: f"cache_key: {_of(r, HEXDIGITS, 40)}",
        "named id": lambda r: f"user_id = {_of(r, ALNUM, 22)}; trace_id: {_of(r, HEXDIGITS, 32)}",
        "prose": _sentence,
        "documents": lambda r: r.choice(DOCUMENTS),
        "coloured log": _coloured,
        "coloured diff": _diff,
        "percent-encoded": _encoded_url,
        "hex dump": _hex_dump,
        "certificate": _certificate,
        "base64, 76 wide": lambda r: base64.encodebytes(r.randbytes(400)).decode(),
        "base64 of a page": lambda r: base64.encodebytes(_page(r).encode() * 3).decode(),
        "requirements": _requirements,
        "wrapped prose": _wrapped_prose,
        "list of files": _tree,
        "JSON in JSON": _escaped_json,
        "HTML": _page,
        "mail": lambda r: quopri.encodestring((_wrapped_prose(r) + " é = ü").encode()).decode(),
        "list of hashes": lambda r: "\n".join(_of(r, HEXDIGITS, 40) for _ in range(4)),
        "list of ids": lambda r: "\n".join(_of(r, ALNUM, 21) for _ in range(4)),
        "escaped bytes": lambda r: "".join(f"\\x{b:02x}" for b in r.randbytes(40)),
        "emoji": lambda r: f"{r.choice(WORDS)} 👩\u200d💻 ❤\ufe0f {_sentence(r)} 全角ＡＢＣ１２３",
    }
    for kind, make in kinds.items():
        for _ in range(PER_KIND):
            yield kind, make(rng)


def _of(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choices(alphabet, k=size))


def _some(rng: random.Random, count: int) -> list[str]:
    return rng.choices(WORDS, k=count)


def _camel(rng: random.Random, count: int) -> str:
    first, *others = _some(rng, count)
    return first + "".join(word.title() for word in others)


def _encoded(rng: random.Random, size: int) -> str:
    return base64.b64encode(rng.randbytes(size)).decode()


def _sentence(rng: random.Random) -> str:
    return f"The {' '.join(_some(rng, 9))} is not what the {' '.join(_some(rng, 4))} expects."


def _lock_entry(rng: random.Random) -> str:
    digest = base64.b64encode(hashlib.sha512(rng.randbytes(8)).digest()).decode()
    name = rng.choice(WORDS)
    url = f"https://packages.example/{name}/-/{name}-1.2.3.tgz"
    return f'"resolved": "{url}",\n"integrity": "sha512-{digest}"'


def _minified(rng: random.Random) -> str:
    names = [_of(rng, LOWER, 1) for _ in range(12)]
    parts = [
        f"var {a}=function({b}){{return {b}.key=={c}?{a}.token:{b}}}"
        for a, b, c in zip(names[::3], names[1::3], names[2::3], strict=True)
    ]
    return ";".join(parts) + f",o.keySelector={names[0]},e.auth=!0,t.password=n.value"


def prose() -> str:
    """Return the language reference, as `help()` shows it."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    return (folder / "pydoc_data" / "topics.py").read_text(encoding="utf-8")


def clean_text(size: int) -> str:
    """Ordinary code: the standard library."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    text, names = "", sorted(folder.glob("*.py"))
    for name in names:
        text += name.read_text(encoding="utf-8", errors="replace")
        if len(text) >= size:
            break
    return text[:size]


def hostile(size: int) -> Iterator[tuple[str, str]]:
    rng = random.Random(7)
    yield "password=", ("password=" * (size // 9))
    yield "token:token:", "token:" * (size // 6)
    yield "secret = x, values", 'secret="a b c" ' * (size // 15)
    yield "PEM headers", ("-----BEGIN RSA " + "PRIVATE KEY-----") * (size // 31)
    yield "a://b:c@", "a://b:c@" * (size // 8)
    yield "digits", _of(rng, "0123456789 -", size)
    yield "base64", _of(rng, ALNUM + "+/", size)
    yield "many passwords", "".join(f"pwd={_of(rng, ALNUM, 12)}\n" for _ in range(size // 17))
    yield "glued tokens", "".join("ghp_" + _of(rng, ALNUM, 36) + "." for _ in range(size // 41))
    yield "one long value", 'token="' + _of(rng, ALNUM, size - 8) + '"'
    yield "kind: Secret", "kind: Secret\n" * (size // 13)
    yield "quotes", "key='\"`" * (size // 7)
    yield "eyJ.eyJ", "eyJhbGciOi.eyJ" * (size // 14)
    yield "percent signs", "%25" * (size // 3)
    yield "colours", "x\x1b[31m" * (size // 6)
    yield "nulls", "a\0" * (size // 2)
    yield "backspaces", "a" * (size // 2) + "\b" * (size // 2)
    yield "lines of runs", "".join(f"{_of(rng, ALNUM, 40)}\n" for _ in range(size // 41))
    yield "base64 of names", base64.b64encode(b"token: ab " * (size // 14)).decode()
    yield "hex of names", (b"password=" * (size // 18)).hex()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("examples", nargs="?", type=Path)
    arguments.add_argument("--show", type=int, default=0, help="how many failures of each rule")
    options = arguments.parse_args()
    started = time.perf_counter()
    cleaner = Re2Filter(mode="redact")
    building = time.perf_counter() - started
    if options.examples:
        _examples(cleaner, json.loads(options.examples.read_text()), options.show)
    _wrapped(cleaner, options.show)
    _keys(cleaner, options.show)
    _placed(cleaner, options.show)
    _contexts(cleaner, options.show)
    _innocents(cleaner, options.show)
    _speed(cleaner, building)
    _linear(cleaner)


def _out(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _verdict(fine: bool) -> str:
    return "ok" if fine else "MISSED"


def _examples(cleaner: Re2Filter, rows: list[dict[str, Any]], show: int) -> None:
    missed, touched = defaultdict(list), defaultdict(list)
    counts = Counter(row["kind"] for row in rows)
    for row in rows:
        findings = cleaner.find(row["text"])
        cleaned = secrets.redact(row["text"], findings)
        if row["kind"] == "fp" and findings:
            touched[row["rule"]].append(cleaned)
        left = not findings or any(secret in cleaned for secret in row.get("secrets", ()))
        if row["kind"] == "tp" and left:
            missed[row["rule"]].append(row["text"])
    found = counts["tp"] - sum(map(len, missed.values()))
    hit = sum(map(len, touched.values()))
    share = found / counts["tp"]
    lines = [
        ("secrets found", f"{found}/{counts['tp']}", f"{share:.1%}", _verdict(share >= GOAL_FOUND)),
        ("innocents touched", f"{hit}/{counts['fp']}", f"{hit / counts['fp']:.1%}", ""),
    ]
    _out(tables.render("Examples of others", ("", "count", "share", "goal"), lines))
    for title, failed in (("missed", missed), ("touched", touched)):
        for rule, texts in sorted(failed.items(), key=lambda item: -len(item[1])):
            for text in texts[:show]:
                _out(f"{title} {rule} ({len(texts)}): {text[:200]!r}")


def _wrapped(cleaner: Re2Filter, show: int) -> None:
    """Every kind of token in every wrapping. A kind counts where it is seen through all of them."""
    samples = list(secret_values.tokens(random.Random(5)))
    left: dict[str, list[str]] = defaultdict(list)
    unseen: set[str] = set()
    for name, wrap in secret_values.WRAPPINGS.items():
        for sample in samples:
            text = f"see {wrap(sample.text)} there"
            cleaned = _cleaned(cleaner, text)
            if cleaned == text or secret_values.remains(sample.secret, cleaned):
                left[name].append(text)
                unseen.add(sample.text)
    count, forms = len(samples), len(secret_values.WRAPPINGS)
    missed = sum(map(len, left.values()))
    share = 1 - missed / (count * forms)
    whole = 1 - len(unseen) / count
    plain = 1 - len(left["plain"]) / count
    lines: list[tables.Row] = [
        (name, f"{count - len(left[name])}/{count}") for name in secret_values.WRAPPINGS
    ]
    lines += [
        (),
        ("plain", f"{plain:.1%} {_verdict(plain >= GOAL_WRAPPED)}"),
        ("all forms together", f"{share:.2%} {_verdict(share >= GOAL_WRAPPED)}"),
        ("kinds seen in all forms", f"{whole:.1%} {_verdict(whole >= GOAL_WRAPPED)}"),
    ]
    _out(tables.render("Tokens in wrappings", ("wrapping", "kinds found"), lines))
    for name, texts in left.items():
        for text in texts[:show]:
            _out(f"left {name}: {text[:200]!r}")


def _placed(cleaner: Re2Filter, show: int) -> None:
    samples = secret_values.passwords(random.Random(3))
    left = [s.text for s in samples if secret_values.remains(s.secret, _cleaned(cleaner, s.text))]
    keys = secret_values.private_keys(random.Random(4))
    kept = [key for key in keys if _cleaned(cleaner, key)]
    lines = [
        ("passwords by their place", f"{len(samples) - len(left)}/{len(samples)}"),
        ("keys without a header", f"{len(keys) - len(kept)}/{len(keys)}"),
    ]
    _out(tables.render("Forms", ("", "found"), lines))
    for text in (*left, *kept)[:show]:
        _out(f"left: {text[:200]!r}")


def _contexts(cleaner: Re2Filter, show: int) -> None:
    """Secrets that only their place tells."""
    counts: Counter[str] = Counter()
    left: dict[str, list[str]] = defaultdict(list)
    for sample in secret_contexts.samples():
        counts[sample.group] += 1
        if sample.secret in _cleaned(cleaner, sample.text):
            left[sample.group].append(sample.text)
    lines = [
        (group, f"{share:.1%}", _verdict(share >= goal))
        for group, goal in secret_contexts.GOALS.items()
        for share in [1 - len(left[group]) / counts[group]]
    ]
    _out(tables.render("Places", ("", "found", "goal"), lines))
    for group, texts in left.items():
        for text in texts[:show]:
            _out(f"left {group}: {text[:200]!r}")


def _keys(cleaner: Re2Filter, show: int) -> None:
    """Every kind of private key in every wrapping: refused."""
    keys = secret_values.whole_keys(random.Random(8))
    wrappings = secret_values.WRAPPINGS | secret_values.LINE_WRAPPINGS
    kept: dict[str, list[str]] = {
        name: [kind for kind, key in keys.items() if _cleaned(cleaner, f"see\n{wrap(key)}\nthere")]
        for name, wrap in wrappings.items()
    }
    count = len(keys) * len(wrappings)
    refused = count - sum(map(len, kept.values()))
    share = refused / count
    lines: list[tables.Row] = [
        (name, f"{len(keys) - len(kept[name])}/{len(keys)}") for name in wrappings
    ]
    lines += [(), ("all", f"{refused}/{count} = {share:.2%} {_verdict(share >= GOAL_WRAPPED)}")]
    _out(tables.render("Keys in wrappings", ("wrapping", "kinds refused"), lines))
    for name, kinds in kept.items():
        for kind in kinds[:show]:
            _out(f"kept {name}: {kind}")


def _cleaned(cleaner: Re2Filter, text: str) -> str:
    """Nothing, where it is refused."""
    with suppress(ContentBlocked):
        return cleaner.clean(text)
    return ""


def _innocents(cleaner: Re2Filter, show: int) -> None:
    counts, touched = Counter[str](), defaultdict(list)
    for kind, text in innocents(random.Random(6)):
        counts[kind] += 1
        findings = cleaner.find(text)
        if findings:
            touched[kind].append(secrets.redact(text, findings))
    lines: list[tables.Row] = [
        (kind, str(n), str(len(touched[kind]))) for kind, n in counts.items()
    ]
    total, hit = sum(counts.values()), sum(map(len, touched.values()))
    verdict = _verdict(hit / total <= GOAL_TOUCHED)
    lines += [(), ("all", str(total), f"{hit} = {hit / total:.2%} {verdict}")]
    _out(tables.render("Our own innocents", ("kind", "texts", "touched"), lines))
    for kind, texts in touched.items():
        for text in texts[:show]:
            _out(f"touched {kind}: {text[:200]!r}")


def _seconds(cleaner: Re2Filter, text: str, *, times: int) -> float:
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        cleaner.find(text)
        best = min(best, time.perf_counter() - started)
    return best


def _speed(cleaner: Re2Filter, building: float) -> None:
    text = clean_text(4 << 20)
    large = [text[at : at + (1 << 20)] for at in range(0, len(text) - (1 << 20) + 1, 1 << 20)]
    small = [text[at : at + 400] for at in range(0, len(text), 400)]
    seconds = sum(_seconds(cleaner, part, times=3) for part in large)
    speed = sum(map(len, large)) / seconds / 1e6
    written = prose()
    reading = len(written) / _seconds(cleaner, written, times=3) / 1e6
    started = time.perf_counter()
    for part in small:
        cleaner.find(part)
    each = (time.perf_counter() - started) / len(small)
    lines = [
        ("build the filter", f"{building * 1e3:.0f} ms", ""),
        ("code, 1 MiB at a time", f"{speed:.1f} MB/s", _verdict(speed >= GOAL_SPEED)),
        ("prose, 0.7 MB", f"{reading:.1f} MB/s", _verdict(reading >= GOAL_SPEED)),
        (
            "code, 400 characters at a time",
            f"{each * 1e6:.0f} us each",
            f"{400 / each / 1e6:.1f} MB/s",
        ),
    ]
    _out(tables.render("Speed on clean text", ("", "", "goal"), lines))


def _linear(cleaner: Re2Filter) -> None:
    rows = []
    by_name: dict[str, list[float]] = defaultdict(list)
    for size in SIZES:
        for name, text in hostile(size):
            by_name[name].append(_timed(cleaner, text))
    for name, times in by_name.items():
        growth = times[-1] / max(times[0], 1e-9)
        rows.append((name, *(f"{t * 1e3:.0f}" for t in times), f"{growth:.1f}"))
    head = ("hostile text", *(f"{size >> 10} KiB" for size in SIZES), "grows (8 is linear)")
    _out(tables.render("Milliseconds of CPU", head, rows))


def _timed(cleaner: Re2Filter, text: str) -> float:
    started = time.process_time()
    with suppress(ContentBlocked):
        cleaner.clean(text)
    return time.process_time() - started


if __name__ == "__main__":
    main()
