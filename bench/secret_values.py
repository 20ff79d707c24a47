"""Secrets of every kind, made at run time from what they look like, and wrapped as texts wrap them.

Nothing here is a secret, and no file holds one: a scanner finds nothing in this repository.
"""

import base64
import quopri
import random
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent_memory.features.secrets.adapters import patterns
from agent_memory.features.secrets.adapters.patterns import SecretRule

ALNUM = string.ascii_letters + string.digits


class _Shape:
    """Reads a pattern of a token and writes a text that it matches."""

    def __init__(self, pattern: str, rng: random.Random) -> None:
        self._pattern, self._at, self._rng = pattern, 0, rng

    def text(self) -> str:
        choices = [""]
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            if self._take("|"):
                choices.append("")
            else:
                choices[-1] += self._repeated()
        return self._rng.choice(choices)

    def _take(self, what: str) -> bool:
        if self._pattern.startswith(what, self._at):
            self._at += len(what)
            return True
        return False

    def _repeated(self) -> str:
        start = self._at
        first = self._one()
        end = self._at
        least, most = self._times()
        times = self._rng.randint(least, most)
        if times == 0:
            return ""
        made = [first]
        for _ in range(times - 1):
            again = _Shape(self._pattern[start:end], self._rng)
            made.append(again._one())
        return "".join(made)

    def _times(self) -> tuple[int, int]:
        if self._take("?"):
            return 0, 1
        if self._take("*"):
            return 0, 20
        if self._take("+"):
            return 1, 20
        if not self._take("{"):
            return 1, 1
        end = self._pattern.index("}", self._at)
        least, comma, most = self._pattern[self._at : end].partition(",")
        self._at = end + 1
        return int(least), int(most or int(least) + (12 if comma else 0))

    def _one(self) -> str:
        if self._take("(?:") or self._take("(?i:") or self._take("("):
            inside = self.text()
            self._at += 1
            return inside
        if self._take("["):
            return self._rng.choice(self._class())
        char = self._pattern[self._at]
        self._at += 1
        if char == "\\":
            escaped = self._pattern[self._at]
            self._at += 1
            return "" if escaped == "b" else escaped
        return char

    def _class(self) -> str:
        found = ""
        while not self._take("]"):
            char = self._plain()
            if self._pattern[self._at] == "-" and self._pattern[self._at + 1] != "]":
                self._at += 1
                found += "".join(map(chr, range(ord(char), ord(self._plain()) + 1)))
            else:
                found += char
        return found

    def _plain(self) -> str:
        self._take("\\")
        self._at += 1
        return self._pattern[self._at - 1]


@dataclass(frozen=True, slots=True)
class Sample:
    """`secret` is what may not be left of `text`."""

    kind: str
    text: str
    secret: str


def tokens(rng: random.Random) -> Iterator[Sample]:
    """One token of each rule for providers' tokens."""
    for rule in patterns.PROVIDER_RULES:
        if rule.begins:
            text = _token(rule, rng)
            yield Sample(rule.kind, text, text)


def _token(rule: SecretRule, rng: random.Random) -> str:
    body = rule.pattern.removeprefix(patterns.START)
    for _ in range(1000):
        made = _Shape(body, rng).text()
        if rule.check(made):
            return made
    raise ValueError(rule.kind)


def _of(rng: random.Random, size: int, alphabet: str = ALNUM) -> str:
    return "".join(rng.choices(alphabet, k=size))


# ---- wrappings ----

Wrap = Callable[[str], str]


def _inside(what: str, every: int = 7) -> Wrap:
    return lambda text: what.join(text[at : at + every] for at in range(0, len(text), every))


def _each(code: Callable[[str], str]) -> Wrap:
    return lambda text: "".join(map(code, text))


def _json(text: str) -> str:
    return text.replace("=", "\\u003d").replace('"', "\\u0022").replace("_", "\\u005f")


