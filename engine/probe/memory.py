"""Asks the library what a model would allocate, without allocating it, in a child process."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass

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
    answers: list[dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    narrow, wide = answers[0], answers[-1]
    wider = widths[-1] - widths[0]
    slope = (wide["compute"] - narrow["compute"]) / wider if wider else 0.0
    return MeasuredMemory(
        context=context,
        kv_type=kv_type,
        context_bytes=wide["context"],
        compute_base=wide["compute"] - slope * widths[-1],
        compute_per_token=slope,
    )


def _answer(text: str) -> str:
    question = json.loads(text)
    answers: list[dict[str, int]] = []
    for width in question["widths"]:
        kv_type = question["kv_type"]
        parts = native().estimate_memory(
            question["paths"], question["context"], width, 0, kv_type, kv_type
        )
        answers.append(
            {
                "weights": sum(part.weights for part in parts),
                "context": sum(part.context for part in parts),
                "compute": sum(part.compute for part in parts),
            }
        )
    return json.dumps(answers)


if __name__ == "__main__":
    print(_answer(sys.argv[1]))
