"""Turns over one cache: what is read, what is reused, how an answer ends, what a cancel leaves."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine import words
from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.api.turn import (
    AnswerText,
    DraftReport,
    Notice,
    PathSetting,
    PrefillProgress,
    TurnEvent,
    TurnReport,
    TurnStarted,
)
from engine.chat.cancellation import Cancellation
from engine.chat.session import ChatSession, ContextOverflow, EmptyConversation
from tests.support.fake_model import CHATML, DiskBroke, FakeModel

SYSTEM = Message(role="system", content="Be brief.")
FIRST = Message(role="user", content="What is a lighthouse, and who keeps it?")
SECOND = Message(role="user", content="And at night?")

Open = Callable[[FakeModel], ChatSession]


@pytest.fixture
def chat() -> Iterator[Open]:
    sessions: list[ChatSession] = []

    def open_session(model: FakeModel) -> ChatSession:
        sessions.append(ChatSession(model))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


def ask(
    session: ChatSession,
    *messages: Message,
    sampling: SamplingSettings | None = None,
    path: PathSetting = "auto",
    on_event: Callable[[TurnEvent], None] | None = None,
    **options: Any,
) -> TurnReport:
    return session.ask(
        messages, sampling or SamplingSettings(), path, on_event or (lambda _: None), **options
    )


def size(*messages: Message) -> int:
    """Tokens of the prompt of these messages, with the answer's header."""
    session = ChatSession(FakeModel())
    with session:
        return ask(session, *messages).prompt_tokens


def test_an_answer_streams_and_the_report_is_the_last_event(chat: Open) -> None:
    events: list[TurnEvent] = []
    report = ask(chat(FakeModel("A tower 🗼.".encode())), FIRST, on_event=events.append)
    shown = "".join(event.text for event in events if isinstance(event, AnswerText))
    assert shown == report.message.content == "A tower 🗼."
    assert events[-1] == report
    assert report.stop_reason == "eos"
    assert bytes(report.answer_tokens).decode() == shown


def test_the_report_counts_what_was_read(chat: Open) -> None:
    report = ask(chat(FakeModel(b"Yes.")), FIRST, path="odp")
    assert (report.path, report.reason) == ("odp", "scripted")
    assert (report.reason_code, report.reason_data) == ("test.scripted", {"by": "the test"})
    assert report.cached_tokens == 0
    assert report.new_tokens == report.prompt_tokens
    assert report.bytes_read == report.prompt_tokens * 10
    assert report.prefill_tps == pytest.approx(10.0)
    assert (report.wait_s, report.prefill_weight_bytes) == (0.5, 100)
    assert report.ttft_s is not None
    assert report.ttft_s > 0
    assert report.decode_tps is not None


def test_events_say_what_will_be_read_and_by_which_path_before_it_is(chat: Open) -> None:
    events: list[TurnEvent] = []
    report = ask(chat(FakeModel(b"Yes.")), FIRST, on_event=events.append)
    started, progress = events[0], events[1]
    assert isinstance(started, TurnStarted)
    assert started.new_tokens == report.prompt_tokens
    assert isinstance(progress, PrefillProgress)
    assert (progress.path, progress.tokens_done) == ("odp", 0)
    done = [event.tokens_done for event in events if isinstance(event, PrefillProgress)]
    assert done == sorted(done)
    assert done[-1] == progress.tokens_total == report.new_tokens


def test_progress_tells_the_rate_and_an_estimate(chat: Open) -> None:
    """The forecast at first, and then what the tokens so far took."""
    events: list[TurnEvent] = []
    ask(chat(FakeModel(b"Yes.", expected_s=9.0)), FIRST, on_event=events.append)
    seen = [event for event in events if isinstance(event, PrefillProgress)]
    assert seen[0].remaining_s == 9.0
    for event in seen[1:]:
        assert event.bytes_per_s == pytest.approx(100.0)  # ten bytes a token, ten tokens a second
        left = event.tokens_total - event.tokens_done
        assert event.remaining_s == pytest.approx(left / 10)
    assert seen[-1].remaining_s == 0
    events.clear()
    ask(chat(FakeModel(b"Yes.")), FIRST, on_event=events.append)
    first = next(event for event in events if isinstance(event, PrefillProgress))
    assert first.remaining_s is None


