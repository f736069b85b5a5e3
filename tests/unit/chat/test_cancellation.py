"""A cancellation reaches its own turn and no other."""

from engine.chat.cancellation import Cancellation


def test_it_interrupts_only_while_its_turn_runs() -> None:
    calls: list[str] = []
    cancellation = Cancellation()
    with cancellation.interrupting(lambda: calls.append("interrupted")):
        cancellation.cancel()
    cancellation.cancel()
    assert calls == ["interrupted"]
    assert cancellation.cancelled


def test_it_can_come_before_its_turn() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    assert cancellation.cancelled


def test_an_interrupt_may_cancel_again_as_a_signal_handler_would() -> None:
    cancellation = Cancellation()
    calls: list[int] = []

    def again() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            cancellation.cancel()

    with cancellation.interrupting(again):
        cancellation.cancel()
    assert calls == [0, 1]
