"""Properties of the first frame: the daemon parses exactly what the launcher sends."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.interfaces.cli import serve
from agent_memory.interfaces.command_socket import frames, server
from agent_memory.kernel.errors import InvalidInput
from agent_memory.launcher import command_client, mcp_bridge

unhurried = settings(deadline=None)

HEAD = 5  # kind and length
NOT_ZERO = st.integers(1, 255).map(lambda value: bytes([value]))
AWKWARD = st.sampled_from(
    [b"a", b"=", b"-", b"\n", b"\r", b" ", b"'", b'"', b"\\", b"\x1b", b"\xff", "é日😀".encode()]
)
# As the kernel gives them: any bytes but zero, which Python decodes with surrogate escapes.
arguments = st.lists((AWKWARD | NOT_ZERO), max_size=12).map(
    lambda parts: os.fsdecode(b"".join(parts))
)
names = st.text(st.sampled_from("ABC_x09"), max_size=6).map(lambda text: f"MEMORY_TEST_{text}")
environments = st.dictionaries(names, arguments, max_size=5)
words = st.lists(
    arguments
    | st.sampled_from(
        ["query", "events", "-", "--", "-e", "--endpoint", "--endpoint=x", "-c", "--config=y", "-h"]
    ),
    max_size=8,
)


def hello(program: str, given_words: Sequence[str], environ: Mapping[str, str]) -> bytes:
    """Return the payload that the launcher sends for a call."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [each for each in os.environ if each.startswith("MEMORY_TEST_")]:
            patch.delenv(name)
        for name, value in environ.items():
            patch.setenv(name, value)
        sent = command_client.hello(program, list(given_words))
    assert sent[:1] == command_client.HELLO
    assert int.from_bytes(sent[1:HEAD], "big") == len(sent) - HEAD
    return sent[HEAD:]


