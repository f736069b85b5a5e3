"""Runs a model or a drafter in the pinned library itself, through its C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

_library: Any = llama_cpp
_MTP = 1  # llama_context_type
Rows = NDArray[np.float32]


@llama_cpp.llama_log_callback
def _quiet(level: int, text: bytes, user: int) -> None:
    del level, text, user


def _extension(name: str, result: Any, *arguments: Any) -> Any:
    """A function of llama-ext.h, by its C++ name."""
    folder = Path(llama_cpp.__file__).parent / "lib"
    function = ctypes.CDLL(str(folder / "libllama.so.0"))[name]
    function.restype, function.argtypes = result, list(arguments)
    return function


_FLOATS = ctypes.POINTER(ctypes.c_float)
_CONTEXT = ctypes.c_void_p
_set_nextn = _extension(
    "_Z26llama_set_embeddings_nextnP13llama_contextbb", None, _CONTEXT, ctypes.c_bool, ctypes.c_bool
)
_get_nextn = _extension("_Z26llama_get_embeddings_nextnP13llama_context", _FLOATS, _CONTEXT)
_set_tap = _extension(
    "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
    None,
    _CONTEXT,
    ctypes.c_uint32,
    ctypes.c_bool,
)
_get_tap = _extension(
    "_Z30llama_get_embeddings_layer_inpP13llama_contextj", _FLOATS, _CONTEXT, ctypes.c_uint32
)


class LibraryRun:
    """One context; every row of every batch is output."""

    def __init__(
        self,
        path: Path,
        *,
        other: LibraryRun | None = None,
        mtp: bool = False,
        nextn: bool = False,
        taps: Iterable[int] = (),
        causal: bool = True,
    ) -> None:
        _library.llama_log_set(_quiet, None)
        settings = _library.llama_model_default_params()
        settings.load_mtp = True
        self._model = _library.llama_model_load_from_file(str(path).encode(), settings)
        assert self._model, f"the library does not load {path.name}"
        settings = _library.llama_context_default_params()
        settings.n_ctx = settings.n_batch = settings.n_ubatch = 256
        settings.n_threads = settings.n_threads_batch = 1
        settings.type_k = settings.type_v = 0  # F32, as in training
        settings.flash_attn_type = 0  # off: it multiplies in F16
        settings.ctx_type = _MTP if mtp else 0
        settings.ctx_other = other.context if other else None
        self.context = _library.llama_init_from_model(self._model, settings)
        assert self.context, f"the library gives no context for {path.name}"
        self._other = other
        self._taps = tuple(taps)
        for tap in self._taps:
            _set_tap(self.context, tap, True)
        if nextn:
            _set_nextn(self.context, True, False)
        _library.llama_set_causal_attn(self.context, causal)
        self.width = int(_library.llama_model_n_embd(self._model))
        vocabulary = _library.llama_model_get_vocab(self._model)
        self.vocab = int(_library.llama_vocab_n_tokens(vocabulary))

    def __enter__(self) -> LibraryRun:
        return self

    def __exit__(self, *_: object) -> None:
        _library.llama_free(self.context)
        _library.llama_model_free(self._model)

    def decode(self, tokens: Any = None, rows: Rows | None = None, first: int = 0) -> Rows:
        """The logits of a batch of tokens, of rows, or of both, at positions from `first` on."""
        count = len(tokens) if rows is None else len(rows)
        batch, kept = self._batch(tokens, rows, first)
        assert _library.llama_decode(self.context, batch) == 0
        del kept
        return self._rows(_library.llama_get_logits(self.context), count, self.vocab)

    def inject(self, rows: Rows) -> None:
        """Rows that only fill the cache, at positions from 0 on."""
        batch, kept = self._batch(None, rows, 0)
        assert _library.llama_decode(self.context, batch) == 0
        del kept

    def encode(self, rows: Rows) -> Rows:
        """What the drafter's encoder makes of the target's features."""
        batch, kept = self._batch(None, rows, 0)
        assert _library.llama_encode(self.context, batch) == 0
        del kept
        return self.nextn(len(rows))

    def nextn(self, count: int) -> Rows:
        return self._rows(_get_nextn(self.context), count, self.width)

    def taps(self, count: int) -> Rows:
        """The inputs of the tapped blocks of the last batch, side by side."""
        taps = [self._rows(_get_tap(self.context, tap), count, self.width) for tap in self._taps]
        return np.concatenate(taps, -1)

    def _rows(self, pointer: Any, count: int, width: int) -> Rows:
        assert pointer, "the library has no such output"
        return np.ctypeslib.as_array(pointer, (count, width)).copy()

    def _batch(self, tokens: Any, rows: Rows | None, first: int) -> tuple[Any, list[Any]]:
        """The batch, and what has to live as long as it."""
        count = len(tokens) if rows is None else len(rows)
        sequence = (ctypes.c_int32 * 1)(0)
        pointers = [ctypes.cast(sequence, ctypes.POINTER(ctypes.c_int32))] * count
        positions = (ctypes.c_int32 * (4 * count))(
            *[first + index % count for index in range(4 * count)]
        )
        batch = _library.llama_batch()
        batch.n_tokens = count
        kept: list[Any] = [sequence, positions]
        if tokens is not None:
            kept.append((ctypes.c_int32 * count)(*[int(token) for token in tokens]))
            batch.token = ctypes.cast(kept[-1], ctypes.POINTER(ctypes.c_int32))
        if rows is not None:
            kept.append(np.ascontiguousarray(rows, np.float32))
            batch.embd = kept[-1].ctypes.data_as(_FLOATS)
        batch.pos = ctypes.cast(positions, ctypes.POINTER(ctypes.c_int32))
        kept.append((ctypes.c_int32 * count)(*[1] * count))
        batch.n_seq_id = ctypes.cast(kept[-1], ctypes.POINTER(ctypes.c_int32))
        kept.append((ctypes.POINTER(ctypes.c_int32) * count)(*pointers))
        batch.seq_id = kept[-1]
        kept.append((ctypes.c_int8 * count)(*[1] * count))
        batch.logits = ctypes.cast(kept[-1], ctypes.POINTER(ctypes.c_int8))
        return batch, kept
