"""`twofold bench`: measure time to first token, decoding, products, the disk; make up models."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from engine.api.turn import Path as PrefillPath
from engine.bench.accuracy import (
    ActivationsRow,
    PerplexityRow,
    measure_activations,
    measure_perplexity,
)
from engine.bench.attention import AttentionRow, measure_attention
from engine.bench.decode import DecodeRow, Method, measure_decode
from engine.bench.disk import DEFAULT_BLOCK_BYTES, DEFAULT_IN_FLIGHT, measure_disk
from engine.bench.drafts import DraftRow, DraftTask, measure_drafts
from engine.bench.errors import Stopped
from engine.bench.matmul import MatmulRow, measure_matmul
from engine.bench.random_weights import PIECE
from engine.bench.shapes import model_shape
from engine.bench.synth import weight_type, write_synthetic
from engine.bench.ttft import Run, TtftRow, against_best, measure_ttft
from engine.chat.cancellation import Cancellation
from engine.errors import TwofoldError
from engine.prefiller.measure import built_in_tokens
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.owner import OwnerThread
from engine.runtime.settings import LoadSettings

app = typer.Typer(
    help="Measure time to first token, decoding, or the disk; write made-up models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

T = TypeVar("T")
_PATHS: tuple[PrefillPath, ...] = ("decoder", "resident", "odp")
_LEAST_CONTEXT = 64  # tokens


def _json_file(path: Path | None) -> Path | None:
    """Refused before the measurement, not after it."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise typer.BadParameter(f"{path} cannot be written: no such folder, or a folder itself")
    return path


def _lengths(text: str) -> list[int]:
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = []
    if not lengths or min(lengths) < 1:
        raise typer.BadParameter("give numbers of tokens, such as 128,2048")
    return list(dict.fromkeys(lengths))


def _path_names(text: str) -> list[PrefillPath]:
    chosen = {part.strip() for part in text.split(",")}
    known: tuple[PrefillPath, ...] = (*_PATHS, "autocast")
    if not chosen <= set(known):
        raise typer.BadParameter(f"choose paths from {', '.join(known)}")
    return [path for path in known if path in chosen]


Model = Annotated[Path, typer.Option("-m", "--model", metavar="MODEL.gguf", help="The decoder.")]
Prefiller = Annotated[
    Path | None, typer.Option("--prefiller", help="The decoder's: a file, or a folder of parts.")
]
Force = Annotated[bool, typer.Option("--force", help="Use a pairing that is not established.")]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", callback=_json_file, help="Write the rows there."),
]
Repeat = Annotated[int, typer.Option(min=1, help="Runs of each kind; medians are shown.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Default: one a physical core.")]


@app.command()
def ttft(
    model: Model,
    prefiller: Prefiller = None,
    prompt_tokens: Annotated[
        str, typer.Option(help="Prompt lengths, with commas between.")
    ] = "128,512,2048,8192",
    paths: Annotated[str, typer.Option(help="Paths, with commas between.")] = ",".join(_PATHS),
    repeat: Repeat = 3,
    micro_batch: Annotated[
        int | None, typer.Option(min=32, help="Tokens a pass. Default: as memory allows.")
    ] = None,
    slots: Annotated[int, typer.Option(min=1, help="Buffers of one block, for odp.")] = 2,
    threads: Threads = None,
    force: Force = False,
    json_file: Json = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            callback=_json_file,
            help="Write the timeline of the last streamed prompt, for Chrome's trace viewer.",
        ),
    ] = None,
) -> None:
    """Time to first token on each path, cold: from request to first sampled token.

    Tokenising a real text of that length is included. Before each run the prefiller's files are
    taken out of the page cache and the KV cache is emptied; for the path resident, all weights
    are in memory. The model is loaded once, and paths take turns. Peak memory is the process'
    high-water mark of each run, set back before it.
    """
    lengths, chosen = _lengths(prompt_tokens), _path_names(paths)
    settings = _settings(max(lengths), threads, micro_batch=micro_batch, slots=slots)
    with _bar() as progress:
        task = progress.add_task("loading", total=None)

        def on_run(run: Run, done: int, ttft_s: float | None) -> None:
            what = f"{run.path}, {run.prompt_tokens} tokens" if run.number else "warming up"
            progress.update(task, description=what, completed=done, total=run.prompt_tokens)
            if ttft_s is not None and run.number:
                line = f"{run.number} of {run.total}: {what}: {ttft_s:.3f} s"
                progress.console.print(line, highlight=False)

        def work(loaded: LoadedModel, cancellation: Cancellation) -> list[TtftRow]:
            return measure_ttft(
                loaded, lengths, chosen, repeat, on_run=on_run, cancellation=cancellation
            )

        rows = _with_model(model, prefiller, force, settings, work, trace)
    _write(json_file, rows)
    Console().print(_ttft_table(rows))


