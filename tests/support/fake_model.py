"""A deterministic model in memory: bytes are tokens, answers are scripted, the cache is real."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.api.sampling import SamplingSettings
from engine.api.turn import DraftReport, Path, PathSetting, Reason
from engine.chat.model import CANCELLED_TOKEN, PrefillReport, Progress
from engine.errors import TwofoldError

SPECIAL = ("<|im_start|>", "<|im_end|>", "<s>")
IM_END = 257
SCRIPTED = Reason(code="test.scripted", sentence="scripted", data={"by": "the test"})
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n'"
    " + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class DiskBroke(TwofoldError):
    code = "test.disk_broke"


class FakeModel:
    """Tokens 0 to 255 are bytes, then come the special ones; `<|im_end|>` ends a generation.

    `answers` are given in turn, each followed by an end of generation unless `endless`.
    `read` lists the tokens of each prefill call. Hooks run before each step of work.
    """

    def __init__(
        self,
        *answers: bytes,
        n_ctx: int = 4096,
        can_truncate: bool = True,
        chat_template: str | None = CHATML,
        bos_text: str = "",
        endless: bool = False,
        path: Path = "odp",
        expected_s: float | None = None,
    ) -> None:
        self.n_ctx = n_ctx
        self.expected_s = expected_s
        self.can_truncate = can_truncate
        self.chat_template = chat_template
        self.bos_text = bos_text
        self.eos_text = "<|im_end|>"
        self.cached_tokens: list[int] = []
        self.drafts: DraftReport | None = None
        self.read: list[list[int]] = []
        self.settings: SamplingSettings | None = None
        self.grammar: str | None = None
        self.constrained_after: bytes | None = None  # what was written when the grammar came
        self.written = bytearray()
        self.break_after: int | None = None
        self.before_batch: Callable[[], None] = lambda: None
        self.before_token: Callable[[], None] = lambda: None
        self._answers = list(answers)
        self._endless = endless
        self._path: Path = path
        self._left: list[int] = []
        self._sampled: int | None = None
        self._checkpoints: set[int] = set()
        self._cancel = False

    def checkpoints(self) -> Sequence[int]:
        return sorted(self._checkpoints)

    def save_checkpoint(self) -> None:
        self._checkpoints.add(len(self.cached_tokens))

    def drop_checkpoint(self, position: int) -> None:
        self._checkpoints.remove(position)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        assert parse_special
        tokens = [256 + SPECIAL.index(self.bos_text)] if add_special and self.bos_text else []
        for part in re.split("(" + "|".join(map(re.escape, SPECIAL)) + ")", text):
            tokens += [256 + SPECIAL.index(part)] if part in SPECIAL else part.encode()
        return tokens

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else SPECIAL[token - 256].encode()

    def is_end_of_generation(self, token: int) -> bool:
        return token == IM_END

    def keep(self, n: int) -> int:
        assert 0 <= n <= len(self.cached_tokens)
        reachable = self.can_truncate or n == len(self.cached_tokens) or n in self._checkpoints
        kept = n if reachable else 0
        del self.cached_tokens[kept:]
        self._checkpoints = {position for position in self._checkpoints if position <= kept}
        return kept

    def prefill(
        self, tokens: Sequence[int], *, path: PathSetting, on_progress: Callable[[Progress], None]
    ) -> PrefillReport:
        assert tokens
        assert len(self.cached_tokens) + len(tokens) <= self.n_ctx
        self._cancel = False
        self.read.append(list(tokens))
        taken = self._path if path == "auto" else path
        done = 0
        while True:
            counts = (done, len(tokens), 0, 1, done * 10, done * 0.1)
            on_progress(Progress(taken, SCRIPTED, *counts, expected_s=self.expected_s))
            if done == len(tokens) or self._cancel:
                break
            self.before_batch()
            if self.break_after is not None and done >= self.break_after:
                self.break_after = None
                raise DiskBroke
            batch = tokens[done : done + 16]
            self.cached_tokens += batch
            done += len(batch)
        self._sampled = None
        return PrefillReport(
            taken,
            SCRIPTED,
            done,
            done * 0.1,
            done * 10,
            wait_s=0.5,
            weight_bytes=100,
            cancelled=done < len(tokens),
        )

    def start_sampling(self, settings: SamplingSettings) -> None:
        self.settings = settings
        self.grammar = self.constrained_after = None
        self.written = bytearray()
        self._left = list(self._answers.pop(0)) if self._answers else []

    def constrain(self, grammar: str) -> None:
        self.grammar = grammar
        self.constrained_after = bytes(self.written)

    def logits(self) -> NDArray[np.float32]:
        """All but the sampled token are a hundred times less likely."""
        logits = np.zeros(256 + len(SPECIAL), np.float32)
        if self._sampled is not None:
            logits[self._sampled] = np.log(100)
        return logits

    def next_token(self) -> int:
        self._cancel = False
        self.before_token()
        if self._cancel:
            return CANCELLED_TOKEN
        if self._sampled is not None:
            self.cached_tokens.append(self._sampled)
        assert len(self.cached_tokens) <= self.n_ctx
        self._sampled = self._left.pop(0) if self._left else ord("x") if self._endless else IM_END
        if self._sampled < 256:
            self.written.append(self._sampled)
        return self._sampled

    def draft_report(self) -> DraftReport | None:
        return self.drafts

    def cancel(self) -> None:
        self._cancel = True
