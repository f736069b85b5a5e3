"""Fills in the rates that a profile does not give with cautious guesses, and says which."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.api.hardware import Device, Profile, Rates
from engine.api.turn import Path

PREFILL_TYPE = "NVFP4"
CPU = "CPU"
DISK_RATE = "disk"

# GPUs differ tenfold; these are a small one's. Blackwell (compute capability 10 and 12)
# multiplies NVFP4 natively; others read it with 8-bit activations, as any type.
_GPU_TFLOPS = 30.0
_GPU_NATIVE_GAIN = 2.0
_NATIVE_SINCE = (10, 0)
_GPU_ATTENTION_TFLOPS = 8.0
_GPU_GBPS = 300.0
_TRANSFER_GBPS = 10.0
# Per core. NVFP4 has a kernel of the engine's own here, no slower than ggml's for other types.
_CORE_TFLOPS = 0.04
_CORE_AVX512_TFLOPS = 0.07
_CORE_ATTENTION_TFLOPS = 0.01
_HOST_GBPS = 20.0
_DISK_GBPS = 1.0
_ENCODE_SHARE = 0.1  # of the memory's bandwidth in bytes, as weights re-encoded

_FIXED_S: Mapping[Path, float] = {"decoder": 0.02, "resident": 0.02, "odp": 0.1, "autocast": 0.05}


@dataclass(frozen=True, slots=True)
class KnownRates:
    """Every rate there is, some of them guessed: those that are named in `guessed`.

    `product_tflops` and `prefill_tflops` stand for types of the decoder's and for the
    prefiller's where `given` does not have them.
    """

    given: Rates
    product_tflops: float
    prefill_tflops: float
    attention_tflops: float
    memory_gbps: float
    host_gbps: float
    transfer_gbps: float
    disk_gbps: float
    encode_gweights: float
    guessed: frozenset[str]

    def product_s(self, weights: Mapping[str, int]) -> float:
        """Seconds for one token's products with so many weights of each type."""
        return sum(2e-12 * count / self._product(name) for name, count in weights.items())

    def prefill_product_s(self, weights: int) -> float:
        return self.product_s({PREFILL_TYPE: weights})

    def read_s(self, nbytes: Mapping[str, int], *, host: bool = False) -> float:
        """Seconds to read weights for one token, with bytes of each type given."""
        memory = self.host_gbps if host else self.memory_gbps
        usual = memory * self.given.decode_efficiency
        # What a type was measured at holds for the device that computes.
        known = {} if host else self.given.decode_gbps
        return sum(count / known.get(name, usual) for name, count in nbytes.items()) / 1e9

    def fixed_s(self, path: Path) -> float:
        return self.given.fixed_s.get(path, _FIXED_S[path])

    def knows_prefill(self) -> bool:
        """Whether the speed of prefill weights is measured, and that of some others to compare."""
        products = self.given.products_tflops
        return "default" in products or (PREFILL_TYPE in products and len(products) > 1)

    def _product(self, name: str) -> float:
        other = self.prefill_tflops if name == PREFILL_TYPE else self.product_tflops
        return self.given.products_tflops.get(name, other)


def known_rates(profile: Profile, device: Device | None, disk_gbps: float | None) -> KnownRates:
    """The rates for computing on `device` (None: the CPU) of `profile`."""
    name = device.name if device else CPU
    first = profile.devices[0].name if profile.devices else CPU
    given = profile.rates if (profile.rates.device or first) == name else Rates()
    guessed: set[str] = set()

    def rate(what: str, value: float | None, guess: float) -> float:
        if value is None:
            guessed.add(what)
        return guess if value is None else value

    host_gbps = given.host_gbps or (given.memory_gbps if device is None else None) or _HOST_GBPS
    if device is None:
        wide = any(feature.startswith("avx512") for feature in profile.host.cpu_features)
        product = (_CORE_AVX512_TFLOPS if wide else _CORE_TFLOPS) * profile.host.cores
        prefill_gain = 1.0
        attention = _CORE_ATTENTION_TFLOPS * profile.host.cores
        memory_gbps = rate("memory bandwidth", given.memory_gbps or given.host_gbps, host_gbps)
    else:
        product, attention = _GPU_TFLOPS, _GPU_ATTENTION_TFLOPS
        native = (device.capability or (0, 0)) >= _NATIVE_SINCE
        prefill_gain = _GPU_NATIVE_GAIN if native else 1.0
        memory_gbps = rate("memory bandwidth", given.memory_gbps, _GPU_GBPS)
    products = given.products_tflops
    others = [rate for known, rate in products.items() if known != PREFILL_TYPE]
    product = products.get("default") or rate("products", min(others, default=None), product)
    prefill = products.get(PREFILL_TYPE) or products.get("default")
    shared = device is None or device.unified
    transfer_gbps = math.inf
    if not shared:
        transfer_gbps = rate("transfer to the device", given.transfer_gbps, _TRANSFER_GBPS)
    return KnownRates(
        given=given,
        product_tflops=product,
        prefill_tflops=rate("NVFP4 products", prefill, product * prefill_gain),
        attention_tflops=rate("attention", given.attention_tflops, attention),
        memory_gbps=memory_gbps,
        host_gbps=host_gbps,
        transfer_gbps=transfer_gbps,
        disk_gbps=rate(DISK_RATE, disk_gbps, _DISK_GBPS),
        encode_gweights=given.encode_gweights or memory_gbps * _ENCODE_SHARE,
        guessed=frozenset(guessed),
    )
