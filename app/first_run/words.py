"""What was found on this machine, in one line."""

from __future__ import annotations

from app.i18n import numbers, tr
from engine.api.hardware import Disk, Profile


def machine_line(profile: Profile) -> str:
    """The device that computes, its memory, and how fast the disk is read."""
    if profile.devices:
        device = profile.devices[0]
        computing = tr(
            "first_run.device",
            name=device.description or device.name,
            total=numbers.memory(device.memory_total),
            free=numbers.memory(device.memory_free),
        )
    else:
        host = profile.host
        computing = tr(
            "first_run.host",
            name=host.cpu or tr("hardware.unknown"),
            cores=host.cores,
            total=numbers.memory(host.memory_total),
            free=numbers.memory(host.memory_free),
        )
    disk = profile.disks[0] if profile.disks else None
    return f"{computing}; {_disk(disk)}" if disk is not None else computing


def needs_measuring(profile: Profile) -> bool:
    return not profile.disks or profile.disks[0].read_gbps is None


def _disk(disk: Disk) -> str:
    kinds = {"nvme": "NVMe", "ssd": "SSD"}
    kind = kinds.get(disk.kind, tr("first_run.disk"))
    if disk.read_gbps is None:
        return tr("first_run.unmeasured", kind=kind)
    return tr("first_run.disk_rate", kind=kind, rate=numbers.disk_rate(disk.read_gbps * 1e9))