@app.command()
def decode(
    model: Model,
    prefiller: Prefiller = None,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens that a round decodes.")] = 128,
    repeat: Repeat = 5,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens read before.")] = 128,
    threads: Threads = None,
    drafts: Annotated[
        str | None, typer.Option(help="Tasks to measure drafts with: quote, free, or both.")
    ] = None,
    draft: Annotated[
        Path | None,
        typer.Option(metavar="FILE.gguf", help="With --drafts: a model or head that drafts."),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="With --drafts.")] = 0.0,
    force: Force = False,
    json_file: Json = None,
) -> None:
    """Decoded tokens a second with the engine, against the library alone.

    The library runs in a process of its own, in the tightest loop its bindings allow. Both take
    turns, greedy, with the same threads, the library's defaults (flash attention among them) and
    the same GOMP_SPINCOUNT (10000 unless set), which the rows name. With a prefiller, the
    engine's prompt is read by odp first.

    With --drafts: with drafted tokens verified against without, in turns. The task quote goes on
    with an edited copy of a text, free with the text itself.
    """
    settings = _settings(prompt_tokens + tokens + 1, threads)
    if drafts is not None:
        tasks = _draft_tasks(drafts)
        _measure_drafts(
            model, prefiller, draft, force, settings, tasks, json_file,
            prompt_tokens=prompt_tokens, tokens=tokens, temperature=temperature, repeat=repeat,
        )  # fmt: skip
        return
    with _bar() as progress:
        task = progress.add_task("loading", total=None)

        def on_round(done: int, total: int, method: Method, tps: float) -> None:
            progress.update(task, description="decoding", completed=done, total=total)
            line = f"{done} of {total}: {method}: {tps:.2f} tokens/s"
            progress.console.print(line, highlight=False)

        def work(loaded: LoadedModel, cancellation: Cancellation) -> list[DecodeRow]:
            return measure_decode(
                loaded,
                prompt_tokens=prompt_tokens,
                tokens=tokens,
                repeat=repeat,
                on_round=on_round,
                cancellation=cancellation,
            )

        rows = _with_model(model, prefiller, force, settings, work)
    _write(json_file, rows)
    Console().print(_decode_table(rows))


def _draft_tasks(text: str) -> list[DraftTask]:
    known: tuple[DraftTask, ...] = ("quote", "free")
    chosen = {part.strip() for part in text.split(",")}
    if not chosen <= set(known):
        raise typer.BadParameter(f"choose tasks from {', '.join(known)}")
    return [task for task in known if task in chosen]


def _measure_drafts(
    model: Path,
    prefiller: Path | None,
    draft: Path | None,
    force: bool,
    settings: LoadSettings,
    tasks: list[DraftTask],
    json_file: Path | None,
    *,
    prompt_tokens: int,
    tokens: int,
    temperature: float,
    repeat: int,
) -> None:
    with _bar() as progress:
        bar = progress.add_task("loading", total=None)

        def on_round(done: int, total: int, drafted: bool, tps: float) -> None:
            progress.update(bar, description="decoding", completed=done, total=total)
            how = "with drafts" if drafted else "without"
            line = f"{done} of {total}: {how}: {tps:.2f} tokens/s"
            progress.console.print(line, highlight=False)

        def work(loaded: LoadedModel, cancellation: Cancellation) -> list[DraftRow]:
            return [
                measure_drafts(
                    loaded,
                    task,
                    prompt_tokens=prompt_tokens,
                    tokens=tokens,
                    temperature=temperature,
                    repeat=repeat,
                    on_round=on_round,
                    cancellation=cancellation,
                )
                for task in tasks
            ]

        rows = _with_model(model, prefiller, force, settings, work, draft=draft)
    _write(json_file, rows)
    Console().print(_draft_table(rows))


