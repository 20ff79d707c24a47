"""Finds secrets in bytes with RE2: which rules may apply, then those alone, then a judgement.

RE2 takes time in proportion to the text, whatever it holds. Python looks only at what RE2 found,
and at a bounded piece of text around it.
"""

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import re2

from agent_memory.adapters.secrets import patterns
from agent_memory.adapters.secrets.patterns import Rule
from agent_memory.domain import secrets

MEMORY = (
    64 << 20
)  # for the states of an automaton; where it is short RE2 starts over and slows down
NAME_REACH = 48
VALUE_REACH = 256
NESTED = 8
COMMAND_REACH = 600
DOCUMENT_REACH = 16 << 10
KEY_REACH = 32 << 10
KEY_MATERIAL = 40  # base64 characters; with fewer it is a text about keys
SHORT_KEY_MATERIAL = 16  # of what begins as keys do: the rest may have been cut off

_QUOTES = b"\"'`"
_STOP = frozenset(b" \t\r\n\"'`,;&<>()[]{}|")
_KEY_STARTS = (b"MI", b"b3BlbnNzaC1rZXk")  # DER, and OpenSSH's own
_MARKS_WITHIN = (b"&", b";", b",", b"|")
_BLANK_OR_QUOTE = frozenset(b" \t\r\n\"'`<>")
_OPERATORS = frozenset(b"=:(")
_QUOTE_MARKS = frozenset((b'"""', b"'''", b"```", b'\\"', b"\\'", b'"', b"'", b"`"))
_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_ESCAPED_ENDS = (b"\\n", b"\\r", b"\\t", b'\\"')


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# A name that ends so holds something about the secret.
_ABOUT = frozenset(
    _words(
        "id ids url uri name names file files path dir folder type types length len size count "
        "version hash hashed digest md5 sha1 sha256 checksum fingerprint thumbprint field label "
        "hint policy expiry expires expiration ttl lifetime limit max min regex pattern format "
        "prefix suffix title text description placeholder error errors message status state "
        "endpoint host port server provider class index position start end line offset kind "
        "role scope scopes usage budget rate store storage manager service helper util utils "
        "test spec mode input color style icon"
    )
)
# A name with one of these is no secret's.
_OPEN = _words(
    "public pubkey csrf xsrf authenticity primary foreign partition sort_key sortkey cache keyword "
    "keyboard author accessib accessor monkey next_page nextpage page_token pagetoken "
    "continuation bos_ eos_ pad_ unk_ sep_ mask_ object idempoten issuerkey key_down "
    "keydown keyup keypress compass bypass passive passage passenger keychar keystr"
)


class Match(Protocol):
    """What is used of RE2's matches; the package comes without types."""

    def span(self, group: int = 0, /) -> tuple[int, int]: ...
    def start(self) -> int: ...
    def end(self) -> int: ...
    def group(self, group: int = 0, /) -> bytes: ...


class Pattern(Protocol):
    def finditer(self, text: bytes, /) -> Iterator[Match]: ...
    def match(self, text: bytes, start: int, end: int, /) -> Match | None: ...


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int
    kind: str
    rank: int  # where spans overlap, the lowest names the whole


@dataclass(frozen=True, slots=True)
class Value:
    start: int
    end: int
    quoted: bool


Run = Callable[[bytes], Iterator[Span]]


def _options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are
    options.max_mem = MEMORY
    options.log_errors = False
    return options


