"""Details of NVIDIA cards from their driver's library; nothing where that is absent or fails."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from engine.api.hardware import Link

_T = TypeVar("_T")


class CardFacts(BaseModel):
    """One card; None where the driver does not tell. Memory in bytes. `used_by_others`: what
    other processes hold, as far as the driver shows them; `holders`: each one's id and bytes."""

    model_config = ConfigDict(frozen=True)

    name: str | None = None
    driver: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    used_by_others: int | None = None
    holders: tuple[tuple[int, int], ...] = ()
    link: Link | None = None
    temperature_c: int | None = None


def cards(own_pid: int) -> dict[str, CardFacts]:
    """The cards by PCI address ("0000:01:00.0"); empty without a working driver."""
    library = _library()
    if library is None:
        return {}
    found: dict[str, CardFacts] = {}
    try:
        for index in range(_ask(library.nvmlDeviceGetCount) or 0):
            handle = _ask(library.nvmlDeviceGetHandleByIndex, index)
            pci = _ask(library.nvmlDeviceGetPciInfo, handle) if handle is not None else None
            if pci is not None:
                found[normal_bus_id(_text(pci.busId))] = _card(library, handle, own_pid)
    finally:
        with contextlib.suppress(Exception):
            library.nvmlShutdown()
    return found


def normal_bus_id(bus_id: str) -> str:
    """NVML writes the domain with eight digits, others with four."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest}" if rest else bus_id.lower()


def _library() -> Any | None:
    try:
        library: Any = importlib.import_module("pynvml")
        library.nvmlInit()
    except Exception:  # absent, too old, no driver, no card, no permission: all the same here
        return None
    return library


def _ask(question: Callable[..., _T], *args: Any) -> _T | None:
    """The driver's answer; each question may fail on its own."""
    try:
        return question(*args)
    except Exception:
        return None


def _card(library: Any, handle: Any, own_pid: int) -> CardFacts:
    memory = _ask(library.nvmlDeviceGetMemoryInfo, handle)
    capability = _ask(library.nvmlDeviceGetCudaComputeCapability, handle)
    generation = _ask(library.nvmlDeviceGetCurrPcieLinkGeneration, handle)
    width = _ask(library.nvmlDeviceGetCurrPcieLinkWidth, handle)
    name = _ask(library.nvmlDeviceGetName, handle)
    others = _others(library, handle, own_pid)
    driver = _ask(library.nvmlSystemGetDriverVersion)
    return CardFacts(
        name=_text(name) if name is not None else None,
        driver=_text(driver) if driver is not None else None,
        compute_capability=".".join(map(str, capability)) if capability else None,
        memory_total=int(memory.total) if memory else None,
        memory_free=int(memory.free) if memory else None,
        used_by_others=sum(others.values()) if others is not None else None,
        holders=tuple((others or {}).items()),
        link=Link(generation=generation, width=width) if generation and width else None,
        temperature_c=_ask(library.nvmlDeviceGetTemperature, handle, 0),
    )


def _others(library: Any, handle: Any, own_pid: int) -> dict[int, int] | None:
    """Bytes by process; None where the driver does not list them."""
    used: dict[int, int] = {}
    answered = False
    for question in ("ComputeRunningProcesses", "GraphicsRunningProcesses"):
        processes = _ask(getattr(library, f"nvmlDeviceGet{question}"), handle)
        answered = answered or processes is not None
        for process in processes or ():
            if process.pid != own_pid:
                used[process.pid] = max(used.get(process.pid, 0), process.usedGpuMemory or 0)
    return used if answered else None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
