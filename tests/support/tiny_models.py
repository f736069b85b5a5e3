"""Writes tiny random-weight GGUF models that the pinned library loads and runs.

    from tests.support.tiny_models import ARCHS, write_tiny, write_pair

    decoder = write_tiny(tmp_path / "d.gguf", "qwen35")              # 8 blocks, Q8_0
    other = write_tiny(tmp_path / "p.gguf", "qwen35", seed=1)        # same shape, other weights
    d, source = write_pair(tmp_path, "llama", weight_type="Q4_0")    # decoder Q4_0, source F16

`write_pair` is for attribution: the decoder and the source of its prefiller disagree, so a
path that quietly uses the wrong one is caught by its tokens.

Same arguments, same bytes. Heads are 32 wide, so widths are multiples of 64 (NVFP4's block);
K-quants and IQ types need widths that are multiples of 256. The default vocabulary has one
token a byte (any text tokenises; `<|im_start|>`, `<|im_end|>`, `<|endoftext|>` are special)
and a ChatML template; below 259 tokens the library's own "test" tokenizer is used.
Default sizes: 0.8 MB (llama, qwen2, qwen3), 1.1 MB (gemma3), 1.6 MB (qwen35); half with
Q4_0 or NVFP4.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.gguf.types import GgmlType, ValueType
from tests.support.gguf_bytes import GgufBytes, Tensor, Value, array, f32, flag, text, u32

ARCHS = ("llama", "qwen2", "qwen3", "gemma3", "qwen35")
HEAD = 32  # width of an attention head, and of a delta net's state
FULL_ATTENTION_INTERVAL = 4  # qwen35: every fourth block is attention
SLIDING_WINDOW = 64  # gemma3: five blocks in six see this many tokens

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

_DEFAULT_BLOCKS = {"llama": 4, "qwen2": 4, "qwen3": 4, "gemma3": 6, "qwen35": 8}
_NORMAL, _CONTROL, _UNUSED, _BYTE = 1, 3, 5, 6  # llama_token_type


def write_tiny(
    path: Path,
    arch: str,
    *,
    seed: int = 0,
    blocks: int | None = None,
    width: int = 128,
    ffn: int = 256,
    weight_type: str = "Q8_0",
    vocab: int = 288,
    context: int = 32768,
    tokenizer: str | None = None,
    extra: dict[str, Value] | None = None,
) -> Path:
    """Write one model and return `path`.

    `weight_type` names the ggml type of the blocks' linear weights (any that the library can
    quantise to); embedding and output head are F16, everything else F32. `tokenizer` is "gpt2"
    (the default), "llama" (sentencepiece) or "test". `extra` adds or replaces metadata.
    """
    path.write_bytes(
        tiny_model(
            arch,
            seed=seed,
            blocks=blocks,
            width=width,
            ffn=ffn,
            weight_type=weight_type,
            vocab=vocab,
            context=context,
            tokenizer=tokenizer,
            extra=extra,
        ).encode()
    )
    return path


def write_pair(
    folder: Path, arch: str, *, weight_type: str = "Q8_0", source_type: str = "F16", **shape: Any
) -> tuple[Path, Path]:
    """A decoder (seed 0) and a source for its prefiller (seed 1): same shape, other block
    weights; embedding, norms and head are the same, as in a trained prefiller's model."""
    decoder = tiny_model(arch, weight_type=weight_type, **shape)
    source = tiny_model(arch, weight_type=source_type, seed=1, **shape)
    shared = {tensor.name: tensor for tensor in decoder.tensors}
    source.tensors = [
        tensor if _is_block_linear(str(tensor.name)) else shared[tensor.name]
        for tensor in source.tensors
    ]
    paths = folder / f"{arch}-decoder.gguf", folder / f"{arch}-source.gguf"
    for path, model in zip(paths, (decoder, source), strict=True):
        path.write_bytes(model.encode())
    return paths


def tiny_model(
    arch: str,
    *,
    seed: int = 0,
    blocks: int | None = None,
    width: int = 128,
    ffn: int = 256,
    weight_type: str = "Q8_0",
    vocab: int = 288,
    context: int = 32768,
    tokenizer: str | None = None,
    extra: dict[str, Value] | None = None,
) -> GgufBytes:
    """The model as a `GgufBytes`, for tests that change it before writing."""
    if arch not in ARCHS or width % 64 or ffn % 64:
        raise ValueError(f"no tiny model of {arch=}, {width=}, {ffn=}")
    blocks = blocks or _DEFAULT_BLOCKS[arch]
    random = np.random.default_rng(seed)
    metadata = {
        "general.architecture": text(arch),
        "general.name": text(f"tiny {arch} {seed}"),
        **{
            f"{arch}.{key}": value
            for key, value in _hparams(arch, blocks, width, ffn, vocab, context).items()
        },
        **_tokenizer(vocab, tokenizer),
        **(extra or {}),
    }
    tensors = [
        _tensor(arch, name, shape, weight_type, random)
        for name, shape in _shapes(arch, blocks, width, ffn, vocab)
    ]
    return GgufBytes(list(metadata.items()), tensors)