class Scanner:
    """Safe to use from many threads: what is made on first use is the same for all."""

    def __init__(self) -> None:
        self._options = _options()
        self._compiled: dict[str, Pattern] = {}
        self._leads: list[str] = []
        self._glance: re2.Set | None = None
        self._stages = [
            self._stage([(rule.lead, self._provider(rule)) for rule in patterns.PROVIDERS]),
            self._stage(
                [
                    (patterns.PEM_HEADER, self._pem_blocks),
                    (patterns.PEM_BASE64, self._encoded_pem),
                    (patterns.PUTTY, self._putty),
                    (patterns.KUBERNETES_KIND, self._kubernetes),
                    (patterns.URL_PASSWORD.lead, self._rule(patterns.URL_PASSWORD, rank=2)),
                    *((rule.lead, self._rule(rule, rank=3)) for rule in patterns.PLACED),
                    (patterns.AUTHORIZATION, self._authorization),
                    (patterns.USER_OPTION, self._user_option),
                    (patterns.ASSIGNED, self._named(patterns.ASSIGNED)),
                    (patterns.SET_BY_CALL, self._named(patterns.SET_BY_CALL, back=1)),
                    (patterns.SET_BY_FLAG, self._named(patterns.SET_BY_FLAG, back=1)),
                    (patterns.SAID, self._named(patterns.SAID)),
                    (patterns.XML_VALUE, self._named(patterns.XML_VALUE)),
                    (patterns.HINTED, self._hinted),
                    (patterns.CARD_LEAD, self._cards),
                    (patterns.SSN, self._ssns(patterns.SSN)),
                    (patterns.SSN_NAMED, self._ssns(patterns.SSN_NAMED)),
                ]
            ),
        ]

    def suspects(self, lines: bytes) -> bool:
        """Whether a rule may apply to any of these lines, or to all of them as one text. Texts
        joined by line ends are thus looked at together: what a rule needs within a text it finds
        here too. No word goes on across a line end, and where a text begins or ends a line does."""
        if self._glance is None:  # on first use: who cleans single texts needs none
            self._glance = self._any_lead()
        return self._glance.Match(lines) is not None

    def scan(self, data: bytes) -> list[Span]:
        """All that is found, in order, without overlaps."""
        found: list[Span] = []
        for leads, runs in self._stages:
            for index in leads.Match(data) or ():
                found.extend(runs[index](data))
        return _merged(found) if found else found

    def _stage(self, runs: list[tuple[str, Run]]) -> tuple[re2.Set, list[Run]]:
        leads = re2.Set.SearchSet(self._options)
        for lead, _ in runs:
            leads.Add(lead.encode())
            self._leads.append(lead)
        leads.Compile()
        return leads, [run for _, run in runs]

    def _any_lead(self) -> re2.Set:
        """All leads as one: quicker to look for than two sets, and told in one call."""
        either = "|".join(f"(?:{lead})" for lead in self._leads)
        glance = re2.Set.SearchSet(self._options)
        glance.Add(f"(?m:{either})".encode())
        glance.Compile()
        return glance

    def _pattern(self, pattern: str) -> Pattern:
        compiled = self._compiled.get(pattern)
        if compiled is None:  # on first use: most are never needed
            compiled = self._compiled[pattern] = re2.compile(pattern.encode(), self._options)
        return compiled

    def _matches(self, pattern: str, data: bytes) -> Iterator[Match]:
        return self._pattern(pattern).finditer(data)

    # ---- shapes ----

    def _provider(self, rule: Rule) -> Run:
        return self._rule(rule, rank=1)

    def _rule(self, rule: Rule, *, rank: int) -> Run:
        def run(data: bytes) -> Iterator[Span]:
            for match in self._matches(rule.pattern, data):
                start, end = match.span(1)
                if rule.check(_text(data, start, end)):
                    yield Span(start, end, rule.kind, rank)

        return run

    def _pem_blocks(self, data: bytes) -> Iterator[Span]:
        for match in self._matches(patterns.PEM_HEADER, data):
            start, body = match.span()
            # The next dashes end the search, so all blocks together cost one pass.
            dashes = data.find(b"-----", body, body + KEY_REACH)
            end = dashes if dashes >= 0 else min(len(data), body + KEY_REACH)
            if not _holds_key(data[body:end]):
                continue
            if data.startswith(b"-----END", end):
                closing = data.find(b"-----", end + 8, end + 80)
                end = closing + 5 if closing >= 0 else end
            yield Span(start, end, secrets.PRIVATE_KEY, 0)

    def _encoded_pem(self, data: bytes) -> Iterator[Span]:
        for match in self._matches(patterns.PEM_BASE64, data):
            if secrets.holds_private_key(match.group().decode()):
                yield Span(*match.span(), secrets.PRIVATE_KEY, 0)

    def _putty(self, data: bytes) -> Iterator[Span]:
        for match in self._matches(patterns.PUTTY, data):
            yield Span(*match.span(1), secrets.PRIVATE_KEY, 0)

    def _kubernetes(self, data: bytes) -> Iterator[Span]:
        done = 0
        for match in self._matches(patterns.KUBERNETES_KIND, data):
            start = max(done, match.start() - DOCUMENT_REACH)
            start = max(start, data.rfind(b"\n---", start, match.start()))
            end = data.find(b"\n---", match.end(), match.end() + DOCUMENT_REACH)
            end = end if end >= 0 else min(len(data), match.end() + DOCUMENT_REACH)
            document, done = data[start:end], max(done, end)
            for line in self._matches(patterns.KUBERNETES_VALUE, document):
                first, last = line.span(1)
                value = _text(document, first, last)
                if secrets.is_base64(value) and not (
                    value.isalpha() and secrets.is_readable(value)
                ):
                    yield Span(start + first, start + last, "kubernetes-secret", 4)

    def _cards(self, data: bytes) -> Iterator[Span]:
        for match in self._matches(patterns.CARD, data):
            start, end = match.span(1)
            text = _text(data, start, end)
            digits = text.replace(" ", "").replace("-", "")
            if _grouped(text) and secrets.is_card_number(digits):
                yield Span(start, end, secrets.CARD, 6)

    def _ssns(self, pattern: str) -> Run:
        def run(data: bytes) -> Iterator[Span]:
            for match in self._matches(pattern, data):
                start, end = match.span(1)
                if secrets.is_ssn(_text(data, start, end).replace(" ", "").replace("-", "")):
                    yield Span(start, end, secrets.SSN, 6)

        return run

    # ---- names and values ----

    def _authorization(self, data: bytes) -> Iterator[Span]:
        for match in self._matches(patterns.AUTHORIZATION, data):
            start, end = match.span(1)
            value = _text(data, start, end).rstrip(".:")
            if secrets.is_token(value):
                yield Span(start, start + len(value), "authorization", 3)

    def _user_option(self, data: bytes) -> Iterator[Span]:
        for match in self._matches(patterns.USER_OPTION, data):
            start, end = match.span(1)
            if data.rfind(b"curl", max(0, start - COMMAND_REACH), start) < 0:
                continue
            user, _, rest = data[start:end].partition(b":")
            password = rest.rstrip(b"\\").strip(_QUOTES)
            if not password:  # the key in place of a user, as Stripe has it
                password, first = user.strip(_QUOTES), data.find(user.strip(_QUOTES), start)
            else:
                first = data.find(password, start + len(user) + 1)
            value = password.decode("utf-8", "replace")
            if secrets.is_password(value, quoted=True) and not value.isdigit():
                yield Span(first, first + len(password), "password", 3)

    def _named(self, pattern: str, *, back: int = 0) -> Run:
        """Values of names such as `password` and `token`; `back`: how much of it the match took."""

        def run(data: bytes) -> Iterator[Span]:
            taken = tried = nested = 0
            for match, following in _with_next(self._matches(pattern, data), len(data)):
                at = match.end() - back
                nested = nested + 1 if at < tried else 0
                # Names within a name's value: after some, each value ends where the next begins.
                limit = at + VALUE_REACH if nested < NESTED else max(at, following)
                name = _Name.at(data, match)
                if at < taken or not name.may_hold():
                    continue
                value = self._value(data, at, min(limit, len(data)), name)
                if value is None:
                    continue
                text = _text(data, value.start, value.end)
                if name.is_secret(text, quoted=value.quoted):
                    end = _whole(data, value)
                    if name.password and not value.quoted:
                        end = _marked(data, end)
                    taken = end
                    yield Span(value.start, end, name.kind, 4)
                else:
                    tried = max(tried, value.end)

        return run

    def _value(self, data: bytes, at: int, limit: int, name: "_Name") -> Value | None:
        """The value that begins here, as far as the limit."""
        element = data[at - 1 : at] == b">" and data[at - 2 : at] not in (b"=>", b"->")
        blank = b" \t\r\n" if element else b" \t"
        while at < limit and data[at] in blank:
            at += 1
        if data[at : at + 1] in (b"|", b">") and b"\n" in data[at : at + 4]:  # a block of YAML
            at = data.find(b"\n", at) + 1
            while at < limit and data[at] in b" \t":
                at += 1
        for prefix in (b"b", b"r", b"f", b"u", b"@", b"rb", b"br"):
            if data.startswith((prefix + b'"', prefix + b"'"), at):
                at += len(prefix)
                break
        if at >= limit:
            return None
        for size in (3, 2, 1):
            quote = data[at : at + size]
            if quote in _QUOTE_MARKS:
                return None if element else _quoted(data, at + size, limit, quote)
        return self._unquoted(data, at, limit, name, element=element)

    def _unquoted(
        self, data: bytes, at: int, limit: int, name: "_Name", *, element: bool
    ) -> Value | None:
        line = name.begins_line and data[at - 1 : at] == b"="
        pattern = patterns.UNQUOTED_LINE if line else patterns.UNQUOTED
        match = self._pattern(pattern).match(data, at, limit)
        piece = match.group() if match else b""
        for ending in _ESCAPED_ENDS:
            piece = piece.partition(ending)[0]
        end = at + len(piece)
        if end == at or (not line and data[end : end + 1] in (b"(", b"[", b"{")):  # code
            return None
        if element and not (
            name.opens_element and data[end : end + 64].lstrip()[:1] in (b"<", b"")
        ):
            return None
        return Value(at, end, False)

    def _hinted(self, data: bytes) -> Iterator[Span]:
        for match in self._matches(patterns.HINTED, data):
            start, end = match.span(2)
            name = _text(data, _name_start(data, match.start()), start)
            low = name.lower()
            if any(word in low for word in _OPEN) or _last_word(name) in _ABOUT:
                continue
            value = _text(data, start, min(end, start + VALUE_REACH))
            provider = match.span(1) != (-1, -1)
            if provider and _inside_word(data, match.start()):
                continue
            if data[end : end + 1] in (b"(", b"["):
                continue
            quoted = data[start - 1 : start] in (b'"', b"'", b"`")
            if secrets.is_random(value, quoted=quoted) or (provider and secrets.is_digest(value)):
                yield Span(start, end, "high-entropy", 5)


