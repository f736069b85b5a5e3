"""Measures what rounding costs: activations in decoding, and weights along autocast.

Both on a text that ships with the program, as the model itself tokenises it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from engine.bench.errors import NoNvfp4, Stopped
from engine.chat.cancellation import Cancellation
from engine.errors import NativeError
from engine.native import native
from engine.runtime.loaded_model import CANCELLED, LoadedModel

# What meets NVFP4 weights in decoding: what a session uses, the library's 8 bits, and 4 as GPUs
# with FP4 units have them.
Activations = Literal["twofold", "8 bits", "4 bits"]

_NATIVE = {"8 bits": "library", "4 bits": "four_bits", "exact": "exact"}
_PROMPT = 32  # tokens that are read before, the same way each time

# Tokens done, and in all.
OnTokens = Callable[[int, int], None]


class ActivationsRow(BaseModel):
    """`tokens` decoded with the given text, against FP32 activations and sums in double precision.

    `mean_kl` of the next token's distribution, in nats, with its standard error over tokens.
    """

    model_config = ConfigDict(frozen=True)

    activations: Activations
    tokens: int
    mean_kl: float
    error: float
    perplexity: float
    exact_perplexity: float


class PerplexityRow(BaseModel):
    """Of a text of `tokens`, each predicted from those before it, read by one path.

    `deviation` is the perplexity's, relative to the decoder's path; `share` of the decoder's
    weights that autocast multiplied.
    """

    model_config = ConfigDict(frozen=True)

    path: Literal["decoder", "autocast"]
    tokens: int
    perplexity: float
    deviation: float
    share: float


def measure_activations(
    model: LoadedModel,
    tokens: Sequence[int],
    *,
    on_tokens: OnTokens | None = None,
    cancellation: Cancellation | None = None,
) -> list[ActivationsRow]:
    """Decodes `tokens` once for each kind of activations; _PROMPT of them are read before.

    Raises NoNvfp4 where no weight of the model has that type, and Stopped.
    """
    if "NVFP4" not in model.weight_types:
        raise NoNvfp4
    kinds = get_args(Activations)
    total = (len(kinds) + 1) * len(tokens)

    def distributions(number: int, kind: str) -> NDArray[np.float64]:
        def report(done: int) -> None:
            if on_tokens:
                on_tokens(number * len(tokens) + done, total)

        return _decode(model, tokens, kind, report, cancellation or Cancellation())

    exact = distributions(0, "exact")
    rows: list[ActivationsRow] = []
    for number, kind in enumerate(kinds, 1):
        found = distributions(number, kind)
        divergence = (np.exp(exact) * (exact - found)).sum(axis=1)
        rows.append(
            ActivationsRow(
                activations=kind,
                tokens=len(divergence),
                mean_kl=float(divergence.mean()),
                error=float(divergence.std(ddof=1) / math.sqrt(len(divergence))),
                perplexity=_perplexity(found, tokens),
                exact_perplexity=_perplexity(exact, tokens),
            )
        )
    return rows


def _decode(
    model: LoadedModel,
    tokens: Sequence[int],
    kind: str,
    report: Callable[[int], None],
    cancellation: Cancellation,
) -> NDArray[np.float64]:
    """Log-probabilities after each decoded token, shape [tokens - _PROMPT, n_vocab]."""
    model.keep(0)
    if model.prefill(tokens[:_PROMPT], path="decoder", on_progress=lambda _: None).cancelled:
        raise Stopped
    rows: list[NDArray[np.float64]] = []
    name = _NATIVE.get(kind)
    native().set_decode_activations(getattr(native().DecodeActivations, name) if name else None)
    try:
        with cancellation.interrupting(model.cancel):
            for done, token in enumerate(tokens[_PROMPT:], _PROMPT + 1):
                if cancellation.cancelled:
                    raise Stopped
                model.feed(token)
                shifted = model.logits().astype(np.float64)
                shifted -= shifted.max()
                rows.append(shifted - np.log(np.exp(shifted).sum()))
                report(done)
    except NativeError as error:
        if error.code == CANCELLED:
            raise Stopped from error
        raise
    finally:
        native().set_decode_activations(None)
    return np.stack(rows)


def _perplexity(log_probabilities: NDArray[np.float64], tokens: Sequence[int]) -> float:
    following = np.asarray(tokens[_PROMPT + 1 :])
    losses = -log_probabilities[np.arange(len(following)), following]
    return float(np.exp(losses.mean()))


def measure_perplexity(
    model: LoadedModel, tokens: Sequence[int], cancellation: Cancellation | None = None
) -> list[PerplexityRow]:
    """The perplexity of `tokens` as the decoder's path reads them, and as autocast does."""
    cancellation = cancellation or Cancellation()
    rows: list[PerplexityRow] = []
    for path in ("decoder", "autocast"):
        if cancellation.cancelled:
            raise Stopped
        with cancellation.interrupting(model.cancel):
            try:
                losses, share = model.losses(tokens, autocast=path == "autocast")
            except NativeError as error:
                if error.code == CANCELLED:
                    raise Stopped from error
                raise
        perplexity = float(np.exp(np.mean(losses)))
        reference = rows[0].perplexity if rows else perplexity
        rows.append(
            PerplexityRow(
                path=path,
                tokens=len(tokens),
                perplexity=perplexity,
                deviation=perplexity / reference - 1,
                share=share,
            )
        )
    return rows
