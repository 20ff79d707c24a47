"""The secrets filter on any text: idempotent, complete for known secrets, harmless otherwise."""

import string
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services.ingest import Ingest, Refusal
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.adapters.scanner import Scanner
from agent_memory.features.secrets.model import secrets
from agent_memory.features.secrets.model.secrets import Finding, Incident, SecretsMode
from agent_memory.kernel.errors import ContentBlocked
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.store.committer import CommittedStore
from bench.secret_values import WRAPPINGS, remains
from tests.contract.stores import unexpected
from tests.memory_engine import MemoryEngine

CLEANER = Re2Filter(mode="redact")
unhurried = settings(deadline=None)

alnum = st.text(string.ascii_letters + string.digits, min_size=36, max_size=36)
PUNCTUATION = list("=:\"'`<>{}[]()|,;&@/\\ \n\t-_.")
PARTS = [
    *(
        "password",
        "token",
        "secret",
        "api_key",
        "key",
        "PASS",
        "export ",
        " is ",
        "=>",
        "\\n",
        '\\"',
    ),
    *("Authorization: Bearer ", "://", "curl -u a:", "kind: Secret\n", "hunter2", "S3cr3t!x"),
    *("ghp_", "AKIA", "eyJ", ".eyJ", "sk-", "xoxb-", "dapi", "-----BEGIN ", "PRIVATE KEY-----"),
    *(
        "\x1b[31m",
        "\x1b[0m",
        "%3D",
        "%22",
        "\\u003d",
        "\\x3d",
        "&quot;",
        "&#61;",
        "\u200b",
        "\u00ad",
    ),
    *(
        "=\n",
        "\\\n",
        "\b",
        "\0",
        "=3D",
        "Z2hwXzEy",
        "6768705f",
        "\uff1d",
        "\u00a0",
        "\\\\n",
        "\x1b]0;x\x07",
    ),
    *("4111111111111111", "123-45-6789", "[REDACTED:", "[REDACTED:token]", "é", "🔑"),
]
pieces = st.one_of(
    st.sampled_from([*PUNCTUATION, *PARTS]),
    alnum,
    st.text("0123456789abcdef", min_size=32, max_size=32),
    st.text(max_size=12),
)
texts = st.lists(pieces, max_size=24).map("".join)
tokens = st.sampled_from(["ghp_", "AKIA", "sk-ant-api03-", "npm_", "", "x"])
broken_texts = st.builds(  # a run of letters, cut into lines of one width
    lambda start, run, width, end: end.join(
        (start + run)[at : at + width] for at in range(0, len(start + run), width)
    ),
    tokens,
    alnum,
    st.integers(3, 30),
    st.sampled_from(["\n", "=\n", "\\\n", " \r\n", "\n\n"]),
)
assigned_texts = st.builds(
    "{}{}{}".format,
    st.sampled_from(["password", "DB_PASS", "api_key", "the token", "session", "user"]),
    st.sampled_from(["=", ": ", '": "', " is ", " "]),
    st.sampled_from(["Tr0ub4dor9", "hunter2", "a word", "9f86d081884c7d659a2feaa0", "%s"]),
)

metadata = st.dictionaries(
    st.one_of(st.sampled_from(PARTS), st.text(max_size=8)), texts, max_size=3
)


class ThoroughScanner(Scanner):
    """A scanner that tries every rule on every text, without a quick check before."""

    def suspects(self, lines: bytes) -> bool:  # noqa: ARG002
        return True

    def _has_lead(self, lines: bytes) -> bool:  # noqa: ARG002
        return True


class Thorough(Re2Filter):
    """A filter that always checks each text on its own."""

    def __init__(self, *, mode: SecretsMode, report: Callable[[Incident], None]) -> None:
        super().__init__(mode=mode, report=report)
        self._scanner = ThoroughScanner()

    def is_clean(self, texts: Sequence[str], /) -> bool:  # noqa: ARG002
        return False


