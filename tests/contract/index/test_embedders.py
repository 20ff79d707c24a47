"""The Embedder port: the contract of every embedder, and every failure of the remote one."""

import json
import os
import shutil
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tokenizers
from numpy.typing import NDArray
from structlog.testing import capture_logs

from agent_memory.features.index.adapters.bge import DIMENSION, QUESTION_PREFIX, Bge
from agent_memory.features.index.adapters.bge_model import MAX_TOKENS
from agent_memory.features.index.adapters.embedder_process import EmbedderProcess
from agent_memory.features.index.adapters.openai_embedder import DEFAULT_MODEL, OpenAiEmbedder
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.ports import Embedder
from agent_memory.features.memories.model import duplicates
from agent_memory.kernel.errors import ConfigError, EmbedderFailed, EmbedderRefused
from agent_memory.platform.foreground import Foreground
from tests.contract.scripted_llm import TIMEOUT, Reply, ScriptedLlm, Step, error, scripted
from tests.embedders import HashingEmbedder
from tests.processes import wait_for_end

KEY = "sk-a-key-like-no-other"
TEXTS = [
    "The nightly import loses rows when two workers pick the same batch.",
    "",
    "Lunch at noon?",
    "東京都に住んでいます",
    "word " * 3_000,
]


def floats(vector: Vector) -> NDArray[np.float32]:
    return np.frombuffer(vector, "<f4")


def cosine(one: Vector, other: Vector) -> float:
    return float(floats(one) @ floats(other))


def answer(*embeddings: Sequence[float], order: Sequence[int] | None = None) -> Reply:
    """Build an answer of `/v1/embeddings`."""
    numbers = range(len(embeddings)) if order is None else order
    items = [
        {"object": "embedding", "index": number, "embedding": list(embedding)}
        for number, embedding in zip(numbers, embeddings, strict=True)
    ]
    return Reply(json.dumps({"object": "list", "data": items, "model": "m"}).encode())