@dataclass(frozen=True, slots=True)
class _Name:
    """What a value is called: `DB_` + `PASSWORD` + `_OLD`."""

    before: bytes
    word: bytes
    rest: bytes
    password: bool
    begins_line: bool  # as in an environment file: there all up to a blank is the value
    opens_element: bool

    @classmethod
    def at(cls, data: bytes, match: Match) -> "_Name":
        start = _name_start(data, match.start())
        word, rest = match.group(1) or match.group(2), match.group(3)
        before = data[start : match.start()]
        ahead = data[max(0, start - 7) : start]
        return cls(
            before=before,
            word=word,
            rest=rest,
            password=match.span(1) != (-1, -1),
            begins_line=(before + word + rest).isupper()
            and (not ahead or ahead.endswith((b"\n", b"export "))),
            opens_element=ahead.endswith(b"<") and b"." not in rest,
        )

    @property
    def kind(self) -> str:
        if self.password:
            return "password"
        low = self.word.lower().decode()
        return "api-key" if low.endswith("key") else low

    def may_hold(self) -> bool:
        whole = (self.before + self.word + self.rest).decode("latin-1")
        low = whole.lower()
        if any(part in low for part in _OPEN):
            return False
        if self.password and self.word.lower() in (b"pass", b"pwd", b"psw", b"pw"):
            last = self.before[-1:]
            hump = last.islower() and self.word[:1].isupper()
            if self._glued or (last.isalpha() and not hump):
                return False
        return not self.rest or _last_word(whole) not in _ABOUT

    @property
    def _glued(self) -> bool:
        """Whether the word goes on: `tokenizer`, `passing`."""
        first = self.rest[:1]
        more = first.islower() or (first.isupper() and self.word.isupper())
        return more and self.rest.lower() not in (b"s", b"es")

    def is_secret(self, text: str, *, quoted: bool) -> bool:
        word = self.word.lower()
        if self._glued:
            return secrets.is_random(text, quoted=quoted)
        if self.password:
            if word == b"pwd" and (text.startswith("/") or secrets.is_path(text)):
                return False
            return secrets.is_password(text, quoted=quoted)
        if word == b"secret" and quoted and any(c.isdigit() for c in text):
            return secrets.is_password(text, quoted=True)
        return secrets.is_token(text)


