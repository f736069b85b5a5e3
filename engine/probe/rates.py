"""Measures the speed of a device's products in a process of its own, which may die of a kernel."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Sequence

from engine.api.hardware import Rates
from engine.chat.cancellation import Cancellation
from engine.kernels.check import use_checked_kernel
from engine.planner.rates import CPU, PREFILL_TYPE
from engine.probe.errors import MeasuringFailed, ProbeStopped
from engine.probe.products import ProductRates, measure_products

# The prefiller's type, and those that decoders are mostly made of.
TYPES = (PREFILL_TYPE, "F16", "IQ1_S", "IQ2_XXS", "Q2_K", "Q4_K", "Q4_0", "Q6_K", "Q8_0")
_TIME_LIMIT_S = 120.0  # usually 5 s; a busy machine takes many times that
_POLL_S = 0.05


def measure_rates(
    device: str,
    index: int,
    threads: int,
    *,
    types: Sequence[str] = TYPES,
    cancellation: Cancellation | None = None,
    time_limit_s: float = _TIME_LIMIT_S,
) -> Rates:
    """The rates of `device`, which is `index` in the library's registry.

    Raises MeasuringFailed, and ProbeStopped when cancelled.
    """
    question = json.dumps({"index": index, "threads": threads, "types": list(types)})
    command = [sys.executable, "-m", "engine.probe.rates", question]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    )
    deadline = time.monotonic() + time_limit_s
    try:
        while True:
            try:
                output, _ = child.communicate(timeout=_POLL_S)
                break
            except subprocess.TimeoutExpired:
                if cancellation and cancellation.cancelled:
                    raise ProbeStopped from None
                if time.monotonic() > deadline:
                    raise MeasuringFailed(
                        what=device, reason=f"no end after {time_limit_s:.0f} s"
                    ) from None
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
    if child.returncode != 0:
        raise MeasuringFailed(what=device, reason=f"exit status {child.returncode}")
    answer = json.loads(output.splitlines()[-1])
    return as_rates(device, ProductRates(answer["tflops"], answer["decode_gbps"]))


def as_rates(device: str, products: ProductRates) -> Rates:
    """A type's rate at decoding includes its kernel; the fastest one shows the memory's.

    Attention is two products of F16 values with a softmax between them: half their rate.
    """
    decode = products.decode_gbps
    plain = products.tflops.get("F16")
    return Rates(
        device=device,
        products_tflops=products.tflops,
        attention_tflops=plain / 2 if plain else None,
        decode_gbps=decode,
        memory_gbps=max(decode.values()) if decode else None,
        decode_efficiency=1.0,
        host_gbps=max(decode.values()) if decode and device == CPU else None,
    )


def _answer(question: str) -> str:
    asked = json.loads(question)
    use_checked_kernel()  # what is measured is what will run
    found = measure_products(
        asked["types"], device=asked["index"], threads=asked["threads"], decode=True
    )
    return json.dumps(dataclasses.asdict(found))


if __name__ == "__main__":
    print(_answer(sys.argv[1]))
