"""The account of a load, made without allocating, is what the load then allocates, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from engine.gguf.splits import open_model
from engine.native import native
from engine.probe.errors import MeasuringFailed
from engine.probe.memory import exact_memory
from tests.support.tiny_models import write_tiny

Arch = Literal["llama", "qwen3", "gemma3", "qwen35"]


@pytest.mark.parametrize(
    ("arch", "context", "micro_batch"),
    [("llama", 1024, 512), ("qwen3", 4096, 128), ("gemma3", 2048, 256), ("qwen35", 1024, 512)],
)
def test_the_account_is_what_a_load_allocates(
    arch: Arch, context: int, micro_batch: int, tmp_path: Path
) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path, arch)
    files = open_model(path)
    parts = exact_memory(files, context, "f16", micro_batch)

    params, wanted = native().ModelParams(), native().ContextParams()
    params.paths = [str(path)]
    wanted.n_ctx, wanted.micro_batch, wanted.n_threads = context, micro_batch, 1
    real = native().Session(params, wanted).memory
    for kind in ("weights", "context", "compute"):
        assert sum(getattr(part, kind) for part in parts) == getattr(real, kind), kind
        assert getattr(real, kind) > 0


def test_an_unknown_device_is_said_to_fail(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", "llama")
    with pytest.raises(MeasuringFailed):
        exact_memory(
            open_model(tmp_path / "tiny.gguf"), 256, "f16", 32, gpu_layers=1, devices=["No9"]
        )


def test_a_smaller_cache_type_takes_less_by_its_share(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny.gguf", "llama")
    files = open_model(tmp_path / "tiny.gguf")
    full, half = (
        sum(part.context for part in exact_memory(files, 1024, kv_type, 128))
        for kv_type in ("f32", "f16")
    )
    assert full == 2 * half
