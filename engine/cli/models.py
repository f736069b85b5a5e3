"""`twofold models`: find models, download them, and keep them in order."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from engine.api.models import JobAction, JobInfo, ModelEntry, RepoListing, Variant
from engine.downloads.errors import JobFailed
from engine.downloads.jobs import Job
from engine.downloads.service import Models
from engine.probe.probe import known_profile
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
        table = Table("repo", "downloads", "updated", "licence", "", box=None)
        for repo in found.repos:
            gated = "gated" if repo.gated else ""
            table.add_row(repo.repo, f"{repo.downloads or 0:,}", repo.updated, repo.licence, gated)
        Console().print(table if found.repos else "Nothing was found.")


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
                    where = f" {offer.repo}:{offer.variant}" if offer.repo and offer.variant else ""
                    _say(f"Prefiller ({offer.way}){where}: {offer.expect}")
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
            _tell_jobs(models.queue.jobs(), as_json=as_json, failing=False)
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
        table.add_row(entry.id, entry.name, _size(entry.bytes), entry.quantisation, state, verdict)
    Console().print(table)
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
    """Read every byte of a model and compare it with the hub's hash."""
    with opened() as models:
        _tell_jobs(_finished(models, [models.verify(model)]), as_json=as_json)


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
        _say(f"Stays: {path}" + (f" (shared with {', '.join(users)})" if users else ""))
    for path in what.left_behind:
        _say(f"Would be left without its decoder: {path}")
    _say(f"{_size(what.bytes)} {'are' if yes else 'would be'} free again.")
    if not yes:
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
    """Works the queue until these have ended, or watches the process that does. Ctrl-C pauses
    what this process works on: it goes on with the next pull."""
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
    return [models.queue.get(one.id) for one in jobs]


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
                facts=_facts(one.info()),
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
    parts = [f"{_size(progress.done)} of {_size(progress.total)}"]
    if progress.rate:
        parts.append(f"{_size(round(progress.rate))}/s")
    if progress.remaining_s is not None and job.state == "running":
        parts.append(f"{_duration(progress.remaining_s)} left")
    if progress.doing:
        parts.append(progress.doing)
    elif job.state not in ("running", "done"):
        parts.append(job.state)
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
        _say(notice)
    if one.state == "done" and one.result and failing:
        print(one.result)
    elif not failing or one.state != "failed":
        _say(f"{one.id}  {one.state:9}  {_title(one)}  ({_facts(one.info())})")
        if one.failure is not None:
            _say(f"    {one.failure.sentence}")


# --- how it looks --------------------------------------------------------------------------------


def _local(models: Models, name: str) -> ModelEntry | None:
    from engine.library.errors import NoSuchModel

    try:
        return models.library.find(name)
    except NoSuchModel:
        if "/" in name:
            return None
        raise


def _show_listing(listing: RepoListing) -> None:
    gated = ", gated" if listing.gated else ""
    _say(f"{listing.repo} ({listing.licence or 'no licence given'}{gated})")
    table = Table("", "model", "quant", "size", "fit", "", box=None)
    for one in listing.variants:
        fit = (
            _FITS[one.fit.verdict] + (" (by size)" if one.fit.estimated else "") if one.fit else ""
        )
        table.add_row(
            "*" if one.recommended else "", one.name, one.label, _size(one.bytes), fit, _notes(one)
        )
    Console().print(table)
    if len(listing.variants) == 1 and (fit := listing.variants[0].fit):
        _say(fit.sentence)
    for name, offers in listing.prefillers.items():
        for offer in offers:
            where = f": {offer.repo}:{offer.variant}" if offer.repo else ""
            _say(f"Prefiller for {name} ({offer.way}){where}. {offer.expect}")
    for name in listing.refused:
        _say(f"Refused, for its name: {name!r}")
    if listing.failure is not None:
        _say(listing.failure.sentence)


def _notes(variant: Variant) -> str:
    notes = [] if variant.kind == "decoder" else [variant.kind]
    notes += ["installed"] if variant.installed else []
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
        "Size": _size(entry.bytes),
        "Quantisation": entry.quantisation,
        "Architecture": entry.architecture,
        "Context": f"{entry.context:,} tokens" if entry.context else None,
        "Licence": entry.licence,
        "From": entry.origin.repo or entry.origin.source or entry.origin.way,
        "Verified": entry.verification.replace("_", " "),
    }
    for name, value in facts.items():
        if value is not None:
            table.add_row(name, str(value))
    for file in entry.files:
        table.add_row("File", f"{file.path} ({_size(file.bytes)})")
    for projector in entry.projectors:
        fits = {True: "fits", False: "does not fit", None: "may fit"}[projector.fits]
        table.add_row("Projector", f"{projector.path}: {fits}, {projector.reason}")
    for one in entry.prefillers:
        reasons = "; ".join(one.reasons)
        table.add_row("Prefiller", f"{one.path}: {one.verdict.replace('_', ' ')}, {reasons}")
    Console().print(table, markup=False, highlight=False)
    if entry.failure is not None:
        _say(entry.failure.sentence)


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def _print_json(answer: BaseModel) -> None:
    print(answer.model_dump_json(exclude_none=True))


def _size(count: int) -> str:
    if count >= 1 << 30:
        return f"{count / (1 << 30):.1f} GiB"
    if count >= 1 << 20:
        return f"{count / (1 << 20):.0f} MiB"
    return f"{count / 1024:.0f} KiB" if count >= 1024 else f"{count} bytes"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 5400 else f"{whole / 3600:.1f} h"
