"""`twofold models`: find models, download them, and keep them in order."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from engine.api.models import (
    JobAction,
    JobInfo,
    ModelEntry,
    PrefillerOffer,
    RepoListing,
    Variant,
)
from engine.api.sentences import size
from engine.downloads.errors import JobFailed
from engine.downloads.jobs import Job
from engine.downloads.service import Models
from engine.library.errors import AmbiguousModel, NoSuchModel
from engine.library.library import absolute, hub_name
from engine.probe.probe import known_profile
from engine.program import called
from engine.settings_store import SettingsStore

app = typer.Typer(
    help="Find, download, verify, import, move and remove models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Name = Annotated[
    str, typer.Argument(metavar="MODEL", help="Its id, path, name, or user/repo:QUANT.")
]
_FITS = {"fits": "fits", "partly": "partly", "too_large": "too large", "unknown": "unknown"}
_ENDED = ("done", "failed", "cancelled", "paused")


@contextmanager
def opened() -> Generator[Models]:
    models = Models(SettingsStore())
    try:
        yield models
    finally:
        models.close()


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(help="Words, user/repo, or an address.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="At most so many repos.")] = 20,
    as_json: Json = False,
) -> None:
    """Search the hub for models; an address or a repo's name shows that repo."""
    with opened() as models:
        found = models.browser(known_profile).search(" ".join(words), limit)
    if as_json:
        _print_json(found)
    elif found.listing is not None:
        _show_listing(found.listing)
    else:
        if not found.repos:
            _say("The hub has no such models. Try fewer words.")
            return
        table = Table("repo", "downloads", "updated", "licence", "", box=None)
        for repo in found.repos:
            gated = "gated" if repo.gated else ""
            _add(table, repo.repo, f"{repo.downloads or 0:,}", repo.updated, repo.licence, gated)
        _show(table)
        _say(called("Show one's models with: ./twofold models show REPO"))


@app.command()
def show(
    model: Annotated[str, typer.Argument(help="user/repo, user/repo:QUANT, or a local model.")],
    as_json: Json = False,
) -> None:
    """Show a repo's models with their fit on this machine, or a local model with all its files."""
    with opened() as models:
        local = _local(models, model)
        if local is not None:
            offers = models.browser(known_profile).offers(local)
            if as_json:
                facts = local.model_dump(mode="json", exclude_none=True)
                facts["offers"] = [one.model_dump(mode="json", exclude_none=True) for one in offers]
                print(json.dumps(facts))
            else:
                _show_entry(local)
                for offer in offers:
                    _say(f"Prefiller {_offer(offer)}")
            return
        listing = models.browser(known_profile).show(model)
    if as_json:
        _print_json(listing)
    else:
        _show_listing(listing)


