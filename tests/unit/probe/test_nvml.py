"""NVIDIA's details: all of them, some of them, or none, and never an error."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from engine.api.hardware import Host, Link
from engine.probe import machine, nvml

GIB = 1 << 30


class Driver:
    """A driver's library; a question named in `broken` fails, like on a card that lacks it."""

    def __init__(self, *broken: str) -> None:
        self._broken = broken
        self.shut = False

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "_broken"):

            def fails(*_: Any) -> Any:
                raise RuntimeError(name)

            return fails
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut = True

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"card {index}"

    def nvmlDeviceGetPciInfo(self, _: str) -> Any:  # noqa: N802
        return SimpleNamespace(busId=b"00000000:0A:00.0")

    def nvmlDeviceGetMemoryInfo(self, _: str) -> Any:  # noqa: N802
        return SimpleNamespace(total=24 * GIB, free=20 * GIB)

    def nvmlDeviceGetCudaComputeCapability(self, _: str) -> tuple[int, int]:  # noqa: N802
        return (12, 0)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, _: str) -> int:  # noqa: N802
        return 4

    def nvmlDeviceGetCurrPcieLinkWidth(self, _: str) -> int:  # noqa: N802
        return 16

    def nvmlDeviceGetName(self, _: str) -> bytes:  # noqa: N802
        return b"A Card"

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "600.1"

    def nvmlDeviceGetTemperature(self, _: str, kind: int) -> int:  # noqa: N802
        return 50 + kind

    def nvmlDeviceGetComputeRunningProcesses(self, _: str) -> list[Any]:  # noqa: N802
        return [
            SimpleNamespace(pid=1, usedGpuMemory=GIB),
            SimpleNamespace(pid=77, usedGpuMemory=2 * GIB),
            SimpleNamespace(pid=5, usedGpuMemory=None),
        ]

    def nvmlDeviceGetGraphicsRunningProcesses(self, _: str) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=1, usedGpuMemory=GIB)]


QUESTIONS = [name for name in vars(Driver) if name.startswith("nvml")]


def install(monkeypatch: pytest.MonkeyPatch, driver: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver)


def test_a_card_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    install(monkeypatch, driver)
    ((bus_id, card),) = nvml.cards(own_pid=77).items()
    assert bus_id == "0000:0a:00.0"
    assert card == nvml.CardFacts(
        name="A Card",
        driver="600.1",
        compute_capability="12.0",
        memory_total=24 * GIB,
        memory_free=20 * GIB,
        used_by_others=GIB,  # each process once, and not this one
        holders=((1, GIB), (5, 0)),
        link=Link(generation=4, width=16),
        temperature_c=50,
    )
    assert driver.shut


@pytest.mark.parametrize("broken", QUESTIONS)
def test_no_failing_question_spoils_the_others(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    install(monkeypatch, Driver(broken))
    found = nvml.cards(own_pid=77)
    lost = ("Init", "Count", "Handle", "PciInfo")
    assert bool(found) != any(part in broken for part in lost)


def test_without_nvml_there_are_no_details(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)  # importing raises
    assert nvml.cards(own_pid=1) == {}


def listed(**facts: Any) -> Any:
    return SimpleNamespace(
        **{
            "name": "CUDA0",
            "description": "card",
            "backend": "CUDA",
            "kind": "gpu",
            "bus_id": "0000:0a:00.0",
            "memory_free": 10 * GIB,
            "memory_total": 12 * GIB,
        }
        | facts
    )


HOST = Host(memory_total=64 * GIB, memory_free=32 * GIB)


def test_the_drivers_memory_counts_before_the_registrys(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Driver())
    (device,) = machine.devices([listed()], HOST)
    assert (device.memory_total, device.memory_free) == (24 * GIB, 20 * GIB)
    assert device.capability == (12, 0)
    assert device.description == "A Card"
    assert not device.unified


def test_everything_works_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    small, large = listed(name="Vulkan1", memory_total=4 * GIB, memory_free=5 * GIB), listed()
    devices = machine.devices([small, large, listed(name="CPU", kind="cpu")], HOST)
    assert [device.name for device in devices] == ["CUDA0", "Vulkan1"]
    assert devices[0].compute_capability is None
    assert devices[1].memory_free <= devices[1].memory_total


def test_a_device_in_the_hosts_memory_shares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    (integrated,) = machine.devices([listed(kind="igpu")], HOST)
    (spark,) = machine.devices([listed(memory_total=62 * GIB)], HOST)
    assert integrated.unified
    assert spark.unified


def test_a_card_with_as_much_memory_as_the_host_does_not_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_host = Host(memory_total=24 * GIB, memory_free=20 * GIB)
    install(monkeypatch, Driver())
    (card,) = machine.devices([listed(memory_total=24 * GIB)], small_host)
    assert not card.unified
    install(monkeypatch, None)
    large = listed(memory_total=141 * GIB)
    other = listed(backend="Vulkan", memory_total=24 * GIB)
    assert not any(device.unified for device in machine.devices([large, other], small_host))


def test_a_machine_without_devices_does_not_ask_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    install(monkeypatch, driver)
    assert machine.devices([listed(kind="cpu")], HOST) == ()
    assert not driver.shut
