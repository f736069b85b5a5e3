"""Numbers as the window shows them: sensible digits, with units."""

from __future__ import annotations

from app.i18n.catalogue import tr
from engine.api.sentences import memory as memory
from engine.api.sentences import size as size


def count(value: int) -> str:
    return f"{value:,}"


def seconds(value: float) -> str:
    """0.42 s, 6.9 s, 42 s, 3 min 5 s."""
    if value < 1:
        return tr("units.seconds", value=f"{value:.2f}")
    if value < 10:
        return tr("units.seconds", value=f"{value:.1f}")
    if value < 60:
        return tr("units.seconds", value=f"{value:.0f}")
    if value < 3600:
        return tr("units.minutes", minutes=int(value // 60), seconds=int(value % 60))
    return tr("units.hours", hours=int(value // 3600), minutes=int(value % 3600 // 60))


def about(value: float) -> str:
    """An estimate is told roughly: about 3 s, about 2 min."""
    if value < 60:
        return tr("units.about", time=tr("units.seconds", value=max(1, round(value))))
    if value < 3600:
        return tr("units.about", time=tr("units.whole_minutes", minutes=round(value / 60)))
    return tr("units.about", time=seconds(value))


def rate(tokens_per_second: float) -> str:
    digits = 1 if tokens_per_second < 10 else 0
    return tr("units.token_rate", value=f"{tokens_per_second:,.{digits}f}")


def disk_rate(bytes_per_second: float) -> str:
    return f"{size(bytes_per_second)}/s"


def percent(fraction: float) -> str:
    return f"{fraction:.0%}"
