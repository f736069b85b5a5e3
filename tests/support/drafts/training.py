"""Trains the tiny targets and their drafters, measures each drafter's tau, and writes them all.

    python -m tests.support.drafts.training FOLDER

A process of its own: JAX's threads stay out of the tests'.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.drafts import files, networks
from tests.support.drafts.checkpoints import write_checkpoint
from tests.support.drafts.networks import Array, Chain, Features, Params
from tests.support.drafts.shapes import DRAFTED, MEDUSA_HEADS
from tests.support.drafts.text_source import write_text

LENGTH, BATCH, HEAD_STEPS = 64, 16, 300
Loss = Callable[[Params, Array], Array]


def train_all(folder: Path) -> None:
    tau: dict[str, float] = {}
    target = _train_target(networks.qwen3, networks.qwen3_shapes(), steps=500)
    pool = _features(networks.qwen3, target, _sequences(384, seed=2))
    held_out = _features(networks.qwen3, target, _sequences(64, seed=3))
    heads = {
        "medusa": _train_medusa(target, pool),
        "eagle1": _train_chain(networks.Eagle1(), networks.eagle1_shapes(), target, pool, steps=1),
        "eagle3": _train_chain(
            networks.Eagle3(), networks.eagle3_shapes(), target, pool, steps=DRAFTED
        ),
        "dflash": _train_block(target, pool, networks.dflash_shapes()),
        "dspark": _train_block(target, pool, networks.dspark_shapes()),
    }
    for name, params in heads.items():
        drafts = _propose(name, params, target, held_out)
        tau[name] = _tau(networks.qwen3, target, held_out, drafts)

    trunk = _train_target(networks.qwen35, networks.qwen35_shapes(), steps=350)
    pool = _features(networks.qwen35, trunk, _sequences(384, seed=2))
    held_out = _features(networks.qwen35, trunk, _sequences(64, seed=3))
    mtp = _train_chain(networks.Mtp(), networks.mtp_shapes(), trunk, pool, steps=1)
    drafts = _propose("mtp", mtp, trunk, held_out)
    tau["mtp"] = _tau(networks.qwen35, trunk, held_out, drafts)
    commonest = np.full_like(drafts, np.bincount(write_text(20_000, 1)).argmax())
    tau["commonest token"] = _tau(networks.qwen35, trunk, held_out, commonest)

    files.write_qwen3(folder / "target.gguf", _host(target))
    files.write_qwen35(folder / "target-mtp.gguf", _host(trunk | mtp))
    files.write_eagle3(folder / "eagle3.gguf", _host(heads["eagle3"]), _host(target))
    files.write_dflash(folder / "dflash.gguf", _host(heads["dflash"]))
    files.write_dflash(folder / "dspark.gguf", _host(heads["dspark"]))
    for name in ("medusa", "eagle1"):  # the library knows neither; they are converted
        write_checkpoint(folder / name, name, _host(heads[name]))
    _write_expected(folder / "expected.npz", target, trunk, heads, mtp)
    (folder / "tau.json").write_text(json.dumps(tau, indent=1))


# Training


def _fit(loss: Loss, params: Params, steps: int, rate: float, rows: int, seed: int) -> Params:
    """Adam with a cosine schedule. `loss` gets the parameters and row numbers of a batch."""

    @jax.jit
    def update(
        params: Params, first: Params, second: Params, step: Array, batch: Array
    ) -> tuple[Any, ...]:
        value, gradient = jax.value_and_grad(loss)(params, batch)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in gradient.values()))
        gradient = {k: g * jnp.minimum(1.0, 1.0 / norm) for k, g in gradient.items()}
        first = {k: 0.9 * first[k] + 0.1 * g for k, g in gradient.items()}
        second = {k: 0.98 * second[k] + 0.02 * g * g for k, g in gradient.items()}
        now = rate * 0.5 * (1 + jnp.cos(jnp.pi * step / steps)) * jnp.minimum(1.0, step / 20)
        fix = jnp.sqrt(1 - 0.98**step) / (1 - 0.9**step)
        params = {
            k: p - now * fix * first[k] / (jnp.sqrt(second[k]) + 1e-8) for k, p in params.items()
        }
        return params, first, second, value

    random = np.random.default_rng(seed)
    first = second = {k: jnp.zeros_like(p) for k, p in params.items()}
    value = 0.0
    for step in range(1, steps + 1):
        batch = random.integers(0, rows, BATCH)
        params, first, second, value = update(params, first, second, float(step), batch)
    print(f"loss {float(value):.3f} after {steps} steps", flush=True)
    return params


def _train_target(
    forward: Callable[[Params, Array], Features], shapes: dict[str, tuple[int, ...]], steps: int
) -> Params:
    text = jnp.array(write_text(60_000, 1))

    def loss(params: Params, starts: Array) -> Array:
        tokens = text[starts[:, None] + jnp.arange(LENGTH)]
        logits = jax.nn.log_softmax(forward(params, tokens).logits[:, :-1])
        return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], -1))

    return _fit(loss, networks.initial(shapes, 1), steps, 4e-3, len(text) - LENGTH, seed=4)


def _sequences(count: int, seed: int) -> Array:
    return jnp.array(write_text(count * LENGTH, seed).reshape(count, LENGTH))


class _Pool:
    """Sequences and what the target makes of them."""

    def __init__(self, tokens: Array, features: Features) -> None:
        self.tokens, self.features = tokens, features
        self.probabilities = jax.nn.softmax(features.logits)

    def rows(self, batch: Array) -> _Pool:
        f = self.features
        return _Pool(self.tokens[batch], Features(f.taps[batch], f.hidden[batch], f.logits[batch]))

    def anchors(self) -> Features:
        """Features of the positions whose next token is known."""
        f = self.features
        return Features(f.taps[:, :-1], f.hidden[:, :-1], f.logits[:, :-1])


def _features(forward: Callable[[Params, Array], Features], params: Params, tokens: Array) -> _Pool:
    run = jax.jit(lambda p, t: (lambda f: (f.taps, f.hidden, f.logits))(forward(p, t)))
    return _Pool(tokens, Features(*run(params, tokens)))


def _cross_entropy(pool: _Pool, logits: Array, ahead: int) -> Array:
    """How badly `logits` [batch, anchor, token] tell what the target says `ahead` tokens on."""
    wanted = pool.probabilities[:, ahead:]
    return -jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(logits[:, : wanted.shape[1]]), -1))


def _shifted(tokens: Array, ahead: int) -> Array:
    """Each anchor's token `ahead` after the chosen one; at the end, whatever comes around."""
    return jnp.roll(tokens, -1 - ahead, 1)[:, :-1]


