"""Facts: what is held to be true, how certain it is, and the earlier values."""

from dataclasses import dataclass, replace

from agent_memory.kernel import ids, limits
from agent_memory.kernel.ids import KnowledgeId, Millis

DEFAULT_SCOPE = "global"
DEFAULT_TYPE = "fact"
FIRST_CONFIDENCE = 0.7  # after one claim
GAIN = 0.3  # share of the remaining doubt that each confirmation removes
CERTAIN = 0.99  # confirmations do not raise the confidence above this


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact, unique by scope, agent, user and key; its id is derived from them."""

    id: KnowledgeId
    scope: str = DEFAULT_SCOPE
    agent_id: str | None = None
    user_id: str | None = None
    key: str
    value: str
    fact_type: str = DEFAULT_TYPE
    confidence: float = FIRST_CONFIDENCE
    times_confirmed: int = 1
    access_count: int = 0
    contradictions: int = 0  # how many values it had before this one
    created_ms: Millis
    updated_ms: Millis
    valued_ms: Millis  # when it got this value
    session_id: str | None = None  # where its value was said
    event_id: str | None = None  # the words that its value comes from

    def __post_init__(self) -> None:
        limits.check_name("scope", self.scope)
        limits.check_name("key", self.key)
        limits.check_name("fact_type", self.fact_type)
        limits.check_name("agent_id", self.agent_id or "", required=False)
        limits.check_name("user_id", self.user_id or "", required=False)
        limits.check_name("session_id", self.session_id or "", required=False)
        limits.check_name("event_id", self.event_id or "", required=False)
        limits.check_text("value", self.value, limits.VALUE_CHARS)
        limits.check_share("confidence", self.confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """An earlier value of a fact. `number` counts them."""

    id: KnowledgeId
    fact_id: KnowledgeId
    number: int
    value: str
    fact_type: str
    confidence: float
    times_confirmed: int
    since_ms: Millis
    until_ms: Millis
    session_id: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement that something is true. The ids say where it was said."""

    scope: str = DEFAULT_SCOPE
    agent_id: str | None = None
    user_id: str | None = None
    key: str
    value: str
    fact_type: str | None = None  # None: unchanged, or the default
    confidence: float | None = None
    session_id: str | None = None
    event_id: str | None = None

    @property
    def fact_id(self) -> KnowledgeId:
        # None differs from "": an agent without a name is not every agent.
        owners = ("-" if name is None else f"+{name}" for name in (self.agent_id, self.user_id))
        return ids.derive_id("fact", self.scope, *owners, self.key)


def apply_claim(fact: Fact | None, claim: Claim, at: Millis) -> tuple[Fact, Former | None]:
    """Return the fact after this claim, and the value that the claim replaced, if any."""
    if fact is None:
        return _create_fact(claim, at), None
    if fact.value == claim.value:
        return _confirm_fact(fact, claim, at), None
    fact_type = claim.fact_type or fact.fact_type
    later = find_later(fact, at)
    changed, former = replace_value(fact, claim.value, later, fact_type, claim.confidence)
    return replace(changed, session_id=claim.session_id, event_id=claim.event_id), former


def find_later(fact: Fact, at: Millis) -> Millis:
    """Return the time of a new value: after that of the present one, which may come from a clock
    that is ahead. Otherwise the new value would lose against it elsewhere."""
    return Millis(max(at, fact.valued_ms + 1))


def replace_value(
    fact: Fact, value: str, at: Millis, fact_type: str, confidence: float | None
) -> tuple[Fact, Former]:
    """Give the fact another value; confidence, confirmations and source start anew."""
    former = Former(
        id=ids.derive_id("former", fact.id, str(fact.contradictions)),
        fact_id=fact.id,
        number=fact.contradictions,
        value=fact.value,
        fact_type=fact.fact_type,
        confidence=fact.confidence,
        times_confirmed=fact.times_confirmed,
        since_ms=fact.valued_ms,
        until_ms=at,
        session_id=fact.session_id,
        event_id=fact.event_id,
    )
    return replace(
        fact,
        value=value,
        fact_type=fact_type,
        confidence=FIRST_CONFIDENCE if confidence is None else confidence,
        times_confirmed=1,
        contradictions=fact.contradictions + 1,
        updated_ms=at,
        valued_ms=at,
        session_id=None,
        event_id=None,
    ), former


def _create_fact(claim: Claim, at: Millis) -> Fact:
    return Fact(
        id=claim.fact_id,
        scope=claim.scope,
        agent_id=claim.agent_id,
        user_id=claim.user_id,
        key=claim.key,
        value=claim.value,
        fact_type=DEFAULT_TYPE if claim.fact_type is None else claim.fact_type,
        confidence=FIRST_CONFIDENCE if claim.confidence is None else claim.confidence,
        created_ms=at,
        updated_ms=at,
        valued_ms=at,
        session_id=claim.session_id,
        event_id=claim.event_id,
    )


def _confirm_fact(fact: Fact, claim: Claim, at: Millis) -> Fact:
    raised = fact.confidence + GAIN * (1 - fact.confidence)
    confidence = max(fact.confidence, min(CERTAIN, raised))
    is_known = fact.session_id or fact.event_id  # the first source stays
    return replace(
        fact if is_known else replace(fact, session_id=claim.session_id, event_id=claim.event_id),
        fact_type=claim.fact_type or fact.fact_type,
        confidence=max(confidence, claim.confidence or 0.0),
        times_confirmed=fact.times_confirmed + 1,
        updated_ms=at,
    )
