"""Packs for graphics cards in words: their names, their devices, and why one is not used."""

from __future__ import annotations

from app.i18n import numbers, tr
from app.i18n.catalogue import has
from app.i18n.reasons import reason
from engine.api.backends import BackendInfo

_NAMES = {"vulkan": "Vulkan", "cuda": "CUDA", "rpc": "RPC"}
# The detail is names of devices and types, which are the same in every language.
_OF_NAMES = "wrong_values"


def name_of(pack: str) -> str:
    return _NAMES.get(pack, pack)


def about(pack: str) -> str:
    """What the pack is for; another's name says all that is known."""
    key = f"cards.about.{pack}"
    return tr(key) if has(key) else tr("cards.about_other")


def devices(info: BackendInfo) -> list[str]:
    """Each device that the self-check ran on, with its memory as it was then."""
    return [
        tr(
            "cards.device",
            name=device.description or device.name,
            free=numbers.memory(device.memory_free),
            total=numbers.memory(device.memory_total),
        )
        for device in info.devices
    ]


def trouble(info: BackendInfo) -> str:
    """Why the pack is not used, as a sentence; empty where nothing is wrong."""
    if info.reason is None:
        return ""
    detail = info.detail if info.reason == _OF_NAMES else reason(info.detail)
    return tr(f"cards.reasons.{info.reason}", name=name_of(info.name), detail=detail)
