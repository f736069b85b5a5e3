"""How long a prompt takes on a path: TTFT(path, T) = max(read floor, compute(T)) + fixed costs.

The maximum is taken for each pass, since a streamed prefiller comes once a pass. Computing has a
part that grows with the tokens and one that grows with the pairs of tokens, which is attention.
"""

from __future__ import annotations

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


def crossover(first: PathCost, second: PathCost, limit: int = _SEARCH_LIMIT) -> int | None:
    """The least prompt length up to `limit` from which `second` is faster than `first`; None if
    it never is. Looked for between powers of two, so that a short dip may go unseen."""

    def faster(tokens: int) -> bool:
        return prompt_seconds(second, tokens) < prompt_seconds(first, tokens)

    slow = 0
    for tokens in (*(length for length in PROMPT_LENGTHS if length < limit), limit):
        if faster(tokens):
            fast = tokens
            while fast - slow > 1:
                middle = (slow + fast) // 2
                slow, fast = (slow, middle) if faster(middle) else (middle, fast)
            return fast
        slow = tokens
    return None