WRAPPINGS: dict[str, Wrap] = {
    "plain": lambda text: text,
    "colour": lambda text: f"\x1b[31m{text}\x1b[0m",
    "256 colours": lambda text: f"\x1b[38;5;196m{text}\x1b[39m",
    "bold, glued": lambda text: f"log\x1b[1m{text}\x1b[0m",
    "grep": lambda text: f"\x1b[01;31m\x1b[K{text}\x1b[m\x1b[K",
    "colour inside": _inside("\x1b[0m\x1b[33m", 9),
    "colour as text": lambda text: f"\\x1b[31m{text}\\x1b[0m",
    "colour as octal": lambda text: f"\\033[31m{text}\\033[0m",
    "colour in JSON": lambda text: f"\\u001b[31m{text}\\u001b[0m",
    "title": lambda text: f"\x1b]0;build\x07{text}",
    "link": lambda text: f"\x1b]8;;https://host.example/\x1b\\{text}\x1b]8;;\x1b\\",
    "after %3D": lambda text: f"x%3D{text}",
    "after %22": lambda text: f"%22{text}%22",
    "percent": _each(lambda c: c if c.isalnum() else f"%{ord(c):02X}"),
    "percent, all": _each(lambda c: f"%{ord(c):02x}"),
    "percent twice": _each(lambda c: c if c.isalnum() else f"%25{ord(c):02X}"),
    "after \\u003d": lambda text: f"x\\u003d{text}",
    "JSON": _json,
    "JSON in JSON": lambda text: f"\\\\u003d{_json(text)}",
    "JSON, all": _each(lambda c: f"\\u{ord(c):04x}"),
    "after \\x3d": lambda text: f"x\\x3d{text}",
    "C, all": _each(lambda c: f"\\x{ord(c):02x}"),
    "octal, all": _each(lambda c: f"\\{ord(c):03o}"),
    "after &#61;": lambda text: f"x&#61;{text}",
    "HTML quotes": lambda text: f"&quot;{text}&quot;",
    "HTML, all": _each(lambda c: f"&#x{ord(c):x};"),
    "HTML twice": lambda text: f"&amp;quot;{text}&amp;quot;",
    "zero-width around": lambda text: f"log\u200b{text}\u200b",
    "zero-width inside": _inside("\u200d"),
    "soft hyphens": _inside("\u00ad", 5),
    "word joiners": _inside("\u2060", 11),
    "byte order mark": lambda text: f"x\ufeff{text}",
    "wide": _each(lambda c: chr(ord(c) + 0xFEE0) if c.isalnum() or c == "_" else c),
    "bold letters": _each(
        lambda c: chr(0x1D41A + ord(c) - 97) if "a" <= c <= "z" else c,
    ),
    "overstruck": _each(lambda c: f"{c}\b{c}" if c.isalnum() else c),
    "corrected": lambda text: f"{text[:6]}x\b{text[6:]}",
    "nulls": _inside("\0", 1),
    "backslash, line end": _inside("\\\n", 20),
    "quoted-printable": lambda text: quopri.encodestring(
        f"{'x' * 50} {text}".encode(), quotetabs=True
    ).decode(),
    "broken in two": lambda text: f"{text[: len(text) // 2]}\n{text[len(text) // 2 :]}",
    "broken early": lambda text: f"{text[:9]}\n{text[9:]}",
    "terminal of 80": lambda text: _folded(f"{'x' * 61} {text}", 80),
    "broken at 64": lambda text: _folded(text, 64),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of a line": lambda text: base64.b64encode(f"TOKEN={text}\n".encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(f"?k={text}".encode()).decode(),
    "base64, 76 wide": lambda text: base64.encodebytes(f"a line\nk: {text}\n".encode()).decode(),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "hex": lambda text: text.encode().hex(),
    "Markdown": lambda text: text.replace("_", "\\_"),
}


def _lines(before: str, after: str = "") -> Wrap:
    """Each line between these; `{n}` is its number."""
    return lambda text: "\n".join(
        f"{before.replace('{n}', str(number))}{line}{after}"
        for number, line in enumerate(text.split("\n"), 1)
    )


def _highlighted(what: str) -> Wrap:
    return lambda text: text.replace(what, f"\x1b[01;31m\x1b[K{what}\x1b[m\x1b[K")


