"""The scanner: it finds secrets in bytes with RE2.

One search selects the rules that may apply, those rules then run, and Python checks their matches.
RE2 takes time linear in the text, whatever its content. Python reads only the matches and a
bounded piece of text around each.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import re2

from agent_memory.features.secrets.adapters import patterns, wrappings
from agent_memory.features.secrets.adapters.patterns import SecretRule
from agent_memory.features.secrets.adapters.wrappings import TextEdit, View
from agent_memory.features.secrets.model import secrets
from agent_memory.kernel.errors import ContentBlocked

MEMORY = 64 << 20  # for the states of an automaton; with less RE2 starts over and slows down
NAME_REACH = 48
VALUE_REACH = 256
NESTED = 8
COMMAND_REACH = 600
DOCUMENT_REACH = 16 << 10
KEY_REACH = 32 << 10
SHORT_KEY_MATERIAL = 16  # if it begins like a key: the rest may have been cut off
DEPTH = 4  # nested wrappings that are unwrapped
VIEWED = 16  # views may have 16 times the size of the text; more is an attack and blocked
VIEWED_AT_LEAST = 1 << 20
BLOCK = 4 << 10  # a long text is searched in blocks of lines; rules run where their leads occur
MARGIN = 1 << 10  # context of a rule before and after a block
SHORT = 1 << 10
SHORTEST_KEY = 12  # where only a name and a blank come before it
COOKIE_REACH = 4 << 10
LINES = 64  # of one token that is broken over lines
NARROWEST = 20  # characters of a line that may be broken

_QUOTES = b"\"'`"
_STOP = frozenset(b" \t\r\n\"'`,;&<>()[]{}|")
_KEY_STARTS = (b"MI", b"b3BlbnNzaC1rZXk")  # DER, and OpenSSH's own
_MARKS_WITHIN = (b"&", b";", b",", b"|")
_BLANK_OR_QUOTE = frozenset(b" \t\r\n\"'`<>")
_OPERATORS = frozenset(b"=:(")
_QUOTE_MARKS = frozenset((b'"""', b"'''", b"```", b'\\"', b"\\'", b'"', b"'", b"`"))
_BEFORE_JUMBLED = frozenset(b" \t\r\n|,;*\"'`()<>[]{}\x92\x93\x94")
_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_OPENS_VALUE = (b'">', b"'>", b"value>", b"string>")
_ESCAPED_ENDS = (b"\\n", b"\\r", b"\\t", b'\\"')


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# A name that ends like this is of something about a secret, not of the secret itself.
_ATTRIBUTE_WORDS = frozenset(
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
# A name that ends with one of these is of a key, unless the word before it says of which other.
_KEY_WORDS = frozenset(_words("key auth pat api bearer cred creds authkey accesskey token"))
_TELLING_KEYS = frozenset(("auth", "bearer", "authkey", "accesskey"))
_LOOKUP_WORDS = frozenset(
    _words(
        "cache public start end first last hash map row lookup unique dedup dedupe group index "
        "file store storage bucket item entry node layer blob content etag block tree record "
        "field column table document doc cell state event job task queue message msg topic "
        "shard region range prefix list dict set tag label metric series trace span request "
        "response query search filter route page view component slot render style theme color "
        "translation i18n locale lang string text term word build artifact snapshot fixture "
        "test stack image asset module package lock version release commit git ref branch issue "
        "ticket host known ssh rsa gpg pgp websocket surrogate natural composite compound "
        "parent child answer data json dataset vector chunk the this that each any and for with "
        "per one same other"
    )
)
_BEFORE_KEY = (b"?", b"&", b"#")
_ABOUT_KEYS = re.compile(
    r"(?i)client|api|auth|login|init|config|setup|connect|token|key|cred|secret"
)
_ABOUT_OTHERS = re.compile(
    r"(?i)hash|digest|sha\d|md5|uuid|guid|id$|checksum|commit|code$|codec|hex|buffer|bytes|crypt|"
    r"proc"
)
_BUILDS_CLIENT = re.compile(rb"(?i)(?:client|api|sdk)\w*\s*:?=\s*(?:new\s)?$")
_WORD_BEFORE = re.compile(rb"\b([A-Za-z]{3,}) $")
_TAKES_USER = re.compile(rb"\b(?:curl|https?|xh|wget|etcdctl|rclone|gh|ab|wrk|siege)[ \t]")
_LATER_WORD = re.compile(rb"(?i)secret|token|api_?key")
_HUMP = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")
# A name with one of these is not of a secret.
_PUBLIC_WORDS = _words(
    "public pubkey csrf xsrf authenticity primary foreign partition sort_key sortkey cache keyword "
    "keyboard author accessib accessor monkey next_page nextpage page_token pagetoken "
    "continuation bos_ eos_ pad_ unk_ sep_ mask_ object idempoten issuerkey key_down "
    "keydown keyup keypress compass bypass passive passage passenger keychar keystr"
)


class Match(Protocol):
    """The used part of RE2's matches; the package has no types."""

    def span(self, group: int = 0, /) -> tuple[int, int]: ...
    def start(self) -> int: ...
    def end(self) -> int: ...
    def group(self, group: int = 0, /) -> bytes: ...


class Pattern(Protocol):
    def finditer(self, text: bytes, /) -> Iterator[Match]: ...
    def match(self, text: bytes, start: int, end: int, /) -> Match | None: ...


@dataclass(frozen=True, slots=True)
class SecretSpan:
    start: int
    end: int
    kind: str
    rank: int  # of overlapping spans, the lowest rank gives the kind


@dataclass(frozen=True, slots=True)
class Value:
    start: int
    end: int
    quoted: bool


Detector = Callable[[bytes], Iterator[SecretSpan]]
IsAllowed = Callable[[bytes, SecretSpan], bool]


@dataclass(slots=True)
class _Budget:
    """The number of bytes of views that may still be scanned for one text."""

    left: int


@dataclass(frozen=True, slots=True)
class ScanContext:
    """The state of a scan. `spare` accepts spans that are no secrets; `depth` limits nesting."""

    budget: _Budget
    spare: IsAllowed
    depth: int = DEPTH

    def enter_view(self, view: View) -> "ScanContext":
        """Return the context for a view. Raises ContentBlocked if the budget is spent."""
        self.budget.left -= len(view.data)
        if self.budget.left < 0:
            raise ContentBlocked("the text has too many nested encodings to scan; not stored")
        return ScanContext(self.budget, self.spare, self.depth - 1)


class LeadSets:
    """Leads, and which of them occur in a text.

    RE2 builds the states of a set as it meets them, and leads that remember many characters
    multiply the states of all others in their set. So leads are split into sets whose states stay
    few. The split is measured.
    """

    def __init__(self, leads: Sequence[str], options: re2.Options) -> None:
        self._options = options
        numbers: dict[str, list[int]] = {}
        for index, lead in enumerate(leads):
            numbers.setdefault(_name_group(lead), []).append(index)
        self._numbers = list(numbers.values())
        self.groups = [[leads[index] for index in group] for group in self._numbers]

    @cached_property
    def _sets(self) -> list[re2.Set]:
        """Compile the sets on first use: most texts pass the quick check."""
        return [_compile_set(group, self._options) for group in self.groups]

    def find(self, data: bytes) -> list[int]:
        """Return the indexes of the leads that occur, in order."""
        return sorted(
            group[number]
            for group, leads in zip(self._numbers, self._sets, strict=True)
            for number in leads.Match(data) or ()
        )


ViewScan = Callable[[bytes, ScanContext], Iterator[SecretSpan]]
_Part = tuple[int, int, bytes]


class _ScanStage(NamedTuple):
    """Rules and views that are tried where their leads occur.

    The first `wide` rules match over many lines, so they see the whole text.
    """

    leads: "LeadSets"
    detectors: list[Detector]
    view_scans: list[ViewScan]
    wide: int

    def select_parts(self, data: bytes) -> Sequence[_Part]:
        """Return which rules and views to try: their index, the start of the part, the part."""
        if len(data) <= BLOCK:
            return [(index, 0, data) for index in self.leads.find(data)]
        regions: dict[int, list[tuple[int, int]]] = {}
        for start, end in _blocks(data):
            for index in self.leads.find(data[start : end + MARGIN]):
                _add(regions.setdefault(index, []), _lines_around(data, start, end))
        return [
            (index, start, data[start:end])
            for index, spans in regions.items()
            for start, end in ([(0, len(data))] if index < self.wide else spans)
        ]


def _options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # match raw bytes
    options.max_mem = MEMORY
    options.log_errors = False
    return options


def _compile_set(leads: Iterable[str], options: re2.Options) -> re2.Set:
    compiled = re2.Set.SearchSet(options)
    for lead in leads:
        compiled.Add(lead.encode())
    compiled.Compile()
    return compiled


def _name_group(lead: str) -> str:
    """Return the name of the set that a lead is searched with."""
    if lead == patterns.HINTED:
        return "hints"
    if lead in patterns.NAME_LEADS:
        return "names"
    if lead in (patterns.DISCORD_LEAD, wrappings.BASE64_LEAD):
        return "runs"  # of any letters
    if lead.startswith(patterns.START):
        return "tokens"
    return "characters" if lead.startswith(("[", "(?:[", "(?:^|[")) else "words"


_GLANCED_WITH = {"hints": "names", "characters": "words"}


def _allow_nothing(_data: bytes, _span: SecretSpan) -> bool:
    return False


class Scanner:
    """The compiled rules. Threads may share it: lazily built parts are the same for all."""

    def __init__(self) -> None:
        self._options = _options()
        self._compiled: dict[str, Pattern] = {}
        self._glances: list[re2.Set] = []
        shapes: list[tuple[str, Detector]] = [
            (rule.lead, self._build_detector(rule, rank=1)) for rule in patterns.PROVIDER_RULES
        ]
        encoded: list[tuple[str, ViewScan]] = [
            (wrappings.BASE64_LEAD, self._scan_base64),
            (wrappings.HEX_LEAD, self._scan_hex),
        ]
        wide: list[tuple[str, Detector]] = [
            (patterns.PEM_HEADER, self._find_pem_blocks),
            (patterns.PEM_BASE64, self._find_encoded_pem),
            (patterns.PEM_FOOTER_LEAD, self._build_key_detector(patterns.PEM_FOOTER)),
            (patterns.KEY_BODY_LEAD, self._build_key_detector(patterns.KEY_BODY)),
            (patterns.PUTTY_LEAD, self._build_key_detector(patterns.PUTTY)),
            (patterns.KUBERNETES_KIND, self._find_kubernetes),
        ]
        self._wide_leads = _join_alternatives(lead for lead, _ in wide)
        places: list[tuple[str, Detector]] = [
            (rule.lead, self._build_detector(rule, rank=rank))
            for rank, rules in ((2, patterns.URL_RULES), (3, patterns.CONTEXT_RULES))
            for rule in rules
        ]
        places += [
            (patterns.AUTHORIZATION_LEAD, self._find_authorization),
            (patterns.COOKIES, self._find_cookies),
            (patterns.URL_PARAMETER, self._find_url_parameters),
            (patterns.CALLED_LEAD, self._find_arguments),
            (patterns.KEY_OPTION, self._find_key_options),
            (patterns.HINTED_RECORD, self._find_hinted_records),
            (patterns.USER_OPTION, self._find_user_option),
            (patterns.HINTED, self._find_hinted),
            (patterns.CARD_LEAD, self._find_cards),
            (patterns.SSN, self._build_ssn_detector(patterns.SSN)),
            (patterns.SSN_NAMED, self._build_ssn_detector(patterns.SSN_NAMED)),
        ]
        places += [
            (pattern, self._build_name_detector(pattern, back=back))
            for pattern, back in (
                (patterns.ASSIGNED, 0),
                (patterns.SET_BY_CALL, 1),
                (patterns.SET_BY_FLAG, 1),
                (patterns.SET_BY_WORD, 0),
                (patterns.SET_BY_SENTENCE, 0),
                (patterns.RECORD, 0),
            )
        ]
        places += [
            (pattern, self._build_jumbled_detector(pattern))
            for pattern in (patterns.SET_BY_BLANK, patterns.SET_BY_CHANGE, patterns.SET_BY_LINE)
        ]
        self._shapes = self._build_stage(shapes, encoded)  # of runs that are broken over lines
        self._stage = self._build_stage(
            [*wide, *shapes, *places],
            [*encoded, (wrappings.WRAPPING, self._scan_unwrapped)],
            wide=len(wide),
        )
        self._broken = _compile_set([wrappings.BROKEN], self._options)
        self._begins = _join_alternatives(
            rule.begins for rule in patterns.PROVIDER_RULES if rule.begins
        )

    def suspects(self, lines: bytes) -> bool:
        """Return whether a rule may apply to any of these lines, or to all of them as one text.

        Texts joined by empty lines can be checked together: no word continues across a line end,
        and a text begins and ends where a line does, so every rule that matches in a text matches
        here too. A run that is broken over lines ends before an empty one.
        """
        if self._has_lead(lines):
            return True
        return self._broken.Match(lines) is not None and self._has_lead(self._join_runs(lines)[1])

    def scan(self, data: bytes, spare: IsAllowed = _allow_nothing) -> list[SecretSpan]:
        """Return all secrets, in order, without overlaps.

        `spare` decides, with the text around it, that a span is no secret. Raises ContentBlocked
        if encodings are nested too deeply.
        """
        if len(data) <= SHORT and not self.suspects(data):
            return []  # the fast path of most texts
        parts = self._stage.select_parts(data)
        search = ScanContext(_Budget(max(VIEWED * len(data), VIEWED_AT_LEAST)), spare)
        spans = self._run_stage(data, parts, search)
        return [span for span in _merge_spans(spans) if not spare(data, span)] if spans else spans

    def _has_lead(self, lines: bytes) -> bool:
        """Return whether the lead of a rule or of a view occurs, except of broken lines. It does if
        any stage selects a part."""
        if not self._glances:  # on first use: long texts need none
            self._glances = self._build_glances()
        return any(glance.Match(lines) is not None for glance in self._glances)

    def _is_broken(self, data: bytes) -> bool:
        """Return whether a run may continue over lines; a long text is not checked beforehand."""
        return len(data) > SHORT or self._broken.Match(data) is not None

    def _run_stage(
        self, data: bytes, parts: Sequence[_Part], search: ScanContext
    ) -> list[SecretSpan]:
        stage = self._stage
        spans: list[SecretSpan] = []
        for index, at, part in parts:
            if index < len(stage.detectors):
                part_spans = stage.detectors[index](part)
            elif search.depth:
                part_spans = stage.view_scans[index - len(stage.detectors)](part, search)
            else:
                continue
            spans.extend(_shift_spans(part_spans, at) if at else part_spans)
        if search.depth and self._is_broken(data):
            spans.extend(self._scan_joined(data, search))
        return spans

    def _build_stage(
        self, runs: list[tuple[str, Detector]], looks: list[tuple[str, ViewScan]], *, wide: int = 0
    ) -> _ScanStage:
        leads = LeadSets([lead for lead, _ in (*runs, *looks)], self._options)
        return _ScanStage(leads, [run for _, run in runs], [look for _, look in looks], wide)

    def _build_glances(self) -> list[re2.Set]:
        """Build sets that show together whether a lead occurs: faster than to find which do, and
        few, because for a short text each costs more than what it reads."""
        joined: dict[str, list[str]] = {}
        for group in self._stage.leads.groups:
            name = _name_group(group[0])
            joined.setdefault(_GLANCED_WITH.get(name, name), []).extend(group)
        return [
            _compile_set([f"(?m:{_join_alternatives(leads)})"], self._options)
            for leads in joined.values()
        ]

    # ---- views ----

    def _scan_unwrapped(self, data: bytes, search: ScanContext) -> Iterator[SecretSpan]:
        edits = [
            TextEdit(*match.span(), b"" if removed else wrappings.decode_escape(match.group()))
            for match in self._matches(wrappings.WRAPPING, data)
            for removed in [match.span(1) != (-1, -1)]
        ]
        if not edits:
            return
        shown: Sequence[TextEdit] = wrappings.keep_wrapped_lines(data, edits)
        view = View(data, shown)
        if self._is_multiline(view.data) or self._is_multiline(data):
            shown, view = edits, View(data, edits)
        yield from self._scan_view(view, search)
        # A removal between two words may also be the boundary before or after a token.
        glued = [edits[index] for index in wrappings.find_glued(data, edits)]
        if not glued:
            return
        begins = self._pattern(self._begins)
        starts = frozenset(
            edit.start
            for edit in glued
            for at in [view.find(edit.end)]
            if begins.match(view.data, at, at + NAME_REACH)
        )
        if starts:
            yield from self._scan_view(View(data, _insert_blanks(shown, starts)), search)
        ends = frozenset(edit.start for edit in glued)
        if ends != starts:
            yield from self._scan_view(
                View(data, _insert_blanks(shown, ends)), search, deeper=False
            )

    def _is_multiline(self, data: bytes) -> bool:
        """Return whether a secret of many lines may begin or end here."""
        return next(self._matches(self._wide_leads, data), None) is not None

    def _scan_base64(self, data: bytes, search: ScanContext) -> Iterator[SecretSpan]:
        return self._scan_decoded(data, search, wrappings.BASE64, wrappings.from_base64)

    def _scan_hex(self, data: bytes, search: ScanContext) -> Iterator[SecretSpan]:
        return self._scan_decoded(data, search, wrappings.HEX, wrappings.from_hex)

    def _scan_decoded(
        self,
        data: bytes,
        search: ScanContext,
        pattern: str,
        decode: Callable[[bytes, int, int, int], tuple[int, int, list[TextEdit]]],
    ) -> Iterator[SecretSpan]:
        pieces: list[tuple[int, int, list[TextEdit]]] = []
        done = 0
        for match in self._matches(pattern, data):
            if match.start() >= done:
                pieces.append(decode(data, *match.span(), done))
                done = pieces[-1][1]
        yield from self._scan_view(View(data, wrappings.keep_pieces(len(data), pieces)), search)

    def _scan_joined(self, data: bytes, search: ScanContext) -> Iterator[SecretSpan]:
        """Find tokens and encoded secrets that are broken over lines."""
        spans, glance = self._join_runs(data)
        if not self._has_lead(glance):
            return  # the check below would say so too, for more
        if not (self._shapes.leads.find(glance) or self._is_wrapped(glance)):
            return
        pieces = [
            (
                start,
                end,
                [TextEdit(first, last, b"") for first, last in self._breaks(data, start, end)],
            )
            for start, end in spans
        ]
        view = View(data, wrappings.keep_pieces(len(data), pieces))
        inner = search.enter_view(view)
        for span in self._map_to_text(
            view, self._scan_unwrapped(view.data, inner), search, joined=True
        ):
            if self._is_continued(data, span):
                yield span
        for index in self._shapes.leads.find(view.data):
            if index >= len(self._shapes.detectors):
                joined_spans = self._shapes.view_scans[index - len(self._shapes.detectors)](
                    view.data, inner
                )
                find_end = self._find_encoded_end
            else:
                joined_spans, find_end = (
                    self._shapes.detectors[index](view.data),
                    self._find_token_end,
                )
            for span in self._map_to_text(view, joined_spans, search, joined=True):
                if end := find_end(data, span):
                    yield SecretSpan(span.start, end, span.kind, span.rank)

    def _join_runs(self, data: bytes) -> tuple[list[tuple[int, int]], bytes]:
        """Return the runs that may be broken over lines, and each as one line."""
        spans = [match.span() for match in self._matches(wrappings.BROKEN_RUN, data)]
        return spans, b"\n".join(wrappings.join_lines(data[start:end]) for start, end in spans)

    def _scan_view(
        self, view: View, search: ScanContext, *, deeper: bool = True
    ) -> Iterator[SecretSpan]:
        inner = search.enter_view(view)
        inner = inner if deeper else replace(inner, depth=0)
        spans = self._run_stage(view.data, self._stage.select_parts(view.data), inner)
        return self._map_to_text(view, spans, search)

    def _map_to_text(
        self, view: View, spans: Iterable[SecretSpan], search: ScanContext, *, joined: bool = False
    ) -> Iterator[SecretSpan]:
        """Map the spans of a view to the text."""
        for span in spans:
            if (
                span.end > span.start
                and not view.has_gap(span.start, span.end)
                and (not joined or view.joins(span.start, span.end))
                and not search.spare(view.data, span)
            ):
                yield SecretSpan(*view.locate(span.start, span.end), span.kind, span.rank)

    def _breaks(self, data: bytes, start: int, end: int) -> list[tuple[int, int]]:
        text = data[start:end]
        return [
            (start + match.start(), start + match.end())
            for match in self._matches(wrappings.LINE_BREAK, text)
        ]

    def _find_token_end(self, data: bytes, span: SecretSpan) -> int | None:
        """Return where a token ends that is broken over lines, or None if it is not broken.

        A rule may match more lines than the token has: a complete token continues only on a line
        that looks like the rest of one.
        """
        breaks = self._breaks(data, span.start, span.end)[:LINES]
        token, at, end = b"", span.start, None
        for first, after in (*breaks, (span.end, span.end)):
            if end is not None and not self._continues(data, at):
                break
            token += data[at:first]
            if end is not None or self._is_token_start(token):
                end = first
            at = after
        return end if breaks and end is not None and end > breaks[0][0] else None

    def _find_encoded_end(self, data: bytes, span: SecretSpan) -> int | None:
        """Return where encoded text ends that is broken over lines; `=` ends it."""
        breaks = self._breaks(data, span.start, span.end)
        for first, after in breaks:
            if data[first : first + 1] == b"=" or not self._continues(data, after):
                return first if first > breaks[0][0] else None
        return span.end

    def _is_continued(self, data: bytes, span: SecretSpan) -> bool:
        """Return whether each line but the last ends with a continuation mark."""
        return all(
            data[first : first + 1] in (b"=", b"\\")
            for first, _ in self._breaks(data, span.start, span.end)
        )

    def _is_wrapped(self, data: bytes) -> bool:
        return next(self._matches(wrappings.WRAPPING, data), None) is not None

    def _is_token_start(self, token: bytes) -> bool:
        shapes = self._shapes
        return any(
            span.start == 0
            for index in shapes.leads.find(token)
            if index < len(shapes.detectors)
            for span in shapes.detectors[index](token)
        )

    def _continues(self, data: bytes, at: int) -> bool:
        """Return whether the line at `at` continues the one before, which was broken."""
        if data[max(0, at - 3) : at].rstrip(b"\r\n")[-1:] in (b"=", b"\\"):
            return True
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        start = data.rfind(b"\n", 0, at - 1) + 1
        run = self._pattern(wrappings.RUN).match(data, at, end)
        rest = _text(data, at, min(run.end(), at + VALUE_REACH)) if run else ""
        return (
            end - at <= at - 1 - start  # only a full line is broken
            and at - 1 - start >= NARROWEST
            and not self._pattern(self._begins).match(data, at, at + NAME_REACH)
            and secrets.is_scrap(rest)
        )

    def _pattern(self, pattern: str) -> Pattern:
        compiled = self._compiled.get(pattern)
        if compiled is None:  # compiled on first use: most are never needed
            compiled = self._compiled[pattern] = re2.compile(pattern.encode(), self._options)
        return compiled

    def _matches(self, pattern: str, data: bytes) -> Iterator[Match]:
        return self._pattern(pattern).finditer(data)

    # ---- shapes ----

    def _build_detector(self, rule: SecretRule, *, rank: int) -> Detector:
        def run(data: bytes) -> Iterator[SecretSpan]:
            for match in self._matches(rule.pattern, data):
                start, end = match.span(1)
                if rule.check(_text(data, start, end)):
                    yield SecretSpan(start, end, rule.kind, rank)

        return run

    def _find_pem_blocks(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.PEM_HEADER, data):
            start, body = match.span()
            # The next dashes end the search, so all blocks together cost one pass.
            dashes = data.find(b"-----", body, body + KEY_REACH)
            end = dashes if dashes >= 0 else min(len(data), body + KEY_REACH)
            gap = data.find(wrappings.GAP, body, end)
            end = gap if gap >= 0 else end
            if not self._has_key(data[body:end]):
                continue
            if data.startswith(b"-----END", end):
                closing = data.find(b"-----", end + 8, end + 80)
                end = closing + 5 if closing >= 0 else end
            yield SecretSpan(start, end, secrets.PRIVATE_KEY, 0)

    def _has_key(self, body: bytes) -> bool:
        first = body.split(maxsplit=1)[:1]
        if first and first[0].startswith(_KEY_STARTS):
            return len(first[0]) >= SHORT_KEY_MATERIAL
        runs = self._matches(patterns.KEY_MATERIAL, body)
        return any(not secrets.is_readable(run.group().decode()) for run in runs)

    def _find_encoded_pem(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.PEM_BASE64, data):
            if secrets.is_encoded_private_key(match.group().decode()):
                yield SecretSpan(*match.span(), secrets.PRIVATE_KEY, 0)

    def _build_key_detector(self, pattern: str) -> Detector:
        def run(data: bytes) -> Iterator[SecretSpan]:
            for match in self._matches(pattern, data):
                yield SecretSpan(*match.span(1), secrets.PRIVATE_KEY, 0)

        return run

    def _find_kubernetes(self, data: bytes) -> Iterator[SecretSpan]:
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
                    yield SecretSpan(start + first, start + last, "kubernetes-secret", 4)

    def _find_cards(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.CARD, data):
            start, end = match.span(1)
            text = _text(data, start, end)
            digits = text.replace(" ", "").replace("-", "")
            if _has_card_groups(text) and secrets.is_card_number(digits):
                yield SecretSpan(start, end, secrets.CARD, 6)

    def _build_ssn_detector(self, pattern: str) -> Detector:
        def run(data: bytes) -> Iterator[SecretSpan]:
            for match in self._matches(pattern, data):
                start, end = match.span(1)
                if secrets.is_ssn(_text(data, start, end).replace(" ", "").replace("-", "")):
                    yield SecretSpan(start, end, secrets.SSN, 6)

        return run

    # ---- names and values ----

    def _find_authorization(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.AUTHORIZATION, data):
            # `Bearer X` alone has the value first; a header may have its scheme there.
            for group in (2, 3) if match.span(1) != (-1, -1) else (2,):
                start, end = match.span(group)
                value = _text(data, start, end).rstrip(".:")
                name, _, rest = value.partition("=")
                if rest.strip("=") and name.replace("_", "").isalpha():  # `token=X`
                    start, value = start + len(name) + 1, rest
                if secrets.is_token(value):
                    yield SecretSpan(start, start + len(value), "authorization", 3)
                    break

    def _find_cookies(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.COOKIES, data):
            start, end = match.span(1)
            for pair in data[start : min(end, start + COOKIE_REACH)].split(b";"):
                name, _, value = pair.partition(b"=")
                first = start + len(name) + 1
                text = value.decode("utf-8", "replace").strip()
                if len(text) >= SHORT_KEY_MATERIAL and secrets.is_key(text):
                    yield SecretSpan(first, first + len(value.rstrip()), "cookie", 3)
                start += len(pair) + 1

    def _find_url_parameters(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.URL_PARAMETER, data):
            name, value = match.group(1).decode("latin-1").lower(), _text(data, *match.span(2))
            if not any(word in name for word in _PUBLIC_WORDS) and secrets.is_key(value):
                yield SecretSpan(*match.span(2), "url-token", 4)

    def _find_hinted_records(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.HINTED_RECORD, data):
            name, value = match.group(1).decode("latin-1"), _text(data, *match.span(2))
            if _names_key(name, alone=False) and secrets.is_key(value):
                yield SecretSpan(*match.span(2), "api-key", 5)

    def _find_arguments(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.CALLED, data):
            callee, value = match.group(1).decode("latin-1"), _text(data, *match.span(2))
            if _ABOUT_OTHERS.search(callee.rsplit(".", 1)[-1]):
                continue
            before = data[max(0, match.start() - NAME_REACH) : match.start()].rpartition(b"\n")[2]
            if (
                secrets.is_key(value)
                if _ABOUT_KEYS.search(callee) or _BUILDS_CLIENT.search(before)
                else secrets.is_random(value) and secrets.is_jumbled(value)
            ):
                yield SecretSpan(*match.span(2), "api-key", 5)

    def _find_key_options(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.KEY_OPTION, data):
            name, value = match.group(1).decode("latin-1"), _text(data, *match.span(2))
            if secrets.is_key(value) and (name == "k" or _names_key(name, alone=True)):
                yield SecretSpan(*match.span(2), "api-key", 5)

    def _find_user_option(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.USER_OPTION, data):
            start, end = match.span(1)
            if _TAKES_USER.search(data, max(0, start - COMMAND_REACH), start) is None:
                continue
            user, _, rest = data[start:end].partition(b":")
            password = rest.rstrip(b"\\").strip(_QUOTES)
            if not password:  # the key is the user name, as with Stripe
                password, first = user.strip(_QUOTES), data.find(user.strip(_QUOTES), start)
            else:
                first = data.find(password, start + len(user) + 1)
            value = password.decode("utf-8", "replace")
            if secrets.is_password(value, quoted=True) and not value.isdigit():
                yield SecretSpan(first, first + len(password), "password", 3)

    def _build_name_detector(self, pattern: str, *, back: int = 0) -> Detector:
        """Build a detector for values of names such as `password` and `token`.

        `back` is the number of bytes of the value that the match includes.
        """

        def run(data: bytes) -> Iterator[SecretSpan]:
            taken = tried = nested = 0
            for match, following in _with_next(self._matches(pattern, data), len(data)):
                at = match.end() - back
                nested = nested + 1 if at < tried else 0
                # Names inside a value: after some, each value ends where the next name begins.
                limit = at + VALUE_REACH if nested < NESTED else max(at, following)
                name = _Name.parse(data, match)
                if at < taken or data[at : at + 1] == b"=" or not name.may_name_secret():
                    continue  # `==` compares, or pins a version
                value = self._read_value(data, at, min(limit, len(data)), name)
                if value is None:
                    continue
                text = _text(data, value.start, value.end)
                if name.is_secret(text, quoted=value.quoted):
                    end = _find_value_end(data, value)
                    if name.password and not value.quoted:
                        end = _extend_password(data, end)
                    taken = end
                    yield SecretSpan(value.start, end, name.kind, 4)
                else:
                    tried = max(tried, value.end)

        return run

    def _build_jumbled_detector(self, pattern: str) -> Detector:
        """Build a detector for values that nothing but a name and a blank or verb comes before."""

        def run(data: bytes) -> Iterator[SecretSpan]:
            taken = 0
            for match in self._matches(pattern, data):
                name = _Name.parse(data, match)
                # The digit that ends the match is inside the value.
                start = match.end()
                while start > match.start() and data[start - 1] not in _BEFORE_JUMBLED:
                    start -= 1
                if start < taken or name.is_glued or not name.may_name_secret():
                    continue
                found = self._pattern(patterns.JUMBLED).match(
                    data, start, min(len(data), start + VALUE_REACH)
                )
                end = found.end() if found else start
                value = _text(data, start, end).rstrip(".!?:")
                if data[end : end + 1] == b"(":
                    continue
                if (
                    secrets.is_jumbled(value)
                    if name.password or len(value) < SHORT_KEY_MATERIAL
                    else secrets.is_token(value)
                ) and (name.password or len(value) >= SHORTEST_KEY):
                    taken = start + len(value.encode())
                    yield SecretSpan(start, taken, name.kind, 5)

        return run

    def _read_value(self, data: bytes, at: int, limit: int, name: "_Name") -> Value | None:
        """Read the value that begins at `at`, up to the limit."""
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
                return None if element else _read_quoted(data, at + size, limit, quote)
        return self._read_unquoted(data, at, limit, name, element=element)

    def _read_unquoted(
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
        opened = name.opens_element or data[max(0, at - 7) : at].endswith(_OPENS_VALUE)
        if element and not (opened and data[end : end + 64].lstrip()[:1] in (b"<", b"")):
            return None
        return Value(at, end, False)

    def _find_hinted(self, data: bytes) -> Iterator[SecretSpan]:
        for match in self._matches(patterns.HINTED, data):
            start, end = match.span(2)
            name = _text(data, _name_start(data, match.start()), start)
            low = name.lower()
            if any(word in low for word in _PUBLIC_WORDS) or _last_word(name) in _ATTRIBUTE_WORDS:
                continue
            value = _text(data, start, min(end, start + VALUE_REACH))
            provider = match.span(1) != (-1, -1)
            if provider and _is_inside_word(data, match.start()):
                continue
            if data[end : end + 1] in (b"(", b"["):
                continue
            quoted = data[start - 1 : start] in (b'"', b"'", b"`")
            ahead = data[max(0, start - len(name) - 12) : start - len(name)]
            alone = ahead[-1:] in _BEFORE_KEY or b"-H " in ahead or b"header" in ahead.lower()
            if ahead[-1:] == b" " and (word := _WORD_BEFORE.search(ahead)):
                name = f"{word[1].decode()}_{name}"  # `Acme key: ...`
            if secrets.is_random(value, quoted=quoted) or (
                secrets.is_key(value)
                if _names_key(name, alone=alone)
                else provider and secrets.is_digest(value)
            ):
                yield SecretSpan(start, end, "high-entropy", 5)


@dataclass(frozen=True, slots=True)
class _Name:
    """The name of a value: `DB_` + `PASSWORD` + `_OLD`."""

    before: bytes
    word: bytes
    rest: bytes
    password: bool
    begins_line: bool  # as in an environment file, where the value ends at a blank
    opens_element: bool

    @classmethod
    def parse(cls, data: bytes, match: Match) -> "_Name":
        start = _name_start(data, match.start())
        word, rest, at = match.group(1) or match.group(2), match.group(3), match.start()
        password = match.span(1) != (-1, -1)
        if password and (later := _LATER_WORD.search(rest)):  # `pw` in upwave_secret
            at += len(word) + later.start()
            word, rest, password = later[0], rest[later.end() :], False
        before = data[start:at]
        ahead = data[max(0, start - 7) : start]
        return cls(
            before=before,
            word=word,
            rest=rest,
            password=password,
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

    def may_name_secret(self) -> bool:
        whole = (self.before + self.word + self.rest).decode("latin-1")
        low = whole.lower()
        if any(part in low for part in _PUBLIC_WORDS):
            return False
        if self.password and self.word.lower() in (b"pass", b"pwd", b"psw", b"pw"):
            last = self.before[-1:]
            hump = last.islower() and self.word[:1].isupper()
            if self.is_glued or (last.isalpha() and not hump):
                return False
        return not self.rest or _last_word(whole) not in _ATTRIBUTE_WORDS

    @property
    def is_glued(self) -> bool:
        """Whether the word continues: `tokenizer`, `passing`."""
        first = self.rest[:1]
        more = first.islower() or (first.isupper() and self.word.isupper())
        return more and self.rest.lower() not in (b"s", b"es")

    def is_secret(self, text: str, *, quoted: bool) -> bool:
        word = self.word.lower()
        if self.is_glued:
            return secrets.is_random(text, quoted=quoted)
        if self.password:
            if word == b"pwd" and (text.startswith("/") or secrets.is_path(text)):
                return False
            return secrets.is_password(text, quoted=quoted)
        if word == b"secret" and quoted and any(c.isdigit() for c in text):
            return secrets.is_password(text, quoted=True)
        return secrets.is_token(text)


def _join_alternatives(leads: Iterable[str]) -> str:
    return "|".join(f"(?:{lead})" for lead in leads)


def _blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks of whole lines."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + BLOCK) + 1 or len(data)
        yield start, end
        start = end


def _lines_around(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of a block with the lines around it."""
    first = data.rfind(b"\n", 0, max(0, start - MARGIN)) + 1
    return first, data.find(b"\n", end + MARGIN) + 1 or len(data)


def _add(regions: list[tuple[int, int]], region: tuple[int, int]) -> None:
    if regions and region[0] <= regions[-1][1]:
        regions[-1] = regions[-1][0], max(regions[-1][1], region[1])
    else:
        regions.append(region)


def _shift_spans(spans: Iterable[SecretSpan], by: int) -> Iterator[SecretSpan]:
    return (SecretSpan(span.start + by, span.end + by, span.kind, span.rank) for span in spans)


def _insert_blanks(edits: Sequence[TextEdit], starts: frozenset[int]) -> list[TextEdit]:
    """Return the edits with a blank instead of each removal at these places."""
    return [
        TextEdit(edit.start, edit.end, b" ")
        if edit.instead == b"" and edit.start in starts
        else edit
        for edit in edits
    ]


def _with_next(matches: Iterator[Match], end: int) -> Iterator[tuple[Match, int]]:
    """Yield each match, and where the next one begins."""
    last = next(matches, None)
    for match in matches:
        if last is not None:
            yield last, match.start()
        last = match
    if last is not None:
        yield last, end


def _name_start(data: bytes, at: int) -> int:
    """Return the start of the name that has a word at `at`."""
    start = at
    while start > 0 and at - start < NAME_REACH and data[start - 1] in _NAME:
        start -= 1
    return start


def _is_inside_word(data: bytes, at: int) -> bool:
    """Return whether `at` is inside a word, like `meraki` in CameraKit."""
    return data[at - 1 : at].isalpha() and not data[at : at + 1].isupper() if at else False


def _names_key(name: str, *, alone: bool) -> bool:
    """Return whether a name is of a key such as REST_KEY or X-Acme-Key, for which a hash is as good
    as any other value. One word says too little, unless it is `alone` where keys are, or a
    variable."""
    words = [word.lower() for word in _HUMP.findall(name)]
    if not words or words[-1] not in _KEY_WORDS:
        return False
    if len(words) == 1:
        return alone or words[0] in _TELLING_KEYS or name.strip("_.-:= \t\"'`>\\").isupper()
    return words[-2] not in _LOOKUP_WORDS


def _last_word(name: str) -> str:
    """Return the last word of a name: `expiry` for `tokenExpiry` and `token_expiry`."""
    end = len(name.rstrip("_.-:= \t\"'`>\\"))
    start = end
    while start > 0 and name[start - 1].isalnum():
        start -= 1
        if name[start].isupper() and start > 0 and name[start - 1].islower():
            break
    return name[start:end].lower()


def _read_quoted(data: bytes, at: int, limit: int, quote: bytes) -> Value | None:
    end = data.find(quote, at, limit)
    while len(quote) == 1 and end > at and data[end - 1] == 0x5C:  # an escaped quote
        end = data.find(quote, end + 1, limit)
    if end < 0:
        line = data.find(b"\n", at, limit)
        end = line if line >= 0 else limit
    return Value(at, end, True) if end > at else None


def _find_value_end(data: bytes, value: Value) -> int:
    """Return the real end of a value that was cut at the limit."""
    end = value.end
    if end - value.start >= VALUE_REACH - 24:
        stop = frozenset(b"\r\n\"'`") if value.quoted else _STOP
        while end < len(data) and data[end] not in stop:
            end += 1
    return end


def _extend_password(data: bytes, end: int) -> int:
    """Return the end of a password that continues after a mark: `Tr0ub4dor&3`.

    Text with an operator of its own does not belong to it: `&user=`, `;port:`.
    """
    if data[end : end + 1] not in _MARKS_WITHIN:
        return end
    last = end
    while last < len(data) and last - end < VALUE_REACH and data[last] not in _BLANK_OR_QUOTE:
        last += 1
    rest = data[end:last].rstrip(b",;.&|)]}>")
    return end + len(rest) if rest and not _OPERATORS & set(rest) else end


def _has_card_groups(text: str) -> bool:
    """Return whether the digits are grouped by blanks or dashes as on a card."""
    groups = [len(group) for group in text.replace("-", " ").split(" ")]
    if len(groups) == 1:
        return groups[0] <= 16  # longer numbers are rarely of cards
    return groups[:-1] == [4] * (len(groups) - 1) or groups in ([4, 6, 5], [4, 6, 4])


def _text(data: bytes, start: int, end: int) -> str:
    return data[start:end].decode("utf-8", "replace")


def _merge_spans(spans: list[SecretSpan]) -> list[SecretSpan]:
    merged: list[SecretSpan] = []
    for span in sorted(spans, key=lambda s: (s.start, s.rank)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            named = min(last, span, key=lambda s: s.rank)
            merged[-1] = SecretSpan(last.start, max(last.end, span.end), named.kind, named.rank)
        elif span.end > span.start:
            merged.append(span)
    return merged
