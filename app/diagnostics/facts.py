"""The machine and the doctor's report as names and values, and log lines as people read them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from app.engine_client.failures import sentence
from app.i18n import numbers, tr
from engine.api.failure import Failure
from engine.api.hardware import Device, Disk, Profile

Facts = list[tuple[str, str]]
# Of every line, told by its place and its colour.
_SHOWN_APART = ("time", "level", "from", "event")


@dataclass(frozen=True)
class LogLine:
    """`time` of the day; `text` is the event and what was told with it."""

    time: str
    level: str
    text: str


def hardware_facts(profile: Profile) -> Facts:
    facts: Facts = [(tr("hardware.device"), _device(device)) for device in profile.devices]
    if not facts:
        facts.append((tr("hardware.device"), tr("hardware.no_device")))
    host = profile.host
    cores = tr("hardware.cores", count=host.cores)
    facts.append((tr("hardware.cpu"), f"{host.cpu or tr('hardware.unknown')}, {cores}"))
    if host.cpu_features:
        facts.append((tr("hardware.features"), " ".join(host.cpu_features)))
    facts.append((tr("hardware.memory"), _memory(host.memory_free, host.memory_total)))
    facts += [(tr("hardware.disk"), _disk(disk)) for disk in profile.disks]
    rates = profile.rates
    if rates.products_tflops:
        products = [f"{name} {rate:.3g}" for name, rate in rates.products_tflops.items()]
        facts.append((tr("hardware.reading"), ", ".join(products)))
    if rates.decode_gbps:
        decode = [f"{name} {rate:.3g}" for name, rate in rates.decode_gbps.items()]
        facts.append((tr("hardware.writing"), ", ".join(decode)))
    if not rates.products_tflops:
        facts.append((tr("hardware.reading"), tr("hardware.not_measured")))
    return facts


def _device(device: Device) -> str:
    facts = [device.description or device.name, _memory(device.memory_free, device.memory_total)]
    if device.unified:
        facts.append(tr("hardware.shared"))
    if device.used_by_others:
        facts.append(tr("hardware.others", size=numbers.memory(device.used_by_others)))
    if device.driver:
        facts.append(tr("hardware.driver", version=device.driver))
    if device.link:
        facts.append(f"PCIe {device.link.generation}.0 x{device.link.width}")
    if device.temperature_c is not None:
        facts.append(f"{device.temperature_c} °C")
    return ", ".join(facts)


def _disk(disk: Disk) -> str:
    facts = [disk.path]
    if disk.kind != "unknown":
        facts.append("NVMe" if disk.kind == "nvme" else disk.kind.upper())
    if disk.free is not None and disk.total is not None:
        free, total = numbers.size(disk.free), numbers.size(disk.total)
        facts.append(tr("hardware.free", free=free, total=total))
    if disk.read_gbps is not None:
        rate = numbers.disk_rate(disk.read_gbps * 1e9)
        date = (disk.measured_at or "")[:10]
        facts.append(tr("hardware.measured", rate=rate, date=date))
    else:
        facts.append(tr("hardware.not_measured"))
    return ", ".join(facts)


def _memory(free: int, total: int) -> str:
    return tr("hardware.free", free=numbers.memory(free), total=numbers.memory(total))


def problems(report: dict[str, Any]) -> list[str]:
    """What the doctor finds wrong, each with its code."""
    found = [
        Failure(code=str(item["code"]), sentence=str(item["sentence"]), data=item.get("data") or {})
        for item in report.get("problems", ())
    ]
    return [f"{sentence(item)} [{item.code}]" for item in found]


def report_facts(report: dict[str, Any]) -> Facts:
    machine, library = report["machine"], report["library"]
    kernels = library["kernels"]
    facts: Facts = [
        ("Twofold", str(report["twofold"])),
        (tr("hardware.system"), str(machine["system"])),
        ("Python", f"{report['python']} ({report['python_path']})"),
        (
            tr("hardware.library"),
            f"llama-cpp-python {library['version']}, llama.cpp {library['commit'] or '?'}",
        ),
    ]
    if kernels:
        worst = max(float(kernel["error"]) for kernel in kernels)
        count = len(kernels)
        facts.append(
            (tr("hardware.kernels"), tr("hardware.kernels_ran", count=count, error=f"{worst:.2%}"))
        )
    for folder in report["folders"]:
        space = tr("hardware.folder_free", size=numbers.size(folder["free_bytes"]))
        facts.append((tr(f"hardware.folder_{folder['name']}"), f"{folder['path']}, {space}"))
    return facts


def log_line(text: str) -> LogLine:
    """A line that is not whole is shown as it is."""
    try:
        said: Any = json.loads(text)
        more = {name: value for name, value in said.items() if name not in _SHOWN_APART}
        told = " ".join(f"{name}={value}" for name, value in more.items())
        time = str(said["time"])[11:19]
        return LogLine(time, str(said["level"]), f"{said['event']} {told}".strip())
    except (ValueError, KeyError, AttributeError, TypeError):
        return LogLine("", "", text)
