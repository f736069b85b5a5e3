"""An answer's numbers, and a prompt's progress, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.i18n import numbers, tr
from engine.api.turn import PrefillProgress


def path_name(path: str) -> str:
    return tr(f"paths.{path}")


def report_line(report: dict[str, Any]) -> str:
    """ODP · first token 6.9 s · 31 tok/s · 412 tokens · ended by itself."""
    parts: list[str] = []
    if report.get("path"):
        parts.append(path_name(report["path"]))
    if (ttft := report.get("ttft_s")) is not None:
        parts.append(tr("chat.first_token", time=numbers.seconds(ttft)))
    if (rate := report.get("decode_tps")) is not None:
        parts.append(numbers.rate(rate))
    parts.append(token_count(len(report.get("answer_tokens", ()))))
    parts.append(tr(f"stop.{report['stop_reason']}"))
    return " · ".join(parts)


def token_count(tokens: int) -> str:
    return tr("chat.token" if tokens == 1 else "chat.tokens", count=numbers.count(tokens))


def report_facts(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Everything that a report tells, as names and values."""
    drafts: dict[str, Any] | None = report.get("drafts")
    facts: list[tuple[str, str | None]] = [
        ("ttft", _seconds(report.get("ttft_s"))),
        ("read", token_count(report["new_tokens"])),
        ("cached", token_count(report["cached_tokens"])),
        ("prefill_time", _seconds(report.get("prefill_s"))),
        ("prefill_rate", _rate(report.get("prefill_tps"))),
        ("bytes_read", _size(report.get("bytes_read"))),
        ("wait", _seconds(report.get("wait_s") or None)),
        ("weights", _memory(report.get("prefill_weight_bytes"))),
        ("written", token_count(len(report["answer_tokens"]))),
        ("decode_rate", _rate(report.get("decode_tps"))),
        ("drafts", _drafts(drafts)),
        ("undrafted_rate", _rate(drafts["baseline_tps"]) if drafts else None),
        ("stop", tr(f"stop.{report['stop_reason']}")),
        ("seed", str(report.get("seed", ""))),
    ]
    return [(tr(f"facts.{name}"), value) for name, value in facts if value]


def _seconds(value: float | None) -> str | None:
    return numbers.seconds(value) if value is not None else None


def _rate(value: float | None) -> str | None:
    return numbers.rate(value) if value is not None else None


def _drafts(drafts: dict[str, Any] | None) -> str | None:
    if drafts is None:
        return None
    return tr(
        "chat.drafts",
        accepted=numbers.count(drafts["accepted_tokens"]),
        drafted=numbers.count(drafts["drafted_tokens"]),
    )


def _size(value: int | None) -> str | None:
    return numbers.size(value) if value else None


def _memory(value: int | None) -> str | None:
    return numbers.memory(value) if value else None


@dataclass(frozen=True)
class Reading:
    """How far a prompt is read: `fraction` from 0 to 1, and the two lines below the bar."""

    fraction: float
    tokens: str
    details: str


def reading(progress: PrefillProgress) -> Reading:
    done, total = progress.tokens_done, max(1, progress.tokens_total)
    parts: list[str] = []
    if progress.blocks:
        parts.append(tr("chat.block", block=progress.block, blocks=progress.blocks))
    if progress.bytes_read and progress.bytes_per_s:
        parts.append(numbers.disk_rate(progress.bytes_per_s))
    # The first moments say little about the rest.
    if progress.remaining_s is not None and progress.seconds > 0.3:
        parts.append(numbers.about(progress.remaining_s))
    return Reading(
        fraction=min(1.0, done / total),
        tokens=tr("chat.of", done=numbers.count(done), total=numbers.count(total)),
        details=" · ".join(parts),
    )
