"""Forward passes of the target and its drafters in JAX, as the pinned library computes them.

Parameters are keyed by their GGUF names and lie as in the file: a linear weight is [out, in].
An anchor is a position t whose next token is already chosen; every drafter proposes what comes
after it, from that token and from the target's features up to t. Arrays are [batch, anchor, ...].
"""
# pyright: reportMissingImports=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tests.support.drafts.shapes import (
    CONV,
    DFLASH_BLOCKS,
    EPS,
    FFN,
    HEAD,
    HEADS,
    INTERVAL,
    KV_HEADS,
    MARKOV_RANK,
    MASK,
    MEDUSA_HEADS,
    QWEN3_BLOCKS,
    QWEN35_BLOCKS,
    ROPE_BASE,
    STATE,
    TAPS,
    VOCAB,
    WIDTH,
)

Array = Any
Params = dict[str, Array]


@dataclass(frozen=True)
class Features:
    """What a pass of the target gives: inputs of the tapped blocks, last hidden state, logits."""

    taps: Array
    hidden: Array
    logits: Array


def rms(x: Array, weight: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * weight


def rope(x: Array, position: Array, *, pairs: bool = False) -> Array:
    """Rotates [..., anchor, head, HEAD]; `pairs` turns neighbours (NORM), else halves (NEOX)."""
    angle = position[..., None, None] * ROPE_BASE ** (-jnp.arange(0, HEAD, 2) / HEAD)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    if pairs:
        a, b = x[..., 0::2], x[..., 1::2]
        turned = jnp.stack([a * cos - b * sin, a * sin + b * cos], -1)
        return turned.reshape(x.shape)
    a, b = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def heads(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:-1], count, HEAD)