def _train_medusa(target: Params, pool: _Pool) -> Params:
    params = networks.initial(networks.medusa_shapes(), 5)
    for head in range(MEDUSA_HEADS):
        params[f"medusa.{head}.0.weight"] *= 0
        params[f"medusa.{head}.output.weight"] = target["output.weight"]

    def loss(params: Params, batch: Array) -> Array:
        rows = pool.rows(batch)
        logits = networks.medusa(params, rows.anchors())
        return sum(0.8**i * _cross_entropy(rows, one, i + 1) for i, one in enumerate(logits))

    return _fit(loss, params, HEAD_STEPS, 4e-3, len(pool.tokens), seed=6)


def _train_chain(
    network: Chain,
    shapes: dict[str, tuple[int, ...]],
    target: Params,
    pool: _Pool,
    steps: int,
) -> Params:
    """`steps` > 1 trains on the drafter's own states, as EAGLE-3 does; EAGLE-1 and MTP see the
    target's alone, and EAGLE-1 also learns to foretell the target's next state."""

    def loss(params: Params, batch: Array) -> Array:
        rows = pool.rows(batch)
        state, seen, total = network.start(params, rows.anchors()), [], jnp.float32(0)
        for step in range(steps):
            chosen = _shifted(rows.tokens, step)
            state, logits = network.step(params, target, chosen, state, seen)
            total += 0.8**step * _cross_entropy(rows, logits, step + 1)
        if isinstance(network, networks.Eagle1):
            distance = jnp.abs(state - rows.features.hidden[:, 1:])
            return 0.1 * total + jnp.mean(
                jnp.where(distance < 1, 0.5 * distance**2, distance - 0.5)
            )
        return total

    return _fit(loss, networks.initial(shapes, 7), HEAD_STEPS, 4e-3, len(pool.tokens), seed=8)


def _train_block(target: Params, pool: _Pool, shapes: dict[str, tuple[int, ...]]) -> Params:
    spark = "markov_w1.weight" in shapes

    def loss(params: Params, batch: Array) -> Array:
        rows = pool.rows(batch)
        chosen = _shifted(rows.tokens, 0)
        hidden, logits = networks.dflash(params, target, rows.anchors(), chosen, _slots(spark))
        total = jnp.float32(0)
        for index in range(DRAFTED):
            slot = index if spark else index + 1
            one = logits[:, :, slot]
            if spark:
                bias, embedded = networks.markov(params, _shifted(rows.tokens, index))
                one = one + bias
                total += 0.2 * _calibration(rows, params, hidden[:, :, slot], embedded, one, index)
            total += 0.8**index * _cross_entropy(rows, one, index + 1)
        return total

    return _fit(loss, networks.initial(shapes, 9), HEAD_STEPS, 4e-3, len(pool.tokens), seed=10)


def _calibration(
    rows: _Pool, params: Params, hidden: Array, embedded: Array, logits: Array, index: int
) -> Array:
    """How badly the confidence head tells the target's probability of the best draft."""
    best = jax.lax.stop_gradient(logits.argmax(-1))
    told = networks.confidence(
        params, jax.lax.stop_gradient(hidden), jax.lax.stop_gradient(embedded)
    )
    wanted = rows.probabilities[:, index + 1 :]
    length = wanted.shape[1]
    wanted = jnp.take_along_axis(wanted, best[:, :length, None], -1)[..., 0]
    told = told[:, :length]
    return jnp.mean(jax.nn.softplus(told) - wanted * told)


def _slots(spark: bool) -> int:
    """DSpark proposes from its anchor's slot as well."""
    return DRAFTED if spark else DRAFTED + 1


