"""Puts a profile of this machine together: what it is now, and what was measured here or before."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

from engine import paths
from engine.api.hardware import Device, Disk, Host, Profile, Rates
from engine.chat.cancellation import Cancellation
from engine.kernels.check import multiplier
from engine.native import native
from engine.planner.rates import CPU
from engine.probe import cache, disks, machine
from engine.probe.errors import MeasuringFailed, ProbeStopped
from engine.probe.rates import measure_rates

# What is being measured, the share of it that is done (None: not known), and a rate in words.
OnStep = Callable[[str, float | None, str], None]


def model_folders() -> list[Path]:
    """Where models are kept unless the user says otherwise."""
    return [paths.data_folder() / "models", paths.cache_folder() / "models"]


def known_profile(folders: Sequence[Path] | None = None) -> Profile:
    """This machine without measuring anything: at once, with what earlier probes found."""
    host, found = _present()
    known = cache.load()
    described = [
        _known_disk(disks.describe_disk(folder), known.disks)
        for folder in folders or model_folders()
    ]
    device = found[0].name if found else CPU
    same = known.rates and known.rates.device == device and known.rates_by == multiplier()
    rates = known.rates if known.rates and same else Rates()
    return Profile(devices=found, host=host, disks=_distinct(described), rates=rates)


def probe(
    folders: Sequence[Path] | None = None,
    *,
    again: bool = False,
    on_step: OnStep | None = None,
    cancellation: Cancellation | None = None,
) -> Profile:
    """This machine, measured where that is not known yet, or `again`.

    Takes about two seconds a disk and five for the products. Raises ProbeStopped; what had been
    measured until then is kept.
    """
    tell = on_step or _silent
    before = known_profile(folders)
    files = {disk.path: disks.model_file([Path(disk.path)]) for disk in before.disks}
    found: list[Disk] = []
    # Folders with a file to measure with come first: another folder may be on the same disk.
    for disk in sorted(before.disks, key=lambda disk: files[disk.path] is None):
        if disk.read_gbps is not None and not again:
            found.append(disk)
            continue
        blank = disks.describe_disk(Path(disk.path))
        if files[disk.path] is None and (same := _known_disk(blank, found)).read_gbps:
            found.append(same)
            continue
        what = f"the disk of {disk.path}"
        tell(what, 0.0, "")
        measured = disks.measured_disk(
            blank,
            files[disk.path],
            on_progress=lambda share, gbps, what=what: tell(what, share, f"{gbps:.2f} GB/s"),
            cancellation=cancellation,
        )
        found.append(measured)
        _remember(disk=measured)
    rates = before.rates
    if again or not rates.products_tflops:
        rates = _rates(before, tell, cancellation)
    return before.model_copy(update={"disks": _distinct(found), "rates": rates})


def measure_folder(
    folder: Path,
    *,
    on_progress: disks.OnProgress | None = None,
    cancellation: Cancellation | None = None,
) -> Disk:
    """Measures the disk that holds `folder` anew and remembers it. Raises ProbeStopped."""
    measured = disks.measured_disk(
        disks.describe_disk(folder),
        disks.model_file([folder]),
        on_progress=on_progress,
        cancellation=cancellation,
    )
    _remember(disk=measured)
    return measured


def _silent(what: str, share: float | None, rate: str) -> None:
    del what, share, rate


def _rates(profile: Profile, tell: OnStep, cancellation: Cancellation | None) -> Rates:
    """Those of the first device, and the host's memory where that is another one."""
    first = profile.devices[0].name if profile.devices else CPU
    threads = profile.host.cores
    found = Rates()
    for name in dict.fromkeys((first, CPU)):
        index = _index(name)
        if index is None or (cancellation and cancellation.cancelled):
            continue
        tell(f"the speed of {name}", None, "")
        try:
            measured = measure_rates(name, index, threads, cancellation=cancellation)
        except MeasuringFailed:
            continue  # the plan guesses, and says so
        if name == first:
            found = measured
        else:
            found = found.model_copy(update={"host_gbps": measured.host_gbps})
    if cancellation and cancellation.cancelled:
        raise ProbeStopped
    if found.products_tflops:
        _remember(rates=found)
    return found


def _index(name: str) -> int | None:
    names = [device.name for device in native().list_devices()]
    return names.index(name) if name in names else None


def _present() -> tuple[Host, tuple[Device, ...]]:
    host = machine.host()
    return host, machine.devices(native().list_devices(), host)


def _known_disk(described: Disk, known: Sequence[Disk]) -> Disk:
    """`described` with the rate that was measured before, if it is still the same disk."""
    for disk in known:
        same = (disk.device, disk.file_system) == (described.device, described.file_system)
        if same and disk.device and disk.read_gbps:
            now = {"path": described.path, "free": described.free, "total": described.total}
            return disk.model_copy(update=now)
    return described


def _distinct(described: Sequence[Disk]) -> tuple[Disk, ...]:
    """One entry for each folder, those that are measured first."""
    return tuple(sorted(described, key=lambda disk: disk.read_gbps is None))


def _remember(disk: Disk | None = None, rates: Rates | None = None) -> None:
    known = cache.load()
    if disk is not None and disk.read_gbps is not None:
        others = tuple(one for one in known.disks if one.path != disk.path)
        known = known.model_copy(update={"disks": (*others, disk)})
    if rates is not None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        known = known.model_copy(update={"rates": rates, "rates_at": now, "rates_by": multiplier()})
    with contextlib.suppress(OSError):
        cache.save(known)