@app.command()
def pull(
    model: Annotated[str, typer.Argument(help="user/repo:QUANT, or a file's address.")],
    prefiller: Annotated[
        bool, typer.Option("--prefiller", help="Also its published prefiller.")
    ] = False,
    projector: Annotated[
        bool, typer.Option(help="Also the repo's vision projector, if it has one.")
    ] = True,
    wait: Annotated[
        bool, typer.Option(help="Wait for it; else only put it into the queue.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Download a model: resumed where it ended, verified before it appears."""
    with opened() as models:
        jobs = models.pull(model, prefiller=prefiller, projector=projector)
        if wait:
            jobs = _finished(models, jobs)
        _tell_jobs(jobs, as_json=as_json)


@app.command("list")
def list_(
    jobs: Annotated[bool, typer.Option("--jobs", help="Downloads and other work.")] = False,
    as_json: Json = False,
) -> None:
    """List the models on this machine."""
    with opened() as models:
        if jobs:
            models.runner.tidy()
            queued = models.queue.jobs()
            _tell_jobs(queued, as_json=as_json, failing=False)
            if not queued and not as_json:
                _say("Nothing is in the queue.")
            return
        found = models.library.read()
    if as_json:
        _print_json(found)
        return
    table = Table("id", "model", "size", "quant", "state", "prefiller", box=None)
    for entry in found.entries:
        best = entry.prefiller
        verdict = best.verdict.replace("_", " ") if best else ""
        state = entry.verification.replace("_", " ") if entry.state == "ready" else entry.state
        nbytes = size(entry.bytes) if entry.bytes else ""
        _add(table, entry.id, entry.name, nbytes, entry.quantisation, state, verdict)
    _show(table)
    if all(entry.origin.way == "demo" for entry in found.entries):
        _offer_demo(found.entries)
    for folder in found.folders:
        if not folder.online:
            _say(f"{folder.path} is not connected; what was there is shown as offline.")


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="A GGUF file, any part of a split one, a folder.")],
    move: Annotated[bool, typer.Option("--move", help="Move it instead of copying.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Leave it where it is and remember the place.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring a local model into the library."""
    if move and reference:
        raise typer.BadParameter("give one of --move and --reference")
    way = "move" if move else "reference" if reference else "copy"
    with opened() as models:
        _tell_jobs(_finished(models, [models.bring_in(path, way)]), as_json=as_json)


@app.command()
def export(
    model: Name,
    folder: Annotated[Path, typer.Argument(help="Where to copy its files.")],
    as_json: Json = False,
) -> None:
    """Copy a model's files out of the library."""
    with opened() as models:
        _tell_jobs(_finished(models, [models.export(model, folder)]), as_json=as_json)


@app.command()
def verify(model: Name, as_json: Json = False) -> None:
    """Read every byte of a model and compare it with the hash that it came with."""
    with opened() as models:
        jobs = _finished(models, [models.verify(model)])
        if not as_json and jobs[0].state == "done":
            _say("Every byte is as it came:")
        _tell_jobs(jobs, as_json=as_json)


@app.command()
def build(
    model: Name,
    source: Annotated[
        Path | None, typer.Option(help="A better file of the same model, such as its BF16.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Build a prefiller for a decoder of the library, as a job of the queue."""
    with opened() as models:
        _tell_jobs(_finished(models, [models.build(model, source)]), as_json=as_json)


@app.command()
def remove(
    model: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a model; without --yes, list what would go and what shares it."""
    with opened() as models:
        _, what = models.removal(model)
        if yes:
            models.remove(what)
    if as_json:
        facts = what.model_dump(mode="json")
        print(json.dumps({**facts, "removed": yes}))
        return
    verb = "Removed" if yes else "Would remove"
    for path in what.goes:
        _say(f"{verb} {path}")
    for path in what.stays:
        users = what.shared.get(str(path))
        why = f"shared with {', '.join(users)}" if users else "it is not the library's own"
        _say(f"Stays: {path} ({why})")
    for path in what.left_behind:
        _say(f"Would be left without its decoder: {path}")
    if not what.goes and not what.stays:
        _say(f"No file of {what.name} is here.")
    if what.goes:
        _say(f"{size(what.bytes)} {'are' if yes else 'would be'} free again.")
    if not yes and what.goes:
        _say("Add --yes to do it.")


@app.command()
def move(
    folder: Annotated[Path, typer.Argument(help="The library's new folder.")],
    as_json: Json = False,
) -> None:
    """Move the whole library to another folder or drive."""
    with opened() as models:
        _tell_jobs(_finished(models, [models.move(folder)]), as_json=as_json)


@app.command()
def job(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="As --jobs lists it.")],
    action: Annotated[JobAction | None, typer.Argument(help="What to do with it.")] = None,
    priority: Annotated[
        int | None, typer.Option(min=-100, max=100, help="Higher ones run first.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Pause, resume, retry, cancel or remove a job, or change its priority."""
    with opened() as models:
        _tell_jobs([models.act(job_id, action, priority)], as_json=as_json, failing=False)


@app.command()
def token(
    clear: Annotated[bool, typer.Option("--clear", help="Take it out of the keyring.")] = False,
    show_source: Annotated[
        bool, typer.Option("--source", help="Only say where the token comes from.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Keep the hub's token in the system's keyring; it is asked for, never shown."""
    with opened() as models:
        if show_source:
            answer = models.token_source()
        elif clear:
            answer = models.token(None)
        else:
            answer = models.token(typer.prompt("Token", hide_input=True))
    if as_json:
        _print_json(answer)
    else:
        _say(f"The token comes from: {answer.source}.")


# --- work that is waited for ---------------------------------------------------------------------


def _finished(models: Models, jobs: Sequence[Job]) -> list[Job]:
    """Works the queue until these have ended, or watches the process that does. Ctrl-C ends this
    process alone: what it worked on goes on with the next one."""
    stopping = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True
        models.runner.wake()

    before = signal.signal(signal.SIGINT, stop)
    try:
        with _Bars() as bars:

            def ended() -> bool:
                found = [models.queue.get(one.id) for one in jobs]
                bars.show(found)
                return stopping or all(one.state in _ENDED for one in found)

            models.runner.run(until=ended)
    finally:
        signal.signal(signal.SIGINT, before)
    found = [models.queue.get(one.id) for one in jobs]
    if any(one.state not in _ENDED for one in found):
        typer.echo("Stopped. What is done so far is kept: the same command goes on.", err=True)
        raise typer.Exit(130)  # as shells say it
    return found


class _Bars:
    """A line for each job on stderr; nothing where that is no terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, jobs: Sequence[Job]) -> None:
        for one in jobs:
            if one.id not in self._tasks:
                self._tasks[one.id] = self._progress.add_task(_title(one), facts="")
            done = one.progress.total if one.state == "done" else one.progress.done
            self._progress.update(
                self._tasks[one.id],
                completed=done,
                total=one.progress.total or None,
                facts=_facts(one.info()) if one.state in ("running", "done") else one.state,
            )


def _title(job: Job) -> str:
    """What a job does to what it is about."""
    doing = {
        "download": "{}",
        "build": "Prefiller for {}",
        "verify": "Verifying {}",
        "import": "Importing {}",
        "export": "Exporting {}",
        "move": "Moving the library to {}",
    }
    return doing[job.kind].format(job.title)


def _facts(job: JobInfo) -> str:
    progress = job.progress
    parts = [f"{size(progress.done)} of {size(progress.total)}"] if progress.total else []
    if progress.rate and job.state == "running":
        parts.append(f"{size(round(progress.rate))}/s")
    if progress.remaining_s is not None and job.state == "running":
        parts.append(f"{_duration(progress.remaining_s)} left")
    if progress.doing:
        parts.append(progress.doing)
    return ", ".join(parts)


def _tell_jobs(jobs: Sequence[Job], *, as_json: bool, failing: bool = True) -> None:
    """Raises JobFailed for the first that failed, if `failing`."""
    if as_json:
        infos = [one.info().model_dump(mode="json", exclude_none=True) for one in jobs]
        print(json.dumps({"jobs": infos}))
    else:
        for one in jobs:
            _tell_job(one, failing=failing)
    failed = next((one.failure for one in jobs if one.failure and one.state == "failed"), None)
    if failing and failed is not None:
        if as_json:
            raise typer.Exit(1)
        raise JobFailed(failed)


def _tell_job(one: Job, *, failing: bool) -> None:
    for notice in one.notices:
        _say(notice.sentence)
    if one.state == "done" and one.result and failing:
        print(one.result)
    elif not failing or one.state != "failed":
        facts = _facts(one.info())
        _say(f"{one.id}  {one.state:9}  {_title(one)}" + (f"  ({facts})" if facts else ""))
        if one.failure is not None:
            _say(f"    {one.failure.sentence}")
        if one.retry_at is not None and (left := one.retry_at - time.time()) > 0:
            _say(f"    It is tried again in {_duration(left)}, if Twofold is open then.")


# --- how it looks --------------------------------------------------------------------------------


def _local(models: Models, name: str) -> ModelEntry | None:
    """The entry of that name. A whole repo is looked at on the hub, whatever of it is here."""
    try:
        found = models.library.find(name)
    except (AmbiguousModel, NoSuchModel):
        if "/" in name:
            return None
        raise
    here = any(file.path == absolute(name) for file in found.files)
    return found if here or "/" not in name or hub_name(found).lower() == name.lower() else None


def _show_listing(listing: RepoListing) -> None:
    gated = ", gated" if listing.gated else ""
    _say(f"{listing.repo} ({listing.licence or 'no licence given'}{gated})")
    table = Table("", "model", "quant", "size", "fit", "", box=None)
    for one in listing.variants:
        nbytes, star = size(one.bytes), "*" if one.recommended else ""
        _add(table, star, one.name, one.label, nbytes, _fit(one), _notes(one))
    _show(table)
    if listing.more:
        _say(f"and {listing.more:,} more. Name one: REPO:QUANT")
    if any(one.recommended for one in listing.variants):
        _say("* recommended for this machine")
    decoders = [one for one in listing.variants if one.kind == "decoder"]
    if listing.failure is not None:
        _say(listing.failure.sentence)
    elif len(decoders) == 1 and decoders[0].fit:
        _say(decoders[0].fit.sentence)
    for name, offers in listing.prefillers.items():
        for offer in offers:
            _say(f"Prefiller for {name} {_offer(offer)}")
    for name in listing.refused:
        _say(f"Refused, for its name: {name!r}")


def _fit(variant: Variant) -> str:
    if variant.fit is None:
        return ""
    by_size = variant.fit.estimated and variant.fit.verdict != "unknown"
    return _FITS[variant.fit.verdict] + (" (by size)" if by_size else "")


def _offer(offer: PrefillerOffer) -> str:
    facts = [offer.way, *([size(offer.bytes)] if offer.bytes else [])]
    where = ":".join(part for part in (offer.repo, offer.variant) if part)
    said = offer.failure.sentence if offer.failure else offer.expect
    return f"({', '.join(facts)}){f' {where}' if where else ''}: {said}"


def _offer_demo(entries: Sequence[ModelEntry]) -> None:
    for entry in entries:
        if entry.failure is not None:
            _say(entry.failure.sentence)
        else:
            _say(called("Only the demo model is here. Talk to it with: ./twofold chat"))
    _say(called("Find others with: ./twofold models search WORDS"))


def _notes(variant: Variant) -> str:
    notes = [] if variant.kind == "decoder" else [variant.kind]
    notes += ["installed"] if variant.installed else []
    notes += ["the hub has a newer one"] if variant.outdated else []
    notes += [] if variant.complete else ["incomplete on the hub"]
    return ", ".join(notes)


def _show_entry(entry: ModelEntry) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    facts: dict[str, Any] = {
        "Model": entry.name,
        "Id": entry.id,
        "Kind": entry.kind,
        "State": entry.state,
        "Size": size(entry.bytes),
        "Quantisation": entry.quantisation,
        "Architecture": entry.architecture,
        "Context": f"{entry.context:,} tokens" if entry.context else None,
        "Licence": entry.licence,
        "From": entry.origin.repo or entry.origin.source or entry.origin.way,
        "Verified": entry.verification.replace("_", " "),
    }
    for name, value in facts.items():
        if value is not None:
            _add(table, name, str(value))
    for file in entry.files:
        _add(table, "File", f"{file.path} ({size(file.bytes)})")
    for projector in entry.projectors:
        fits = {True: "fits", False: "does not fit", None: "may fit"}[projector.fits]
        _add(table, "Projector", f"{projector.path}: {fits}, {projector.reason}")
    for one in entry.prefillers:
        reasons = "; ".join(remark.sentence for remark in one.reasons)
        _add(table, "Prefiller", f"{one.path}: {one.verdict.replace('_', ' ')}, {reasons}")
    _show(table)
    if entry.failure is not None:
        _say(entry.failure.sentence)


def _add(table: Table, *cells: str | None) -> None:
    table.add_row(*(_plain(cell or "") for cell in cells))


def _show(table: Table) -> None:
    Console().print(table, markup=False, highlight=False, emoji=False)


def _say(text: str) -> None:
    Console().print(_plain(text), markup=False, highlight=False, emoji=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Nothing that a name from the internet holds moves the cursor or colours the terminal."""
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)


def _print_json(answer: BaseModel) -> None:
    print(answer.model_dump_json(exclude_none=True))


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 5400 else f"{whole / 3600:.1f} h"
