"""The disks that hold model folders: what they are, and how fast weights come off them."""

from __future__ import annotations

import datetime
import os
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.api.hardware import Disk
from engine.bench.disk import DEFAULT_BLOCK_BYTES, DEFAULT_IN_FLIGHT, DiskRow, measure_disk
from engine.chat.cancellation import Cancellation
from engine.errors import TwofoldError
from engine.probe.errors import ProbeStopped

SECONDS = 2.0
SLICES = 8
# Smaller files come out of a drive's own cache.
LEAST_BYTES = 64 << 20
# Faster than PCIe 5.0 with four lanes; what reads faster is memory.
IMPLAUSIBLE_GBPS = 16.0
# The second half this much slower than the first: the drive does not keep its speed up.
THROTTLED_SHARE = 0.6
UNSTEADY_SHARE = 0.4

_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "lustre", "davfs", "sshfs")
_MAX_FILES_LOOKED_AT = 20_000

# Share done, and the rate of the last slice in 10^9 bytes a second.
OnProgress = Callable[[float, float], None]
Measure = Callable[[Path, float, int], DiskRow]


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a folder's file system is mounted from."""

    point: str
    device: str
    file_system: str


def describe_disk(folder: Path, sys: Path = Path("/sys")) -> Disk:
    """The disk that holds `folder` (or will, once it is made), not measured."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    usage = shutil.disk_usage(place)
    mount = mount_of(place)
    kind = device_kind(mount, place.stat().st_dev, sys)
    warnings = (f"probe.{kind}",) if kind in ("network", "usb", "hdd") else ()
    return Disk(
        path=str(folder),
        kind=kind,
        file_system=mount.file_system if mount else None,
        device=mount.device if mount else None,
        free=usage.free,
        total=usage.total,
        warnings=warnings,
    )


def mount_of(place: Path) -> Mount | None:
    """The mount that `place` lies in: the one with the longest path."""
    where = str(place.resolve())
    try:
        partitions = psutil.disk_partitions(all=True)
    except OSError:
        return None
    holding = [
        one for one in partitions if Path(where).is_relative_to(one.mountpoint) and one.fstype
    ]
    if not holding:
        return None
    found = max(holding, key=lambda one: len(one.mountpoint))
    return Mount(found.mountpoint, found.device, found.fstype)


def device_kind(mount: Mount | None, number: int, sys: Path = Path("/sys")) -> str:
    """ "nvme", "ssd", "hdd", "usb", "network", "memory" or "unknown", by file system and /sys."""
    file_system = mount.file_system.lower() if mount else ""
    name = file_system.removeprefix("fuse.")
    if name.startswith(_NETWORK):
        return "network"
    if name in ("tmpfs", "ramfs"):
        return "memory"
    block = sys / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
    if not block.exists() and mount and mount.device.startswith("/dev/"):
        block = sys / "class" / "block" / Path(mount.device).name  # btrfs has numbers of its own
    kinds = [_block_kind(device) for device in _below(block)]
    # Of several disks the slowest counts.
    return next(
        (kind for kind in ("usb", "hdd", "unknown", "ssd", "nvme") if kind in kinds), "unknown"
    )


def _below(block: Path, depth: int = 0) -> Iterator[Path]:
    """The real devices that a mapped or encrypted one rests on; itself if it is real."""
    if not block.exists() or depth > 8:
        return
    real = block.resolve()
    slaves = real / "slaves"
    below = sorted(slaves.iterdir()) if slaves.is_dir() else []
    if not below:
        yield real
    for device in below:
        yield from _below(device, depth + 1)


def _block_kind(device: Path) -> str:
    parts = device.parts
    if any(part.startswith("usb") for part in parts):
        return "usb"
    if any(part.startswith("nvme") for part in parts):
        return "nvme"
    if any(part.startswith("virtio") for part in parts):
        return "unknown"  # a virtual machine's disk says nothing about the real one
    for holder in (device, device.parent):  # a partition has no queue of its own
        try:
            rotational = (holder / "queue" / "rotational").read_text().strip()
        except OSError:
            continue
        return "hdd" if rotational == "1" else "ssd"
    return "unknown"


def model_file(folders: Sequence[Path]) -> Path | None:
    """The largest model file under the folders; None if none is large enough to measure with."""
    best: tuple[int, Path] | None = None
    looked_at = 0
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                looked_at += 1
                if looked_at > _MAX_FILES_LOOKED_AT:
                    return best[1] if best else None
                if not name.lower().endswith(".gguf"):
                    continue
                path = Path(parent, name)
                try:
                    size = path.stat().st_size
                except OSError:
                    continue
                if size >= LEAST_BYTES and (best is None or size > best[0]):
                    best = size, path
    return best[1] if best else None


def _measure(path: Path, seconds: float, start: int) -> DiskRow:
    return measure_disk(path, DEFAULT_BLOCK_BYTES, DEFAULT_IN_FLIGHT, seconds, start=start)


def measured_disk(
    disk: Disk,
    file: Path | None,
    *,
    seconds: float = SECONDS,
    on_progress: OnProgress | None = None,
    cancellation: Cancellation | None = None,
    measure: Measure = _measure,
) -> Disk:
    """`disk` with the rate at which `file` comes off it, read as a prefiller is.

    The rate that lasts counts: the median of the second half. What could not be measured, or
    looks wrong, is in the warnings. Raises ProbeStopped when cancelled.
    """
    if file is None:
        return _warned(disk, "probe.no_model_file")
    try:
        size = file.stat().st_size
        rows: list[DiskRow] = []
        for index in range(SLICES):
            if cancellation and cancellation.cancelled:
                raise ProbeStopped
            # Each slice reads other bytes, so that no drive's cache answers.
            rows.append(measure(file, seconds / SLICES, size * index // SLICES))
            if on_progress:
                on_progress((index + 1) / SLICES, rows[-1].gbps)
    except (TwofoldError, OSError) as error:
        if isinstance(error, ProbeStopped):
            raise
        return _warned(disk, "probe.read_failed")
    rates = [row.gbps for row in rows]
    first = statistics.median(rates[: SLICES // 2])
    lasting = statistics.median(rates[SLICES // 2 :])
    codes: list[str] = []
    if not all(row.direct for row in rows):
        codes.append("probe.not_direct")
    if lasting > IMPLAUSIBLE_GBPS:
        codes.append("probe.rate_implausible")
    if lasting < THROTTLED_SHARE * first:
        codes.append("probe.throttled")
    elif min(rates) < UNSTEADY_SHARE * statistics.median(rates):
        codes.append("probe.unsteady")
    measured = disk.model_copy(
        update={
            "read_gbps": lasting,
            "direct": all(row.direct for row in rows),
            "measured_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "measured_file": str(file),
        }
    )
    return _warned(measured, *codes)


def _warned(disk: Disk, *codes: str) -> Disk:
    return disk.model_copy(update={"warnings": (*disk.warnings, *codes)})