# Measuring


def _propose(name: str, params: Params, target: Params, pool: _Pool) -> Any:
    """The greedy drafts [sequence, anchor, DRAFTED] of every anchor."""
    f = pool.features
    run = jax.jit(
        lambda params, target, tokens, *features: _drafts(
            name, params, target, _Pool(tokens, Features(*features))
        )
    )
    return np.asarray(run(params, target, pool.tokens, f.taps, f.hidden, f.logits))


def _drafts(name: str, params: Params, target: Params, pool: _Pool) -> Array:
    features, chosen = pool.anchors(), _shifted(pool.tokens, 0)
    if name == "medusa":
        return jnp.stack([one.argmax(-1) for one in networks.medusa(params, features)], -1)
    drafts = list[Array]()
    if name in ("dflash", "dspark"):
        spark = name == "dspark"
        _, logits = networks.dflash(params, target, features, chosen, _slots(spark))
        previous = chosen
        for index in range(DRAFTED):
            one = logits[:, :, index if spark else index + 1]
            if spark:
                one = one + networks.markov(params, previous)[0]
            previous = one.argmax(-1)
            drafts.append(previous)
        return jnp.stack(drafts, -1)
    network = {"eagle1": networks.Eagle1, "eagle3": networks.Eagle3, "mtp": networks.Mtp}[name]()
    state, seen = network.start(params, features), []
    for _ in range(DRAFTED):
        state, logits = network.step(params, target, chosen, state, seen)
        chosen = logits.argmax(-1)
        drafts.append(chosen)
    return jnp.stack(drafts, -1)


def _tau(
    forward: Callable[[Params, Array], Features], params: Params, pool: _Pool, drafts: Any
) -> float:
    """Mean tokens that one verification yields at temperature 1: the target's own, and each
    draft that it accepts. Exact for each anchor: the product of the target's probabilities."""
    random = np.random.default_rng(11)
    rows = np.repeat(np.arange(len(pool.tokens)), 8)
    anchors = random.integers(12, LENGTH - DRAFTED - 2, len(rows))
    proposed = drafts[rows, anchors]
    tokens = np.array(pool.tokens)[rows]
    for row, (anchor, proposal) in enumerate(zip(anchors, proposed, strict=True)):
        tokens[row, anchor + 2 : anchor + 2 + DRAFTED] = proposal
    logits = jax.jit(lambda p, t: forward(p, t).logits)(params, tokens)
    probabilities = np.asarray(jax.nn.softmax(logits))
    index = np.arange(len(rows))
    survival = np.ones(len(rows))
    total = np.ones(len(rows))
    for step in range(DRAFTED):
        survival = survival * probabilities[index, anchors + 1 + step, proposed[:, step]]
        total += survival
    return float(total.mean())


# Writing


def _host(params: Params) -> dict[str, Any]:
    return {name: np.asarray(value, np.float32) for name, value in params.items()}


def _write_expected(
    path: Path, target: Params, trunk: Params, heads: dict[str, Params], mtp: Params
) -> None:
    """One text, and what every network says of it: what the library has to say as well."""
    said = jax.jit(_expected)(_sequences(1, seed=12), target, trunk, heads, mtp)
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in said.items()}
    np.savez(path, **arrays)


def _expected(
    tokens: Array, target: Params, trunk: Params, heads: dict[str, Params], mtp: Params
) -> dict[str, Array]:
    pool, pool35 = (
        _Pool(tokens, forward(params, tokens))
        for forward, params in ((networks.qwen3, target), (networks.qwen35, trunk))
    )
    chosen = _shifted(tokens, 0)
    said: dict[str, Array] = {
        "tokens": tokens[0],
        "target": pool.features.logits[0],
        "target-mtp": pool35.features.logits[0],
        "medusa": jnp.stack(networks.medusa(heads["medusa"], pool.anchors()), -2)[0],
    }
    for name, network, params, embeddings, one in (
        ("eagle1", networks.Eagle1(), heads["eagle1"], target, pool),
        ("eagle3", networks.Eagle3(), heads["eagle3"], target, pool),
        ("mtp", networks.Mtp(), mtp, trunk, pool35),
    ):
        state = network.start(params, one.anchors())
        said[name] = network.step(params, embeddings, chosen, state, [])[1][0]
    anchors = pool.anchors()
    said["dflash"] = networks.dflash(heads["dflash"], target, anchors, chosen, DRAFTED + 1)[1][0]
    params = heads["dspark"]
    hidden, logits = networks.dflash(params, target, anchors, chosen, DRAFTED)
    columns, sure, previous = list[Array](), list[Array](), chosen
    for slot in range(DRAFTED):
        bias, embedded = networks.markov(params, previous)
        columns.append(logits[:, :, slot] + bias)
        sure.append(jax.nn.sigmoid(networks.confidence(params, hidden[:, :, slot], embedded)))
        previous = columns[-1].argmax(-1)
    said["dspark"] = jnp.stack(columns, 2)[0]
    said["dspark confidence"] = jnp.stack(sure, 2)[0]
    return said


if __name__ == "__main__":
    train_all(Path(sys.argv[1]))