def shared(x: Array) -> Array:
    """Key or value heads, one for each query head."""
    return jnp.repeat(x, HEADS // KV_HEADS, -2)


def swiglu(params: Params, prefix: str, x: Array) -> Array:
    gate = x @ params[prefix + "ffn_gate.weight"].T
    return (jax.nn.silu(gate) * (x @ params[prefix + "ffn_up.weight"].T)) @ params[
        prefix + "ffn_down.weight"
    ].T


def attend(q: Array, cache: tuple[Array, Array], own: list[tuple[Array, Array]]) -> Array:
    """Attention of anchor t over the cache up to t, and over what each anchor drafted itself."""
    (k, v), scale = cache, HEAD**-0.5
    causal = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
    scores = [jnp.where(causal, jnp.einsum("bthd,bjhd->bhtj", q, k), -jnp.inf)]
    scores += [jnp.einsum("bthd,bthd->bht", q, key)[..., None] for key, _ in own]
    weights = jax.nn.softmax(scale * jnp.concatenate(scores, -1), -1)
    out = jnp.einsum("bhtj,bjhd->bthd", weights[..., : k.shape[1]], v)
    for index, (_, value) in enumerate(own):
        out += weights[..., k.shape[1] + index].transpose(0, 2, 1)[..., None] * value
    return out.reshape(*out.shape[:2], -1)


# The targets


def qwen3(params: Params, tokens: Array) -> Features:
    x = params["token_embd.weight"][tokens]
    position, taps = jnp.arange(tokens.shape[1]), list[Array]()
    for block in range(QWEN3_BLOCKS):
        if block in TAPS:
            taps.append(x)
        prefix = f"blk.{block}."
        normed = rms(x, params[prefix + "attn_norm.weight"])
        q, k, v = _normed_qkv(params, prefix, normed, position)
        x = x + attend(q, (k, v), []) @ params[prefix + "attn_output.weight"].T
        x = x + swiglu(params, prefix, rms(x, params[prefix + "ffn_norm.weight"]))
    hidden = rms(x, params["output_norm.weight"])
    return Features(jnp.concatenate(taps, -1), hidden, hidden @ params["output.weight"].T)


def qwen35(params: Params, tokens: Array) -> Features:
    x = params["token_embd.weight"][tokens]
    position = jnp.arange(tokens.shape[1])
    for block in range(QWEN35_BLOCKS):
        prefix = f"blk.{block}."
        normed = rms(x, params[prefix + "attn_norm.weight"])
        if (block + 1) % INTERVAL:
            x = x + _delta_net(params, prefix, normed)
        else:
            q, k, v, gate = _gated_qkv(params, prefix, normed, position)
            mixed = attend(q, (k, v), []) * jax.nn.sigmoid(gate)
            x = x + mixed @ params[prefix + "attn_output.weight"].T
        normed = rms(x, params[prefix + "post_attention_norm.weight"])
        x = x + swiglu(params, prefix, normed)
    hidden = rms(x, params["output_norm.weight"])
    return Features(x, hidden, hidden @ params["output.weight"].T)


def _normed_qkv(
    params: Params, prefix: str, x: Array, position: Array
) -> tuple[Array, Array, Array]:
    q = rms(
        heads(x @ params[prefix + "attn_q.weight"].T, HEADS), params[prefix + "attn_q_norm.weight"]
    )
    k, v = _normed_kv(params, prefix, x, position)
    return rope(q, position), k, v


def _normed_kv(params: Params, prefix: str, x: Array, position: Array) -> tuple[Array, Array]:
    k = heads(x @ params[prefix + "attn_k.weight"].T, KV_HEADS)
    k = rope(rms(k, params[prefix + "attn_k_norm.weight"]), position)
    return shared(k), shared(heads(x @ params[prefix + "attn_v.weight"].T, KV_HEADS))


def _gated_qkv(
    params: Params, prefix: str, x: Array, position: Array
) -> tuple[Array, Array, Array, Array]:
    both = (x @ params[prefix + "attn_q.weight"].T).reshape(*x.shape[:-1], HEADS, 2 * HEAD)
    q = rope(rms(both[..., :HEAD], params[prefix + "attn_q_norm.weight"]), position)
    k, v = _normed_kv(params, prefix, x, position)
    return q, k, v, both[..., HEAD:].reshape(*x.shape[:-1], -1)


def _delta_net(params: Params, prefix: str, x: Array) -> Array:
    """Gated delta net: the state forgets by `decay` and learns what it did not predict."""
    qkv = x @ params[prefix + "attn_qkv.weight"].T
    padded = jnp.pad(qkv, ((0, 0), (CONV - 1, 0), (0, 0)))
    kernel = params[prefix + "ssm_conv1d.weight"]
    mixed = sum(padded[:, i : i + x.shape[1]] * kernel[:, i] for i in range(CONV))
    q, k, v = (heads(part, HEADS) for part in jnp.split(jax.nn.silu(mixed), 3, -1))
    q, k = (part * jax.lax.rsqrt(jnp.sum(part * part, -1, keepdims=True) + EPS) for part in (q, k))
    beta = jax.nn.sigmoid(x @ params[prefix + "ssm_beta.weight"].T)
    alpha = x @ params[prefix + "ssm_alpha.weight"].T + params[prefix + "ssm_dt.bias"]
    decay = jnp.exp(jax.nn.softplus(alpha) * params[prefix + "ssm_a"])

    def step(state: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        q, k, v, beta, decay = now
        state = state * decay[..., None, None]
        wrong = (v - jnp.einsum("bhkv,bhk->bhv", state, k)) * beta[..., None]
        state = state + k[..., None] * wrong[..., None, :]
        return state, jnp.einsum("bhkv,bhk->bhv", state, q) * STATE**-0.5

    first = jnp.zeros((x.shape[0], HEADS, STATE, STATE))
    in_time = tuple(jnp.swapaxes(part, 0, 1) for part in (q, k, v, beta, decay))
    out = jnp.swapaxes(jax.lax.scan(step, first, in_time)[1], 0, 1)
    z = heads(x @ params[prefix + "attn_gate.weight"].T, HEADS)
    out = rms(out, params[prefix + "ssm_norm.weight"]) * jax.nn.silu(z)
    return out.reshape(*x.shape[:-1], -1) @ params[prefix + "ssm_out.weight"].T


# Drafters that go on from their own output: one step per token


class Chain:
    """A drafter of one layer. Step s of anchor t stands at position t + s and attends to the
    target's part of the cache up to t and to its own earlier steps."""

    def start(self, params: Params, features: Features) -> Array:
        del params
        return features.hidden

    def join(self, params: Params, embedded: Array, state: Array) -> tuple[Array, Array]:
        """The layer's residual and what its attention reads."""
        raise NotImplementedError

    def qkv(self, params: Params, x: Array, position: Array) -> tuple[Array, Array, Array, Array]:
        raise NotImplementedError

    def finish(self, params: Params, target: Params, x: Array) -> tuple[Array, Array]:
        """From residual and attention to the next state and its logits."""
        raise NotImplementedError

    prefix = "blk.0."

    def step(
        self,
        params: Params,
        target: Params,
        tokens: Array,
        state: Array,
        seen: list[tuple[Array, Array]],
    ) -> tuple[Array, Array]:
        residual, x = self.join(params, target["token_embd.weight"][tokens], state)
        position = jnp.arange(tokens.shape[1]) + len(seen)
        q, k, v, gate = self.qkv(params, x, position)
        seen.append((k, v))
        mixed = attend(q, seen[0], seen[1:]) * gate
        x = residual + mixed @ params[self.prefix + "attn_output.weight"].T
        return self.finish(params, target, x)


class Eagle3(Chain):
    def start(self, params: Params, features: Features) -> Array:
        return features.taps @ params["fc.weight"].T

    def join(self, params: Params, embedded: Array, state: Array) -> tuple[Array, Array]:
        normed = rms(embedded, params["blk.0.attn_norm.weight"])
        return state, jnp.concatenate([normed, rms(state, params["blk.0.attn_norm_2.weight"])], -1)

    def qkv(self, params: Params, x: Array, position: Array) -> tuple[Array, Array, Array, Array]:
        return _plain_qkv(params, x, position, pairs=True)

    def finish(self, params: Params, target: Params, x: Array) -> tuple[Array, Array]:
        x = x + swiglu(params, "blk.0.", rms(x, params["blk.0.ffn_norm.weight"]))
        return x, rms(x, params["output_norm.weight"]) @ target["output.weight"].T


class Eagle1(Chain):
    def join(self, params: Params, embedded: Array, state: Array) -> tuple[Array, Array]:
        x = jnp.concatenate([embedded, state], -1) @ params["fc.weight"].T + params["fc.bias"]
        return x, x

    def qkv(self, params: Params, x: Array, position: Array) -> tuple[Array, Array, Array, Array]:
        return _plain_qkv(params, x, position, pairs=False)

    def finish(self, params: Params, target: Params, x: Array) -> tuple[Array, Array]:
        x = x + swiglu(params, "blk.0.", rms(x, params["blk.0.ffn_norm.weight"]))
        return x, x @ target["output.weight"].T


class Mtp(Chain):
    prefix = f"blk.{QWEN35_BLOCKS}."

    def join(self, params: Params, embedded: Array, state: Array) -> tuple[Array, Array]:
        both = [
            rms(embedded, params[self.prefix + "nextn.enorm.weight"]),
            rms(state, params[self.prefix + "nextn.hnorm.weight"]),
        ]
        x = jnp.concatenate(both, -1) @ params[self.prefix + "nextn.eh_proj.weight"].T
        return x, rms(x, params[self.prefix + "attn_norm.weight"])

    def qkv(self, params: Params, x: Array, position: Array) -> tuple[Array, Array, Array, Array]:
        q, k, v, gate = _gated_qkv(params, self.prefix, x, position)
        return q, k, v, jax.nn.sigmoid(gate)

    def finish(self, params: Params, target: Params, x: Array) -> tuple[Array, Array]:
        x = x + swiglu(
            params, self.prefix, rms(x, params[self.prefix + "post_attention_norm.weight"])
        )
        x = rms(x, params[self.prefix + "nextn.shared_head_norm.weight"])
        return x, x @ target["output.weight"].T


def _plain_qkv(
    params: Params, x: Array, position: Array, *, pairs: bool
) -> tuple[Array, Array, Array, Array]:
    q = heads(x @ params["blk.0.attn_q.weight"].T, HEADS)
    k = heads(x @ params["blk.0.attn_k.weight"].T, KV_HEADS)
    v = heads(x @ params["blk.0.attn_v.weight"].T, KV_HEADS)
    k = shared(rope(k, position, pairs=pairs))
    return rope(q, position, pairs=pairs), k, shared(v), jnp.float32(1)


# Drafters that propose everything at once


def medusa(params: Params, features: Features) -> list[Array]:
    """Logits of each head: head i proposes the token i + 1 after the chosen one."""
    logits = list[Array]()
    for head in range(MEDUSA_HEADS):
        x = features.hidden
        x = x + jax.nn.silu(
            x @ params[f"medusa.{head}.0.weight"].T + params[f"medusa.{head}.0.bias"]
        )
        logits.append(x @ params[f"medusa.{head}.output.weight"].T)
    return logits


def dflash(
    params: Params, target: Params, features: Features, tokens: Array, slots: int
) -> tuple[Array, Array]:
    """Hidden states and logits [batch, anchor, slot, ...] of a block: the anchor's token, then
    masks. Every slot sees the whole block and the target's features up to the anchor."""
    fused = rms(features.taps @ params["fc.weight"].T, params["enc.output_norm.weight"])
    block = jnp.concatenate(
        [tokens[..., None], jnp.full((*tokens.shape, slots - 1), MASK, tokens.dtype)], -1
    )
    x = target["token_embd.weight"][block]
    anchors = jnp.arange(tokens.shape[1])
    inside = anchors[:, None] + 1 + jnp.arange(slots)
    causal = jnp.tril(jnp.ones((tokens.shape[1],) * 2, bool))[:, None, :]
    for layer in range(DFLASH_BLOCKS):
        prefix = f"blk.{layer}."
        k_past, v_past = _normed_kv(params, prefix, fused, anchors)
        q, k, v = _normed_qkv(params, prefix, rms(x, params[prefix + "attn_norm.weight"]), inside)
        past = jnp.where(causal, jnp.einsum("btshd,bjhd->bhtsj", q, k_past), -jnp.inf)
        within = jnp.einsum("btshd,btuhd->bhtsu", q, k)
        weights = jax.nn.softmax(jnp.concatenate([past, within], -1) * HEAD**-0.5, -1)
        mixed = jnp.einsum("bhtsj,bjhd->btshd", weights[..., : tokens.shape[1]], v_past)
        mixed += jnp.einsum("bhtsu,btuhd->btshd", weights[..., tokens.shape[1] :], v)
        x = x + mixed.reshape(*x.shape[:-1], -1) @ params[prefix + "attn_output.weight"].T
        x = x + swiglu(params, prefix, rms(x, params[prefix + "ffn_norm.weight"]))
    x = rms(x, params["output_norm.weight"])
    return x, x @ target["output.weight"].T


def markov(params: Params, previous: Array) -> tuple[Array, Array]:
    """DSpark: the bias that the token before puts on a slot's logits, and its embedding."""
    embedded = params["markov_w1.weight"][previous]
    return embedded @ params["markov_w2.weight"].T, embedded


def confidence(params: Params, hidden: Array, embedded: Array) -> Array:
    """DSpark: the logit that the slot's token is accepted, given that those before it are."""
    joined = jnp.concatenate([hidden, embedded], -1)
    return (joined @ params["conf_proj.weight"].T)[..., 0] + params["conf_proj.bias"][0]


# First values


def initial(shapes: dict[str, tuple[int, ...]], seed: int) -> Params:
    """Norms are one, biases zero, linear weights of variance 1 / inputs."""
    params: Params = {}
    for index, (name, shape) in enumerate(shapes.items()):
        key = jax.random.fold_in(jax.random.key(seed), index)
        if name.endswith("ssm_a"):
            params[name] = -jnp.exp(jnp.linspace(-2.0, 0.0, shape[0]))
        elif "norm" in name:
            params[name] = jnp.ones(shape)
        elif name.endswith("bias"):
            params[name] = jnp.zeros(shape)
        else:
            scale = 0.5 if "token_embd" in name else shape[-1] ** -0.5
            params[name] = jax.random.normal(key, shape) * scale
    return params


def _ffn(prefix: str) -> dict[str, tuple[int, ...]]:
    return {
        prefix + "ffn_gate.weight": (FFN, WIDTH),
        prefix + "ffn_up.weight": (FFN, WIDTH),
        prefix + "ffn_down.weight": (WIDTH, FFN),
    }


def _attention(
    prefix: str, inputs: int = WIDTH, *, gated: bool = False, normed: bool = True
) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        prefix + "attn_q.weight": (HEADS * HEAD * (2 if gated else 1), inputs),
        prefix + "attn_k.weight": (KV_HEADS * HEAD, inputs),
        prefix + "attn_v.weight": (KV_HEADS * HEAD, inputs),
        prefix + "attn_output.weight": (WIDTH, HEADS * HEAD),
    }
    if normed:
        shapes |= {prefix + f"attn_{part}_norm.weight": (HEAD,) for part in "qk"}
    return shapes


_EMBEDDINGS: dict[str, tuple[int, ...]] = {
    "token_embd.weight": (VOCAB, WIDTH),
    "output_norm.weight": (WIDTH,),
    "output.weight": (VOCAB, WIDTH),
}


def qwen3_shapes() -> dict[str, tuple[int, ...]]:
    shapes = dict(_EMBEDDINGS)
    for block in range(QWEN3_BLOCKS):
        prefix = f"blk.{block}."
        shapes |= {prefix + "attn_norm.weight": (WIDTH,), prefix + "ffn_norm.weight": (WIDTH,)}
        shapes |= _attention(prefix) | _ffn(prefix)
    return shapes


def qwen35_shapes() -> dict[str, tuple[int, ...]]:
    shapes = dict(_EMBEDDINGS)
    for block in range(QWEN35_BLOCKS):
        prefix = f"blk.{block}."
        shapes |= _qwen35_norms(prefix) | _ffn(prefix)
        if (block + 1) % INTERVAL == 0:
            shapes |= _attention(prefix, gated=True)
            continue
        shapes |= {
            prefix + "attn_qkv.weight": (3 * HEADS * STATE, WIDTH),
            prefix + "attn_gate.weight": (HEADS * STATE, WIDTH),
            prefix + "ssm_conv1d.weight": (3 * HEADS * STATE, CONV),
            prefix + "ssm_dt.bias": (HEADS,),
            prefix + "ssm_a": (HEADS,),
            prefix + "ssm_beta.weight": (HEADS, WIDTH),
            prefix + "ssm_alpha.weight": (HEADS, WIDTH),
            prefix + "ssm_norm.weight": (STATE,),
            prefix + "ssm_out.weight": (WIDTH, HEADS * STATE),
        }
    return shapes


def _qwen35_norms(prefix: str) -> dict[str, tuple[int, ...]]:
    return {
        prefix + "attn_norm.weight": (WIDTH,),
        prefix + "post_attention_norm.weight": (WIDTH,),
    }


def mtp_shapes() -> dict[str, tuple[int, ...]]:
    prefix = Mtp.prefix
    return {
        prefix + "nextn.eh_proj.weight": (WIDTH, 2 * WIDTH),
        prefix + "nextn.enorm.weight": (WIDTH,),
        prefix + "nextn.hnorm.weight": (WIDTH,),
        prefix + "nextn.shared_head_norm.weight": (WIDTH,),
        **_qwen35_norms(prefix),
        **_attention(prefix, gated=True),
        **_ffn(prefix),
    }


def eagle3_shapes() -> dict[str, tuple[int, ...]]:
    return {
        "fc.weight": (WIDTH, len(TAPS) * WIDTH),
        "output_norm.weight": (WIDTH,),
        "blk.0.attn_norm.weight": (WIDTH,),
        "blk.0.attn_norm_2.weight": (WIDTH,),
        "blk.0.ffn_norm.weight": (WIDTH,),
        **_attention("blk.0.", 2 * WIDTH, normed=False),
        **_ffn("blk.0."),
    }


def eagle1_shapes() -> dict[str, tuple[int, ...]]:
    return {
        "fc.weight": (WIDTH, 2 * WIDTH),
        "fc.bias": (WIDTH,),
        "blk.0.ffn_norm.weight": (WIDTH,),
        **_attention("blk.0.", normed=False),
        **_ffn("blk.0."),
    }


def medusa_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(MEDUSA_HEADS):
        shapes |= {
            f"medusa.{head}.0.weight": (WIDTH, WIDTH),
            f"medusa.{head}.0.bias": (WIDTH,),
            f"medusa.{head}.output.weight": (VOCAB, WIDTH),
        }
    return shapes


def dflash_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (WIDTH, len(TAPS) * WIDTH),
        "enc.output_norm.weight": (WIDTH,),
        "output_norm.weight": (WIDTH,),
    }
    for block in range(DFLASH_BLOCKS):
        prefix = f"blk.{block}."
        shapes |= {prefix + "attn_norm.weight": (WIDTH,), prefix + "ffn_norm.weight": (WIDTH,)}
        shapes |= _attention(prefix) | _ffn(prefix)
    return shapes


def dspark_shapes() -> dict[str, tuple[int, ...]]:
    return {
        **dflash_shapes(),
        "markov_w1.weight": (VOCAB, MARKOV_RANK),
        "markov_w2.weight": (VOCAB, MARKOV_RANK),
        "conf_proj.weight": (1, WIDTH + MARKOV_RANK),
        "conf_proj.bias": (1,),
    }
