"""The memories that a plan may fill: the computing device's and the host's, or one for both."""

from __future__ import annotations

from dataclasses import dataclass

from engine.api.hardware import Device, Disk, Profile
from engine.planner.memory import margin
from engine.planner.rates import CPU, KnownRates, known_rates


@dataclass(frozen=True, slots=True)
class Room:
    """One memory, in bytes: `free` counts what a model about to be replaced gives back."""

    device: str
    total: int
    free: int
    replaced: int

    @property
    def margin(self) -> int:
        return margin(self.free, self.total)

    @property
    def usable(self) -> int:
        return self.free - self.margin


@dataclass(frozen=True, slots=True)
class Machine:
    """`near` is the memory that computes; `host` is the other one, None where they are one."""

    device: Device | None
    near: Room
    host: Room | None
    rates: KnownRates

    @property
    def name(self) -> str:
        return self.near.device


def machine(
    profile: Profile, device: str | None, disk: str | None, replaced: dict[str, int]
) -> Machine:
    """The machine as `device` (a name, "CPU", or None for the first) would compute on it.

    Raises KeyError for a device that the profile does not have.
    """
    chosen = _device(profile, device)
    found = _disk(profile, disk)
    rates = known_rates(profile, chosen, found.read_gbps if found else None)
    host = _room(CPU, profile.host.memory_total, profile.host.memory_free, replaced)
    if chosen is None:
        return Machine(None, host, None, rates)
    near = _room(chosen.name, chosen.memory_total, chosen.memory_free, replaced)
    if chosen.unified:
        # Two views of one memory: the more cautious one counts.
        free = min(near.free, host.free) if host.total else near.free
        return Machine(chosen, Room(near.device, near.total, free, near.replaced), None, rates)
    return Machine(chosen, near, host, rates)


def _device(profile: Profile, name: str | None) -> Device | None:
    if name == CPU or (name is None and not profile.devices):
        return None
    if name is None:
        return profile.devices[0]
    for device in profile.devices:
        if device.name == name:
            return device
    raise KeyError(name)


def _disk(profile: Profile, path: str | None) -> Disk | None:
    """The disk that holds `path`: the one whose own path is its longest beginning."""
    holding = [disk for disk in profile.disks if path is None or path.startswith(disk.path)]
    named = sorted(holding, key=lambda disk: len(disk.path)) if path is not None else holding[::-1]
    return named[-1] if named else (profile.disks[0] if profile.disks else None)


def _room(device: str, total: int, free: int, replaced: dict[str, int]) -> Room:
    given_back = replaced.get(device, 0)
    return Room(device, total, min(total, free + given_back), given_back)
