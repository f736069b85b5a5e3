"""Building a prefiller: what it holds, what is refused, and that nothing half-made is left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray

from engine.gguf.types import GgmlType, ValueType
from engine.prefiller import errors, output
from engine.prefiller.build import build_prefiller
from engine.prefiller.formats import SCALE_KEY, Prefiller
from tests.support.gguf_bytes import GgufBytes, Tensor, Value, text, u32
from tests.support.prefiller_files import f32_bytes, tensor_bytes
from tests.support.tiny_models import tiny_model, write_pair, write_tiny


def weights_of(path: Path) -> dict[str, NDArray[np.float32]]:
    return {
        tensor.name: np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        for tensor in GGUFReader(path).tensors
    }


def decoded(prefiller: Prefiller) -> dict[str, NDArray[np.float32]]:
    found: dict[str, NDArray[np.float32]] = {}
    for tensor in prefiller.tensors:
        raw = np.frombuffer(tensor_bytes(prefiller, tensor), np.uint8)
        values = dequantize(raw, GGMLQuantizationType.NVFP4).reshape(tensor.shape[::-1])
        found[tensor.name] = values * np.float32(tensor.scale)
    return found


def relative_error(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> float:
    return float(np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean()))


def model(tensors: list[Tensor], **keys: Value) -> GgufBytes:
    metadata: dict[str | bytes, Value] = {
        "general.architecture": text("llama"),
        "llama.block_count": u32(1),
        **{key.replace("__", "."): value for key, value in keys.items()},
    }
    return GgufBytes(list(metadata.items()), tensors)


def f32_weight(name: str, shape: tuple[int, int], *, seed: int = 0) -> Tensor:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Tensor(name, shape, GgmlType.F32, values.tobytes())


def write(path: Path, file: GgufBytes) -> Path:
    path.write_bytes(file.encode())
    return path


@pytest.mark.parametrize("weight_type", ["Q8_0", "Q4_0", "F16", "BF16", "F32"])
def test_every_block_linear_is_close_to_its_source(tmp_path: Path, weight_type: str) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama", blocks=2, weight_type=weight_type)
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf")
    wanted = weights_of(decoder)
    for name, values in decoded(prefiller).items():
        assert relative_error(values, wanted[name]) < 0.11  # of NVFP4 on normal weights: 0.095


def test_a_hybrid_keeps_its_gates_convolution_and_norms_out(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "qwen35", blocks=4)
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf")
    assert [tensor.name for tensor in prefiller.tensors if tensor.block in (0, 3)] == [
        "blk.0.attn_qkv.weight",
        "blk.0.attn_gate.weight",
        "blk.0.ssm_out.weight",
        "blk.0.ffn_gate.weight",
        "blk.0.ffn_up.weight",
        "blk.0.ffn_down.weight",
        "blk.3.attn_q.weight",
        "blk.3.attn_k.weight",
        "blk.3.attn_v.weight",
        "blk.3.attn_output.weight",
        "blk.3.ffn_gate.weight",
        "blk.3.ffn_up.weight",
        "blk.3.ffn_down.weight",
    ]


def test_layers_that_are_fused_share_the_scale_of_their_largest_weight(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "qwen35", blocks=4)
    scales = {
        tensor.name: tensor.scale
        for tensor in build_prefiller(decoder, tmp_path / "p.gguf").tensors
    }
    largest = {name: np.abs(values).max() for name, values in weights_of(decoder).items()}
    for together in (
        ("blk.3.attn_q", "blk.3.attn_k", "blk.3.attn_v"),
        ("blk.3.ffn_gate", "blk.3.ffn_up"),
        ("blk.3.ffn_down",),
        ("blk.3.attn_output",),
        ("blk.0.attn_qkv",),
        ("blk.0.attn_gate",),
    ):
        names = [f"{name}.weight" for name in together]
        scale = np.float32(max(largest[name] for name in names)) / np.float32(6 * 448)
        assert {scales[name] for name in names} == {float(scale)}


def test_gguf_py_reads_the_file_and_its_keys(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "Tiny-Q8_0.gguf", "llama", blocks=2)
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf")
    reader = GGUFReader(prefiller.path)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert [tensor.name for tensor in reader.tensors] == [t.name for t in prefiller.tensors]
    assert [tensor.data_offset for tensor in reader.tensors] == [
        tensor.offset for tensor in prefiller.tensors
    ]
    assert fields["general.alignment"] == 4096
    assert fields["general.type"] == "prefiller"
    assert fields["general.name"] == "tiny llama 0 prefiller"
    assert fields["twofold.prefiller.method"] == "rtn"
    assert fields["twofold.prefiller.decoder.quantisation"] == "Q8_0"
    assert fields["twofold.prefiller.decoder.block_count"] == 2
    assert fields["twofold.prefiller.tensor_count"] == len(prefiller.tensors)
    for tensor in prefiller.tensors:
        assert fields[SCALE_KEY + tensor.name] == tensor.scale


def test_a_better_source_gives_the_weights(tmp_path: Path) -> None:
    decoder, source = write_pair(tmp_path, "llama", weight_type="Q4_0", source_type="BF16")
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf", source)
    wanted, others = weights_of(source), weights_of(decoder)
    for name, values in decoded(prefiller).items():
        assert relative_error(values, wanted[name]) < 0.11
        assert relative_error(values, others[name]) > 0.5
    assert prefiller.decoder_hash != prefiller.origin.source_hash


def test_a_split_decoder_gives_the_same_file(tmp_path: Path) -> None:
    whole = tiny_model("llama", blocks=2)
    plain = build_prefiller(write(tmp_path / "d.gguf", whole), tmp_path / "p.gguf")
    for number, tensors in enumerate((whole.tensors[:7], whole.tensors[7:])):
        split: list[tuple[str | bytes, Value]] = [
            ("split.no", Value(ValueType.UINT16, number)),
            ("split.count", Value(ValueType.UINT16, 2)),
            ("split.tensors.count", Value(ValueType.INT32, len(whole.tensors))),
        ]
        keys = [*(whole.metadata if number == 0 else []), *split]
        write(tmp_path / f"s-0000{number + 1}-of-00002.gguf", GgufBytes(keys, tensors))
    split_in = build_prefiller(tmp_path / "s-00002-of-00002.gguf", tmp_path / "q.gguf")
    assert [tensor.scale for tensor in split_in.tensors] == [t.scale for t in plain.tensors]
    assert decoded(split_in).keys() == decoded(plain).keys()
    for name, values in decoded(plain).items():
        np.testing.assert_array_equal(decoded(split_in)[name], values)


def test_rows_that_are_no_multiple_of_64_are_left_out(tmp_path: Path) -> None:
    tensors = [
        f32_weight("blk.0.attn_q.weight", (96, 4)),
        f32_weight("blk.0.ffn_up.weight", (128, 3)),
    ]
    decoder = write(tmp_path / "d.gguf", model(tensors))
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf")
    assert [tensor.name for tensor in prefiller.tensors] == ["blk.0.ffn_up.weight"]


def test_blocks_that_only_guess_ahead_are_left_out(tmp_path: Path) -> None:
    tensors = [f32_weight(f"blk.{block}.ffn_up.weight", (64, 4)) for block in range(3)]
    keys = {"llama__block_count": u32(3), "llama__nextn_predict_layers": u32(1)}
    decoder = write(tmp_path / "d.gguf", model(tensors, **keys))
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf")
    assert [tensor.block for tensor in prefiller.tensors] == [0, 1]


def test_a_sources_own_scale_counts(tmp_path: Path) -> None:
    plain = f32_weight("blk.0.ffn_down.weight", (64, 8))
    scale = Tensor("blk.0.ffn_down.scale", (1,), GgmlType.F32, f32_bytes(0.25))
    one = build_prefiller(write(tmp_path / "a.gguf", model([plain])), tmp_path / "pa.gguf")
    two = build_prefiller(write(tmp_path / "b.gguf", model([plain, scale])), tmp_path / "pb.gguf")
    assert two.tensors[0].scale == one.tensors[0].scale * 0.25
    assert tensor_bytes(two, two.tensors[0]) == tensor_bytes(one, one.tensors[0])


def test_a_tensor_of_zeros_stays_zero_under_a_scale_that_readers_accept(tmp_path: Path) -> None:
    zeros = Tensor("blk.0.ffn_down.weight", (64, 8), GgmlType.F32, bytes(64 * 8 * 4))
    prefiller = build_prefiller(write(tmp_path / "d.gguf", model([zeros])), tmp_path / "p.gguf")
    assert prefiller.tensors[0].scale > 0
    assert not decoded(prefiller)["blk.0.ffn_down.weight"].any()


def test_progress_ends_at_the_sources_bytes(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama", blocks=2)
    seen: list[tuple[int, int]] = []
    prefiller = build_prefiller(
        decoder, tmp_path / "p.gguf", progress=lambda done, total: seen.append((done, total))
    )
    source_bytes = sum(t.nbytes // 36 * 68 for t in prefiller.tensors)  # Q8_0
    assert seen[-1] == (source_bytes, source_bytes)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize(
    "change",
    [
        lambda source: source.metadata.__setitem__(0, ("general.architecture", text("qwen2"))),
        lambda source: source.metadata.__setitem__(1, ("llama.block_count", u32(2))),
        lambda source: source.tensors.pop(),
        lambda source: source.tensors.__setitem__(0, f32_weight("blk.0.ffn_up.weight", (128, 8))),
    ],
    ids=["architecture", "block count", "missing tensor", "shape"],
)
def test_a_source_of_another_model_is_refused(
    tmp_path: Path, change: Callable[[GgufBytes], object]
) -> None:
    def tensors() -> list[Tensor]:
        return [f32_weight(f"blk.0.{linear}.weight", (64, 8)) for linear in ("ffn_up", "ffn_down")]

    source = model(tensors())
    change(source)
    decoder = write(tmp_path / "d.gguf", model(tensors()))
    with pytest.raises(errors.SourceMismatch):
        build_prefiller(decoder, tmp_path / "p.gguf", write(tmp_path / "s.gguf", source))
    assert names(tmp_path) == ["d.gguf", "s.gguf"]


def test_a_mixture_of_experts_is_refused(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama", extra={"llama.expert_count": u32(8)})
    with pytest.raises(errors.MixtureOfExperts) as refused:
        build_prefiller(decoder, tmp_path / "p.gguf")
    assert refused.value.data["experts"] == 8


def test_a_model_that_nvfp4_cannot_hold_is_refused(tmp_path: Path) -> None:
    decoder = write(tmp_path / "d.gguf", model([f32_weight("blk.0.ffn_up.weight", (96, 4))]))
    with pytest.raises(errors.NothingToQuantise):
        build_prefiller(decoder, tmp_path / "p.gguf")


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        (GgmlType.F32, np.full(512, np.inf, np.float32).tobytes()),
        (GgmlType.F32, np.full(512, np.nan, np.float32).tobytes()),
        (GgmlType.I32, bytes(2048)),
    ],
)
def test_weights_that_are_no_numbers_are_refused_by_name(
    tmp_path: Path, type_: GgmlType, data: bytes
) -> None:
    bad = Tensor("blk.0.ffn_up.weight", (64, 8), type_, data)
    decoder = write(tmp_path / "d.gguf", model([bad]))
    with pytest.raises(errors.UnusableWeights) as refused:
        build_prefiller(decoder, tmp_path / "p.gguf")
    assert refused.value.data["tensor"] == "blk.0.ffn_up.weight"
    assert names(tmp_path) == ["d.gguf"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_cancelling_leaves_nothing_behind(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama")
    cancel = threading.Event()
    with pytest.raises(errors.Cancelled):
        build_prefiller(
            decoder, tmp_path / "p.gguf", progress=lambda *_: cancel.set(), cancel=cancel
        )
    assert names(tmp_path) == ["d.gguf"]


def test_cancelling_in_the_last_moment_still_counts(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama")
    cancel = threading.Event()

    def stop_at_the_end(done: int, total: int) -> None:
        if done == total:
            cancel.set()

    with pytest.raises(errors.Cancelled):
        build_prefiller(decoder, tmp_path / "p.gguf", progress=stop_at_the_end, cancel=cancel)
    assert names(tmp_path) == ["d.gguf"]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama")
    with pytest.raises(KeyboardInterrupt):
        build_prefiller(
            decoder, tmp_path / "p.gguf", progress=lambda *_: signal.raise_signal(signal.SIGINT)
        )
    assert names(tmp_path) == ["d.gguf"]


def test_no_thread_outlives_a_build(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    build_prefiller(write_tiny(tmp_path / "d.gguf", "llama", blocks=1), tmp_path / "p.gguf")
    assert set(threading.enumerate()) <= before


def test_a_source_that_shrinks_is_an_error(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama")
    with pytest.raises(errors.SourceShrank):
        build_prefiller(
            decoder, tmp_path / "p.gguf", progress=lambda *_: os.truncate(decoder, 300_000)
        )
    assert names(tmp_path) == ["d.gguf"]


def test_a_killed_build_leaves_no_file_under_its_name_and_the_next_tidies_up(
    tmp_path: Path,
) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama")
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from engine.prefiller.build import build_prefiller\n"
        "kill = lambda done, total: done > total // 2 and os.kill(os.getpid(), signal.SIGKILL)\n"
        "build_prefiller(Path(sys.argv[1]), Path(sys.argv[2]), progress=kill)\n"
    )
    out = tmp_path / "p.gguf"
    killed = subprocess.run([sys.executable, "-c", script, decoder, out], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    assert len(names(tmp_path)) == 2  # what the killed process could not remove

    build_prefiller(decoder, out)
    assert names(tmp_path) == ["d.gguf", "p.gguf"]


def test_a_disk_without_room_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama")

    class Usage:
        free = 1000

    monkeypatch.setattr(output.shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(errors.NoSpace) as refused:
        build_prefiller(decoder, tmp_path / "p.gguf")
    assert refused.value.data["free"] == 1000
    assert names(tmp_path) == ["d.gguf"]


def test_a_write_that_fails_midway_leaves_nothing_behind(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(errors.WriteFailed) as refused:
            build_prefiller(decoder, tmp_path / "p.gguf")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refused.value.data["reason"] == "File too large"
    assert names(tmp_path) == ["d.gguf"]


def test_a_folder_that_is_not_there_is_a_failed_write(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama", blocks=1)
    with pytest.raises(errors.WriteFailed):
        build_prefiller(decoder, tmp_path / "nowhere" / "p.gguf")


def test_an_existing_file_is_replaced_only_when_asked(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama", blocks=1)
    out = tmp_path / "p.gguf"
    out.write_bytes(b"mine")
    with pytest.raises(errors.OutputExists):
        build_prefiller(decoder, out)
    assert out.read_bytes() == b"mine"
    assert build_prefiller(decoder, out, overwrite=True).tensors


def test_the_decoder_is_never_replaced_whatever_it_is_called(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama", blocks=1)
    before = decoder.read_bytes()
    (tmp_path / "link.gguf").symlink_to(decoder)
    for out in (decoder, tmp_path / "link.gguf"):
        with pytest.raises(errors.OutputIsInput):
            build_prefiller(decoder, out, overwrite=True)
    assert decoder.read_bytes() == before


def test_two_builds_write_the_same_bytes(tmp_path: Path) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "llama", blocks=2)
    first, second = (build_prefiller(decoder, tmp_path / name).path for name in ("p", "q"))
    assert first.read_bytes() == second.read_bytes()
