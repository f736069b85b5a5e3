"""Native sessions on tiny models: a decoder, its prefiller, plans, prompts, and what they answer.

The prefiller comes from another model of the same shape, so that weights of the wrong phase show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.gguf.splits import open_model
from engine.native import native
from engine.prefiller.build import build_prefiller
from engine.prefiller.formats import open_prefiller
from tests.support.tiny_models import write_pair

Logits = NDArray[np.float32]
SHORTEST = 32  # tokens that prefill weights are used for


@dataclass(frozen=True)
class Pair:
    decoder: Path
    source: Path
    prefiller: Path


MakePair = Callable[[str], Pair]  # by architecture


def make_pair(folder: Path, arch: str, **shape: Any) -> Pair:
    folder.mkdir(parents=True, exist_ok=True)
    decoder, source = write_pair(folder, arch, **shape)
    prefiller = folder / f"{arch}-prefiller.gguf"
    build_prefiller(decoder, prefiller, source=source)
    return Pair(decoder, source, prefiller)


def pairs_in(folders: pytest.TempPathFactory) -> MakePair:
    """A pair for each architecture, made when it is first asked for."""

    @cache
    def make(arch: str) -> Pair:
        return make_pair(folders.mktemp(arch), arch)

    return make


def open_session(
    decoder: Path,
    *,
    n_ctx: int = 1024,
    micro_batch: int = 512,
    threads: int = 1,
    gpu_layers: int = 0,
    devices: Sequence[str] = (),
    snapshots: int = 0,
) -> Any:
    model, context = native().ModelParams(), native().ContextParams()
    model.paths = [str(file.path) for file in open_model(decoder).files]
    model.n_gpu_layers, model.devices = gpu_layers, list(devices)
    context.n_ctx, context.micro_batch, context.n_threads = n_ctx, micro_batch, threads
    context.snapshots = snapshots
    return native().Session(model, context)


def make_plan(
    path: str = "odp",
    *,
    tiers: Sequence[str] | None = None,
    slots: int = 2,
    carve_out: bool = True,
    request_bytes: int = 1 << 20,
    asynchronous: bool = True,
    trace_limit: int = 0,
    on_upload: Callable[[int], None] | None = None,
    on_compute: Callable[[int], None] | None = None,
) -> Any:
    """`tiers` names each block's; without them `path` decides for all."""
    plan, tier = native().PrefillPlan(), native().Tier
    plan.tiers = [getattr(tier, name) for name in tiers or []] or (
        [tier.device] * 999 if path == "resident" else []
    )
    plan.slots, plan.carve_out, plan.request_bytes = slots, carve_out, request_bytes
    plan.asynchronous, plan.trace_limit = asynchronous, trace_limit
    if on_upload:
        plan.on_upload = on_upload
    if on_compute:
        plan.on_compute = on_compute
    return plan


def prefiller_files(
    path: Path, *, change: Callable[[Any], Any] | None = None, only: set[str] | None = None
) -> Any:
    """The files as a session wants them, with all tensors or `only` some; `change` alters facts."""
    found = open_prefiller(path)
    files = native().PrefillerFiles()
    files.paths = [str(file) for file in found.files]
    for tensor in found.tensors:
        if only is not None and tensor.name not in only:
            continue
        facts = {
            "name": tensor.name,
            "block": tensor.block,
            "file": tensor.file_index,
            "offset": tensor.offset,
            "size": tensor.nbytes,
            "columns": tensor.shape[0],
            "rows": tensor.shape[1],
            "scale": tensor.scale,
        }
        files.add(**(change(facts) if change else facts))
    return files


def decoder_files(path: Path) -> Any:
    files = native().DecoderFiles()
    model = open_model(path)
    files.paths = [str(file.path) for file in model.files]
    for index, file in enumerate(model.files):
        for tensor in file.tensors:
            files.add(tensor.name, index, tensor.absolute_offset, tensor.nbytes)
    return files


def attach(session: Any, pair: Pair, plan: Any = None, progress: Any = None) -> None:
    files = prefiller_files(pair.prefiller)
    session.attach(files, decoder_files(pair.decoder), plan or make_plan(), progress)


def attached(pair: Pair, plan: Any = None, **options: Any) -> Any:
    session = open_session(pair.decoder, **options)
    attach(session, pair, plan)
    return session


def prompt(length: int, seed: int = 1) -> list[int]:
    return np.random.default_rng(seed).integers(0, 256, length).tolist()


def read(session: Any, tokens: list[int], *, with_prefiller: bool) -> Logits:
    """Logits after `tokens`, read from an empty cache."""
    session.keep(0)
    session.prefill(tokens, with_prefiller)
    return session.logits()


def decode(session: Any, count: int) -> tuple[list[int], Logits]:
    """The next greedy tokens, and the logits after the last but one of them."""
    params = native().SamplerParams()
    params.temperature = 0.0
    session.start_sampling(params)
    tokens = [session.next_token() for _ in range(count)]
    return tokens, session.logits()


def same_bits(left: Logits, right: Logits) -> bool:
    return bool(np.isfinite(left).all()) and left.tobytes() == right.tobytes()


def distance(left: Logits, right: Logits) -> float:
    """The largest difference, in standard deviations of `right`."""
    return float(np.abs(left - right).max() / right.std())
