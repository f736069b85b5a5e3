"""What a disk is by its file system and /sys, and how its measured rate is judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.api.hardware import Disk
from engine.bench.disk import DiskRow
from engine.chat.cancellation import Cancellation
from engine.errors import NativeError
from engine.probe.disks import (
    LEAST_BYTES,
    SLICES,
    Mount,
    describe_disk,
    device_kind,
    measured_disk,
    model_file,
)
from engine.probe.errors import ProbeStopped
from engine.probe.words import DISK_SENTENCES

NUMBER = os.makedev(8, 1)


def fake_sys(root: Path, place: str, rotational: str | None = None) -> Path:
    """A /sys in which the device 8:1 is at `place`."""
    device = root / "devices" / place
    device.mkdir(parents=True)
    if rotational is not None:
        (device / "queue").mkdir()
        (device / "queue" / "rotational").write_text(rotational + "\n")
    block = root / "dev" / "block"
    block.mkdir(parents=True)
    (block / "8:1").symlink_to(device)
    return root


@pytest.mark.parametrize(
    ("place", "rotational", "kind"),
    [
        ("pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", "0", "nvme"),
        ("pci0000:00/ata1/host0/block/sda", "0", "ssd"),
        ("pci0000:00/ata1/host0/block/sda", "1", "hdd"),
        ("pci0000:00/usb2/2-1/host4/block/sdb", "0", "usb"),
        ("pci0000:00/virtio1/block/vda", "1", "unknown"),
        ("platform/odd", None, "unknown"),
    ],
)
def test_the_kind_of_a_disk_is_in_its_place_in_sys(
    tmp_path: Path, place: str, rotational: str | None, kind: str
) -> None:
    sys = fake_sys(tmp_path, place, rotational)
    assert device_kind(Mount("/", "/dev/x", "ext4"), NUMBER, sys) == kind


def test_a_partition_has_its_disks_queue(tmp_path: Path) -> None:
    sys = fake_sys(tmp_path, "pci0000:00/ata1/block/sda/sda1")
    queue = tmp_path / "devices/pci0000:00/ata1/block/sda/queue"
    queue.mkdir()
    (queue / "rotational").write_text("1\n")
    assert device_kind(None, NUMBER, sys) == "hdd"


def test_an_encrypted_or_joined_disk_is_as_its_slowest_part(tmp_path: Path) -> None:
    sys = fake_sys(tmp_path, "virtual/block/dm-0")
    slaves = tmp_path / "devices/virtual/block/dm-0/slaves"
    slaves.mkdir()
    for name, place in (("a", "pci/nvme/nvme0/nvme0n1"), ("b", "pci/usb1/block/sdb")):
        (tmp_path / "devices" / place).mkdir(parents=True)
        (slaves / name).symlink_to(tmp_path / "devices" / place)
    assert device_kind(None, NUMBER, sys) == "usb"


@pytest.mark.parametrize(
    ("file_system", "kind"),
    [("nfs4", "network"), ("cifs", "network"), ("fuse.sshfs", "network"), ("9p", "network"),
     ("tmpfs", "memory"), ("ext4", "unknown")],
)  # fmt: skip
def test_some_file_systems_say_what_is_below(tmp_path: Path, file_system: str, kind: str) -> None:
    assert device_kind(Mount("/", "server:/models", file_system), NUMBER, tmp_path) == kind


def test_a_file_system_without_a_number_is_found_by_its_device(tmp_path: Path) -> None:
    place = tmp_path / "class/block/nvme1n1p2"
    (tmp_path / "devices/nvme/nvme1/nvme1n1p2").mkdir(parents=True)
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "devices/nvme/nvme1/nvme1n1p2")
    assert device_kind(Mount("/", "/dev/nvme1n1p2", "btrfs"), NUMBER, tmp_path) == "nvme"


def test_a_folder_that_is_not_made_yet_is_described_by_the_one_above(tmp_path: Path) -> None:
    found = describe_disk(tmp_path / "not" / "yet")
    here = describe_disk(tmp_path)
    assert (found.device, found.file_system, found.kind) == (
        here.device,
        here.file_system,
        here.kind,
    )
    assert found.free is not None
    assert found.free > 0


def test_the_largest_model_file_is_measured_with(tmp_path: Path) -> None:
    def sparse(name: str, size: int) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size)
        return path

    sparse("small.gguf", LEAST_BYTES - 1)
    sparse("large.bin", 4 * LEAST_BYTES)
    assert model_file([tmp_path]) is None
    sparse("a.gguf", LEAST_BYTES)
    largest = sparse("below/b.GGUF", 2 * LEAST_BYTES)
    assert model_file([tmp_path, tmp_path / "missing"]) == largest


DISK = Disk(path="/models", kind="nvme")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(bytes(8000))
    return path


def rates(values: Sequence[float], *, direct: bool = True) -> Callable[..., DiskRow]:
    left = list(values)

    def measure(path: Path, seconds: float, start: int) -> DiskRow:
        assert path.exists()
        assert seconds == pytest.approx(2 / SLICES)
        assert start == (SLICES - len(left)) * 1000  # other bytes each time
        return DiskRow(block_bytes=4096, gbps=left.pop(0), direct=direct, in_flight=4)

    return measure


def warnings(values: Sequence[float], file: Path, *, direct: bool = True) -> tuple[str, ...]:
    found = measured_disk(DISK, file, measure=rates(values, direct=direct))
    assert set(found.warnings) <= DISK_SENTENCES.keys()
    return found.warnings


def test_a_steady_disk_has_its_median_and_a_date(file: Path) -> None:
    steps: list[tuple[float, float]] = []
    values = [5.0, 5.2, 5.1, 4.9, 5.0, 5.3, 5.1, 5.2]
    found = measured_disk(
        DISK, file, measure=rates(values), on_progress=lambda *step: steps.append(step)
    )
    assert found.read_gbps == pytest.approx(5.15)
    assert found.warnings == ()
    assert found.measured_at is not None
    assert found.measured_file == str(file)
    assert [share for share, _ in steps] == [(n + 1) / SLICES for n in range(SLICES)]


def test_a_disk_that_slows_down_counts_as_slow_as_it_ends(file: Path) -> None:
    found = measured_disk(DISK, file, measure=rates([6, 6, 6, 6, 2, 2, 2, 2]))
    assert found.read_gbps == 2
    assert found.warnings == ("probe.throttled",)


def test_odd_rates_are_noticed(file: Path) -> None:
    assert warnings([40.0] * 8, file) == ("probe.rate_implausible",)
    assert warnings([5.0] * 8, file, direct=False) == ("probe.not_direct",)
    assert warnings([5, 5, 1, 5, 5, 5, 1, 5], file) == ("probe.unsteady",)


def test_without_a_file_or_with_one_that_cannot_be_read_there_is_no_rate(file: Path) -> None:
    assert measured_disk(DISK, None).warnings == ("probe.no_model_file",)

    def fails(*_: object) -> DiskRow:
        raise NativeError("disk.read_failed", {"path": "p"})

    found = measured_disk(DISK, file, measure=fails)
    assert found.read_gbps is None
    assert found.warnings == ("probe.read_failed",)


def test_measuring_stops_when_asked(file: Path) -> None:
    cancellation = Cancellation()
    seen: list[float] = []

    def step(share: float, _gbps: float) -> None:
        seen.append(share)
        cancellation.cancel()

    with pytest.raises(ProbeStopped):
        measured_disk(
            DISK, file, measure=rates([5.0] * 8), on_progress=step, cancellation=cancellation
        )
    assert len(seen) == 1


def test_a_real_file_is_really_read(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(os.urandom(8 << 20))
    found = measured_disk(describe_disk(tmp_path), path, seconds=0.2)
    assert found.read_gbps is not None
    assert found.read_gbps > 0.001