_GREY = "\x1b[38;5;238m"
# How tools show the lines of a file.
LINE_WRAPPINGS: dict[str, Wrap] = {
    "git diff": _lines("+"),
    "git diff, removed": _lines("-"),
    "git diff, coloured": _lines("\x1b[32m+\x1b[m\x1b[32m", "\x1b[m"),
    "git diff, coloured once": _lines("\x1b[32m+", "\x1b[m"),
    "git diff, coloured, removed": _lines("\x1b[31m-", "\x1b[m"),
    "git blame": _lines("1a2b3c4d (Jane 2024-05-06 07:08:09 +0000 {n}) "),
    "grep -n": _lines("{n}:"),
    "grep -rn": _lines("keys/id.pem:{n}:"),
    "grep -rn -C": _lines("keys/id.pem-{n}-"),
    "grep -n, coloured": _lines("\x1b[32m{n}\x1b[m\x1b[36m:\x1b[m"),
    "grep -n, coloured to the end": _lines(
        "\x1b[32m\x1b[K{n}\x1b[m\x1b[K\x1b[36m\x1b[K:\x1b[m\x1b[K"
    ),
    "grep -C, headers coloured": _highlighted("PRIVATE"),
    "cat -n": _lines("     {n}\t"),
    "bat, plain": _lines("{n} │ "),
    "bat": _lines(f"{_GREY}{{n}}\x1b[0m {_GREY}│\x1b[0m \x1b[38;5;231m", "\x1b[0m"),
    "coloured lines": _lines("\x1b[32m", "\x1b[0m"),
    "coloured starts": _lines("\x1b[32m"),
    "coloured ends": _lines("", "\x1b[0m"),
    "coloured numbers, glued": _lines("\x1b[2m{n}\x1b[0m"),
    "coloured lines as text": _lines("\\x1b[32m", "\\x1b[0m"),
    "erased lines": _lines("\x1b[K"),
    "erased ends": _lines("", "\x1b[K"),
    "every other line coloured": lambda text: "\n".join(
        f"\x1b[2m{line}\x1b[0m" if number % 2 else line
        for number, line in enumerate(text.split("\n"))
    ),
    "quoted mail": _lines("> "),
    "zero-width starts": _lines("\u200b"),
    "compose log": _lines("\x1b[36mapp-1  | \x1b[0m"),
    "log": _lines("2024-05-06T07:08:09Z app[{n}]: "),
    "strings of code": _lines('    "', '\\n"'),
    "strings of JSON": lambda text: text.replace("\n", "\\n"),
    "strings of JSON in JSON": lambda text: text.replace("\n", "\\\\n"),
    "line ends of Windows": lambda text: text.replace("\n", "\r\n"),
    "indented": _lines("        "),
    "comments": _lines("# "),
    "HTML lines": _lines('<span class="l">', "</span>"),
    "HTML breaks": _lines("", "<br>"),
}


def _folded(text: str, width: int) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


def remains(secret: str, text: str, size: int = 8) -> bool:
    """Whether some of a secret is left in a text beside the markers."""
    text = re.sub(r"\[REDACTED:[^\]]*\]", "\0", text)
    pieces = [secret[at : at + size] for at in range(4, max(5, len(secret) - size))]
    return any(piece in text for piece in pieces)


# ---- by their place ----


