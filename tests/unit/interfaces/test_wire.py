"""Values to and from the wire."""

import base64
from dataclasses import replace
from http import HTTPStatus

import grpc
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import Hit
from agent_memory.features.log.model.events import Event, EventPage, EventRole, EventType
from agent_memory.features.log.model.tokens import format_token, parse_token
from agent_memory.features.log.operations import EventListing
from agent_memory.features.recall.search_operations import MAX_HIT_CHARS, HitAnswer
from agent_memory.interfaces.wire.errors import ERRORS, error_json, get_codes
from agent_memory.interfaces.wire.events import (
    event_to_proto,
    outcomes_to_proto,
    parse_event,
)
from agent_memory.interfaces.wire.protobuf import to_message
from agent_memory.kernel import errors
from agent_memory.kernel.errors import AgentMemoryError, InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.launcher import command_client, starting
from agent_memory.proto import memory_pb2 as pb


def event(
    kind: EventType = EventType.USER_MESSAGE, role: EventRole = EventRole.USER, name: str = "e"
) -> Event:
    return Event(
        event_id=EventId(name),
        session_id=SessionId("s:1"),
        at_ms=Millis(1_700_000_000_000),
        type=kind,
        role=role,
        text="Grüße 😀\n",
        metadata={"cwd": "/home/ada/code", "leer": ""},
    )


def kinds(of: type[AgentMemoryError]) -> list[type[AgentMemoryError]]:
    """The errors of the domain; those of an adapter never leave it as such."""
    below = [kind for kind in of.__subclasses__() if kind.__module__ == errors.__name__]
    return [of, *(deeper for kind in below for deeper in kinds(kind))]


class TestErrors:
    @pytest.mark.parametrize("kind", kinds(AgentMemoryError))
    def test_every_error_has_codes_that_exist(self, kind: type[AgentMemoryError]) -> None:
        codes = get_codes(kind("why"))
        assert codes.grpc in grpc.StatusCode.__members__
        if kind is errors.Cancelled:  # as a shell has it after Ctrl-C, and as nginx has it
            assert (codes.exit, codes.http) == (command_client.INTERRUPTED, 499)
            return
        assert 0 < codes.exit < 126
        assert HTTPStatus(codes.http) >= HTTPStatus.BAD_REQUEST

    @pytest.mark.parametrize(
        ("kind", "codes"),
        [
            (errors.InvalidInput, (11, "INVALID_ARGUMENT", 422, -32002)),
            (errors.NotFound, (10, "NOT_FOUND", 404, -32001)),
            (errors.ContentBlocked, (12, "FAILED_PRECONDITION", 422, -32003)),
            (errors.Overloaded, (1, "RESOURCE_EXHAUSTED", 503, -32000)),
            (errors.StorageFailed, (4, "INTERNAL", 500, -32000)),
            (errors.StorageClosed, (4, "UNAVAILABLE", 503, -32000)),
        ],
    )
    def test_codes_are_kept(
        self, kind: type[AgentMemoryError], codes: tuple[int, str, int, int]
    ) -> None:
        assert tuple(get_codes(kind("why"))) == codes

    def test_the_launcher_has_the_same_exit_codes(self) -> None:
        assert ERRORS[errors.ConfigError].exit == starting.CONFIG_ERROR
        assert ERRORS[errors.StorageFailed].exit == command_client.STORAGE_ERROR

    def test_an_error_that_is_not_listed_has_the_codes_of_its_nearest_parent(self) -> None:
        assert errors.StorageLocked not in ERRORS
        locked = get_codes(errors.StorageLocked("why"))
        assert locked == get_codes(errors.StorageFailed("why"))

    @pytest.mark.parametrize(
        ("kind", "code"),
        [
            (errors.NotFound, -32001),
            (errors.InvalidInput, -32002),
            (errors.ContentBlocked, -32003),
            (errors.StorageLocked, -32000),
        ],
    )
    def test_streams_tell_an_error_by_its_number(
        self, kind: type[errors.AgentMemoryError], code: int
    ) -> None:
        told = error_json(kind("why"))
        assert (told["code"], told["message"]) == (code, "why")


