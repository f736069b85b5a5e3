"""Asks the library what a model would allocate, without allocating it, in a child process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.api.memory import BufferMemory
from engine.api.plan import KvType
from engine.gguf.splits import GgufModel
from engine.native import native
from engine.planner.memory import MeasuredMemory
from engine.probe.errors import MeasuringFailed

# ggml's numbers.
KV_TYPES: dict[KvType, int] = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q5_0": 6, "q4_0": 2}
# Compute buffers grow with the width of a pass along a line; two widths give it.
_WIDTHS = (128, 512)
_TIME_LIMIT_S = 120.0  # usually under a second; a busy machine takes many times that


@dataclass(frozen=True, slots=True)
class Question:
    paths: list[str]
    context: int
    kv_type: int
    widths: list[int]
    gpu_layers: int = 0
    devices: tuple[str, ...] = ()


def exact_memory(
    model: GgufModel,
    context: int,
    kv_type: KvType,
    micro_batch: int,
    *,
    gpu_layers: int = 0,
    devices: Sequence[str] = (),
    time_limit_s: float = _TIME_LIMIT_S,
) -> tuple[BufferMemory, ...]:
    """What a load with these settings allocates, by kind of buffer. Raises MeasuringFailed.

    `gpu_layers`: so many of the last layers on `devices`, negative for all; no devices named: on
    all there are. The model's header must have been validated.
    """
    question = Question(
        [str(file.path) for file in model.files],
        context,
        KV_TYPES[kv_type],
        [min(micro_batch, context)],
        gpu_layers,
        tuple(devices),
    )
    (answer,) = _asked(question, model, time_limit_s)
    return tuple(BufferMemory.model_validate(part) for part in answer)


def measured_memory(
    model: GgufModel, context: int, kv_type: KvType, time_limit_s: float = _TIME_LIMIT_S
) -> MeasuredMemory:
    """Cache and compute buffers on the CPU for `context` tokens. Raises MeasuringFailed.

    The model's header must have been validated: the library aborts on many that are malformed,
    which ends only the child here, but tells the user nothing.
    """
    widths = [min(width, context) for width in _WIDTHS]
    question = Question(
        [str(file.path) for file in model.files], context, KV_TYPES[kv_type], widths
    )
    answers = _asked(question, model, time_limit_s)
    narrow, wide = (
        {kind: sum(part[kind] for part in parts) for kind in ("context", "compute")}
        for parts in (answers[0], answers[-1])
    )
    wider = widths[-1] - widths[0]
    slope = (wide["compute"] - narrow["compute"]) / wider if wider else 0.0
    return MeasuredMemory(
        context=context,
        kv_type=kv_type,
        context_bytes=wide["context"],
        compute_base=wide["compute"] - slope * widths[-1],
        compute_per_token=slope,
    )


def _asked(question: Question, model: GgufModel, time_limit_s: float) -> list[list[dict[str, Any]]]:
    """For each width, the parts of the memory, from a child process."""
    command = [sys.executable, "-m", "engine.probe.memory", json.dumps(asdict(question))]
    what = f"the memory of {model.path.name}"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=time_limit_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MeasuringFailed(what=what, reason=f"no end after {time_limit_s:.0f} s") from error
    if done.returncode != 0:
        raise MeasuringFailed(what=what, reason=f"exit status {done.returncode}")
    answers: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def _answer(text: str) -> str:
    question = json.loads(text)
    kv_type = question["kv_type"]
    answers = [
        [
            {
                "buffer": part.buffer,
                "host": part.host,
                "weights": part.weights,
                "context": part.context,
                "compute": part.compute,
            }
            for part in native().estimate_memory(
                question["paths"],
                question["context"],
                width,
                question["gpu_layers"],
                kv_type,
                kv_type,
                question["devices"],
            )
        ]
        for width in question["widths"]
    ]
    return json.dumps(answers)


if __name__ == "__main__":
    print(_answer(sys.argv[1]))