THOROUGH = Thorough(mode="redact", report=lambda _: None)


class Ingesting:
    """Events on their way through a filter, and its reports."""

    def __init__(self, log: EventLog, kind: type[Re2Filter] | type[Thorough]) -> None:
        self._told: list[Incident] = []
        cleaner = kind(mode="redact", report=self._told.append)
        self._ingest = Ingest(log=log, secrets=cleaner, on_record=lambda: None)

    def outcomes(self, events: Sequence[Event]) -> tuple[list[Event | str], list[Incident]]:
        """Clean them together."""
        self._told.clear()
        results = [
            str(result) if isinstance(result, Refusal) else result
            for result in self._ingest.clean_all(events)
        ]
        return list(results), list(self._told)

    def outcome(self, event: Event) -> tuple[Event | str, list[Incident]]:
        self._told.clear()
        try:
            return self._ingest.clean(event), list(self._told)
        except ContentBlocked as exc:
            return str(exc), list(self._told)


@pytest.fixture(scope="module")
def log() -> Iterator[EventLog]:
    store = CommittedStore(MemoryEngine(), watch=unexpected)
    yield StoredEventLog(store)
    store.close()


@pytest.fixture(scope="module")
def ways(log: EventLog) -> tuple[Ingesting, Ingesting]:
    return Ingesting(log, Re2Filter), Ingesting(log, Thorough)


def cleaned(text: str) -> str | None:
    try:
        return CLEANER.clean(text)
    except ContentBlocked:
        return None


@unhurried
@given(text=texts)
def test_cleaning_is_idempotent(text: str) -> None:
    once = cleaned(text)
    assert once is None or CLEANER.clean(once) == once


@unhurried
@given(text=texts)
def test_findings_are_in_order_and_the_rest_stays(text: str) -> None:
    try:
        found = CLEANER.find(text)
    except ContentBlocked:
        return
    edges = [edge for finding in found for edge in (finding.start, finding.end)]
    assert edges == sorted(edges)
    assert all(0 <= f.start < f.end <= len(text) for f in found)
    rest = secrets.redact(text, found)
    for finding in found:
        rest = rest.replace(secrets.format_marker(finding.kind), "", 1)
    assert len(rest) == len(text) - sum(f.length for f in found)


@unhurried
@given(parts=st.lists(texts, max_size=4))
def test_texts_that_pass_the_quick_check_have_no_secret(parts: list[str]) -> None:
    if CLEANER.is_clean(parts):
        assert [THOROUGH.find(part) for part in parts] == [[] for _ in parts]


def found(cleaner: Re2Filter, text: str) -> list[Finding] | str:
    try:
        return cleaner.find(text)
    except ContentBlocked as exc:
        return str(exc)


@settings(deadline=None, max_examples=4 * settings().max_examples)
@given(text=st.one_of(texts, broken_texts, assigned_texts))
def test_the_quick_checks_of_the_scanner_change_no_finding(text: str) -> None:
    assert found(CLEANER, text) == found(THOROUGH, text)


def build_event(text: str, metadata: dict[str, str]) -> Event:
    return Event(
        event_id=EventId("e"),
        session_id=SessionId("s"),
        at_ms=Millis(1),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=text,
        metadata=metadata,
    )


@unhurried
@given(text=texts, metadata=metadata)
def test_an_event_is_cleaned_as_its_text_and_each_value_would_be_alone(
    ways: tuple[Ingesting, Ingesting], text: str, metadata: dict[str, str]
) -> None:
    event = build_event(text, metadata)
    quick, thorough = ways
    assert quick.outcome(event) == thorough.outcome(event)


