"""The devices, the CPU and the memory of this machine, as they are at this moment."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import psutil

from engine.api.hardware import Device, Host
from engine.probe.nvml import CardFacts, cards, normal_bus_id

# Instruction sets that decide which kernels run, and so how fast prompts are read.
_TELLING = re.compile(r"sse4_2|avx.*|fma|f16c|bmi2|amx.*|asimd.*|sve.*|i8mm|bf16")
# Of the host's memory, what a device that shares it has at least.
_UNIFIED_SHARE = 0.9


class LibraryDevice(Protocol):
    """A device as the library's registry tells it."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def bus_id(self) -> str: ...
    @property
    def memory_free(self) -> int: ...
    @property
    def memory_total(self) -> int: ...


def devices(listed: Iterable[LibraryDevice], host: Host) -> tuple[Device, ...]:
    """What computes besides the CPU, the most memory first, with the drivers' details."""
    gpus = [device for device in listed if device.kind in ("gpu", "igpu")]
    details = cards(os.getpid()) if gpus else {}
    found = [_device(device, host, details) for device in gpus]
    return tuple(sorted(found, key=lambda device: device.memory_total, reverse=True))


def _device(listed: LibraryDevice, host: Host, details: Mapping[str, CardFacts]) -> Device:
    card = details.get(normal_bus_id(listed.bus_id), CardFacts())
    total = card.memory_total or listed.memory_total
    free = listed.memory_free if card.memory_free is None else card.memory_free
    capability = card.compute_capability
    return Device(
        name=listed.name,
        backend=listed.backend,
        memory_total=total,
        memory_free=min(free, total),
        compute_capability=capability,
        unified=_is_unified(listed, card, host),
        description=card.name or listed.description,
        driver=card.driver,
        bus_id=listed.bus_id or None,
        link=card.link,
        temperature_c=card.temperature_c,
        used_by_others=card.used_by_others,
    )


def _is_unified(listed: LibraryDevice, card: CardFacts, host: Host) -> bool:
    """Whether the device computes in the host's memory. A card may well have as much of its own,
    and then the driver tells how much."""
    if listed.kind == "igpu" or listed.backend.lower().startswith(("mtl", "metal")):
        return True
    near = _UNIFIED_SHARE * host.memory_total <= listed.memory_total <= host.memory_total
    return listed.backend.lower().startswith("cuda") and card.memory_total is None and near


def host(cpuinfo: Path = Path("/proc/cpuinfo")) -> Host:
    """The CPU and memory, as far as this process may use them."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    name = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    features = flags.group(1).split() if flags else []
    memory = psutil.virtual_memory()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return Host(
        memory_total=memory.total,
        memory_free=memory.available,
        cpu_features=tuple(sorted(one for one in features if _TELLING.fullmatch(one))),
        cpu=name.group(1).strip() if name else platform.processor() or None,
        cores=max(1, min(physical, usable or physical)),
    )
