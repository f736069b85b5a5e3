"""What a chat session needs of a loaded model; the native session provides it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.api.sampling import SamplingSettings
from engine.api.turn import DraftReport, Path, PathSetting, Reason

# `next_token` gives this when `cancel` interrupted it.
CANCELLED_TOKEN = -1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one `prefill` call is. Tokens and blocks of this call, bytes read from disk;
    `expected_s`: how long it was expected to take, where there is a forecast."""

    path: Path
    reason: Reason
    tokens_done: int
    tokens_total: int
    block: int
    blocks: int
    bytes_read: int
    seconds: float
    expected_s: float | None = None


@dataclass(frozen=True, slots=True)
class PrefillReport:
    """What one `prefill` call did. `tokens` were read; fewer than asked if `cancelled`.

    `load_s` is the time that blocks took to come from the disk, `wait_s` the part of it that
    computing had to wait for.
    """

    path: Path
    reason: Reason
    tokens: int
    seconds: float
    bytes_read: int = 0
    wait_s: float = 0.0
    load_s: float = 0.0
    weight_bytes: int = 0
    cancelled: bool = False


class Model(Protocol):
    """One model with one context and one cache. Only `cancel` may be called by other threads.

    A call that fails raises a TwofoldError and leaves `cached_tokens` truthful.
    """

    @property
    def n_ctx(self) -> int:
        """The most tokens the context holds."""
        ...

    @property
    def bos_text(self) -> str:
        """The text of the BOS token; empty if there is none."""
        ...

    @property
    def eos_text(self) -> str: ...

    @property
    def chat_template(self) -> str | None:
        """The template in the model's file."""
        ...

    @property
    def can_truncate(self) -> bool:
        """Whether `keep` reaches any position, or only checkpoints and the present end."""
        ...

    @property
    def cached_tokens(self) -> Sequence[int]:
        """The tokens in the cache, from the first position on."""
        ...

    def checkpoints(self) -> Sequence[int]:
        """The saved states, as token counts; those beyond what `keep` kept are gone."""
        ...

    def save_checkpoint(self) -> None:
        """Saves the state after the tokens that are cached now."""
        ...

    def drop_checkpoint(self, position: int) -> None: ...

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The text's tokens; `add_special` puts a BOS in front where the model wants one."""
        ...

    def piece(self, token: int) -> bytes:
        """The token's bytes, those of special tokens included."""
        ...

    def is_end_of_generation(self, token: int) -> bool: ...

    def keep(self, n: int) -> int:
        """Reduces the cache to its first `n` tokens, or fewer if it must; gives what it kept."""
        ...

    def prefill(
        self, tokens: Sequence[int], *, path: PathSetting, on_progress: Callable[[Progress], None]
    ) -> PrefillReport:
        """Reads `tokens` after those cached. Calls `on_progress` first with none done."""
        ...

    def start_sampling(self, settings: SamplingSettings) -> None:
        """A fresh sampler, its seed set, that knows the cached tokens for its penalties."""
        ...

    def constrain(self, grammar: str) -> None:
        """From the next token on, samples only what `grammar` (GBNF) allows."""
        ...

    def logits(self) -> NDArray[np.float32]:
        """What the last sampled token was chosen from: shape [n_vocab]."""
        ...

    def next_token(self) -> int:
        """Evaluates the token sampled before, if any, and samples the next one."""
        ...

    def draft_report(self) -> DraftReport | None:
        """What drafts did since `start_sampling`; None if none was verified."""
        ...

    def cancel(self) -> None:
        """Makes a running `prefill` or `next_token` return soon; without one, does nothing."""
        ...