@unhurried
@given(parts=st.lists(st.tuples(texts, metadata), max_size=12))
def test_events_are_cleaned_together_as_each_would_be_alone(
    ways: tuple[Ingesting, Ingesting], parts: list[tuple[str, dict[str, str]]]
) -> None:
    events = [build_event(*part) for part in parts]
    quick, thorough = ways
    together, reported = quick.outcomes(events)
    alone = [thorough.outcome(event) for event in events]
    assert together == [result for result, _ in alone]
    assert reported == [incident for _, incidents in alone for incident in incidents]


@unhurried
@given(before=st.text(max_size=40), body=alnum, after=st.text(max_size=40))
def test_a_known_token_never_survives(before: str, body: str, after: str) -> None:
    token = f"ghp_{body}"
    if not secrets.is_dummy(token):
        assert token not in (cleaned(f"{before} {token} {after}") or "")


@unhurried
@given(word=st.text(string.ascii_letters, min_size=5, max_size=9), number=st.integers(100, 999))
def test_a_password_never_survives_its_name(word: str, number: int) -> None:
    value = f"{word}!{number}#x"
    if not secrets.is_dummy(value):
        assert value not in (cleaned(f'password = "{value}"') or "")


@given(digits=st.text(string.digits, min_size=12, max_size=18))
def test_one_digit_makes_luhns_sum_right(digits: str) -> None:
    assert sum(secrets.is_luhn_valid(digits + last) for last in string.digits) == 1


@given(text=st.text(string.ascii_letters + " .,\n", max_size=300))
def test_letters_and_blanks_alone_are_no_secret(text: str) -> None:
    assert CLEANER.clean(text) == text


# Those that keep a text on one line and in one piece can be wrapped again.
CHAINED = (
    "colour",
    "bold, glued",
    "colour inside",
    "title",
    "after %3D",
    "after %22",
    "after \\u003d",
    "after &#61;",
    "zero-width around",
    "zero-width inside",
    "soft hyphens",
    "base64",
    "base64 of a line",
    "hex",
)


def _is_encoded_as_bytes(chain: list[str]) -> bool:
    """Return whether base64 or hex encodes non-ASCII throughout: it looks like an image."""
    marked = [at for at, name in enumerate(chain) if name in ("zero-width inside", "soft hyphens")]
    return any(name.startswith(("base64", "hex")) for at in marked for name in chain[at:])


@unhurried
@given(
    body=alnum,
    chain=st.lists(st.sampled_from(CHAINED), min_size=1, max_size=3),
    before=st.sampled_from(["", "a ", "x: ", "(", "\n"]),
    after=st.sampled_from(["", " z", ")", "\nnext line", ", and more"]),
)
def test_no_secret_is_left_in_any_chain_of_wrappings(
    body: str, chain: list[str], before: str, after: str
) -> None:
    token = f"ghp_{body}"
    assume(not _is_encoded_as_bytes(chain))
    if secrets.is_dummy(token):
        return
    wrapped = token
    for name in chain:
        wrapped = WRAPPINGS[name](wrapped)
    found = CLEANER.find(f"{before}{wrapped}{after}")
    assert found
    cleaned = CLEANER.clean(f"{before}{wrapped}{after}")
    assert not remains(token, cleaned)
    assert cleaned.startswith(before)
    assert cleaned.endswith(after)
    assert CLEANER.clean(cleaned) == cleaned


@unhurried
@given(name=texts)
def test_a_clean_name_is_stable_and_clean(name: str) -> None:
    clean = CLEANER.clean_name(name, limit=256)
    assert clean == CLEANER.clean_name(name, limit=256)
    assert clean == name or len(clean) <= 256
    assert CLEANER.clean_name(clean, limit=256) == clean


@unhurried
@given(one=alnum, other=alnum)
def test_names_with_different_secrets_stay_different(one: str, other: str) -> None:
    first, second = (CLEANER.clean_name(f"of-ghp_{each}", limit=256) for each in (one, other))
    assert (first == second) is (one == other)
    for each in (one, other):
        if not secrets.is_dummy(f"ghp_{each}"):
            assert each not in first + second
