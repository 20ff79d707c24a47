"""Secrets: findings, their redaction, and rules that tell secrets from look-alikes.

An adapter searches for candidates; the rules here decide about them.
"""

import base64
import binascii
import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

WITHHELD = "[withheld by the secrets filter]"

SecretsMode = Literal["redact", "block", "warn"]
SecretOutcome = Literal["redacted", "blocked", "kept"]

PRIVATE_KEY = "private-key"
CARD = "card-number"
SSN = "us-ssn"

_MARK, _MARK_END = "[REDACTED:", "]"
_SALT, _ROUNDS = b"agent-memory/name", 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A secret at [start, end) of a text, without the secret itself."""

    kind: str
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A finding as it is reported, without a hash: the hash of a short password can be guessed."""

    kind: str
    length: int
    where: str
    outcome: SecretOutcome


def decide_outcome(kind: str, mode: SecretsMode) -> SecretOutcome:
    if mode == "warn":
        return "kept"
    if mode == "block" or kind == PRIVATE_KEY:
        return "blocked"
    return "redacted"


def format_marker(kind: str) -> str:
    """Return the marker that replaces a secret."""
    return f"{_MARK}{kind}{_MARK_END}"


def format_name_marker(kind: str, secret: str) -> str:
    """Return the marker that replaces a secret in a name.

    Equal secrets give equal markers, so that records with that name stay together. The hash is
    slow to compute, so that the secret cannot be guessed from it.
    """
    digest = hashlib.pbkdf2_hmac("sha256", secret.encode("utf-8", "replace"), _SALT, _ROUNDS, 8)
    return f"{_MARK}{kind}:{digest.hex()}{_MARK_END}"


def redact_name(name: str, findings: Sequence[Finding], limit: int) -> str:
    """Return a name of at most `limit` characters without its secrets."""
    pieces, end = [], 0
    for finding in findings:
        pieces += [
            name[end : finding.start],
            format_name_marker(finding.kind, name[finding.start : finding.end]),
        ]
        end = finding.end
    redacted = "".join([*pieces, name[end:]])
    return redacted if len(redacted) <= limit else format_name_marker(findings[0].kind, name)


def is_marked(text: str) -> bool:
    """Return whether the text has something like a marker."""
    return _MARK in text


def redact(text: str, findings: Sequence[Finding]) -> str:
    """Return the text with a marker for each finding; findings are in order, without overlaps."""
    pieces, end = [], 0
    for finding in findings:
        pieces += [text[end : finding.start], format_marker(finding.kind)]
        end = finding.end
    return "".join([*pieces, text[end:]])


# ---- numbers ----


def is_card_number(digits: str) -> bool:
    """Return whether this may be a card number, by issuer prefix, length and Luhn checksum."""
    return _has_issuer(digits) and is_luhn_valid(digits)