def test_each_turn_reads_only_what_is_new(chat: Open) -> None:
    model = FakeModel(b"A tower.", b"It shines.")
    session = chat(model)
    first = ask(session, SYSTEM, FIRST)
    second = ask(session, SYSTEM, FIRST, first.message, SECOND)
    assert second.cached_tokens == first.prompt_tokens + len(first.answer_tokens)
    assert len(model.read[1]) == second.new_tokens == second.prompt_tokens - second.cached_tokens
    assert second.message.content == "It shines."


def test_an_edit_of_an_earlier_turn_keeps_what_comes_before_it(chat: Open) -> None:
    model = FakeModel(b"A tower.", b"It shines.", b"A shoe.")
    session = chat(model)
    answer = ask(session, SYSTEM, FIRST).message
    ask(session, SYSTEM, FIRST, answer, SECOND)
    edited = FIRST.model_copy(update={"content": "What is a shoe?"})
    report = ask(session, SYSTEM, edited)
    unchanged = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is a "
    assert report.cached_tokens == len(
        model.tokenize(unchanged, add_special=True, parse_special=True)
    )
    assert report.message.content == "A shoe."


def test_asking_the_same_again_reads_one_token(chat: Open) -> None:
    model = FakeModel(b"A tower.", b"A house with a lamp.")
    session = chat(model)
    ask(session, FIRST)
    again = ask(session, FIRST)
    assert again.new_tokens == 1
    assert again.message.content == "A house with a lamp."


def test_changing_the_path_reads_the_prompt_again(chat: Open) -> None:
    session = chat(FakeModel(b"A.", b"B.", b"C."))
    assert ask(session, FIRST, path="decoder").cached_tokens == 0
    assert ask(session, FIRST, path="odp").cached_tokens == 0
    assert ask(session, FIRST, path="resident").new_tokens == 1


def test_a_model_that_cannot_truncate_goes_on_from_the_end(chat: Open) -> None:
    session = chat(FakeModel(b"A tower.", b"It shines.", can_truncate=False))
    first = ask(session, SYSTEM, FIRST)
    second = ask(session, SYSTEM, FIRST, first.message, SECOND)
    assert second.cached_tokens == first.prompt_tokens + len(first.answer_tokens)


def test_a_model_that_cannot_truncate_regenerates_from_its_checkpoint(chat: Open) -> None:
    model = FakeModel(b"A tower.", b"A house.", can_truncate=False)
    session = chat(model)
    ask(session, SYSTEM, FIRST)
    again = ask(session, SYSTEM, FIRST)
    assert again.new_tokens == len("<|im_start|>assistant\n") - len("<|im_start|>") + 1
    assert again.message.content == "A house."


def test_a_model_that_cannot_truncate_keeps_earlier_turns_over_an_edit(chat: Open) -> None:
    model = FakeModel(b"A tower.", b"It shines.", b"It sleeps.", can_truncate=False)
    session = chat(model)
    first = ask(session, SYSTEM, FIRST)
    ask(session, SYSTEM, FIRST, first.message, SECOND)
    edited = SECOND.model_copy(update={"content": "By day?"})
    report = ask(session, SYSTEM, FIRST, first.message, edited)
    assert report.cached_tokens == first.prompt_tokens + len(first.answer_tokens)
    assert report.message.content == "It sleeps."


def test_the_number_of_checkpoints_is_bounded() -> None:
    model = FakeModel(*[b"Yes."] * 12, can_truncate=False)
    with ChatSession(model, max_checkpoints=3) as session:
        messages: list[Message] = []
        for turn in range(12):
            messages.append(Message(role="user", content=f"Question {turn}"))
            messages.append(ask(session, *messages).message)
            assert len(model.checkpoints()) <= 3


@pytest.mark.parametrize("can_truncate", [True, False])
def test_a_reused_cache_holds_what_a_fresh_one_would(chat: Open, can_truncate: bool) -> None:
    reused = FakeModel(b"A tower.", b"It shines.", b"By day.", can_truncate=can_truncate)
    fresh = FakeModel(b"By day.")
    session = chat(reused)
    answer = ask(session, SYSTEM, FIRST).message
    ask(session, SYSTEM, FIRST, answer, SECOND)
    edited = SECOND.model_copy(update={"content": "And by day?"})
    ask(session, SYSTEM, FIRST, answer, edited)
    ask(chat(fresh), SYSTEM, FIRST, answer, edited)
    assert reused.cached_tokens == fresh.cached_tokens


