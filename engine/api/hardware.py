"""A machine as the planner sees it: devices, memory, disks, and how fast each of them is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from engine.api.turn import Path


class Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Link(Data):
    """A device's PCIe connection as it is now."""

    generation: int
    width: int


class Device(Data):
    """A device that computes, other than the CPU. Memory in bytes; `memory_free` is what other
    programs leave. `unified`: its memory is the host's. `compute_capability` as "12.0".

    The fields after that are for people; the planner does not need them.
    """

    name: str
    backend: str
    memory_total: int = Field(ge=0)
    memory_free: int = Field(ge=0)
    compute_capability: str | None = None
    unified: bool = False
    description: str | None = None
    driver: str | None = None
    bus_id: str | None = None
    link: Link | None = None
    temperature_c: int | None = None
    used_by_others: int | None = Field(default=None, ge=0)

    @property
    def capability(self) -> tuple[int, int] | None:
        """(12, 0) for "12.0"; None where it is not known."""
        major, _, minor = (self.compute_capability or "").partition(".")
        return (int(major), int(minor or 0)) if major.isdigit() else None


class Host(Data):
    """The CPU and its memory; `memory_free` is what programs can still have, caches included."""

    memory_total: int = Field(ge=0)
    memory_free: int = Field(ge=0)
    cpu_features: tuple[str, ...] = ()
    cpu: str | None = None
    cores: int = Field(default=1, ge=1)


class Disk(Data):
    """A disk that holds model folders. `read_gbps` in 10^9 bytes a second, None if not measured.

    `kind`: "nvme", "ssd", "hdd", "usb", "network" or "unknown". `direct`: whether reads bypass
    the page cache. `measured_at` is an ISO date. `warnings` are codes of what the measurement
    met (`probe.*`).
    """

    path: str
    read_gbps: float | None = Field(default=None, gt=0)
    kind: str = "unknown"
    file_system: str | None = None
    device: str | None = None
    free: int | None = None
    total: int | None = None
    direct: bool | None = None
    measured_at: str | None = None
    measured_file: str | None = None
    warnings: tuple[str, ...] = ()


class Rates(Data):
    """How fast the computing device is; what is not given is guessed, and the plan says so.

    `device`: whose rates these are (a device's name, or "CPU"); None: the first device's.
    `products_tflops`: 10^12 operations a second (two for each weight and token) in products of
    wide batches with weights of a ggml type: {"IQ1_S": 40, "NVFP4": 80}; "default" stands for
    every other type.
    `attention_tflops`: the same for the part that grows with the square of the length: four
    operations for each pair of tokens and each value of all heads.
    `memory_gbps`: bandwidth of the device's memory, `host_gbps` of the host's, in 10^9 bytes a
    second; `decode_efficiency` is the share of it that decoding reaches. `decode_gbps` overrides
    both for a type: the rate at which its weights are read for a single token.
    `transfer_gbps`: pinned host memory to device.
    `encode_gweights`: 10^9 weights a second re-encoded to NVFP4 on the fly.
    `fixed_s`: seconds that a path costs at any length.
    """

    device: str | None = None
    products_tflops: dict[str, float] = {}
    attention_tflops: float | None = Field(default=None, gt=0)
    memory_gbps: float | None = Field(default=None, gt=0)
    host_gbps: float | None = Field(default=None, gt=0)
    decode_efficiency: float = Field(default=0.8, gt=0, le=1)
    decode_gbps: dict[str, float] = {}
    transfer_gbps: float | None = Field(default=None, gt=0)
    encode_gweights: float | None = Field(default=None, gt=0)
    fixed_s: dict[Path, float] = {}


class Profile(Data):
    """One machine; the device to compute on comes first. `comment`: where the figures are from."""

    devices: tuple[Device, ...] = ()
    host: Host
    disks: tuple[Disk, ...] = ()
    rates: Rates = Rates()
    comment: str | None = None
