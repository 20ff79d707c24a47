"""bge-small-en-v1.5 from the files of a package: no network, and none of its code runs."""

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_memory.features.index.adapters.bge_model import (
    MAX_TOKENS,
    MODEL,
    NAME,
    THREADS,
    UNRELATED,
)
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.kernel.errors import EmbedderFailed
from agent_memory.platform.priority import ThreadPriority, set_priority

DIMENSION = 384
GRAPH = Path(__file__).with_name("bge_graph.onnx")  # written by tools/embedder_graph.py
INPUT = "tokens"  # their numbers, as 1 x n
QUESTION_PREFIX = "Represent this sentence for searching relevant passages: "

_PACKAGE = "compartment"
_FOLDER = "compartment/models/bge-small-en-v1.5-int8"
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"


class _File(NamedTuple):
    path: str
    sha256: str


MODEL_FILE = _File(
    f"{_FOLDER}/model_quantized.onnx",
    "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
)
_TOKENIZER = _File(
    f"{_FOLDER}/tokenizer.json",
    "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
)


class Bge:
    """An embedder that loads its model on `load` or first use: about 0.3 s and 80 MB.

    Live texts are embedded by the calling thread, a backlog by several threads that use only what
    other programs leave.
    """

    model = MODEL
    unrelated = UNRELATED

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:
        if not texts:
            return []
        loaded = self.load()
        try:
            rows = loaded.embed(texts, live=live)
        except Exception as exc:  # callers can continue without vectors
            raise EmbedderFailed(f"{NAME}: {exc}") from exc
        return [Vector(row.tobytes()) for row in rows]

    def embed_question(self, text: str, /) -> Vector:
        (vector,) = self.embed([QUESTION_PREFIX + text])
        return vector

    def load(self) -> "_Loaded":
        """Load the model unless it is loaded. Raises EmbedderFailed."""
        with self._loading:
            if self._loaded is None:
                self._loaded = _Loaded()
            return self._loaded


class _Loaded:
    def __init__(self) -> None:
        model, tokenizer = locate_file(MODEL_FILE), locate_file(_TOKENIZER)
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
            options.add_session_config_entry(_WEIGHTS_FOLDER, str(model.parent))
            self._session: Any = onnxruntime.InferenceSession(
                GRAPH.read_bytes(),
                options,
                providers=["CPUExecutionProvider"],
            )
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(tokenizer))
        except Exception as exc:
            raise EmbedderFailed(f"{NAME} cannot be loaded: {exc}") from exc
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._backlog = ThreadPoolExecutor(
            THREADS, "embed", initializer=set_priority, initargs=(ThreadPriority.LOWEST,)
        )

    def embed(self, texts: Sequence[str], *, live: bool) -> list[NDArray[np.float32]]:
        if live and len(texts) == 1:  # a question: `encode` is short and does not give up the GIL
            return [self._run(self._tokenizer.encode(texts[0]).ids)]
        # `encode_batch` releases the GIL.
        encodings = self._tokenizer.encode_batch(list(texts))
        run_all = map if live else self._backlog.map
        return list(run_all(lambda encoding: self._run(encoding.ids), encodings))

    def _run(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Return the vector of one text.

        The model scales its int8 values by the largest value of a run, so in a batch a vector
        would depend on the other texts. A batch is not faster.
        """
        (hidden,) = self._session.run(None, {INPUT: np.array([tokens], np.int64)})
        first = hidden[0, 0]  # the token [CLS] stands for the whole text
        return np.asarray(first / max(float(np.linalg.norm(first)), 1e-12), "<f4")


def locate_file(file: _File) -> Path:
    """Return the path of a file. Raises EmbedderFailed if it is missing or different."""
    try:
        # Resolved: onnxruntime reads no weights through a link that leaves their folder.
        path = Path(str(metadata.distribution(_PACKAGE).locate_file(file.path))).resolve()
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except (metadata.PackageNotFoundError, OSError) as exc:
        raise EmbedderFailed(f"{file.path} of the package {_PACKAGE} is missing") from exc
    if digest != file.sha256:
        raise EmbedderFailed(f"{path} is not the file that this version needs: wrong checksum")
    return path