def is_luhn_valid(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) << (place & 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _has_issuer(digits: str) -> bool:
    size, two, three, four = len(digits), digits[:2], digits[:3], digits[:4]
    if len(set(digits)) < 2:
        return False
    if two in ("34", "37"):  # American Express
        return size == 15
    if two in ("36", "38") or "300" <= three <= "305":  # Diners Club
        return size == 14
    if digits[:1] == "4":  # Visa
        return size in (13, 16, 19)
    if "51" <= two <= "55" or "2221" <= four <= "2720":  # Mastercard
        return size == 16
    if four == "6011" or two == "65" or "644" <= three <= "649" or two == "62":
        return 16 <= size <= 19  # Discover, UnionPay
    return "3528" <= four <= "3589" and size == 16  # JCB


def is_ssn(digits: str) -> bool:
    """Return whether nine digits are in the range of issued US social security numbers."""
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


# ---- shapes ----


_LETTERS = re.compile("[A-Za-z]+")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PAIRS = frozenset(
    first + second
    for first, seconds in (
        entry.split(":")
        for entry in [
            "a:bcdgiklmnprstuvwxy",
            "b:aeilorsuy",
            "c:acehiklorstu",
            "d:adeilorsu",
            "e:abcdefgilmnoprstvwxy",
            "f:aefilorstu",
            "g:aehilnorsu",
            "h:aeiort",
            "i:abcdefglmnoprstvxz",
            "k:eis",
            "l:adeilostuy",
            "m:abeimopsu",
            "n:acdefgiklnopstuv",
            "o:abcdfgiklmnoprstuvw",
            "p:aeiloprstuy",
            "q:u",
            "r:acdefgiklmnoprstuy",
            "s:acehiklopstuy",
            "t:acdefhilmoprstuy",
            "u:abcefgilmnprst",
            "v:aei",
            "w:aeinor",
            "x:eipt",
            "y:npst",
            "z:e",
        ]
    )
    for second in seconds
)  # 93% of the letter pairs in the words of programs and their documents; 38% of random ones

_READ = 256  # longer values are judged by their beginning

_EAST_ASIAN = "\u2e80"  # this and later characters do not begin a password
_HEX = frozenset("0123456789abcdefABCDEF")
_DIGITS = frozenset("0123456789")
_STRONG_MARKS = frozenset("!#$%&*?@~")  # in passwords, seldom in names
_FOREIGN = frozenset("()[]{}<>^|,;\"'`\u2026")  # in code and patterns, never in a token

_PLACEHOLDER_WORDS = _words(
    "example placeholder changeme change_me change-me changeit dummy redacted replace your "
    "insert sample todo fixme xxxx **** #### masked hidden omitted put_ enter_ _here -here "
    "goeshere secret_key some_ any_"
)
_MADE_UP_WORDS = _words("fake mock foo bar test demo secret passw token my- my_")
_NOT_VALUES = frozenset(
    _words(
        "true false null none nil undefined yes no on off string str text bytes int integer "
        "number boolean bool object any unknown void optional required hidden default empty "
        "missing invalid incorrect wrong expired valid secret password passwd passphrase "
        "passwort token username user email name value basic bearer oauth oauth2 jwt ldap "
        "enabled disabled changed updated reset forgot confirm current new old repeat weak "
        "strong medium prompt plain plaintext hash hashed encrypted keyring keychain vault env "
        "file stdin interactive ask asked auto random generated internal external public "
        "private protected static final const readonly self this confirmation validation "
        "authentication authorization permission identifier literal keyword operator "
        "punctuation comment variable function parameter description placeholder"
    )
)
_EXPRESSIONS = _words(
    "process.env os.environ os.getenv env. self. this. settings. config. secrets."
)
_VARIABLE_WORDS = _words(
    "pass pwd user param arg value input token secret key str text field hash sha md utf "
    "base int char float oauth crypt argon kdf http var test row col item obj"
)


def compute_entropy(value: str) -> float:
    """Return the Shannon entropy of the characters, in bits per character."""
    size = len(value)
    counts = Counter(value).values()
    return -sum(n / size * math.log2(n / size) for n in counts)


def is_readable(value: str) -> bool:
    """Return whether the value is made of words, like names, paths and prose, not at random."""
    pairs = known = turns = 0
    value = value[:_READ]
    for first, second in pairwise(value):
        if first.isalpha() and second.isalpha():
            if first.islower() and second.isupper():
                turns += 1
            else:
                pairs += 1
                known += (first + second).lower() in _PAIRS
        elif first.isalnum() and second.isalnum() and not (first.isdigit() and second.isdigit()):
            turns += 1
    return known >= 0.7 * pairs and turns <= len(value) / 5 and pairs > 0


def is_dummy(value: str) -> bool:
    """Return whether the value is a placeholder for a secret: xxxx, <token>, YOUR_KEY, ${KEY}."""
    low = value[:_READ].lower()
    if len(set(low.strip("-_. "))) <= max(2, min(4, len(low) // 8)):
        return True
    if Counter(low).most_common(1)[0][1] > len(low) / 2 or any(
        w in low for w in _PLACEHOLDER_WORDS
    ):
        return True
    return is_reference(value)


def is_reference(value: str) -> bool:
    """Return whether the value is a reference: ${VAR}, $VAR, {{ var }}, %VAR%, <var>, [VAR]."""
    first, last = value[:1], value[-1:]
    if _MARK in value or "${" in value or "{{" in value or "$(" in value or "<%" in value:
        return True
    if (first, last) in (("<", ">"), ("{", "}"), ("[", "]"), ("%", "%"), ("@", "@"), ("(", ")")):
        return True
    if value.endswith("..."):
        return True
    if first == "$":
        name = value[1:].removeprefix("env:")
        return name.replace("_", "").isalpha() and (name.isupper() or name.islower())
    return first in ("<", "%") and len(value) < 4


def is_uuid(value: str) -> bool:
    parts = value.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and all(map(is_hex, parts))


def is_hex(value: str) -> bool:
    return _HEX.issuperset(value)


def is_digest(value: str) -> bool:
    """Return whether the value looks like a checksum or an id: hex of a usual length, or UUID."""
    bare = value.removeprefix("sha256:").removeprefix("sha1:")
    return is_uuid(bare) or (len(bare) in (32, 40, 56, 64, 96, 128) and is_hex(bare))


def is_number(value: str) -> bool:
    """Return whether the value is a numeric literal such as 0x3f879678 or -12.5e6."""
    bare = value.lstrip("+-").lower()
    if bare.startswith("0x"):
        return len(bare) <= 18 and is_hex(bare[2:])
    return len(bare) < 14 and all(c in "0123456789._e+-" for c in bare) and bare[:1].isdigit()


def is_path(value: str) -> bool:
    if "://" in value or value.startswith(("./", "../", "~/", "C:\\", "@/")):
        return True
    pieces = [piece for piece in value.replace("\\", "/").split("/") if piece]
    return len(pieces) > 1 and all(is_readable(piece) or len(piece) < 3 for piece in pieces)


def is_code(value: str) -> bool:
    """Return whether the value is an expression: a name, an attribute or a call."""
    if value[-1:] in ("(", "[") or "()" in value or "](" in value or "=>" in value:
        return True
    if "==" in value.rstrip("=") or value.startswith(
        ("process.env", "os.environ", "os.getenv", "env.", "self.", "this.")
    ):
        return True
    pieces = (
        value.strip("*&!?.:").replace("->", ".").replace("::", ".").replace("?.", ".").split(".")
    )
    return all(_is_name(piece) for piece in pieces)


def _is_name(piece: str) -> bool:
    bare = piece.lstrip("$").replace("_", "").replace("-", "")
    if not bare or not bare.isalnum() or bare[0].isdigit():
        return False
    return is_readable(bare) or len(bare) < 3


def is_encoded_private_key(value: str) -> bool:
    """Return whether the value is base64 of a PEM block with a private key."""
    try:
        start = base64.b64decode(value[:64])
    except (binascii.Error, ValueError):
        return False
    return b"PRIVATE KEY" in start


def is_base64(value: str) -> bool:
    try:
        return len(value) % 4 == 0 and bool(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return False


# ---- values of names ----


def is_token(value: str) -> bool:
    """Return whether the value of something called a token or key is a secret."""
    if len(value) < 8 or not _FOREIGN.isdisjoint(value) or _is_spaced(value) or _is_escaped(value):
        return False
    if value.isalpha():
        return _is_long_random(value)
    if is_dummy(value) or is_number(value):
        return False
    if is_digest(value):
        return True
    if is_path(value):
        return False
    if _DIGITS.issuperset(value):
        return len(value) >= 14
    return is_jumbled(value) or not (
        _is_made_up(value) or is_readable(value) or is_code(value) or _is_moment(value)
    )


def is_key(value: str) -> bool:
    """Return whether the value is a key where hardly anything else stands: long, and no name."""
    return len(value) >= 12 and is_token(value)


def is_jumbled(value: str) -> bool:
    """Return whether letters and digits alternate as in no name, word or version.

    It needs no name before it: `the password X` says as much as `the password v2`.
    """
    value = value[:_READ]
    if len(value) < 8 or not _FOREIGN.isdisjoint(value) or _is_escaped(value):
        return False
    turns = cases = 0
    for first, second in pairwise(value):
        if first.isalpha() and second.isalpha():
            cases += first.isupper() != second.isupper()
        else:
            turns += first.isalnum() and second.isalnum() and first.isdigit() != second.isdigit()
    marks = sum(not c.isalnum() for c in value)
    is_mixed = 3 * cases >= len(value) or (cases > 1 and not _STRONG_MARKS.isdisjoint(value))
    if turns < 3 and not (is_mixed and any(map(str.isdigit, value))):
        return False
    if marks > len(value) / 6:
        return False
    if turns * 4 < len(value) and not {".", ":", "/"}.isdisjoint(value):  # a compound name
        return False
    words = [word for word in _LETTERS.findall(value) if len(word) > 2]
    if sum(map(len, words)) * 2 >= len(value) and all(map(is_readable, words)):
        return False
    if value.startswith("01") and value.isupper():  # a ULID: the id of an event
        return False
    return not (is_dummy(value) or is_path(value) or is_number(value) or _is_moment(value))


def _is_escaped(value: str) -> bool:
    return "\\" in value and any("\\" + c in value for c in "wdsbxnu.\\")


def _is_long_random(value: str) -> bool:
    cases = sum(a.isupper() != b.isupper() for a, b in pairwise(value[:_READ]))
    return (
        len(value) >= 16
        and value.isalpha()
        and (5 * cases >= 2 * len(value) or not is_readable(value))
        and not is_dummy(value)
        and compute_entropy(value) >= 2.8
    )


def is_password(value: str, *, quoted: bool) -> bool:
    """Return whether the value of something called a password is one.

    Without quotes it may be a word or code.
    """
    low = value.lower()
    if len(value) < (4 if quoted else 6) or _is_spaced(value) or low in _NOT_VALUES:
        return False
    if value[0] in "+,)]}\\" or "(?" in value or value.endswith(("...", "\u2026")):
        return False
    if is_dummy(value) or "://" in value or value.startswith(("./", "../", "~/")):
        return False
    if quoted:
        return not value.startswith(_EXPRESSIONS) and not (
            _is_label(value.removeprefix("&")) or value.endswith(("(", ":")) or "()" in value
        )
    if _DIGITS.issuperset(value):
        return True
    if value[0] >= _EAST_ASIAN:  # a sentence in a script without blanks
        return False
    bare = value.rstrip(".!?:*")
    if bare.isalpha() and _is_jumbled(bare):
        return True
    if _is_phrase(bare) or is_path(value):
        return False
    return not (_is_numbered_name(bare) if bare.isidentifier() else is_code(value))


def _is_jumbled(value: str) -> bool:
    """Return whether the letters and their cases are in random order, unlike in any name."""
    inner = value[1:]
    low = value.lower()
    known = sum(first + second in _PAIRS for first, second in pairwise(low))
    return (
        len(value) >= 10
        and value.isascii()
        and inner != inner.lower()
        and inner != inner.upper()
        and known < (len(value) - 1) / 2
    )


def _is_numbered_name(value: str) -> bool:
    """Return whether this is a variable such as password2 or user_input_1; hunter2 is not."""
    stem = value.rstrip("0123456789").lower()
    return "_" in stem.strip("_") or (
        stem.isalpha() and any(word in stem for word in _VARIABLE_WORDS)
    )


def _is_label(value: str) -> bool:
    """Return whether this is a caption or a field name: Passwort, user-password, db.password."""
    if value.isalpha():
        return value.istitle() or value.isupper() or len(value) < 6
    return _is_phrase(value) and (value.islower() or value.isupper()) and is_readable(value)


def _is_phrase(value: str) -> bool:
    return all(c.isalpha() or c in "-_.:/" for c in value)


def is_random(value: str, *, quoted: bool = True) -> bool:
    """Return whether the value is almost certainly a secret, if its name hints at one.

    Without quotes it may be the name of something else.
    """
    return (
        (quoted or not value.isidentifier() or _digit_runs(value) > 2)
        and len(value) >= 16
        and any(c in _DIGITS for c in value)
        and any(c.isalpha() for c in value)
        and not is_digest(value)
        and is_token(value)
        and compute_entropy(value) >= 3.2
    )


def is_scrap(value: str) -> bool:
    """Return whether the value may be the rest of a token: random, and no word or hash."""
    mixed = any(c.isdigit() for c in value) or not (value.islower() or value.isupper())
    return (
        len(value) >= 6
        and mixed
        and any(c.isalpha() for c in value)
        and not (is_hex(value) or is_uuid(value) or is_readable(value) or value.istitle())
    )


def _digit_runs(value: str) -> int:
    return sum(second in _DIGITS and first not in _DIGITS for first, second in pairwise(value))


def _is_made_up(value: str) -> bool:
    """Return whether the value is short and made of test words: my-token, test_secret_1."""
    low = value.lower()
    return len(value) < 24 and any(word in low for word in _MADE_UP_WORDS) and is_readable(value)


def _is_moment(value: str) -> bool:
    """Return whether the value is a date or a version: 2024-05-06T07:08:09Z, 1.2.3-rc4."""
    digits = sum(c in _DIGITS for c in value)
    return all(c in "0123456789.-:TZ+v" for c in value) and digits < len(value)


def _is_spaced(value: str) -> bool:
    return value.split() != [value]