@app.command()
def disk(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A large file on the disk.")],
    block_bytes: Annotated[
        int, typer.Option(min=4096, help="Bytes a request, a multiple of 4096.")
    ] = DEFAULT_BLOCK_BYTES,
    in_flight: Annotated[int, typer.Option(min=1, help="Requests at once.")] = DEFAULT_IN_FLIGHT,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to read.")] = 2.0,
    json_file: Json = None,
) -> None:
    """How fast a file comes off its disk, past the page cache."""
    if block_bytes % 4096:
        raise typer.BadParameter("--block-bytes must be a multiple of 4096")
    row = measure_disk(file, block_bytes, in_flight, seconds)
    if json_file:
        json_file.write_text(row.model_dump_json(indent=2) + "\n", encoding="utf-8")
    how = "past the page cache" if row.direct else "through the page cache, emptied before"
    print(
        f"{row.gbps:.2f} GB/s, {row.in_flight} requests of {row.block_bytes} bytes at once, {how}"
    )


@app.command()
def matmul(
    types: Annotated[
        str, typer.Option("--type", help="Types of weights, with commas between.")
    ] = "nvfp4",
    widths: Annotated[
        str, typer.Option("--m", help="Columns of activations, with commas between.")
    ] = "1,32,512",
    n: Annotated[int, typer.Option("--n", min=1, help="Rows of weights.")] = 4096,
    k: Annotated[int, typer.Option("--k", min=256, help="Weights in a row.")] = 4096,
    threads: Annotated[str, typer.Option(help="Numbers of threads, with commas.")] = "1",
    repeat: Repeat = 5,
    kernel: Annotated[
        str | None, typer.Option(help="One of ours. Default: this processor's fastest.")
    ] = None,
    json_file: Json = None,
) -> None:
    """Matrix products by Twofold's kernels, against the library's and the processor's peak."""
    if k % PIECE:
        raise typer.BadParameter(f"--k must be a multiple of {PIECE}")
    with _bar() as progress:
        task = progress.add_task("measuring", total=None)

        def on_row(done: int, total: int, row: MatmulRow) -> None:
            progress.update(task, completed=done, total=total)
            what = f"{row.type}, m {row.m}, {row.threads} threads: {row.of_peak:.0%} of peak"
            progress.console.print(f"{done} of {total}: {what}", highlight=False)

        rows = measure_matmul(
            types.split(","),
            _lengths(widths),
            n,
            k,
            _lengths(threads),
            repeat=repeat,
            kernel=kernel,
            on_row=on_row,
        )
    _write(json_file, rows)
    Console().print(_matmul_table(rows))


@app.command()
def attention(
    tokens: Annotated[
        str, typer.Option(help="Tokens that are read at once, with commas between.")
    ] = "32,512",
    cached: Annotated[
        str, typer.Option(help="Tokens that they attend to, with commas between.")
    ] = "512,2048,8192",
    heads: Annotated[int, typer.Option(min=1, help="Heads of queries.")] = 16,
    key_heads: Annotated[int, typer.Option(min=1, help="Heads of keys and values.")] = 8,
    head_size: Annotated[int, typer.Option(min=1, help="Values of a head.")] = 128,
    type_: Annotated[str, typer.Option("--type", help="Of keys and values.")] = "f16",
    threads: Annotated[str, typer.Option(help="Numbers of threads, with commas.")] = "1",
    repeat: Repeat = 5,
    kernel: Annotated[
        str | None, typer.Option(help="One of ours. Default: this processor's fastest.")
    ] = None,
    json_file: Json = None,
) -> None:
    """A prompt's attention by Twofold's kernels, against the library's and the peak."""
    with _bar() as progress:
        task = progress.add_task("measuring", total=None)

        def on_row(done: int, total: int, row: AttentionRow) -> None:
            progress.update(task, completed=done, total=total)
            what = f"{row.tokens} of {row.cached} tokens, {row.threads} threads"
            progress.console.print(
                f"{done} of {total}: {what}: {row.of_peak:.0%} of peak", highlight=False
            )

        rows = measure_attention(
            type_,
            _lengths(tokens),
            _lengths(cached),
            heads,
            key_heads,
            head_size,
            _lengths(threads),
            repeat=repeat,
            kernel=kernel,
            on_row=on_row,
        )
    if not rows:
        raise typer.BadParameter("--cached must be --tokens at least")
    _write(json_file, rows)
    Console().print(_attention_table(rows))


