"""The demonstration: the demo model, a prefiller built from it, one question, three paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from engine import assets, paths
from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.api.turn import Path, TurnEvent, TurnReport
from engine.chat.cancellation import Cancellation
from engine.chat.session import ChatSession
from engine.errors import TwofoldError
from engine.gguf.splits import open_model
from engine.prefiller.build import build_prefiller
from engine.prefiller.formats import open_prefiller
from engine.prefiller.pairing import Verdict, check_pairing
from engine.runtime.loaded_model import LoadedModel

DEMO_PATHS: tuple[Path, ...] = ("decoder", "resident", "odp")
_ANSWER_TOKENS = 64


class DemoModelMissing(TwofoldError):
    """The demo model is not where the set-up puts it. Data: `path`."""

    code = "demo.model_missing"


class PathResult(BaseModel):
    """One path's figures: seconds, tokens a second, bytes, sampled tokens."""

    model_config = ConfigDict(frozen=True)

    ttft_s: float
    prefill_tps: float
    decode_tps: float
    prefill_weight_bytes: int
    bytes_read: int
    wait_s: float
    answer_tokens: list[int]


class DemoResult(BaseModel):
    model_config = ConfigDict(frozen=True)

    model: str
    prefiller: str
    prompt_tokens: int
    paths: dict[str, PathResult]
    odp_equals_resident: bool


def demo_prefiller(model: FilePath) -> FilePath:
    """The demo model's prefiller, built when there is none that carries the model's hash."""
    out = paths.cache_folder() / "models" / f"{model.stem}.prefiller.gguf"
    if out.is_file():
        try:
            pairing = check_pairing(open_prefiller(out), open_model(model))
        except TwofoldError:
            pairing = None
        if pairing and pairing.verdict is Verdict.MATCHED_BY_HASH:
            return out
    build_prefiller(model, out, overwrite=True)
    return out


class Demonstration:
    """Everything loaded and ready. Lives on the model's owner thread.

    Raises DemoModelMissing.
    """

    def __init__(self) -> None:
        model = paths.demo_model()
        if not model.is_file():
            raise DemoModelMissing(path=str(model))
        self._prefiller = demo_prefiller(model)
        demo = assets.demo()
        self.question = demo.question
        self._message = Message(role="user", content=demo.prompt)
        self.model = LoadedModel(model, prefiller=self._prefiller)
        self._chat = ChatSession(self.model)
        document = assets.asset(demo.document).read_text(encoding="utf-8")
        self.document_tokens = len(
            self.model.tokenize(document, add_special=False, parse_special=False)
        )
        self._prompt_tokens = 0
        self._logits: dict[str, Any] = {}

    def close(self) -> None:
        self._chat.close()
        self.model.close()

    def prepare(self, path: Path) -> None:
        """An empty cache, and the prefiller where `path` wants it."""
        self.model.keep(0)
        self.model.prepare(path)

    def turn(self, path: Path) -> Callable[[Callable[[TurnEvent], None], Cancellation], TurnReport]:
        """The question, asked along `path`; always the likeliest token, so runs can be compared."""
        sampling = SamplingSettings(temperature=0, drafts="off", max_tokens=_ANSWER_TOKENS)

        def ask(on_event: Callable[[TurnEvent], None], cancellation: Cancellation) -> TurnReport:
            return self._chat.ask(
                [self._message], sampling, path, on_event, cancellation=cancellation
            )

        return ask

    def measure(self, path: Path, report: TurnReport) -> PathResult:
        """The figures of a finished turn. Raises DemoStopped for one that was cancelled."""
        if report.stop_reason == "cancelled" or report.ttft_s is None:
            raise DemoStopped
        self._prompt_tokens = report.prompt_tokens
        self._logits[path] = self.model.logits()
        return PathResult(
            ttft_s=report.ttft_s,
            prefill_tps=report.prefill_tps or 0.0,
            decode_tps=report.decode_tps or 0.0,
            prefill_weight_bytes=report.prefill_weight_bytes,
            bytes_read=report.bytes_read,
            wait_s=report.wait_s,
            answer_tokens=report.answer_tokens,
        )

    def result(self, results: Mapping[str, PathResult]) -> DemoResult:
        """All paths' figures; `odp` equals `resident` when tokens and last logits do."""
        odp, resident = results["odp"], results["resident"]
        return DemoResult(
            model=str(self.model.files.path),
            prefiller=str(self._prefiller),
            prompt_tokens=self._prompt_tokens,
            paths=dict(results),
            odp_equals_resident=odp.answer_tokens == resident.answer_tokens
            and np.array_equal(self._logits["odp"], self._logits["resident"]),
        )


class DemoStopped(TwofoldError):
    """The user stopped the demonstration."""

    code = "demo.stopped"