def test_overflow_is_refused_with_its_numbers_and_nothing_is_read(chat: Open) -> None:
    model = FakeModel(b"A tower.", b"Short.", n_ctx=200)
    session = chat(model)
    long = Message(role="user", content="word " * 40)
    with pytest.raises(ContextOverflow) as caught:
        ask(session, long)
    prompt = size(long)
    assert caught.value.data == {
        "needed": prompt + 50,
        "available": 200,
        "prompt": prompt,
        "reserved": 50,
    }
    assert f"{prompt + 50} tokens" in words.sentence(caught.value)
    assert model.read == []
    assert ask(session, FIRST).stop_reason == "eos"


def test_an_answers_set_length_is_reserved(chat: Open) -> None:
    session = chat(FakeModel(n_ctx=300))
    with pytest.raises(ContextOverflow) as caught:
        ask(session, FIRST, sampling=SamplingSettings(max_tokens=280))
    assert caught.value.data["reserved"] == 280


def test_a_full_context_ends_the_answer_and_says_so(chat: Open) -> None:
    model = FakeModel(endless=True, n_ctx=128)
    report = ask(chat(model), FIRST)
    assert report.stop_reason == "context"
    assert report.prompt_tokens + len(report.answer_tokens) == 128


def test_the_set_length_ends_the_answer(chat: Open) -> None:
    report = ask(chat(FakeModel(endless=True)), FIRST, sampling=SamplingSettings(max_tokens=7))
    assert (report.stop_reason, len(report.answer_tokens)) == ("length", 7)


def test_a_conversation_without_messages_is_refused(chat: Open) -> None:
    with pytest.raises(EmptyConversation):
        ask(chat(FakeModel()))


def test_a_stop_string_ends_the_answer_and_is_not_shown(chat: Open) -> None:
    session = chat(FakeModel(b"One. Two. User: me"))
    report = ask(session, FIRST, sampling=SamplingSettings(stop=(" User:",)))
    assert report.message.content == "One. Two."
    assert (report.stop_reason, report.stop_string) == ("stop", " User:")


def test_what_was_held_back_is_shown_at_the_end(chat: Open) -> None:
    session = chat(FakeModel(b"One. Us"))
    report = ask(session, FIRST, sampling=SamplingSettings(stop=(" User:",)))
    assert (report.message.content, report.stop_reason) == ("One. Us", "eos")


def test_reasoning_is_kept_apart(chat: Open) -> None:
    report = ask(chat(FakeModel(b"<think>\nHm.\n</think>\n\nYes.")), FIRST)
    assert report.message.content == "Yes."
    assert report.message.reasoning == "Hm.\n"
    assert report.reasoning_s is not None


def test_reasoning_opened_by_the_template_is_recognised(chat: Open) -> None:
    template = CHATML.replace("assistant\n", "assistant\n<think>\n")
    report = ask(chat(FakeModel(b"Hm.</think>Yes.", chat_template=template)), FIRST)
    assert (report.message.reasoning, report.message.content) == ("Hm.", "Yes.")


def test_a_cancel_while_reading_stops_it_and_the_next_turn_goes_on(chat: Open) -> None:
    model = FakeModel(b"A tower.")
    session = chat(model)
    cancellation = Cancellation()
    model.before_batch = lambda: cancellation.cancel() if len(model.cached_tokens) >= 32 else None
    report = ask(session, FIRST, cancellation=cancellation)
    assert report.stop_reason == "cancelled"
    assert (report.ttft_s, report.answer_tokens) == (None, [])
    assert 0 < len(model.cached_tokens) < report.prompt_tokens

    model.before_batch = lambda: None
    again = ask(session, FIRST)
    assert again.cached_tokens == 48
    assert again.message.content == "A tower."


def test_a_cancel_before_the_turn_reads_nothing(chat: Open) -> None:
    model = FakeModel(b"A tower.")
    cancellation = Cancellation()
    cancellation.cancel()
    report = ask(chat(model), FIRST, cancellation=cancellation)
    assert (report.stop_reason, report.path, model.read) == ("cancelled", None, [])


