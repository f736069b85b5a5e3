"""What the models page says of models, fits, prefillers and jobs, in the window's language."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from app.engine_client.failures import sentence
from app.i18n import numbers, tr
from app.i18n.catalogue import has
from engine.api.failure import Failure
from engine.api.models import (
    AttachedPrefiller,
    Fit,
    JobInfo,
    ModelEntry,
    PrefillerOffer,
    Recommendation,
    RepoSummary,
)
from engine.api.plan import Remark

DOT = " · "
Tone = Literal["badge-decode", "badge-prefill", "badge", "badge-warn"]
# How the one bar of a job looks: it is coming, it is looked at, it is whole; or it stands still.
BarState = Literal["coming", "checking", "whole", "paused", "failed"]


def breakable(text: str) -> str:
    """Names and paths have no spaces: this lets a line end after their separators."""
    for separator in "/\\_-.":
        text = text.replace(separator, f"{separator}\u200b")
    return text


def fit_label(fit: Fit | None) -> tuple[str, Tone]:
    """A few words, and how they look."""
    if fit is None or fit.verdict == "unknown":
        return tr("models.fit_unknown"), "badge"
    if fit.verdict == "too_large":
        return tr("models.fit_missing", size=numbers.memory(fit.missing)), "badge-warn"
    if fit.verdict == "partly":
        return tr("models.fit_partly"), "badge"
    on_host = fit.device in (None, "CPU")
    return tr("models.fit_host" if on_host else "models.fit_device"), "badge-decode"


def fit_sentence(fit: Fit) -> str:
    """What the label rests on."""
    if fit.verdict == "fits" and fit.context:
        words = tr("models.fits_with", context=numbers.count(fit.context))
    elif fit.verdict == "partly" and fit.blocks:
        words = tr("models.partly_with", blocks=fit.device_blocks or 0, all=fit.blocks)
    elif fit.verdict == "too_large":
        words = tr("models.too_large_by", size=numbers.memory(fit.missing))
    else:
        words = fit_label(fit)[0]
    return f"{words} {tr('models.estimated')}" if fit.estimated else words


def repo_facts(repo: RepoSummary) -> str:
    facts: list[str] = []
    if repo.downloads:
        facts.append(tr("models.downloaded", count=numbers.count(repo.downloads)))
    if repo.updated:
        facts.append(tr("models.updated", date=repo.updated[:10]))
    if repo.licence:
        facts.append(repo.licence)
    if repo.gated:
        facts.append(tr("models.gated"))
    return DOT.join(facts)


def offer_words(offer: PrefillerOffer) -> str:
    """What to expect of a prefiller."""
    match offer.way:
        case "published":
            return " ".join([tr("models.offer_trained"), *_scores(offer)])
        case "found":
            return tr("models.offer_not_asked" if offer.failure else "models.offer_found")
        case "build" if offer.speed_only:
            return f"{tr('models.offer_build')} {tr('models.offer_speed_only')}"
        case "build":
            return tr("models.offer_build")
        case "installed":
            return ""


def _scores(offer: PrefillerOffer) -> list[str]:
    changes = [
        tr("models.score", name=name, before=f"{before:g}", after=f"{after:g}")
        for name, (before, after) in offer.scores.items()
    ]
    return [tr("models.offer_scores", changes=", ".join(changes))] if changes else []


def best_words(best: Recommendation) -> str:
    """Why this one."""
    fit = best.variant.fit
    facts: list[str] = []
    if fit is not None:
        facts.append(fit_sentence(fit))
        if fit.decode_tps:
            facts.append(tr("models.writes_at", rate=numbers.rate(fit.decode_tps)))
    if best.prefiller is not None:
        facts.append(offer_words(best.prefiller))
    return " ".join(facts)


def best_name(best: Recommendation) -> str:
    label = best.variant.label or ""
    name = f"{best.name} {label}".strip()
    return tr("chat.with_prefiller", model=name) if best.prefiller is not None else name


def entry_facts(entry: ModelEntry) -> str:
    facts = [entry.quantisation, entry.architecture, entry.licence]
    facts.append(verification(entry))
    if entry.kind == "decoder" and (prefiller := entry.prefiller) is not None:
        facts.append(tr("models.with_prefiller", verdict=verdict_label(prefiller)[0]))
    return DOT.join(fact for fact in facts if fact)


def verification(entry: ModelEntry) -> str:
    if entry.state not in ("ready", "offline"):
        return ""
    date = (entry.verified_at or "")[:10]
    if entry.verification == "verified" and date:
        return tr("models.verified_on", date=date)
    return tr(f"models.is_{entry.verification}")


def state_label(entry: ModelEntry) -> tuple[str, Tone] | None:
    """None for an entry that is simply there."""
    if entry.state == "ready":
        return (tr("models.is_changed"), "badge-warn") if entry.verification == "changed" else None
    return tr(f"models.state_{entry.state}"), "badge" if entry.state == "absent" else "badge-warn"


def verdict_label(prefiller: AttachedPrefiller) -> tuple[str, Tone]:
    tones: dict[str, Tone] = {
        "matched_by_hash": "badge-decode",
        "matched_by_name": "badge-decode",
        "unknown": "badge",
        "wrong": "badge-warn",
    }
    return tr(f"models.verdict_{prefiller.verdict}"), tones[prefiller.verdict]


def pairing_words(prefiller: AttachedPrefiller) -> str:
    """What the verdict rests on, as sentences."""
    return " ".join(_reason(remark) for remark in prefiller.reasons)


def _reason(remark: Remark) -> str:
    key = f"models.pair_{remark.code}"
    if not has(key):
        return sentence(Failure(code=remark.code, sentence=remark.sentence, data=remark.data))
    data = {name: breakable(str(value)) for name, value in remark.data.items()}
    return tr(key, **data)


def origin_words(entry: ModelEntry) -> str:
    origin = entry.origin
    if origin.way == "download" and origin.repo:
        return tr("models.from_download", repo=breakable(origin.repo))
    if origin.source:
        return tr(f"models.from_{origin.way}", source=breakable(origin.source))
    return tr(f"models.from_{origin.way}") if origin.way in ("found", "demo") else ""


def file_names(paths: tuple[Path, ...], most: int = 4) -> str:
    """One a line, the first few of many."""
    shown = [breakable(str(path)) for path in paths[:most]]
    more = len(paths) - len(shown)
    return "\n".join([*shown, tr("models.more_files", count=more)] if more > 0 else shown)


def job_title(job: JobInfo) -> str:
    return tr(f"models.job_{job.kind}", name=job.title)


def notice_words(notice: Remark) -> str:
    key = f"models.notice_{notice.code}"
    return tr(key, **notice.data) if has(key) else notice.sentence


def bar_state(job: JobInfo) -> BarState:
    if job.state == "done":
        return "whole"
    if job.state in ("failed", "cancelled"):
        return "failed"
    if job.state == "paused" or job.state == "queued":
        return "paused"
    if job.kind == "verify" or job.progress.step == "checking":
        return "checking"
    return "coming"


def job_facts(job: JobInfo) -> str:
    """How far it is, how fast, how much longer; or what became of it."""
    progress = job.progress
    amount = [_amount(job)] if progress.total else []
    match job.state:
        case "done":
            size = [numbers.size(progress.total)] if progress.total else []
            return DOT.join([tr(f"models.done_{job.kind}"), *size])
        case "cancelled" | "queued":
            return tr(f"models.{job.state}")
        case "failed":
            again = [tr("models.tries_again", time=_clock(job.retry_at))] if job.retry_at else []
            return DOT.join([*again, *amount])
        case "paused":
            return DOT.join([tr("models.paused"), *amount])
        case "running":
            pass
    facts = amount or [tr("models.starting")]
    if progress.step is not None:
        facts.insert(0, tr(f"models.{progress.step}"))
    if progress.rate and progress.step != "waiting":
        facts.append(numbers.disk_rate(progress.rate))
        if progress.remaining_s is not None and progress.done < progress.total:
            facts.append(numbers.about(progress.remaining_s))
    return DOT.join(facts)


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.localtime(seconds))


def _amount(job: JobInfo) -> str:
    done, total = numbers.size(job.progress.done), numbers.size(job.progress.total)
    return tr("models.amount", done=done, total=total)


def job_share(job: JobInfo) -> float | None:
    """None while it is not known how much there is to do."""
    if job.state == "done":
        return 1.0
    return job.progress.done / job.progress.total if job.progress.total else None
