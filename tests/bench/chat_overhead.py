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
        return b" the" if token == 120 else b""


def microseconds(stops: tuple[str, ...], reasoning: bool) -> float:
    """The median of several rounds, in CPU microseconds a token, events included."""
    rounds: list[float] = []
    template = "{{ messages[0].content }}" + ("<think>" if reasoning else "")
    with ChatSession(FastModel(n_ctx=2 * TOKENS, chat_template=template)) as session:
        for _ in range(ROUNDS):
            settings = SamplingSettings(max_tokens=TOKENS, stop=stops)
            started = time.thread_time()
            session.ask([Message(role="user", content="Hi")], settings, "auto", ignore)
            rounds.append((time.thread_time() - started) / TOKENS * 1e6)
    return statistics.median(rounds)


def ignore(event: TurnEvent) -> None:
    del event


def main() -> None:
    print(f"plain answer        {microseconds((), reasoning=False):6.2f} us of CPU a token")
    print(f"with stop strings   {microseconds(STOPS, reasoning=False):6.2f} us of CPU a token")
    print(f"inside reasoning    {microseconds((), reasoning=True):6.2f} us of CPU a token")


if __name__ == "__main__":
    main()
