"""A model that would abort the library is refused before the library sees it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.gguf.architectures import CHECKED
from engine.gguf.errors import (
    BadKey,
    BadOffset,
    DuplicateToken,
    GgufError,
    MissingKey,
    MissingTensor,
    UnexpectedTensor,
    UnusableType,
    WrongShape,
)
from engine.gguf.types import GgmlType, ValueType
from engine.gguf.validate import is_checked, validated_model
from engine.words import sentence
from tests.support.gguf_bytes import (
    GgufBytes,
    Tensor,
    Value,
    array,
    f32,
    f32_tensor,
    flag,
    text,
    u32,
)
from tests.support.tiny_models import ARCHS, tiny_model, write_tiny

TOKENS = "tokenizer.ggml.tokens"


def model(arch: str = "llama", **changed: Value | None) -> GgufBytes:
    """A small valid model, with keys replaced (or, if None, left out)."""
    made = tiny_model(arch, blocks=4 if arch == "qwen35" else 2, width=64, ffn=64)
    return with_keys(made, changed)


def with_keys(made: GgufBytes, changed: dict[str, Value | None]) -> GgufBytes:
    made.metadata = [pair for pair in made.metadata if pair[0] not in changed]
    made.metadata += [(key, value) for key, value in changed.items() if value is not None]
    return made


def refusal(folder: Path, made: GgufBytes) -> GgufError:
    path = folder / "bad.gguf"
    path.write_bytes(made.encode())
    with pytest.raises(GgufError) as caught:
        validated_model(path)
    assert sentence(caught.value).startswith(str(path))
    return caught.value


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("weight_type", ["F16", "Q8_0", "Q4_0", "NVFP4", "Q2_0"])
def test_a_good_model_passes(tmp_path: Path, arch: str, weight_type: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", arch, weight_type=weight_type)
    assert is_checked(validated_model(path))


@pytest.mark.parametrize("tokenizer", ["gpt2", "llama", "test"])
def test_every_checked_tokenizer_passes(tmp_path: Path, tokenizer: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", blocks=1, tokenizer=tokenizer)
    assert is_checked(validated_model(path))


def test_the_tests_architectures_are_the_checked_ones() -> None:
    assert set(ARCHS) == set(CHECKED)


@pytest.mark.parametrize(
    "changed",
    [
        {"llama.expert_count": u32(8)},
        {"tokenizer.ggml.model": text("plamo2")},
    ],
)
def test_what_is_not_fully_checked_is_said_to_be(
    tmp_path: Path, changed: dict[str, Value | None]
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(with_keys(model(), changed).encode())
    assert not is_checked(validated_model(path))


@pytest.mark.parametrize(
    "key",
    [
        "general.architecture",
        "llama.block_count",
        "llama.embedding_length",
        "llama.context_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model",
        "tokenizer.ggml.merges",
        TOKENS,
    ],
)
def test_a_key_that_every_model_has_is_missed(tmp_path: Path, key: str) -> None:
    error = refusal(tmp_path, with_keys(model(), {key: None}))
    assert isinstance(error, MissingKey)
    assert error.data["key"] == key


@pytest.mark.parametrize(
    ("arch", "key", "value"),
    [
        ("llama", "block_count", u32(0)),
        ("llama", "block_count", u32(513)),
        ("llama", "block_count", Value(ValueType.UINT64, 2)),
        ("llama", "embedding_length", u32(0)),
        ("llama", "embedding_length_out", u32(32)),
        ("llama", "context_length", u32(0)),
        ("llama", "context_length", u32((1 << 32) - 1)),
        ("llama", "feed_forward_length", array(ValueType.UINT32, [64, 128])),
        ("llama", "feed_forward_length", array(ValueType.UINT32, [64])),
        ("llama", "attention.head_count", u32(0)),
        ("llama", "attention.head_count_kv", u32(0)),
        ("llama", "attention.head_count_kv", u32(3)),
        ("llama", "attention.key_length", u32(0)),
        ("llama", "attention.value_length", u32(16)),
        ("llama", "attention.layer_norm_rms_epsilon", f32(-1.0)),
        ("llama", "attention.layer_norm_rms_epsilon", f32(math.nan)),
        ("llama", "attention.causal", flag(False)),
        ("llama", "pooling_type", u32(9)),
        ("llama", "nextn_predict_layers", u32(1)),
        ("llama", "expert_used_count", u32(2)),
        ("llama", "rope.dimension_count", u32(16)),
        ("llama", "rope.freq_base", f32(math.inf)),
        ("llama", "rope.scaling.type", text("spiral")),
        ("llama", "classifier.output_labels", array(ValueType.STRING, ["yes"])),
        ("llama", "some.rate", f32(math.nan)),
        ("qwen2", "attention.head_count", u32(4)),
        ("gemma3", "rope.dimension_count", u32(31)),
        ("qwen35", "full_attention_interval", u32(0)),
        ("qwen35", "full_attention_interval", u32(1)),
        ("qwen35", "full_attention_interval", u32(100)),
        ("qwen35", "rope.dimension_sections", array(ValueType.INT32, [0, 0, 0, 0])),
        ("qwen35", "rope.dimension_sections", array(ValueType.INT32, [4, 4])),
        ("qwen35", "ssm.conv_kernel", u32(0)),
        ("qwen35", "ssm.group_count", u32(0)),
        ("qwen35", "ssm.group_count", u32(3)),
        ("qwen35", "ssm.inner_size", u32(63)),
        ("qwen35", "ssm.time_step_rank", u32(0)),
        ("qwen35", "nextn_predict_layers", u32(4)),
    ],
)
def test_a_hyperparameter_that_aborts_the_library_is_refused(
    tmp_path: Path, arch: str, key: str, value: Value
) -> None:
    error = refusal(tmp_path, with_keys(model(arch), {f"{arch}.{key}": value}))
    assert isinstance(error, BadKey)


def _drop(made: GgufBytes) -> None:
    made.tensors = [t for t in made.tensors if t.name != "blk.1.attn_k.weight"]


def _transpose(made: GgufBytes) -> None:
    tensor = next(t for t in made.tensors if t.name == "blk.0.attn_k.weight")
    tensor.shape = tensor.shape[::-1]
    tensor.type, tensor.data = GgmlType.F32, bytes(4 * 64 * 32)


def _integer_weight(made: GgufBytes) -> None:
    tensor = next(t for t in made.tensors if t.name == "blk.0.attn_output.weight")
    tensor.type, tensor.data = GgmlType.I32, bytes(4 * 64 * 64)


def _half_norm(made: GgufBytes) -> None:
    tensor = next(t for t in made.tensors if t.name == "output_norm.weight")
    tensor.type, tensor.data = GgmlType.F16, bytes(2 * 64)


def _stranger(made: GgufBytes) -> None:
    made.tensors.append(f32_tensor("blk.0.attn_spin.weight", (64,)))


def _block_too_many(made: GgufBytes) -> None:
    made.tensors.append(f32_tensor("blk.2.attn_norm.weight", (64,)))


def _wrong_bias(made: GgufBytes) -> None:
    made.tensors.append(f32_tensor("blk.0.attn_q.bias", (63,)))


def _wrong_scale(made: GgufBytes) -> None:
    made.tensors.append(Tensor("blk.0.attn_q.scale", (1,), GgmlType.F16, bytes(2)))


def _gap(made: GgufBytes) -> None:
    made.tensors.append(Tensor("rope_freqs.weight", (16,), GgmlType.F32, bytes(320)))
    made.tensors[-1].offset = sum(len(t.data) + -len(t.data) % 32 for t in made.tensors[:-1]) + 256


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_drop, MissingTensor),
        (_transpose, WrongShape),
        (_integer_weight, UnusableType),
        (_half_norm, UnusableType),
        (_stranger, UnexpectedTensor),
        (_block_too_many, UnexpectedTensor),
        (_wrong_bias, WrongShape),
        (_wrong_scale, UnusableType),
        (_gap, BadOffset),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(
    tmp_path: Path, change: Callable[[GgufBytes], None], expected: type[GgufError]
) -> None:
    made = model()
    change(made)
    assert type(refusal(tmp_path, made)) is expected


def test_optional_tensors_pass(tmp_path: Path) -> None:
    made = model()
    made.tensors = [t for t in made.tensors if t.name != "output.weight"]
    made.tensors += [
        f32_tensor("rope_freqs.weight", (16,)),
        f32_tensor("blk.0.attn_q.scale", (1,)),
        f32_tensor("blk.1.ffn_up.bias", (64,)),
    ]
    path = tmp_path / "m.gguf"
    path.write_bytes(made.encode())
    assert is_checked(validated_model(path))


def test_a_vocabulary_that_does_not_match_the_embedding_is_refused(tmp_path: Path) -> None:
    for arch in ("llama", "falcon"):  # checked, and not
        made = model()
        if arch != "llama":
            made.metadata = [(str(k).replace("llama.", f"{arch}."), v) for k, v in made.metadata]
            with_keys(made, {"general.architecture": text(arch)})
        words = [f"t{n}" for n in range(200)]
        kinds = array(ValueType.INT32, [1] * 200)
        with_keys(
            made,
            {TOKENS: array(ValueType.STRING, words), "tokenizer.ggml.token_type": kinds},
        )
        assert isinstance(refusal(tmp_path, made), WrongShape)


def _renamed_tokens(change: dict[int, str]) -> Value:
    value = dict(model().metadata)[TOKENS]
    words = [change.get(number, word) for number, word in enumerate(value.value)]
    return array(ValueType.STRING, words)


@pytest.mark.parametrize(
    "change", [{5: "x", 9: "x"}, {5: "x\0y", 9: "x\0z"}, {5: "[EMPTY_9]", 9: ""}]
)
def test_two_tokens_of_the_same_text_are_refused(tmp_path: Path, change: dict[int, str]) -> None:
    error = refusal(tmp_path, with_keys(model(), {TOKENS: _renamed_tokens(change)}))
    if change[9] == "x":  # "x" is also the token of that byte
        assert error.data["second"] in (9, 120)
    assert isinstance(error, DuplicateToken)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (TOKENS, array(ValueType.STRING, [])),
        (TOKENS, array(ValueType.INT32, [1] * 288)),
        ("tokenizer.ggml.token_type", array(ValueType.INT32, [1] * 287)),
        ("tokenizer.ggml.token_type", array(ValueType.UINT8, [1] * 288)),
        ("tokenizer.ggml.scores", array(ValueType.FLOAT32, [0.0])),
        ("tokenizer.ggml.merges", text("a b")),
        ("tokenizer.ggml.model", text("none")),
        ("tokenizer.ggml.add_bos_token", u32(1)),
    ],
)
def test_a_tokenizer_list_of_the_wrong_kind_is_refused(
    tmp_path: Path, key: str, value: Value
) -> None:
    assert isinstance(refusal(tmp_path, with_keys(model(), {key: value})), BadKey)


def test_a_sentencepiece_vocabulary_must_spell_every_byte(tmp_path: Path) -> None:
    made = tiny_model("llama", blocks=1, width=64, ffn=64, tokenizer="llama")
    words = list(dict(made.metadata)[TOKENS].value)
    words[0xE2] = "<0xE2"
    error = refusal(tmp_path, with_keys(made, {TOKENS: array(ValueType.STRING, words)}))
    assert isinstance(error, BadKey)
    assert "226" in sentence(error)


def test_a_text_prefix_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    made = tiny_model("llama", blocks=1, width=64, ffn=64, vocab=10)
    with_keys(made, {"tokenizer.ggml.add_bos_token": flag(True)})
    assert isinstance(refusal(tmp_path, made), BadKey)
    with_keys(made, {"tokenizer.ggml.bos_token_id": u32(3)})
    path = tmp_path / "good.gguf"
    path.write_bytes(made.encode())
    assert is_checked(validated_model(path))