@app.command()
def activations(
    model: Model,
    tokens: Annotated[int, typer.Option(min=64, help="Tokens of a text that ships.")] = 256,
    threads: Threads = None,
    json_file: Json = None,
) -> None:
    """What rounding activations costs in decoding a model of NVFP4 weights.

    A text is decoded as Twofold does, as the library does with 8 bits, and with 4 bits; the next
    token's distributions are compared with those of unrounded activations (mean KL, in nats).
    """
    settings = _settings(tokens, threads)
    with _bar() as progress:
        task = progress.add_task("decoding", total=None)

        def on_tokens(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        def work(loaded: LoadedModel, cancellation: Cancellation) -> list[ActivationsRow]:
            text = built_in_tokens(loaded)[:tokens]
            return measure_activations(loaded, text, on_tokens=on_tokens, cancellation=cancellation)

        rows = _with_model(model, None, False, settings, work)
    _write(json_file, rows)
    caption = f"{rows[0].tokens} tokens; perplexity {rows[0].exact_perplexity:.4f} unrounded."
    table = _table("Activations in decoding", caption)
    table.add_column("activations")
    for name in ("mean KL", "error", "perplexity"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.activations, f"{row.mean_kl:.2e}", f"{row.error:.0e}", f"{row.perplexity:.4f}"
        )
    Console().print(table)


@app.command()
def perplexity(
    model: Model,
    tokens: Annotated[int, typer.Option(min=64, help="Tokens of a text that ships.")] = 1024,
    threads: Threads = None,
    json_file: Json = None,
) -> None:
    """Perplexity of a fixed text, read by the decoder's path and by autocast."""

    def work(loaded: LoadedModel, cancellation: Cancellation) -> list[PerplexityRow]:
        return measure_perplexity(loaded, built_in_tokens(loaded)[:tokens], cancellation)

    rows = _with_model(model, None, False, _settings(tokens, threads), work)
    _write(json_file, rows)
    table = _table("Perplexity", f"{rows[0].tokens} tokens of a text that ships with the program.")
    table.add_column("path")
    for name in ("perplexity", "deviation", "weights re-encoded"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.path, f"{row.perplexity:.4f}", f"{row.deviation:+.3%}", f"{row.share:.0%}"
        )
    Console().print(table)


@app.command()
def synth(
    folder: Annotated[Path, typer.Argument(metavar="OUT-FOLDER", help="Made if needed.")],
    arch: Annotated[str, typer.Option(help="qwen3 or qwen35.")] = "qwen3",
    like: Annotated[str, typer.Option(help="0.6b, 1.7b, 4b or 8b; 27b for qwen35.")] = "1.7b",
    decoder: Annotated[str, typer.Option(help="Type of the decoder's weights.")] = "IQ2_XXS",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write a random-weight decoder of a published shape and its prefiller, to measure speed."""
    shape, type_ = model_shape(arch, like), weight_type(decoder)
    columns = (DownloadColumn(), TransferSpeedColumn())
    try:
        with _bar(*columns) as progress:
            task = progress.add_task("writing", total=None)
            made = write_synthetic(
                shape,
                type_,
                folder,
                f"{arch}-{like.lower()}",
                overwrite=force,
                progress=lambda done, total: progress.update(task, completed=done, total=total),
            )
    except KeyboardInterrupt as stop:
        raise Stopped from stop
    print(made.decoder)
    print(made.prefiller)


def _settings(
    context: int, threads: int | None, *, micro_batch: int | None = None, slots: int = 2
) -> LoadSettings:
    settings = LoadSettings(
        context=max(context, _LEAST_CONTEXT), micro_batch=micro_batch, slots=slots
    )
    return settings.model_copy(update={"threads": threads}) if threads else settings


def _with_model(
    model: Path,
    prefiller: Path | None,
    force: bool,
    settings: LoadSettings,
    work: Callable[[LoadedModel, Cancellation], T],
    trace: Path | None = None,
    draft: Path | None = None,
) -> T:
    """Loads the model and works with it on a thread of its own; Ctrl-C raises Stopped soon."""
    cancellation = Cancellation()

    def run() -> T:
        loaded = LoadedModel(
            model,
            prefiller=prefiller,
            draft=draft,
            force_pairing=force,
            settings=settings,
            on_load=lambda _: not cancellation.cancelled,
            trace=trace,
        )
        try:
            return work(loaded, cancellation)
        finally:
            loaded.close()

    with OwnerThread() as owner:
        running = owner.submit(run)
        try:
            return running.result()
        except KeyboardInterrupt:
            cancellation.cancel()
            try:
                return running.result()
            except TwofoldError as error:
                raise Stopped from error


def _bar(*columns: DownloadColumn | TransferSpeedColumn) -> Progress:
    """On stderr; the moving part only where that is a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def _write(path: Path | None, rows: Sequence[BaseModel]) -> None:
    if path:
        values = [row.model_dump(mode="json") for row in rows]
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def _ttft_table(rows: Sequence[TtftRow]) -> Table:
    rates = [row.disk_gbps for row in rows if row.disk_gbps is not None]
    caption = (
        f"Medians. The disk gave {rates[0]:.2f} GB/s in between; floor: bytes read at that rate. "
        "Of best: odp over the larger of its floor and resident."
        if rates
        else "Medians."
    )
    table = _table("Time to first token", caption)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("path", no_wrap=True)
    for name in (
        "TTFT s",
        "tok/s",
        "read MB",
        "floor s",
        "wait s",
        "held MB",
        "peak MB",
        "of best",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: row.prompt_tokens):
        of_best = against_best(row, rows)
        table.add_row(
            str(row.prompt_tokens),
            row.path,
            f"{row.ttft:.3f}",
            f"{row.prefill_tps:.1f}",
            f"{row.bytes_read / 1e6:.1f}",
            f"{row.read_floor_s:.3f}",
            f"{row.wait_s:.3f}",
            f"{row.prefill_weight_bytes / 1e6:.1f}",
            "" if row.peak_rss_bytes is None else f"{row.peak_rss_bytes / 1e6:.0f}",
            "" if of_best is None else f"{of_best:.2f}",
        )
    return table


def _matmul_table(rows: Sequence[MatmulRow]) -> Table:
    first = rows[0]
    caption = f"Medians of {len(first.seconds)}; n {first.n}, k {first.k}. TFLOP/s."
    table = _table("Matrix products", caption)
    table.add_column("type")
    table.add_column("kernel")
    for name in ("m", "threads", "ms", "ours", "peak", "of peak", "library", "speedup"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.type,
            row.kernel,
            str(row.m),
            str(row.threads),
            f"{2e-9 * row.m * row.n * row.k / row.tflops:.2f}",
            f"{row.tflops:.3f}",
            f"{row.peak_tflops:.2f}",
            f"{row.of_peak:.3f}",
            f"{row.library_tflops:.3f}",
            f"{row.speedup:.2f}",
        )
    return table


def _attention_table(rows: Sequence[AttentionRow]) -> Table:
    first = rows[0]
    caption = (
        f"Medians of {len(first.seconds)}; {first.heads} heads, {first.key_heads} of keys, "
        f"{first.head_size} values each, {first.type}, by {first.kernel}. TFLOP/s."
    )
    table = _table("Attention", caption)
    titles = ("tokens", "cached", "threads", "ours", "peak", "of peak", "library", "speedup")
    for title in titles:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            str(row.tokens),
            str(row.cached),
            str(row.threads),
            f"{row.tflops:.3f}",
            f"{row.peak_tflops:.2f}",
            f"{row.of_peak:.3f}",
            f"{row.library_tflops:.3f}",
            f"{row.speedup:.2f}",
        )
    return table


def _draft_table(rows: Sequence[DraftRow]) -> Table:
    caption = "Medians of the rounds; tau: tokens that a verification yields, on average."
    table = _table("Drafts", caption)
    for title in (
        "task",
        "method",
        "context",
        "temperature",
        "tau",
        "tokens/s",
        "without",
        "speedup",
    ):
        table.add_column(title, justify="left" if title in ("task", "method") else "right")
    for row in rows:
        table.add_row(
            row.task,
            row.method,
            f"{row.context:,}",
            f"{row.temperature:g}",
            f"{row.tau:.2f}",
            f"{row.tps:.2f}",
            f"{row.baseline_tps:.2f}",
            f"{row.speedup:.3f}",
        )
    return table


def _decode_table(rows: Sequence[DecodeRow]) -> Table:
    first = rows[0]
    caption = (
        f"Medians of {len(first.tps)} rounds of {first.tokens} tokens after {first.prompt_tokens}, "
        f"{first.threads} threads, GOMP_SPINCOUNT {first.gomp_spincount} in both processes."
    )
    table = _table("Decoding", caption)
    table.add_column("method")
    table.add_column("prompt read by")
    for name in ("tokens/s", "slowest", "fastest", "ratio"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.method,
            row.path,
            f"{row.median:.2f}",
            f"{min(row.tps):.2f}",
            f"{max(row.tps):.2f}",
            f"{row.ratio:.3f}",
        )
    return table


def _table(title: str, caption: str) -> Table:
    return Table(
        title=title,
        caption=caption,
        caption_justify="left",
        box=None,
        pad_edge=False,
        collapse_padding=True,
    )
