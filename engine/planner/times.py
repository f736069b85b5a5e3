"""How long a prompt takes on a path: TTFT(path, T) = max(read floor, compute(T)) + fixed costs.

The maximum is taken for each pass, since a streamed prefiller comes once a pass. Computing has a
part that grows with the tokens and one that grows with the pairs of tokens, which is attention.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.api.plan import PROMPT_LENGTHS, PathCost

# Starting a pass costs as much as so many of its tokens: narrow products are less efficient.
PASS_TOKENS = 16

_SEARCH_LIMIT = PROMPT_LENGTHS[-1]


def prompt_seconds(cost: PathCost, tokens: int, cached: int = 0) -> float:
    """Seconds to the first token for `tokens` read after `cached` ones."""
    if tokens <= 0:
        return cost.fixed_s
    passes = -(-tokens // cost.micro_batch)
    width, wider = divmod(tokens, passes)
    seconds, done = cost.fixed_s, cached
    for index in range(passes):
        end = done + width + (index < wider)
        compute = cost.token_s * (end - done + PASS_TOKENS)
        compute += cost.token2_s * (end * end - done * done)
        seconds += max(cost.pass_s, compute)
        done = end
    return seconds


def ever_faster(first: PathCost, second: PathCost, limit: int = _SEARCH_LIMIT) -> bool:
    """Whether `second` is faster than `first` at any of PROMPT_LENGTHS or at a whole pass."""
    lengths = (*PROMPT_LENGTHS, second.micro_batch, limit)
    return any(_gains(first, second, tokens) for tokens in lengths if tokens <= limit)


def crossover(first: PathCost, second: PathCost, limit: int = _SEARCH_LIMIT) -> int | None:
    """The least prompt length from which on, up to `limit`, `second` is faster than `first`; None
    if it is not faster at `limit`.

    A prompt that begins a new pass for a few tokens pays for a whole one, so `second` may be
    faster for some shorter lengths too. The more passes there are the less that matters.
    """
    if not _gains(first, second, limit):
        return None
    width = second.micro_batch

    def begins_well(index: int) -> bool:
        return _gains(first, second, index * width + 1)

    # The first pass that already pays with its first token, and the one before it.
    paying = _least(begins_well, 0, -(-limit // width))
    if paying == 0:
        return 1
    begin, end = (paying - 1) * width + 1, min(paying * width, limit)
    return _least(lambda tokens: _gains(first, second, tokens), begin, end + 1)


def _gains(first: PathCost, second: PathCost, tokens: int) -> bool:
    return prompt_seconds(second, tokens) < prompt_seconds(first, tokens)


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number from `low` on for which `holds`, if it holds from there on; else `high`."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