def passwords(rng: random.Random) -> list[Sample]:
    """Forms of commands, files and sentences that say what a password is."""
    value = "Hx7" + _of(rng, 13)
    key = "w9" + _of(rng, 38)
    salt, crypt = _of(rng, 8), _of(rng, 53)
    forms = [
        ("aws configure set aws_secret_access_key {}", key),
        ("aws configure set profile.dev.aws_session_token {} --profile x", key),
        ("echo {} | docker login --username me --password-stdin registry.example", value),
        ("echo '{}' | sudo -S apt update", value),
        ("printf '%s' {} | gh auth login --with-token", key),
        ("docker login registry.example --password-stdin <<< '{}'", value),
        ("docker login -u me -p {} registry.example", value),
        ("sqlcmd -S host -U sa -P {} -Q 'select 1'", value),
        ("mysql -u root -p{} app", value),
        ("mysqldump -p{} app", value),
        ("PGPASSWORD={} psql -h db", value),
        ("SSHPASS={} sshpass -e ssh host", value),
        ("sshpass -p {} ssh host", value),
        ("localhost:5432:app:me:{}", value),
        ("db.example.org:*:*:me:{}\n*:*:*:other:x", value),
        ("htpasswd -b .htpasswd me {}", value),
        ("htpasswd -nbB me {}", value),
        ("htpasswd -cb /etc/nginx/.htpasswd me '{}'", value),
        ("me:{}", f"$apr1${salt}${crypt[:22]}"),
        ("me:{}\nyou:x", f"$2y$10${crypt}"),
        ("root:{}:19000:0:99999:7:::", f"$6${salt}${crypt}{crypt[:33]}"),
        ("curl -u me:{} https://host.example/", value),
        ("redis-cli -h host -a {} ping", value),
        ("ldapsearch -x -D cn=admin -w {} -b dc=example", value),
        ("CREATE USER bob IDENTIFIED BY '{}';", value),
        ("ALTER ROLE bob WITH PASSWORD '{}';", value),
        ("openssl rsa -in key.pem -passin pass:{}", value),
        ("keytool -list -storepass {}", value),
        ("net user bob {} /add", value),
        ("xfreerdp /v:host /u:me /p:{}", value),
        ("gh secret set TOKEN --body {}", key),
        ("setx API_TOKEN {}", key),
        ("ENV API_KEY {}", key),
        ("Passwort ist {}", value),
        ("Das Passwort für den Server lautet {}", value),
        ("das Kennwort war: {}", value),
        ("le mot de passe est {}", value),
        ("Mot de passe : {}", value),
        ("la contraseña es {}", value),
        ("contraseña: {}", value),
        ("la password è {}", value),
        ("a senha é {}", value),
        ("senha={}", value),
        ("密码是{}", value),
        ("密码\uff1a{}", value),
        ("パスワードは{}", value),
        ("пароль: {}", value),
        ("the password for root is {}", value),
    ]
    return [Sample("password", form.format(secret), secret) for form, secret in forms]


def private_keys(rng: random.Random) -> list[str]:
    """Bodies of keys that have lost their first line, and one that has kept its last."""
    lines = ["".join(rng.choices(ALNUM + "+/", k=64)) for _ in range(8)]
    body = "\n".join(lines)
    starts = (
        "MIIEpAIBAAKCAQEA",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
        "MHcCAQEEI",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU",
    )
    ended = f"{body}\n-----END RSA {'PRIVATE'} KEY-----"
    return [*(f"{start}{body}" for start in starts), f"MC4CAQAwBQYDK2VwBCIEI{lines[0][:43]}", ended]


def whole_keys(rng: random.Random) -> dict[str, str]:
    """Make a private key of each kind, with its first and last line."""

    def key(label: str, start: str, size: int, head: str = "") -> str:
        body = _folded(start + _of(rng, size, ALNUM + "+/"), 64)
        name = f"{label}{' ' if label else ''}{'PRIVATE'} KEY"
        name += " BLOCK" if label == "PGP" else ""
        return f"-----BEGIN {name}-----\n{head}{body}\n-----END {name}-----"

    lines = _folded(_of(rng, 200, ALNUM + "+/"), 64)
    return {
        "RSA": key("RSA", "MIIEpAIBAAKCAQEA", 1600),
        "RSA, 4096 bits": key("RSA", "MIIJKAIBAAKCAgEA", 3100),
        "RSA, encrypted": key(
            "RSA", "", 1600, "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0011223344\n\n"
        ),
        "PKCS8": key("", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", 1590),
        "PKCS8, Ed25519": key("", "MC4CAQAwBQYDK2VwBCIEI", 43),
        "PKCS8, EC": key("", "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg", 136),
        "PKCS8, encrypted": key("ENCRYPTED", "MIIFLTBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQww", 1700),
        "EC": key("EC", "MHcCAQEEI", 155),
        "DSA": key("DSA", "MIIDVgIBAAKCAQEA", 1100),
        "OpenSSH": key("OPENSSH", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ", 340),
        "PGP": key("PGP", "lQPGBGY", 1800, "Version: GnuPG v2\n\n"),
        "PuTTY": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\n"
        f"Public-Lines: 1\n{_of(rng, 64)}\n{'Private'}-Lines: 4\n{lines}\n{'Private'}-MAC: 0f",
    }