def test_a_cancel_that_comes_just_before_reading_is_not_lost(chat: Open) -> None:
    model = FakeModel(b"A tower.")
    cancellation = Cancellation()

    def cancel_at_first_progress(event: TurnEvent) -> None:
        if isinstance(event, PrefillProgress) and event.tokens_done == 0:
            cancellation.cancelled = True  # as if the interrupt had found nobody at work

    report = ask(chat(model), FIRST, cancellation=cancellation, on_event=cancel_at_first_progress)
    assert report.stop_reason == "cancelled"
    assert len(model.cached_tokens) <= 16


def test_a_cancel_while_writing_keeps_the_text_and_the_session(chat: Open) -> None:
    model = FakeModel(b"A tower.", b"It shines.", endless=True)
    session = chat(model)
    cancellation = Cancellation()
    seen: list[str] = []

    def on_event(event: TurnEvent) -> None:
        if isinstance(event, AnswerText):
            seen.append(event.text)
            if len(seen) == 5:
                cancellation.cancel()

    report = ask(session, FIRST, cancellation=cancellation, on_event=on_event)
    assert report.stop_reason == "cancelled"
    assert report.message.content == "".join(seen) == "A tow"
    second = ask(session, FIRST, report.message, SECOND, sampling=SamplingSettings(max_tokens=10))
    assert second.cached_tokens == report.prompt_tokens + 4  # the fifth was not evaluated
    assert second.message.content == "It shines."


def test_a_token_that_is_interrupted_is_not_part_of_the_answer(chat: Open) -> None:
    model = FakeModel(endless=True)
    cancellation = Cancellation()
    tokens = iter(range(100))
    model.before_token = lambda: cancellation.cancel() if next(tokens) == 3 else None
    report = ask(chat(model), FIRST, cancellation=cancellation)
    assert (report.stop_reason, report.message.content) == ("cancelled", "xxx")


def test_an_error_while_reading_passes_through_and_the_next_turn_is_right(chat: Open) -> None:
    model = FakeModel(b"A tower.", b"It shines.")
    session = chat(model)
    first = ask(session, SYSTEM, FIRST)
    model.break_after = 16
    with pytest.raises(DiskBroke):
        ask(session, SYSTEM, FIRST, first.message, SECOND, FIRST)
    report = ask(session, SYSTEM, FIRST, first.message, SECOND)
    assert report.cached_tokens == first.prompt_tokens + len(first.answer_tokens)
    assert report.message.content == "It shines."


def test_a_missing_template_is_a_notice_and_its_end_mark_ends_the_answer(chat: Open) -> None:
    events: list[TurnEvent] = []
    session = chat(FakeModel(b"Yes.<|im_" + b"end|>user", chat_template=None))
    report = ask(session, FIRST, on_event=events.append)
    assert isinstance(events[0], Notice)
    assert events[0].code == "template.fallback"
    assert session.notice == events[0]
    assert (report.message.content, report.stop_reason) == ("Yes.", "stop")
    ask(session, FIRST, on_event=events.append)
    assert sum(isinstance(event, Notice) for event in events) == 1


def test_a_template_with_its_own_bos_gets_no_second_one(chat: Open) -> None:
    model = FakeModel(chat_template="{{ bos_token }}" + CHATML, bos_text="<s>")
    ask(chat(model), FIRST)
    assert model.cached_tokens[:2] == [258, 256]
    model = FakeModel(bos_text="<s>")
    ask(chat(model), FIRST)
    assert model.cached_tokens[:2] == [258, 256]


def test_a_seed_is_drawn_used_and_reported(chat: Open) -> None:
    model = FakeModel(b"A.", b"B.", b"C.")
    session = chat(model)
    drawn = [ask(session, FIRST) for _ in range(2)]
    assert model.settings is not None
    assert model.settings.seed == drawn[1].seed != drawn[0].seed
    assert ask(session, FIRST, sampling=SamplingSettings(seed=7)).seed == 7


def test_the_report_tells_what_drafts_did(chat: Open) -> None:
    model = FakeModel(b"Yes.", b"No.")
    session = chat(model)
    assert ask(session, FIRST).drafts is None
    model.drafts = DraftReport(
        tau=2.5, verifications=2, drafted_tokens=8, accepted_tokens=3, tps=20.0, baseline_tps=10.0
    )
    assert ask(session, SECOND).drafts == model.drafts
