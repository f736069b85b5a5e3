"""Measures what a prefiller does to its decoder's answers, which unmasks a wrong pairing.

A text is read once by the decoder's own weights and once by the prefiller's; each time the
decoder then predicts how the text goes on. A prefiller that belongs to the decoder leaves it
about as certain, or more so; a stranger's makes it less certain, though shapes agree and the
answers stay fluent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.api.turn import Path
from engine.assets import asset
from engine.chat.cancellation import Cancellation
from engine.errors import NativeError
from engine.prefiller.errors import ContextTooSmall, MeasurementStopped
from engine.runtime.loaded_model import CANCELLED, LoadedModel

CONTINUATION = 256  # tokens that are predicted, at the text's end
_LEAST_PROMPT = 32

# Smaller differences do not tell a wrong pairing from a coarse prefiller (nats a token), or may
# be chance (standard errors).
_NOTABLE = 0.05
_ERRORS = 3.0

OnTokens = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Mean negative log-likelihoods of the continuation, in nats a token.

    `difference` is the prefiller's less the decoder's; `error` its standard error over tokens.
    """

    prompt_tokens: int
    tokens: int
    decoder: float
    prefiller: float
    difference: float
    error: float

    @property
    def worse(self) -> bool:
        """Whether reading with the prefiller clearly costs the decoder certainty."""
        return self.difference > max(_NOTABLE, _ERRORS * self.error)


def built_in_tokens(model: LoadedModel) -> list[int]:
    """A text that ships with the program, as much of it as the model's context holds."""
    text = asset("measure_text.md").read_text(encoding="utf-8")
    return model.tokenize(text, add_special=True, parse_special=False)[: model.n_ctx]


def measure(
    model: LoadedModel,
    tokens: Sequence[int],
    *,
    progress: OnTokens | None = None,
    cancellation: Cancellation | None = None,
) -> Measurement:
    """Measure `model` with its prefiller on `tokens`, the last CONTINUATION of them predicted.

    Runs on the model's thread. `progress` gets tokens done and in all. Cancelling raises
    MeasurementStopped; too few tokens, ContextTooSmall.
    """
    cancellation = cancellation or Cancellation()
    if len(tokens) < CONTINUATION + _LEAST_PROMPT:
        raise ContextTooSmall(tokens=len(tokens), needed=CONTINUATION + _LEAST_PROMPT)
    losses: list[NDArray[np.float64]] = []
    paths: tuple[Path, ...] = ("decoder", "odp")
    for number, path in enumerate(paths):

        def report(done: int, before: int = number * len(tokens)) -> None:
            if progress:
                progress(before + done, len(paths) * len(tokens))

        if cancellation.cancelled:
            raise MeasurementStopped
        with cancellation.interrupting(model.cancel):
            losses.append(_read_and_predict(model, path, tokens, report))
    own, read = losses
    return Measurement(
        prompt_tokens=len(tokens) - CONTINUATION,
        tokens=CONTINUATION,
        decoder=float(own.mean()),
        prefiller=float(read.mean()),
        difference=float((read - own).mean()),
        error=float((read - own).std(ddof=1) / np.sqrt(CONTINUATION)),
    )


def _read_and_predict(
    model: LoadedModel, path: Path, tokens: Sequence[int], report: Callable[[int], None]
) -> NDArray[np.float64]:
    """Negative log-likelihood of each of the last tokens, after `path` read those before."""
    prompt, rest = tokens[:-CONTINUATION], tokens[-CONTINUATION:]
    model.keep(0)
    read = model.prefill(prompt, path=path, on_progress=lambda step: report(step.tokens_done))
    if read.cancelled:
        raise MeasurementStopped
    losses = np.empty(len(rest))
    for index, token in enumerate(rest):
        losses[index] = negative_log_likelihood(model.logits(), token)
        _feed(model, token)
        report(len(prompt) + index + 1)
    return losses


def _feed(model: LoadedModel, token: int) -> None:
    try:
        model.feed(token)
    except NativeError as error:
        if error.code == CANCELLED:
            raise MeasurementStopped from error
        raise


def negative_log_likelihood(logits: NDArray[np.float32], token: int) -> float:
    """Of `token` under the softmax of `logits`, shape [n_vocab], in nats."""
    shifted = logits.astype(np.float64) - logits.max()
    return float(np.log(np.exp(shifted).sum()) - shifted[token])