class TestEvents:
    @pytest.mark.parametrize("role", EventRole)
    @pytest.mark.parametrize("kind", EventType)
    def test_an_event_comes_back_as_it_was(self, kind: EventType, role: EventRole) -> None:
        sent = event_to_proto(event(kind, role)).SerializeToString()
        assert parse_event(pb.Event.FromString(sent)) == event(kind, role)

    @pytest.mark.parametrize("kind", EventType)
    def test_types_have_the_numbers_of_the_wire(self, kind: EventType) -> None:
        assert pb.EventType.Value(f"EVENT_TYPE_{kind.name}") == kind

    @pytest.mark.parametrize("role", EventRole)
    def test_roles_have_the_numbers_of_the_wire(self, role: EventRole) -> None:
        assert pb.EventRole.Value(f"EVENT_ROLE_{role.name}") == role

    def test_we_know_every_type_and_role_of_the_wire(self) -> None:
        assert sorted(pb.EventType.values()) == [0, *sorted(EventType)]
        assert sorted(pb.EventRole.values()) == [0, *sorted(EventRole)]

    def test_an_unspecified_role_is_the_user(self) -> None:
        message = event_to_proto(event(role=EventRole.TOOL))
        message.ClearField("role")
        assert parse_event(message).role is EventRole.USER

    @pytest.mark.parametrize("number", [0, 9, 99, -1])
    def test_an_unknown_type_is_refused_with_those_that_are_known(self, number: int) -> None:
        message = event_to_proto(event())
        message.event_type = number  # type: ignore[assignment]
        with pytest.raises(InvalidInput, match=rf"^event_type is {number};.*8 \(SESSION_END\)"):
            parse_event(message)

    @pytest.mark.parametrize("number", [5, 99, -1])
    def test_an_unknown_role_is_refused_with_those_that_are_known(self, number: int) -> None:
        message = event_to_proto(event())
        message.role = number  # type: ignore[assignment]
        with pytest.raises(InvalidInput, match=rf"^role is {number};.*4 \(TOOL\)"):
            parse_event(message)

    def test_an_event_beyond_a_limit_is_refused(self) -> None:
        message = event_to_proto(event())
        message.timestamp_ms = MAX_MILLIS + 1
        with pytest.raises(InvalidInput, match="timestamp_ms"):
            parse_event(message)


def _pack(page: EventPage) -> pb.GetEventsResponse:
    return to_message(pb.GetEventsResponse, EventListing.from_page(page))


class TestPages:
    def test_a_last_page_has_no_token(self) -> None:
        sent = _pack(EventPage(events=(event(name="1"), event(name="2"))))
        assert [message.event_id for message in sent.events] == ["1", "2"]
        assert not sent.has_more
        assert not sent.HasField("continuation_token")

    def test_an_unfinished_page_has_a_token_that_leads_on(self) -> None:
        at = Position(at_ms=Millis(7), event_id=EventId("1"))
        sent = _pack(EventPage(events=(event(name="1"),), next=at))
        assert sent.has_more
        assert parse_token(sent.continuation_token) == at

    def test_outcomes_keep_their_order_and_say_new_known_or_why_not(self) -> None:
        sent = outcomes_to_proto(["a", "b", "c"], [True, False, InvalidInput("too long")])
        assert [(o.event_id, o.created, o.error, o.HasField("error")) for o in sent.outcomes] == [
            ("a", True, "", False),
            ("b", False, "", False),
            ("c", False, "too long", True),
        ]


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode()


class TestTokens:
    @given(
        at_ms=st.integers(0, MAX_MILLIS),
        event_id=st.text(min_size=1),
    )
    def test_a_token_comes_back_as_it_was(self, at_ms: int, event_id: str) -> None:
        at = Position(at_ms=Millis(at_ms), event_id=EventId(event_id))
        assert parse_token(format_token(at)) == at

    @pytest.mark.parametrize(
        "token",
        [
            "",
            "!!!!",
            "MTpl\n",
            "MTp",
            "é",
            "\ud800",
            encoded(b"no colon"),
            encoded(b"1:"),
            encoded(b":e"),
            encoded(b"one:e"),
            encoded(b"1:\xff"),
            encoded(b"-1:e"),
            encoded(b"%d:e" % (MAX_MILLIS + 1)),
            encoded(b"1" * 5_000 + b":e"),
        ],
        ids=ascii,
    )
    def test_garbage_is_refused(self, token: str) -> None:
        with pytest.raises(InvalidInput, match="continuation_token"):
            parse_token(token)

    @given(token=st.text())
    def test_any_text_is_a_position_or_refused(self, token: str) -> None:
        try:
            at = parse_token(token)
        except InvalidInput:
            return
        assert 0 <= at.at_ms <= MAX_MILLIS
        assert at.event_id


class TestHits:
    @pytest.mark.parametrize("kind", DocumentKind)
    def test_what_is_cut_says_so_and_how_to_see_all_of_it(self, kind: DocumentKind) -> None:
        document = Document(
            kind=kind, id="the-id", owner=Owner("o"), at_ms=Millis(5), title="t", text="x" * 30_000
        )
        if kind is DocumentKind.MEMORY:
            document = replace(document, id="subcog://user/decisions/0123456789ab:0")
        hit = HitAnswer.from_hit(Hit(document=document, score=0.5, parts={}))
        shown = msgspec.to_builtins(hit.show("full"))
        text = shown["content" if kind is DocumentKind.MEMORY else "text"]
        assert len(text) == MAX_HIT_CHARS
        assert shown["truncated"]
        assert shown["show_all"].startswith("memory show ")

        whole = msgspec.to_builtins(hit.show("full", whole=True))
        assert whole["content" if kind is DocumentKind.MEMORY else "text"] == document.text
        assert not whole["truncated"]
        assert "show_all" not in whole
