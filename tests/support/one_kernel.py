"""A process for one kernel: `python -m tests.support.one_kernel PART DECODER PREFILLER`."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from engine.native import native
from tests.support.sessions import (
    Logits,
    Pair,
    attach,
    decode,
    make_plan,
    open_session,
    prompt,
    read,
    same_bits,
)


def streamed(pair: Pair) -> None:
    """Prints the kernel, and whether odp answers as resident does."""
    session = open_session(pair.decoder, threads=2)
    session.set_attention_tokens(32)

    def outcome(path: str) -> tuple[Logits, list[int], Logits]:
        attach(session, pair, make_plan(path))
        return read(session, prompt(150), with_prefiller=True), *decode(session, 3)

    first, answer, last = outcome("resident")
    products, attentions = native().kernel_products(), native().kernel_attentions()
    other_first, other_answer, other_last = outcome("odp")
    assert native().kernel_products() == 2 * products > 0
    assert native().kernel_attentions() == 2 * attentions > 0
    same = same_bits(first, other_first) and same_bits(last, other_last) and answer == other_answer
    print(native().chosen_kernel(), "same" if same else "different")


def phases(pair: Pair) -> None:
    """Prints a hash of what prefill weights make of a prompt, and of what decoding makes of one."""
    session = open_session(pair.decoder)
    attach(session, pair, make_plan("resident"))
    read_logits = read(session, prompt(40), with_prefiller=True)
    session.keep(0)
    for token in prompt(5):
        session.feed(token)
    for logits in (read_logits, session.logits()):
        print(hashlib.sha256(logits.tobytes()).hexdigest())


if __name__ == "__main__":
    part, decoder, prefiller = sys.argv[1:]
    {"streamed": streamed, "phases": phases}[part](
        Pair(Path(decoder), Path(decoder), Path(prefiller))
    )
