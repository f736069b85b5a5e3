"""Keeps what probing measured, with its date: disks by path and the rates of the device."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from engine import paths
from engine.api.hardware import Disk, Rates

FILE_NAME = "probe.json"
KEPT_DAYS = 30


class Measured(BaseModel):
    """`rates_at`: when the rates were measured, as an ISO date; `rates_by`: with what, as
    `engine.kernels.check.multiplier` names it."""

    model_config = ConfigDict(frozen=True)

    disks: tuple[Disk, ...] = ()
    rates: Rates | None = None
    rates_at: str | None = None
    rates_by: str = ""


def load(folder: Path | None = None) -> Measured:
    """What is known and not too old; nothing where no file is, or a damaged one."""
    try:
        text = (folder or paths.data_folder()).joinpath(FILE_NAME).read_text(encoding="utf-8")
        found = Measured.model_validate_json(text)
    except (OSError, ValueError):
        return Measured()
    return Measured(
        disks=tuple(disk for disk in found.disks if fresh(disk.measured_at)),
        rates=found.rates if fresh(found.rates_at) else None,
        rates_at=found.rates_at if fresh(found.rates_at) else None,
        rates_by=found.rates_by if fresh(found.rates_at) else "",
    )


def save(measured: Measured, folder: Path | None = None) -> None:
    """Whole or not at all; a folder that cannot be written loses only the time to measure anew."""
    place = folder or paths.data_folder()
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=place, prefix=f".{FILE_NAME}.", delete=False
        ) as file:
            file.write(measured.model_dump_json(indent=2))
        Path(file.name).replace(place / FILE_NAME)


def fresh(date: str | None) -> bool:
    if date is None:
        return False
    try:
        then = datetime.datetime.fromisoformat(date)
    except ValueError:
        return False
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    age = datetime.datetime.now(datetime.UTC) - then
    return datetime.timedelta(-1) < age < datetime.timedelta(KEPT_DAYS)