def packed(fields: Sequence[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in fields)


def fields_of(payload: bytes) -> list[bytes]:
    found = []
    while payload:
        end = 4 + int.from_bytes(payload[:4], "big")
        found.append(payload[4:end])
        payload = payload[end:]
    return found


@unhurried
@given(program=st.sampled_from(command_client.PROGRAMS), given_words=words, environ=environments)
def test_a_call_arrives_as_it_was_made(
    program: str, given_words: list[str], environ: dict[str, str]
) -> None:
    call = frames.parse_call(hello(program, given_words, environ))

    assert call.program == program
    assert call.arguments == tuple(given_words)
    assert call.cwd == Path.cwd()
    assert call.version == command_client.VERSION
    assert len(call.nonce) == 32
    arrived = {n: value for n, value in call.environ.items() if n.startswith("MEMORY_TEST_")}
    assert arrived == environ
    assert (call.input_is_terminal, call.output_is_terminal, call.errors_are_terminal) == tuple(
        os.isatty(descriptor) for descriptor in range(3)
    )


def test_only_what_commands_need_of_the_environment_is_sent() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
        patch.setenv("GIT_DIR", "/repository")
        call = frames.parse_call(command_client.hello("memory", [])[HEAD:])
    assert "AWS_SECRET_ACCESS_KEY" not in call.environ
    assert call.environ["GIT_DIR"] == "/repository"


def test_every_call_has_a_number_of_its_own() -> None:
    calls = [frames.parse_call(command_client.hello("memory", [])[HEAD:]) for _ in range(100)]
    assert len({call.nonce for call in calls}) == 100


def test_a_call_is_not_shown_with_its_environment() -> None:
    call = frames.parse_call(hello("memory", [], {"MEMORY_TEST_KEY": "hush"}))
    assert "hush" not in repr(call)


@unhurried
@given(given_words=words, environ=environments, data=st.data())
def test_a_call_that_was_cut_short_is_refused_or_lacks_only_environment(
    given_words: list[str], environ: dict[str, str], data: st.DataObject
) -> None:
    whole = hello("memory", given_words, environ)
    ends = [
        sum(4 + len(each) for each in fields_of(whole)[:n]) for n in range(9 + len(given_words))
    ]
    part = whole[: data.draw(st.sampled_from(ends) | st.integers(0, len(whole) - 1))]
    try:
        call = frames.parse_call(part)
    except InvalidInput:
        return
    assert call.arguments == tuple(given_words)


@unhurried
@given(payload=st.binary())
def test_no_call_is_made_of_random_bytes(payload: bytes) -> None:
    with pytest.raises(InvalidInput):
        frames.parse_call(payload)


@unhurried
@given(
    terminals=st.sampled_from([b"", b"1", b"101", b"xyz0"]),
    numbers=st.lists(st.sampled_from([b"0", b"1", b"2", b"-1", b"", b"x"]), min_size=3, max_size=3),
    rest=st.lists(st.sampled_from([b"", b"x", b"a=b", b"=", b"\xff"]), max_size=4),
)
def test_any_fields_are_a_call_or_refused(
    terminals: bytes, numbers: list[bytes], rest: list[bytes]
) -> None:
    columns, lines, count = numbers
    head = [b"1", b"0.1.0", b"memory", b"/", terminals, columns, lines, b"nonce", count]
    try:
        call = frames.parse_call(packed([*head, *rest]))
    except InvalidInput:
        return
    assert [os.fsencode(each) for each in call.arguments] == rest[: int(count)]
    assert len(call.arguments) == int(count)


@unhurried
@given(
    payload=st.binary(max_size=100),
    kind=st.sampled_from([command_client.INPUT, command_client.OUT]),
)
def test_the_daemon_reads_the_frame_that_was_sent(payload: bytes, kind: bytes) -> None:
    async def read() -> tuple[bytes, bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(command_client.frame(kind, payload))
        return await frames.read(reader)

    assert asyncio.run(read()) == (kind, payload)


def test_both_ends_know_the_same_words() -> None:
    assert (mcp_bridge.MCP, command_client.STDIO) == (server.MCP, serve.STDIO)


class TestOutline:
    @unhurried
    @given(given_words=words)
    def test_words_are_no_options_and_options_no_words(self, given_words: list[str]) -> None:
        found, flags = command_client.split_arguments(given_words)
        assert all(word == "-" or not word.startswith("-") for word in found)
        assert all(flag.startswith("-") and "=" not in flag for flag in flags)

    @unhurried
    @given(given_words=words)
    def test_words_keep_their_order_and_come_from_the_arguments(
        self, given_words: list[str]
    ) -> None:
        found, flags = command_client.split_arguments(given_words)
        rest = iter(given_words)
        assert all(word in rest for word in found)
        assert flags <= {word.partition("=")[0] for word in given_words}

    @unhurried
    @given(before=words, after=words)
    def test_nothing_behind_a_double_dash_counts(self, before: list[str], after: list[str]) -> None:
        plain = [word for word in before if word not in command_client.OPTIONS_WITH_VALUE]
        assert command_client.split_arguments(
            [*plain, "--", *after]
        ) == command_client.split_arguments(plain)

    @unhurried
    @given(option=st.sampled_from(command_client.OPTIONS_WITH_VALUE), value=arguments, rest=words)
    def test_the_value_of_an_option_is_neither_word_nor_option(
        self, option: str, value: str, rest: list[str]
    ) -> None:
        found, flags = command_client.split_arguments(rest)
        assert command_client.split_arguments([option, value, *rest]) == (found, flags | {option})

    @unhurried
    @given(option=st.sampled_from(["--config", "--endpoint"]), value=arguments, rest=words)
    def test_nor_is_one_that_is_joined_to_it(
        self, option: str, value: str, rest: list[str]
    ) -> None:
        found, flags = command_client.split_arguments(rest)
        assert command_client.split_arguments([f"{option}={value}", *rest]) == (
            found,
            flags | {option},
        )

    @pytest.mark.parametrize(
        ("given_words", "expected"),
        [
            ([], ([], set())),
            (["query", "events", "--from", "0"], (["query", "events", "0"], {"--from"})),
            (["-e", "localhost:1", "query"], (["query"], {"-e"})),
            (["query", "-e", "-x", "events"], (["query", "events"], {"-e"})),
            (["--config=a=b", "status"], (["status"], {"--config"})),
            (["admin", "--db-path", "/x", "stats"], (["admin", "stats"], {"--db-path"})),
            (["-", "-h"], (["-"], {"-h"})),
            (["-c"], ([], {"-c"})),
        ],
    )
    def test_by_example(self, given_words: list[str], expected: tuple[list[str], set[str]]) -> None:
        assert command_client.split_arguments(given_words) == expected


class TestConfigFile:
    @unhurried
    @given(path=arguments.filter(bool), form=st.sampled_from(["-c", "--config", "--config="]))
    def test_it_is_found_in_each_form_and_absolute(self, path: str, form: str) -> None:
        given_words = [f"{form}{path}"] if form.endswith("=") else [form, path]
        assert command_client.config_file(["memory", *given_words]) == str(
            os.path.abspath(path)  # noqa: PTH100  # what the launcher does too
        )

    @pytest.mark.parametrize("given_words", [[], ["-c"], ["--configs=x"], ["status"]])
    def test_without_one_there_is_none(self, given_words: list[str]) -> None:
        assert command_client.config_file(given_words) is None