def _hparams(
    arch: str, blocks: int, width: int, ffn: int, vocab: int, context: int
) -> dict[str, Value]:
    heads = width // HEAD
    hparams = {
        "context_length": u32(context),
        "embedding_length": u32(width),
        "block_count": u32(blocks),
        "feed_forward_length": u32(ffn),
        "vocab_size": u32(vocab),
        "attention.head_count": u32(heads),
        "attention.head_count_kv": u32(heads // 2),
        "attention.key_length": u32(HEAD),
        "attention.value_length": u32(HEAD),
        "attention.layer_norm_rms_epsilon": f32(1e-6),
        "rope.dimension_count": u32(HEAD),
        "rope.freq_base": f32(100000.0),
    }
    if arch == "gemma3":
        hparams["attention.sliding_window"] = u32(SLIDING_WINDOW)
    if arch == "qwen35":
        hparams |= {
            "full_attention_interval": u32(FULL_ATTENTION_INTERVAL),
            "rope.dimension_sections": array(ValueType.INT32, [6, 5, 5, 0]),
            "ssm.conv_kernel": u32(4),
            "ssm.state_size": u32(HEAD),
            "ssm.inner_size": u32(width),
            "ssm.time_step_rank": u32(heads),
            "ssm.group_count": u32(heads // 2),
        }
    return hparams


def _shapes(
    arch: str, blocks: int, width: int, ffn: int, vocab: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "token_embd.weight", (width, vocab)
    yield "output_norm.weight", (width,)
    yield "output.weight", (width, vocab)
    for block in range(blocks):
        if arch == "qwen35" and (block + 1) % FULL_ATTENTION_INTERVAL:
            mixer = _delta_net_shapes(width)
        else:
            mixer = _attention_shapes(arch, width)
        shapes: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (width,),
            **mixer,
            "ffn_gate.weight": (width, ffn),
            "ffn_up.weight": (width, ffn),
            "ffn_down.weight": (ffn, width),
        }
        if arch != "qwen35":
            shapes["ffn_norm.weight"] = (width,)
        if arch in ("gemma3", "qwen35"):
            shapes["post_attention_norm.weight"] = (width,)
        if arch == "gemma3":
            shapes["post_ffw_norm.weight"] = (width,)
        for name, shape in shapes.items():
            yield f"blk.{block}.{name}", shape


def _attention_shapes(arch: str, width: int) -> dict[str, tuple[int, ...]]:
    kv = width // 2
    shapes: dict[str, tuple[int, ...]] = {
        # qwen35 keeps each head's output gate next to its query
        "attn_q.weight": (width, 2 * width if arch == "qwen35" else width),
        "attn_k.weight": (width, kv),
        "attn_v.weight": (width, kv),
        "attn_output.weight": (width, width),
    }
    if arch == "qwen2":
        shapes |= {"attn_q.bias": (width,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if arch in ("qwen3", "gemma3", "qwen35"):
        shapes |= {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
    return shapes


def _delta_net_shapes(width: int) -> dict[str, tuple[int, ...]]:
    heads = width // HEAD
    qkv = 2 * width  # half as many key heads as value heads: q and k together are as wide as v
    return {
        "attn_qkv.weight": (width, qkv),
        "attn_gate.weight": (width, width),
        "ssm_conv1d.weight": (4, qkv),
        "ssm_dt.bias": (heads,),
        "ssm_a": (heads,),
        "ssm_beta.weight": (width, heads),
        "ssm_alpha.weight": (width, heads),
        "ssm_norm.weight": (HEAD,),
        "ssm_out.weight": (width, width),
    }


def _is_block_linear(name: str) -> bool:
    part = name.split(".")[-2]
    return (
        name.startswith("blk.")
        and (
            part
            in ("attn_q", "attn_k", "attn_v", "attn_output", "attn_qkv", "attn_gate", "ssm_out")
            or part in ("ffn_gate", "ffn_up", "ffn_down")
        )
        and name.endswith(".weight")
    )


def _tensor(
    arch: str,
    name: str,
    shape: tuple[int, ...],
    weight_type: str,
    random: np.random.Generator,
) -> Tensor:
    values = random.standard_normal(shape[::-1]).astype(np.float32)
    if name == "token_embd.weight":
        type_ = GgmlType.F16
        if arch == "gemma3":  # multiplies what it looks up by sqrt(width)
            values = values / np.float32(np.sqrt(shape[0]))
    elif name == "output.weight":
        # logits of standard deviation 4: a clear winner, and not always the same one
        type_, values = GgmlType.F16, values * np.float32(4 / np.sqrt(shape[0]))
    elif _is_block_linear(name):
        type_, values = GgmlType[weight_type], values * np.float32(1.5 / np.sqrt(shape[0]))
    else:
        type_, values = GgmlType.F32, _small_parameter(name, shape, values)
    return Tensor(name, shape, type_, _encode(values, type_))


def _small_parameter(
    name: str, shape: tuple[int, ...], values: NDArray[np.float32]
) -> NDArray[np.float32]:
    if name.endswith("ssm_a"):
        return -np.exp(values - 3)  # decay: some heads forget within a sentence, some hardly
    if "norm" in name:
        # sharp attention: a prompt's distant tokens still move the answer
        scale = 2.0 if "q_norm" in name or "k_norm" in name else 1.0
        return np.float32(scale) + values * np.float32(0.1)
    if name.endswith("bias"):
        return values * np.float32(0.1)
    return values * np.float32(1 / np.sqrt(shape[0]))


def _encode(values: NDArray[np.float32], type_: GgmlType) -> bytes:
    if type_ is GgmlType.F32:
        return values.tobytes()
    if type_ is GgmlType.F16:
        return values.astype(np.float16).tobytes()
    rows, row_length = values.shape
    if row_length % type_.block.elements:
        raise ValueError(f"a row of {row_length} values does not fit {type_.name}")
    out = ctypes.create_string_buffer(
        rows * row_length // type_.block.elements * type_.block.nbytes
    )
    weights = np.ones(row_length, np.float32)  # importance; some types insist on it
    pointer = ctypes.POINTER(ctypes.c_float)
    _ggml().ggml_quantize_chunk(
        int(type_),
        np.ascontiguousarray(values).ctypes.data_as(pointer),
        out,
        0,
        rows,
        row_length,
        weights.ctypes.data_as(pointer),
    )
    return out.raw


def _ggml() -> Any:
    import llama_cpp  # opens the libraries; the same file below is then the same copy

    folder = Path(llama_cpp.__file__).parent / "lib"
    library = ctypes.CDLL(str(folder / "libggml-base.so.0"))
    floats = ctypes.POINTER(ctypes.c_float)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int,
        floats,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_int64,
        floats,
    ]
    return library


def _tokenizer(vocab: int, kind: str | None) -> dict[str, Value]:
    least = 256 + len(SPECIAL_TOKENS)
    kind = kind or ("gpt2" if vocab >= least else "test")
    if kind == "test":
        return {
            "tokenizer.ggml.model": text("test"),
            "tokenizer.ggml.tokens": array(ValueType.STRING, [f"t{n}" for n in range(vocab)]),
        }
    byte_tokens = _byte_characters() if kind == "gpt2" else [f"<0x{n:02X}>" for n in range(256)]
    fill = vocab - least
    tokens = [*byte_tokens, *SPECIAL_TOKENS, *(f"<|unused_{n}|>" for n in range(fill))]
    byte_kind = _NORMAL if kind == "gpt2" else _BYTE
    kinds = [byte_kind] * 256 + [_CONTROL] * len(SPECIAL_TOKENS) + [_UNUSED] * fill
    keys = {
        "tokenizer.ggml.model": text(kind),
        "tokenizer.ggml.tokens": array(ValueType.STRING, tokens),
        "tokenizer.ggml.token_type": array(ValueType.INT32, kinds),
        "tokenizer.ggml.bos_token_id": u32(256),
        "tokenizer.ggml.eos_token_id": u32(258),
        "tokenizer.ggml.padding_token_id": u32(256),
        "tokenizer.chat_template": text(CHAT_TEMPLATE),
    }
    if kind == "gpt2":
        keys["tokenizer.ggml.pre"] = text("gpt-2")
        keys["tokenizer.ggml.merges"] = array(ValueType.STRING, [])
        keys["tokenizer.ggml.add_bos_token"] = flag(False)
    else:
        keys["tokenizer.ggml.scores"] = array(ValueType.FLOAT32, [0.0] * vocab)
    return keys


def _byte_characters() -> list[str]:
    """GPT-2's printable stand-in for each byte value."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = (256 + n for n in range(256))
    return [chr(byte) if byte in kept else chr(next(moved)) for byte in range(256)]