def _with_next(matches: Iterator[Match], end: int) -> Iterator[tuple[Match, int]]:
    """Each match, and where the next one begins."""
    last = next(matches, None)
    for match in matches:
        if last is not None:
            yield last, match.start()
        last = match
    if last is not None:
        yield last, end


def _name_start(data: bytes, at: int) -> int:
    """Where the name begins of which a word was found."""
    start = at
    while start > 0 and at - start < NAME_REACH and data[start - 1] in _NAME:
        start -= 1
    return start


def _inside_word(data: bytes, at: int) -> bool:
    """Whether a word goes on here: `meraki` in CameraKit."""
    return data[at - 1 : at].isalpha() and not data[at : at + 1].isupper() if at else False


def _last_word(name: str) -> str:
    """The last of the words of a name: `tokenExpiry` and `token_expiry` give `expiry`."""
    end = len(name.rstrip("_.-:= \t\"'`>\\"))
    start = end
    while start > 0 and name[start - 1].isalnum():
        start -= 1
        if name[start].isupper() and start > 0 and name[start - 1].islower():
            break
    return name[start:end].lower()


def _quoted(data: bytes, at: int, limit: int, quote: bytes) -> Value | None:
    end = data.find(quote, at, limit)
    while len(quote) == 1 and end > at and data[end - 1] == 0x5C:  # an escaped quote
        end = data.find(quote, end + 1, limit)
    if end < 0:
        line = data.find(b"\n", at, limit)
        end = line if line >= 0 else limit
    return Value(at, end, True) if end > at else None