class _Handler(BaseHTTPRequestHandler):
    """Answers each request with its vectors, the last one first and none of length one."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        vectors = HashingEmbedder().embed(asked["input"])
        scaled = [[3.0 * value for value in struct.unpack("<64f", each)] for each in vectors]
        body = answer(*scaled[::-1], order=range(len(scaled))[::-1]).body
        self.send_response_only(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    log_message: Callable[..., None] = lambda *_: None


@contextmanager
def embedding_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(TIMEOUT)
        server.server_close()


@pytest.fixture(scope="module", params=["bge", "process", "openai", "hashing"])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    """Yield every embedder; add a new one here."""
    match request.param:
        case "bge":
            yield Bge()
        case "process":
            process = EmbedderProcess()
            yield process
            process.close()
        case "hashing":
            yield HashingEmbedder()
        case _:
            with embedding_server() as url:
                remote = OpenAiEmbedder(base_url=url)
                yield remote
                remote.close()


class TestEveryEmbedder:
    def test_each_text_has_a_vector_of_length_one_in_its_place(self, embedder: Embedder) -> None:
        together = embedder.embed(TEXTS)
        assert len(together) == len(TEXTS)
        assert len({len(each) for each in together}) == 1
        for text, vector in zip(TEXTS, together, strict=True):
            assert np.linalg.norm(floats(vector)) == pytest.approx(1, abs=1e-5)
            assert embedder.embed([text]) == [vector], "it depends on the other texts"

    def test_the_same_text_has_the_same_vector(self, embedder: Embedder) -> None:
        assert embedder.embed(TEXTS[:2]) == embedder.embed(TEXTS[:2])
        one, other = embedder.embed([TEXTS[0], TEXTS[0]])
        assert one == other
        assert embedder.embed_question(TEXTS[0]) == embedder.embed_question(TEXTS[0])

    def test_a_backlog_gets_the_same_vectors(self, embedder: Embedder) -> None:
        assert embedder.embed(TEXTS, live=False) == embedder.embed(TEXTS)
        assert embedder.embed(TEXTS[:1], live=False) == embedder.embed(TEXTS[:1])

    def test_no_text_has_no_vector(self, embedder: Embedder) -> None:
        assert embedder.embed([]) == []

    def test_more_alike_is_nearer(self, embedder: Embedder) -> None:
        asked = "Which database do we use?"
        near, far = embedder.embed(
            ["We use RocksDB as our database.", "The cat sleeps on the sofa."]
        )
        for query in (*embedder.embed([asked]), embedder.embed_question(asked)):
            assert cosine(query, near) > cosine(query, far)

    @pytest.mark.parametrize("text", TEXTS)
    def test_a_question_has_a_vector_of_the_same_kind(self, embedder: Embedder, text: str) -> None:
        (other,) = embedder.embed(["any text"])
        vector = embedder.embed_question(text)
        assert len(vector) == len(other)
        assert np.linalg.norm(floats(vector)) == pytest.approx(1, abs=1e-5)

    def test_more_texts_than_go_into_one_batch(self, embedder: Embedder) -> None:
        texts = [f"{number % 7}" for number in range(70)]
        found = embedder.embed(texts)
        assert len(found) == 70
        for number, vector in enumerate(found):
            assert vector == found[number % 7]

    def test_several_threads_at_once(self, embedder: Embedder) -> None:
        expected = [embedder.embed([text]) for text in TEXTS[:3]]
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda text: embedder.embed([text]), TEXTS[:3]))
        assert found == expected

    def test_it_has_a_name(self, embedder: Embedder) -> None:
        assert embedder.model


class TestBge:
    """The model with files from packages that the test puts before the real ones."""

    def other(self, folder: Path) -> Path:
        found = metadata.distribution("compartment")
        about = folder / f"compartment-{found.version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: compartment\nVersion: {found.version}\n"
        )
        return folder

    @pytest.mark.parametrize("name", ["model_quantized.onnx", "tokenizer.json"])
    def test_a_file_that_is_not_the_one_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        path = "compartment/models/bge-small-en-v1.5-int8"
        real = Path(str(metadata.distribution("compartment").locate_file(path)))
        shutil.copytree(real, self.other(tmp_path) / path)
        monkeypatch.syspath_prepend(str(tmp_path))
        assert len(floats(Bge().embed(["the same files elsewhere"])[0])) == DIMENSION
        with (tmp_path / path / name).open("r+b") as file:
            file.seek(1_000)
            byte = file.read(1)
            file.seek(1_000)
            file.write(bytes([byte[0] ^ 1]))
        embedder = Bge()
        for _ in range(2):
            with pytest.raises(EmbedderFailed, match="not the file"):
                embedder.embed(["text"])

    def test_a_missing_file_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(str(self.other(tmp_path)))
        with pytest.raises(EmbedderFailed, match="missing"):
            Bge().embed(["text"])

    def test_files_that_are_links_are_followed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = "compartment/models/bge-small-en-v1.5-int8"
        real = Path(str(metadata.distribution("compartment").locate_file(path)))
        linked = self.other(tmp_path) / path
        linked.mkdir(parents=True)
        for name in ("model_quantized.onnx", "tokenizer.json"):
            (linked / name).symlink_to(real / name)
        expected = Bge().embed(["some installers link files"])
        monkeypatch.syspath_prepend(str(tmp_path))
        assert Bge().embed(["some installers link files"]) == expected

    def test_its_vectors_are_those_of_the_graph_in_the_package(self) -> None:
        path = "compartment/models/bge-small-en-v1.5-int8"
        folder = Path(str(metadata.distribution("compartment").locate_file(path)))
        tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        session: Any = onnxruntime.InferenceSession(folder / "model_quantized.onnx")
        for text, vector in zip(TEXTS, Bge().embed(TEXTS), strict=True):
            ids = np.array([tokenizer.encode(text).ids])
            names = ("input_ids", "attention_mask", "token_type_ids")
            values = (ids, np.ones_like(ids), np.zeros_like(ids))
            (hidden,) = session.run(None, dict(zip(names, values, strict=True)))
            first = hidden[0, 0] / np.linalg.norm(hidden[0, 0])
            # Both round to int8 at every step: as far from each other as from exact values.
            assert float(first @ floats(vector)) > 0.99, text[:40]

    def test_nothing_of_the_package_is_imported(self) -> None:
        Bge().embed(["text"])
        assert "compartment" not in sys.modules

    def test_a_question_is_told_from_a_text_by_its_prefix(self) -> None:
        embedder = Bge()
        plain, prefixed = embedder.embed(["Who moved?", f"{QUESTION_PREFIX}Who moved?"])
        assert embedder.embed_question("Who moved?") == prefixed != plain

    def test_a_long_text_is_cut(self) -> None:
        one, same, shorter = Bge().embed(
            ["word " * count for count in (MAX_TOKENS, 3 * MAX_TOKENS, MAX_TOKENS // 2)]
        )
        assert one == same != shorter

    def test_its_cosines_fit_the_limit_for_duplicates(self) -> None:
        said, same, other, unrelated = Bge().embed(
            [
                "The nightly import loses rows when two workers pick the same batch",
                "Rows get lost in the nightly import if two workers take one batch",
                "The nightly export sends rows when two workers finish the same batch",
                "Frontend state is managed with Zustand",
            ]
        )
        assert cosine(said, same) > duplicates.NEAR > cosine(said, other) > cosine(said, unrelated)

    def test_a_lone_surrogate_is_a_failure(self) -> None:
        with pytest.raises(EmbedderFailed):
            Bge().embed(["\ud800"])


class TestProcess:
    def test_a_killed_process_is_started_again(self, embedder_process: EmbedderProcess) -> None:
        (before,) = embedder_process.embed(["one text"])
        first = embedder_process.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_for_end(first)
        with suppress(EmbedderFailed):  # the last of its threads may take a moment to end
            embedder_process.embed(["one text"])
        assert embedder_process.embed(["one text"]) == [before]
        assert embedder_process.pid != first

    def test_a_backlog_holds_up_no_question(self, embedder_process: EmbedderProcess) -> None:
        embedder_process.load()
        texts = ["word " * MAX_TOKENS] * 300  # seconds of work
        with ThreadPoolExecutor(1) as pool:
            backlog = pool.submit(embedder_process.embed, texts, live=False)
            for number in range(3):
                embedder_process.embed_question(f"question {number}")
            assert not backlog.done()
            embedder_process.close()
            with pytest.raises(EmbedderFailed):
                backlog.result(TIMEOUT)

    def test_a_backlog_goes_on_while_someone_waits(self) -> None:
        foreground = Foreground()
        foreground.begin()
        process = EmbedderProcess(foreground)
        # Of several lengths and in several parts.
        texts = [f"text {number} " * (50 * number + 1) for number in (3, 0, 6, 2, 5, 1, 4)]
        try:
            assert process.embed(texts, live=False) == process.embed(texts)
        finally:
            process.close()

    def test_a_closed_one_fails(self, embedder_process: EmbedderProcess) -> None:
        embedder_process.close()
        with pytest.raises(EmbedderFailed, match="closed"):
            embedder_process.embed_question("text")


@pytest.fixture
def embedder_process() -> Iterator[EmbedderProcess]:
    process = EmbedderProcess()
    yield process
    process.close()


@contextmanager
def remote(*script: Step, **given: str) -> Iterator[tuple[OpenAiEmbedder, ScriptedLlm]]:
    with scripted(*script) as told:
        embedder = OpenAiEmbedder(base_url=told.url, **given)
        try:
            yield embedder, told
        finally:
            embedder.close()


ONE = answer([3.0, 4.0])
BAD: Mapping[str, Step] = {
    "an error of the server": error(500),
    "too many requests": error(429, retry_after="3"),
    "a wrong key": error(401, KEY),
    "a wrong model": error(404),
    "a redirect": Reply(b"", 307, {"location": "http://127.0.0.1:1/"}),
    "nothing": Reply(b""),
    "no JSON": Reply(b"<html>"),
    "half of it": Reply(ONE.body[:-5]),
    "a connection that ends early": Reply(ONE.body, promised=100),
    "another object": Reply(b'{"choices": []}'),
    "null": Reply(b"null"),
    "no UTF-8": Reply(b'{"\xff": 1, "data": [{"index": 0, "embedding": "\xff"}]}'),
    "brackets without end": Reply(b"[" * 200_000),
    "nested without end": Reply(b'{"x": ' + b"[" * 200_000),
    "too few": Reply(b'{"data": []}'),
    "too many": answer([1.0], [1.0]),
    "the same twice": answer([1.0], [1.0], order=[0, 0]),
    "another's place": answer([1.0], order=[1]),
    "a place below the first": answer([1.0], order=[-1]),
    "words for numbers": Reply(b'{"data": [{"index": 0, "embedding": ["a"]}]}'),
    "numbers without end": Reply(b'{"data": [{"index": 0, "embedding": [1e999, 1]}]}'),
    "base64 for numbers": Reply(b'{"data": [{"index": 0, "embedding": "AAAA"}]}'),
    "an answer without end": Reply(b" " * (5 << 20)),
}

REFUSED: Mapping[str, Step] = {
    "a request it does not take": error(400, "temperature"),
    "too long for it": error(413),
    "no direction": answer([0.0, 0.0]),
    "no dimension": answer([]),
    "huge numbers": Reply(b'{"data": [{"index": 0, "embedding": [1e300, 1]}]}'),
}


class TestRemote:
    def test_it_asks_as_the_api_wants(self) -> None:
        with remote(answer([3.0, 4.0], [0.0, -2.0]), model="small", api_key=KEY) as (it, told):
            one, two = it.embed(["a", "b"])
        assert floats(one).tolist() == pytest.approx([0.6, 0.8])
        assert floats(two).tolist() == pytest.approx([0.0, -1.0])
        (asked,) = told.received
        assert asked.path == "/v1/embeddings"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.payload == {"model": "small", "input": ["a", "b"]}

    def test_without_a_key_no_header_and_without_a_model_the_usual_one(self) -> None:
        with remote(ONE) as (it, told):
            it.embed(["a"])
            assert it.model.endswith(f"/{DEFAULT_MODEL}")
        assert "authorization" not in told.received[0].headers
        assert told.received[0].payload["model"] == DEFAULT_MODEL

    def test_answers_are_put_in_order_by_their_index(self) -> None:
        with remote(answer([1.0, 0.0], [0.0, 1.0], order=[1, 0])) as (it, _):
            first, second = it.embed(["a", "b"])
        assert floats(first).tolist() == [0.0, 1.0]
        assert floats(second).tolist() == [1.0, 0.0]

    def test_models_and_servers_have_names_of_their_own(self) -> None:
        def name(url: str, model: str) -> str:
            embedder = OpenAiEmbedder(base_url=url, model=model)
            embedder.close()
            return embedder.model

        here = "http://127.0.0.1:1"
        names = [name(here, "a"), name(here, "b"), name("http://localhost:1", "a")]
        assert len(set(names)) == 3
        assert name("http://user:secret@127.0.0.1:1", "a") == names[0]

    def test_no_text_is_no_request(self) -> None:
        with remote() as (it, told):
            assert it.embed([]) == []
        assert told.received == []

    @pytest.mark.parametrize("step", BAD.values(), ids=BAD)
    def test_an_unusable_answer_is_a_failure_and_then_a_pause(self, step: Step) -> None:
        with remote(step, ONE, api_key=KEY) as (it, told), capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(EmbedderFailed) as failure:
                    it.embed(["a secret text"])
                assert_tells_nothing(failure.value)
        assert len(told.received) == 1, "it did not pause"
        assert KEY not in repr(logs)

    @pytest.mark.parametrize("step", REFUSED.values(), ids=REFUSED)
    def test_a_text_that_it_does_not_take_keeps_no_other_from_it(self, step: Step) -> None:
        with remote(step, ONE, api_key=KEY) as (it, told):
            with pytest.raises(EmbedderRefused) as failure:
                it.embed(["a secret text"])
            assert_tells_nothing(failure.value)
            assert floats(it.embed(["another"])[0]).tolist() == pytest.approx([0.6, 0.8])
        assert len(told.received) == 2

    def test_one_bad_batch_of_several_is_a_failure_of_all(self) -> None:
        whole = answer(*[[1.0, 0.0]] * 64)
        with remote(whole, error(500)) as (it, told), pytest.raises(EmbedderFailed):
            it.embed(["text"] * 65)
        assert len(told.received) == 2

    def test_a_server_that_is_not_there(self) -> None:
        with scripted() as told:
            url = told.url
        embedder = OpenAiEmbedder(base_url=url, api_key=KEY)
        with pytest.raises(EmbedderFailed) as failure:
            embedder.embed(["a secret text"])
        assert_tells_nothing(failure.value)
        embedder.close()

    def test_once_closed_it_fails(self) -> None:
        with remote(ONE) as (it, told):
            it.close()
            with pytest.raises(EmbedderFailed):
                it.embed(["a"])
        assert told.received == []

    @pytest.mark.parametrize("url", ["ftp://x", "nothing", "http://"])
    def test_an_invalid_address_is_reported_at_once(self, url: str) -> None:
        with pytest.raises(ConfigError):
            OpenAiEmbedder(base_url=url)

    def test_an_invalid_key_is_reported_at_once_and_not_shown(self) -> None:
        with pytest.raises(ConfigError) as failure:
            OpenAiEmbedder(api_key=f"{KEY}\n\x00")
        assert KEY not in str(failure.value)


def assert_tells_nothing(exc: BaseException | None) -> None:
    """Check that neither the error nor its causes contain the key or the text."""
    while exc is not None:
        told: Any = (str(exc), repr(exc))
        assert KEY not in repr(told)
        assert "secret text" not in repr(told)
        exc = exc.__cause__ or exc.__context__
