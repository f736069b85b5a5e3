"""A worker that does what a script says: the model's file is JSON, see `Script`.

Run as `python -m tests.support.scripted_worker`, in place of the engine's own worker.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

from pydantic import BaseModel

from engine.api.engine import LoadRequest, MemoryUse, ModelInfo
from engine.errors import NativeError
from engine.runtime.loaded_model import OnLoad
from engine.worker.__main__ import main
from tests.support.fake_model import CHATML, FakeModel

COMMAND = (sys.executable, "-m", "tests.support.scripted_worker")


class Script(BaseModel):
    """`die` is a signal's name, or "exit"; it comes before the token `die_at_token`, or before
    the batch `die_at_batch` of a prompt, or while loading. Times in seconds."""

    answers: list[str] = []
    endless: bool = False
    template: str = CHATML
    context: int = 4096
    load_s: float = 0.0
    load_error: str | None = None
    token_s: float = 0.0
    batch_s: float = 0.0
    deaf: bool = False  # goes on whatever it is told
    die: str | None = None
    die_at_token: int | None = None
    die_at_batch: int | None = None
    last_words: str = ""

    def write(self, path: Path) -> Path:
        path.write_text(self.model_dump_json())
        return path


class ScriptedModel(FakeModel):
    def __init__(self, script: Script) -> None:
        super().__init__(
            *[answer.encode() for answer in script.answers],
            n_ctx=script.context,
            chat_template=script.template,
            endless=script.endless,
        )
        self._script = script
        self._tokens = 0
        self._batches = 0
        self.before_token = self._on_token
        self.before_batch = self._on_batch

    def memory_use(self) -> MemoryUse:
        return MemoryUse(weights=1000, context=len(self.cached_tokens), compute=10)

    def close(self) -> None:
        self.cached_tokens = []

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return super().tokenize(text, add_special=add_special, parse_special=parse_special)

    def cancel(self) -> None:
        if not self._script.deaf:
            super().cancel()

    def _on_token(self) -> None:
        if self._tokens == self._script.die_at_token:
            die(self._script)
        self._tokens += 1
        self._work(self._script.token_s)

    def _on_batch(self) -> None:
        if self._batches == self._script.die_at_batch:
            die(self._script)
        self._batches += 1
        self._work(self._script.batch_s)

    def _work(self, seconds: float) -> None:
        """Takes its time, and notices a cancel as the library does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._cancel:
            time.sleep(min(0.005, seconds))


def die(script: Script) -> None:
    if script.last_words:
        print(script.last_words, file=sys.stderr, flush=True)
    if script.die == "exit":
        os._exit(3)
    assert script.die is not None
    if script.die == "SIGSEGV":
        ctypes.string_at(0)
    os.kill(os.getpid(), signal.Signals[script.die])
    time.sleep(5)


def open_script(request: LoadRequest, on_load: OnLoad) -> tuple[ScriptedModel, ModelInfo]:
    path = Path(request.model)
    script = Script.model_validate_json(path.read_text())
    steps = max(1, round(script.load_s / 0.02))
    for step in range(steps):
        if not on_load(step / steps):
            raise NativeError("model.load_cancelled", {"path": str(path)})
        time.sleep(script.load_s / steps)
    if script.load_error is not None:
        raise NativeError(script.load_error, {"path": str(path), "why": "scripted"})
    if script.die and script.die_at_token is None and script.die_at_batch is None:
        die(script)
    model = ScriptedModel(script)
    info = ModelInfo(
        id=path.stem,
        path=path,
        name=path.stem,
        architecture="scripted",
        file_bytes=path.stat().st_size,
        context=script.context,
        trained_context=script.context,
        micro_batch=16,
        blocks=1,
        memory=model.memory_use(),
    )
    return model, info


if __name__ == "__main__":
    main(open_script)