def _whole(data: bytes, value: Value) -> int:
    """Where a value that fills the reach really ends."""
    end = value.end
    if end - value.start >= VALUE_REACH - 24:
        stop = frozenset(b"\r\n\"'`") if value.quoted else _STOP
        while end < len(data) and data[end] not in stop:
            end += 1
    return end


def _marked(data: bytes, end: int) -> int:
    """Where a password ends that goes on after a mark: `Tr0ub4dor&3`. What follows with an operator
    of its own is something else: `&user=`, `;port:`."""
    if data[end : end + 1] not in _MARKS_WITHIN:
        return end
    last = end
    while last < len(data) and last - end < VALUE_REACH and data[last] not in _BLANK_OR_QUOTE:
        last += 1
    rest = data[end:last].rstrip(b",;.&|)]}>")
    return end + len(rest) if rest and not _OPERATORS & set(rest) else end


def _holds_key(body: bytes) -> bool:
    first = body.split(maxsplit=1)[:1]
    if first and first[0].startswith(_KEY_STARTS):
        return len(first[0]) >= SHORT_KEY_MATERIAL
    return _longest_base64(body) >= KEY_MATERIAL


def _longest_base64(body: bytes) -> int:
    lines = body.replace(b"\\n", b"\n").replace(b"\\r", b"\n").replace(b"\\", b"\n").split()
    return max((len(line.strip(b"\"'+,;")) for line in lines if _is_material(line)), default=0)


def _is_material(line: bytes) -> bool:
    try:
        line = line.strip(b"\"'+,;")
        base64.b64decode(line + b"=" * (-len(line) % 4), validate=True)
    except binascii.Error:
        return False
    return True


def _grouped(text: str) -> bool:
    """Whether the blanks or dashes of a card's number stand where cards have them."""
    groups = [len(group) for group in text.replace("-", " ").split(" ")]
    if len(groups) == 1:
        return groups[0] <= 16  # longer ones are numbers of programs more often than of cards
    return groups[:-1] == [4] * (len(groups) - 1) or groups in ([4, 6, 5], [4, 6, 4])


def _text(data: bytes, start: int, end: int) -> str:
    return data[start:end].decode("utf-8", "replace")


def _merged(found: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(found, key=lambda s: (s.start, s.rank)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            named = min(last, span, key=lambda s: s.rank)
            merged[-1] = Span(last.start, max(last.end, span.end), named.kind, named.rank)
        elif span.end > span.start:
            merged.append(span)
    return merged
