"""Reads from the library's words that a device's memory ran out, and who holds the rest."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from engine.backends import store
from engine.probe.nvml import cards

GIB = 1 << 30
# As ggml says it of any backend; the name of an RPC device is followed by its address.
_SHORT = re.compile(r"failed to allocate ([\w-]+)(?:\[\S+)? buffer of size (\d+)")
_HOST = ("CPU", "Host")
_MOST_HOLDERS = 3


@dataclass(frozen=True, slots=True)
class Shortage:
    """`wanted` bytes could not be had on `device`."""

    device: str
    wanted: int


def shortage(log: Sequence[str]) -> Shortage | None:
    """The last refusal of a device's memory in the log; the host's own is another matter."""
    for line in reversed(log):
        found = _SHORT.search(line)
        if found and not found[1].startswith("CPU") and not found[1].endswith(_HOST):
            return Shortage(found[1], int(found[2]))
    return None


def facts(short: Shortage, free: int | None = None) -> dict[str, str]:
    """The numbers as a sentence takes them; "?" for what nobody tells. `free`: what the device
    itself says, where it can be asked."""
    free = _free(short.device) if free is None else free
    return {
        "device": short.device,
        "wanted": f"{short.wanted / GIB:.2f} GiB",
        "free": "?" if free is None else f"{free / GIB:.2f} GiB",
        "holders": ", ".join(_holders()) or "?",
    }


def _free(device: str) -> int | None:
    """From NVIDIA's driver if there is one card, else as the backend's last check found it."""
    found = [card.memory_free for card in cards(os.getpid()).values()]
    if len(found) == 1 and found[0] is not None:
        return found[0]
    for backend in store.installed():
        for one in backend.info().devices:
            if one.name == device:
                return one.memory_free
    return None


def _holders() -> list[str]:
    """The programs that hold the most of a card's memory, as far as its driver tells."""
    held: dict[int, int] = {}
    for card in cards(os.getpid()).values():
        for pid, size in card.holders:
            held[pid] = held.get(pid, 0) + size
    most = sorted(held.items(), key=lambda one: one[1], reverse=True)[:_MOST_HOLDERS]
    return [f"{_name(pid)} {size / GIB:.2f} GiB" for pid, size in most]


def _name(pid: int) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{psutil.Process(pid).name()} ({pid})"
    return f"({pid})"
