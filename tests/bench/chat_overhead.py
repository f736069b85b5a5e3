"""What a chat session's Python costs per token: `python -m tests.bench.chat_overhead`.

At 150 tokens/s one token takes 6,667 microseconds, so 0.99 of the bare library allows 67.
"""

from __future__ import annotations

import statistics
import time

from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.api.turn import TurnEvent
from engine.chat.session import ChatSession
from tests.support.fake_model import FakeModel

TOKENS = 20_000
ROUNDS = 5
STOPS = ("\nUser:", "<|user|>", "###", "</answer>")


class FastModel(FakeModel):
    """Samples in no time; pieces are words of four letters."""

    def next_token(self) -> int:
        return 120

    def piece(self, token: int) -> bytes:
        return b" the"


def microseconds(stops: tuple[str, ...], reasoning: bool) -> float:
    """The median of several rounds, in microseconds a token, events included."""
    events: list[TurnEvent] = []
    rounds: list[float] = []
    template = None if not reasoning else "{{ messages[0].content }}<think>"
    with ChatSession(FastModel(n_ctx=2 * TOKENS, chat_template=template)) as session:
        for _ in range(ROUNDS):
            events.clear()
            settings = SamplingSettings(max_tokens=TOKENS, stop=stops)
            started = time.perf_counter()
            session.ask([Message(role="user", content="Hi")], settings, "auto", events.append)
            rounds.append((time.perf_counter() - started) / TOKENS * 1e6)
    return statistics.median(rounds)


def main() -> None:
    print(f"plain answer        {microseconds((), reasoning=False):6.2f} us a token")
    print(f"with stop strings   {microseconds(STOPS, reasoning=False):6.2f} us a token")
    print(f"inside reasoning    {microseconds((), reasoning=True):6.2f} us a token")


if __name__ == "__main__":
    main()
