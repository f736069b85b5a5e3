"""Decoders of published shapes, machines, and plans for them, without a file or a device."""

from __future__ import annotations

import functools

from engine.api.hardware import Device, Disk, Host, Profile, Rates
from engine.bench.shapes import model_shape
from engine.gguf.types import GgmlType
from engine.planner.facts import ModelFacts, model_facts
from tests.support.published_models import published_model

GIB = 1 << 30

# A card without native NVFP4: both kinds of weights are multiplied in 8 bits.
CARD_RATES = Rates(
    products_tflops={"default": 70, "NVFP4": 90},
    attention_tflops=30,
    memory_gbps=700,
    host_gbps=50,
    transfer_gbps=22,
)
CPU_RATES = Rates(
    device="CPU",
    products_tflops={"default": 0.5, "NVFP4": 0.9},
    attention_tflops=0.1,
    memory_gbps=60,
)


@functools.cache
def decoder(arch: str, size: str, type_: str) -> ModelFacts:
    """The facts of a decoder, as its header would give them."""
    shape = model_shape(arch, size)
    return model_facts(published_model(shape, GgmlType[type_], f"{arch} {size}"))


def mixture(base: ModelFacts, experts: int = 128, used: int = 8) -> ModelFacts:
    """`base` as if its linear weights were experts of which few are used for a token."""
    blocks = tuple(
        block.model_copy(update={"active_weights": block.linear_weights * used // experts})
        for block in base.blocks
    )
    products = {name: count * used // experts for name, count in base.products.items()}
    return base.model_copy(update={"experts": experts, "blocks": blocks, "products": products})


def card(
    gib: float,
    *,
    used: float = 0.0,
    ram: float = 32.0,
    ram_used: float = 6.0,
    disk: float | None = 5.5,
    rates: Rates = CARD_RATES,
    capability: str = "8.9",
) -> Profile:
    """A machine with one graphics card of `gib`; sizes in GiB, the disk in GB/s."""
    return Profile(
        devices=(
            Device(
                name="CUDA0",
                backend="CUDA",
                memory_total=round(gib * GIB),
                memory_free=round((gib - used) * GIB),
                compute_capability=capability,
            ),
        ),
        host=_host(ram, ram_used),
        disks=(Disk(path="/", read_gbps=disk),),
        rates=rates,
    )


def laptop(
    ram: float, *, used: float = 4.0, disk: float | None = 3.0, rates: Rates = CPU_RATES
) -> Profile:
    """A machine whose CPU computes."""
    return Profile(host=_host(ram, used), disks=(Disk(path="/", read_gbps=disk),), rates=rates)


def shared(
    ram: float, *, used: float = 8.0, disk: float = 6.0, rates: Rates = CARD_RATES
) -> Profile:
    """A machine whose GPU computes in the host's memory."""
    host = _host(ram, used)
    device = Device(
        name="GPU",
        backend="Vulkan",
        memory_total=host.memory_total,
        memory_free=host.memory_free,
        unified=True,
    )
    return Profile(
        devices=(device,), host=host, disks=(Disk(path="/", read_gbps=disk),), rates=rates
    )


def _host(ram: float, used: float) -> Host:
    return Host(
        memory_total=round(ram * GIB), memory_free=round(max(0.0, ram - used) * GIB), cores=8
    )
