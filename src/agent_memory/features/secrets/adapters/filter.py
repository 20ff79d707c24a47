"""The secrets filter: it finds secrets with RE2, and redacts, blocks or reports them."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import re2

from agent_memory.features.secrets.adapters.scanner import Scanner, SecretSpan
from agent_memory.features.secrets.model import secrets
from agent_memory.features.secrets.model.secrets import (
    Finding,
    Incident,
    SecretOutcome,
    SecretsMode,
)
from agent_memory.kernel.errors import ConfigError, ContentBlocked

ROUNDS = 8  # times that the text around findings is scanned again; more is an attack and blocked
SHORTEST = 6  # characters of the shortest secret, with its context
GLANCE = 16 << 10  # characters; longer texts seldom pass, and then the quick check is wasted

_MARKED = b"[REDACTED:"
_MARKER = re2.compile(r"\[REDACTED:[a-z0-9\-]+(?::[0-9a-f]{16})?\]")
_TANGLED = "tangled"  # the kind of a name with too many nested secrets


class _AllowPattern(Protocol):
    def fullmatch(self, text: str, /) -> object | None: ...


class Re2Filter:
    """A secrets filter over the scanner.

    Findings split a text into parts, which are scanned again on their own until nothing more is
    found. Markers split a text likewise, so that to clean it again changes nothing.
    """

    def __init__(
        self,
        *,
        mode: SecretsMode,
        allowed: Sequence[str] = (),
        report: Callable[[Incident], None] = lambda _: None,
    ) -> None:
        """Create a filter. `allowed` values are no secrets: literals or /regular expressions/.

        An expression must match the whole value. Raises ConfigError if one is not valid.
        """
        self._mode = mode
        self._report = report
        self._literals = frozenset(entry for entry in allowed if not _is_pattern(entry))
        self._patterns: list[_AllowPattern] = [
            _compile_allowed(entry) for entry in allowed if _is_pattern(entry)
        ]
        self._scanner = _scanner()

    def clean(self, text: str, /, *, where: str = "") -> str:
        """Return the text with its secrets redacted.

        `where` names the place of the text in reports. Raises ContentBlocked if the text must not
        be stored at all, and if the filter itself fails.
        """
        try:
            findings = self.find(text)
        except ContentBlocked:
            raise
        except Exception as exc:
            raise _filter_error() from exc
        if not findings:
            return text
        outcomes = [secrets.decide_outcome(finding.kind, self._mode) for finding in findings]
        self._report_all(findings, outcomes, where)
        if "blocked" in outcomes:
            kinds = {f.kind for f, o in zip(findings, outcomes, strict=True) if o == "blocked"}
            raise ContentBlocked(f"the text has a secret ({', '.join(sorted(kinds))}); not stored")
        return text if self._mode == "warn" else secrets.redact(text, findings)

    def clean_name(self, name: str, /, *, limit: int, where: str = "") -> str:
        """Return a name with its secrets redacted. Raises ContentBlocked if the filter fails."""
        try:
            findings = self.find(name)
        except ContentBlocked:
            findings = [Finding(kind=_TANGLED, start=0, end=len(name))]
        except Exception as exc:
            raise _filter_error() from exc
        keep = self._mode == "warn"
        self._report_all(findings, ["kept" if keep else "redacted"] * len(findings), where)
        return name if keep or not findings else secrets.redact_name(name, findings, limit)

    def is_clean(self, texts: Sequence[str], /) -> bool:
        """Return True if a quick check of all texts together shows that none has a secret.

        Raises ContentBlocked if the filter itself fails.
        """
        lines = "\n\n".join(texts)
        try:
            return len(lines) <= GLANCE and not self.suspects(lines)
        except Exception as exc:
            raise _filter_error() from exc

    def suspects(self, lines: str) -> bool:
        """Return whether a text made of some of these lines may have a secret."""
        data = lines.encode("utf-8", "surrogatepass")
        # The text beside a marker is scanned on its own.
        return _MARKED in data or self._scanner.suspects(data)

    def find(self, text: str) -> list[Finding]:
        """Return the secrets of a text, in order, without overlaps."""
        if len(text) < SHORTEST:
            return []
        data = text.encode("utf-8", "surrogatepass")
        spans = [_align_span(data, span) for span in self._spans(data)]
        if len(data) == len(text):
            return [Finding(kind=s.kind, start=s.start, end=s.end) for s in spans]
        findings, bytes_done, done = [], 0, 0
        for span in spans:
            start = done + _characters(data, bytes_done, span.start)
            done = start + _characters(data, span.start, span.end)
            bytes_done = span.end
            findings.append(Finding(kind=span.kind, start=start, end=done))
        return findings

    def _report_all(
        self, findings: Sequence[Finding], outcomes: Sequence[SecretOutcome], where: str
    ) -> None:
        for finding, outcome in zip(findings, outcomes, strict=True):
            self._report(
                Incident(kind=finding.kind, length=finding.length, where=where, outcome=outcome)
            )

    def _spans(self, data: bytes) -> list[SecretSpan]:
        work = [(0, len(data), 0)]
        if _MARKED in data:
            markers = [match.span() for match in _MARKER.finditer(data)]
            work = [(start, end, 0) for start, end in _gaps(0, len(data), markers)]
        secret_spans: list[SecretSpan] = []
        while work:
            start, end, depth = work.pop()
            part = data[start:end] if end - start < len(data) else data
            spans = self._scanner.scan(part, self._is_allowed)
            if not spans:
                continue
            if depth == ROUNDS:
                raise ContentBlocked("the text has too many nested secrets; not stored")
            placed = [SecretSpan(start + s.start, start + s.end, s.kind, s.rank) for s in spans]
            secret_spans += placed
            gaps = _gaps(start, end, [(s.start, s.end) for s in placed])
            work += [(first, last, depth + 1) for first, last in gaps]
        return sorted(secret_spans, key=lambda span: span.start)

    def _is_allowed(self, data: bytes, span: SecretSpan) -> bool:
        if not (self._literals or self._patterns):
            return False
        value = data[span.start : span.end].decode("utf-8", "replace")
        return value in self._literals or any(p.fullmatch(value) for p in self._patterns)


@cache
def _scanner() -> Scanner:
    """Return the one scanner of all filters: its automata take memory."""
    return Scanner()


def _filter_error() -> ContentBlocked:
    return ContentBlocked("the secrets filter failed; nothing was stored")


def _gaps(start: int, end: int, taken: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the gaps in [start, end) that are long enough for a secret."""
    edges = [start, *(edge for span in taken for edge in span), end]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(first, last) for first, last in pairs if last - first >= SHORTEST]


def _align_span(data: bytes, span: SecretSpan) -> SecretSpan:
    """Return the span widened to whole characters."""
    start, end = span.start, span.end
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return SecretSpan(start, end, span.kind, span.rank)


def _characters(data: bytes, start: int, end: int) -> int:
    return len(data[start:end].decode("utf-8", "surrogatepass"))


def _is_pattern(entry: str) -> bool:
    return len(entry) > 2 and entry.startswith("/") and entry.endswith("/")


def _compile_allowed(entry: str) -> "_AllowPattern":
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: _AllowPattern = re2.compile(entry[1:-1], options)
    except re2.error as exc:
        raise ConfigError(f"security.allow: {entry} is not a valid regular expression") from exc
    return compiled
