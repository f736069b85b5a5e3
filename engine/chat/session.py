"""A chat with one model: each turn reads what is new of the conversation and streams an answer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np

from engine import words
from engine.api.messages import Message, ToolCall
from engine.api.sampling import SamplingSettings
from engine.api.turn import (
    AnswerText,
    DraftReport,
    Notice,
    PathSetting,
    PrefillProgress,
    Reason,
    StopReason,
    TextEvent,
    TokenChance,
    TokenSampled,
    ToolCallMade,
    TurnEvent,
    TurnReport,
    TurnStarted,
)
from engine.chat.cancellation import Cancellation
from engine.chat.model import CANCELLED_TOKEN, Model, PrefillReport, Progress
from engine.chat.prefix import (
    Run,
    accepted_origins,
    add_run,
    checkpoints_to_drop,
    common_prefix,
    cut_runs,
    plan_reuse,
    read_origin,
)
from engine.chat.reasoning import DEFAULT_TAGS, ReasoningTags
from engine.chat.template import ChatTemplate, Rendered
from engine.chat.text_stream import TextStream
from engine.chat.tools import Tools, ToolStream, form_of
from engine.errors import TwofoldError

# Room kept for an answer of no set length, at most a quarter of the context.
ANSWER_RESERVE = 256

# Before this share of a prompt is read, its time is a forecast.
_TELLING_SHARE = 0.05

OnEvent = Callable[[TurnEvent], None]


class ContextOverflow(TwofoldError):
    """The prompt and the answer's reserve exceed the context.

    Data, in tokens: `needed` = `prompt` + `reserved`, and `available`.
    """

    code = "chat.context_overflow"


class EmptyConversation(TwofoldError):
    """There is no message to answer."""

    code = "chat.empty"


class NothingToContinue(TwofoldError):
    """An answer was to be continued, and the last message is no assistant's, or the template does
    not show it as it is."""

    code = "chat.nothing_to_continue"


class NoTools(TwofoldError):
    """Tools were given, and the model's template does not pass them on."""

    code = "chat.no_tools"


@dataclass
class _Turn:
    """One turn's running account."""

    settings: SamplingSettings
    on_event: OnEvent
    cancellation: Cancellation
    stream: TextStream
    started: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    room: int = 0
    prefill: PrefillReport | None = None
    tokens: list[int] = field(default_factory=list[int])
    first_token_at: float | None = None
    last_token_at: float | None = None
    drafts: DraftReport | None = None
    answer: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    reasoning_from: float | None = None
    reasoning_to: float | None = None

    def emit(self, events: Sequence[TextEvent]) -> None:
        for event in events:
            now = time.perf_counter()
            if isinstance(event, AnswerText):
                self.answer.append(event.text)
            elif isinstance(event, ToolCallMade):
                self.calls.append(event.call)
            else:
                self.reasoning.append(event.text)
                self.reasoning_from = self.reasoning_from or now
                self.reasoning_to = now
            self.on_event(event)

    def report(self, stop_reason: StopReason) -> TurnReport:
        prefill = self.prefill
        first, last = self.first_token_at, self.last_token_at
        decode_s = last - first if first is not None and last is not None else 0.0
        read = prefill.tokens if prefill else 0
        read_s = prefill.seconds if prefill else 0.0
        return TurnReport(
            message=Message(
                role="assistant",
                content="".join(self.answer),
                reasoning="".join(self.reasoning) or None,
                tool_calls=tuple(self.calls),
            ),
            stop_reason=stop_reason,
            stop_string=self.stream.stopped_by,
            path=prefill.path if prefill else None,
            **(_said(prefill.reason) if prefill else {}),
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            new_tokens=self.prompt_tokens - self.cached_tokens,
            answer_tokens=self.tokens,
            seed=self.settings.seed or 0,
            ttft_s=first - self.started if first is not None else None,
            prefill_s=read_s,
            prefill_tps=read / read_s if read_s > 0 else None,
            decode_tps=(len(self.tokens) - 1) / decode_s if decode_s > 0 else None,
            reasoning_s=(
                self.reasoning_to - self.reasoning_from
                if self.reasoning_from is not None and self.reasoning_to is not None
                else None
            ),
            bytes_read=prefill.bytes_read if prefill else 0,
            wait_s=prefill.wait_s if prefill else 0.0,
            prefill_weight_bytes=prefill.weight_bytes if prefill else 0,
            drafts=self.drafts,
        )


class ChatSession:
    """Answers conversations with one model, reusing what its cache holds.

    Lives on the model's owner thread; only a turn's Cancellation may be used from another. A turn
    that is cancelled or fails leaves the session usable: the next one starts from what the model
    says is cached. `max_checkpoints` bounds the saved states of a model that cannot truncate.
    """

    def __init__(
        self,
        model: Model,
        *,
        tags: Sequence[ReasoningTags] = DEFAULT_TAGS,
        max_checkpoints: int = 8,
    ) -> None:
        self._model = model
        self._template = ChatTemplate(
            model.chat_template, bos_text=model.bos_text, eos_text=model.eos_text
        )
        self._tags = tags
        self._max_checkpoints = max_checkpoints
        self._runs: list[Run] = []
        warning = self._template.fallback
        # What the user should know about this model; the first turn's events carry it too.
        self.notice = _notice(warning) if warning is not None else None
        self._noticed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the template's process; the model stays its owner's."""
        self._template.close()

    @property
    def template(self) -> str:
        """The chat template's source, as it is used."""
        return self._template.source

    def ask(
        self,
        messages: Sequence[Message],
        sampling: SamplingSettings,
        path_setting: PathSetting,
        on_event: OnEvent,
        *,
        cancellation: Cancellation | None = None,
        template_options: Mapping[str, Any] | None = None,
        tools: Tools = (),
        continue_last: bool = False,
    ) -> TurnReport:
        """Streams the answer to `messages` through `on_event`; its report is the last event.

        `continue_last` goes on with the last message, the assistant's; the report's message has
        what was added. Raises EmptyConversation, ContextOverflow, NothingToContinue, NoTools, the
        template's errors, and the model's.
        """
        started = time.perf_counter()
        if not messages:
            raise EmptyConversation
        if self.notice is not None and not self._noticed:
            on_event(self.notice)
            self._noticed = True
        if tools and "tools" not in self._template.source:
            raise NoTools
        form = form_of(self._template.source) if tools else None

        def render(*, answer: bool = True) -> Rendered:
            return self._template.render(
                messages, add_generation_prompt=answer, options=template_options, tools=tools
            )

        rendered = _continued(messages, render(answer=False)) if continue_last else render()
        prompt = self._tokens(rendered.text, rendered.add_special)
        boundary = None
        if not self._model.can_truncate:
            boundary = self._last_message_end(render(answer=False), prompt)
        stream = TextStream(
            prompt=rendered.text,
            stops=sampling.stop,
            template_stops=self._template.stops,
            tags=self._tags,
            tools=ToolStream(form, tools) if form else None,
        )
        return self._take_turn(
            started, prompt, stream, sampling, path_setting, on_event, cancellation, boundary
        )

    def complete(
        self,
        text: str,
        sampling: SamplingSettings,
        path_setting: PathSetting,
        on_event: OnEvent,
        *,
        cancellation: Cancellation | None = None,
    ) -> TurnReport:
        """Goes on with `text` as it is, with no template: see `ask`."""
        started = time.perf_counter()
        prompt = self._tokens(text, add_special=True)
        if not prompt:
            raise EmptyConversation
        stream = TextStream(stops=sampling.stop, tags=())
        return self._take_turn(
            started, prompt, stream, sampling, path_setting, on_event, cancellation, None
        )

    def _take_turn(
        self,
        started: float,
        prompt: list[int],
        stream: TextStream,
        sampling: SamplingSettings,
        path_setting: PathSetting,
        on_event: OnEvent,
        cancellation: Cancellation | None,
        boundary: int | None,
    ) -> TurnReport:
        """Reads `prompt` and writes the answer. `boundary`: where to save the model's state."""
        if sampling.seed is None:
            sampling = sampling.model_copy(update={"seed": secrets.randbelow(2**32)})
        turn = _Turn(
            settings=sampling,
            on_event=on_event,
            cancellation=cancellation or Cancellation(),
            stream=stream,
            started=started,
            prompt_tokens=len(prompt),
            room=self._room(len(prompt), sampling.max_tokens),
        )
        with turn.cancellation.interrupting(self._model.cancel):
            stop_reason = self._read(turn, prompt, path_setting, boundary) or self._write(turn)
        report = turn.report(stop_reason)
        on_event(report)
        return report

    def _tokens(self, text: str, add_special: bool) -> list[int]:
        return self._model.tokenize(text, add_special=add_special, parse_special=True)

    def _room(self, prompt: int, max_tokens: int | None) -> int:
        """The most tokens the answer may have. Raises ContextOverflow."""
        available = self._model.n_ctx
        reserved = max_tokens or min(ANSWER_RESERVE, available // 4)
        if prompt + reserved > available:
            raise ContextOverflow(
                needed=prompt + reserved, available=available, prompt=prompt, reserved=reserved
            )
        return max_tokens or available - prompt

    def _last_message_end(self, closed: Rendered, prompt: list[int]) -> int:
        """How many of the prompt's tokens come before the answer's own header.

        `closed` is the conversation without it. The next prompt shares at least these, whatever
        the template makes of the answer.
        """
        shared = common_prefix(self._tokens(closed.text, closed.add_special), prompt)
        return min(shared, len(prompt) - 1)

    def _read(
        self, turn: _Turn, prompt: list[int], setting: PathSetting, boundary: int | None
    ) -> StopReason | None:
        """Brings `prompt` into the cache; gives a reason if the turn ends here."""
        model = self._model
        cached = model.cached_tokens
        reuse = plan_reuse(
            cached,
            cut_runs(self._runs, len(cached)),
            prompt,
            accept=accepted_origins(setting),
            can_truncate=model.can_truncate,
            checkpoints=model.checkpoints(),
        )
        kept = model.keep(reuse.keep)
        self._runs = cut_runs(self._runs, kept)
        turn.cached_tokens = kept
        turn.on_event(
            TurnStarted(
                prompt_tokens=len(prompt),
                cached_tokens=kept,
                new_tokens=len(prompt) - kept,
                context_tokens=model.n_ctx,
            )
        )
        parts = [prompt[kept:]]
        if boundary is not None:
            self._checkpoint()
            if kept < boundary:
                parts = [prompt[kept:boundary], prompt[boundary:]]
        for part in parts:
            if turn.cancellation.cancelled:
                return "cancelled"
            self._prefill(turn, part, setting)
            if turn.prefill is not None and turn.prefill.cancelled:
                return "cancelled"
            if boundary is not None and part is not parts[-1]:
                self._checkpoint()
        return None

    def _prefill(self, turn: _Turn, tokens: list[int], setting: PathSetting) -> None:
        """Reads one part of the prompt and adds it to the turn's account."""
        before = turn.prefill
        total = turn.prompt_tokens - turn.cached_tokens
        is_tail = before is not None and before.tokens >= len(tokens)

        def on_progress(progress: Progress) -> None:
            if turn.cancellation.cancelled:
                self._model.cancel()  # in case it came before the model was listening
            done = progress.tokens_done + (before.tokens if before else 0)
            seconds = progress.seconds + (before.seconds if before else 0.0)
            turn.on_event(
                PrefillProgress(
                    path=before.path if before and is_tail else progress.path,
                    **_said(before.reason if before and is_tail else progress.reason),
                    tokens_done=done,
                    tokens_total=total,
                    block=progress.block,
                    blocks=progress.blocks,
                    bytes_read=progress.bytes_read + (before.bytes_read if before else 0),
                    seconds=seconds,
                    bytes_per_s=progress.bytes_read / progress.seconds if progress.seconds else 0,
                    remaining_s=_remaining(progress, done, total, seconds),
                )
            )

        report = self._model.prefill(tokens, path=setting, on_progress=on_progress)
        known = sum(run.length for run in self._runs)
        arrived = len(self._model.cached_tokens) - known
        self._runs = add_run(self._runs, arrived, read_origin(setting, report.path))
        turn.prefill = _joined(before, report) if before else report

    def _checkpoint(self) -> None:
        """Saves the state where the cache ends now, and gives up the least useful ones."""
        model = self._model
        here = len(model.cached_tokens)
        if here == 0 or here in model.checkpoints():
            return
        model.save_checkpoint()
        for position in checkpoints_to_drop(model.checkpoints(), self._max_checkpoints):
            model.drop_checkpoint(position)

    def _write(self, turn: _Turn) -> StopReason:
        """Samples until something ends the answer."""
        self._model.start_sampling(turn.settings)
        if turn.settings.grammar is not None and not turn.stream.in_reasoning:
            self._model.constrain(turn.settings.grammar)
        try:
            stop_reason = self._decode(turn)
        finally:
            known = sum(run.length for run in self._runs)
            written = len(self._model.cached_tokens) - known
            self._runs = add_run(self._runs, written, "answer")
            turn.drafts = self._model.draft_report()
        turn.emit(turn.stream.flush())
        return stop_reason

    def _chances(self, token: int, count: int) -> TokenSampled:
        """What the model thought of `token`, and of the `count` likeliest."""
        logits = self._model.logits().astype(np.float64)
        peak = logits.max()
        chances = logits - (peak + np.log(np.exp(logits - peak).sum()))
        likeliest = np.argsort(-chances)[:count] if count else ()

        def chance(each: int) -> TokenChance:
            piece = self._model.piece(each)
            return TokenChance(
                token=piece.decode("utf-8", "replace"),
                bytes=tuple(piece),
                logprob=max(-9999.0, float(chances[each])),
            )

        return TokenSampled(token=chance(token), top=tuple(chance(int(each)) for each in likeliest))

    def _decode(self, turn: _Turn) -> StopReason:
        """The loop that runs once a token: everything it needs is at hand."""
        next_token = self._model.next_token
        is_end = self._model.is_end_of_generation
        piece = self._model.piece
        clock = time.perf_counter
        cancellation, stream, tokens = turn.cancellation, turn.stream, turn.tokens
        feed, emit, room = stream.feed, turn.emit, turn.room
        logprobs = turn.settings.logprobs
        # A grammar is for the answer: it waits for reasoning that the prompt has opened.
        waiting = turn.settings.grammar if stream.in_reasoning else None
        while not cancellation.cancelled:
            token = next_token()
            if token == CANCELLED_TOKEN:
                return "cancelled"
            turn.last_token_at = clock()
            if turn.first_token_at is None:
                turn.first_token_at = turn.last_token_at
            if is_end(token):
                return "eos"
            tokens.append(token)
            if logprobs is not None:
                turn.on_event(self._chances(token, logprobs))
            events = feed(piece(token))
            if waiting is not None and not stream.in_reasoning:
                self._model.constrain(waiting)
                waiting = None
            if events:
                emit(events)
            if stream.stopped_by is not None:
                return "stop"
            if len(tokens) >= room:
                return "length" if turn.settings.max_tokens is not None else "context"
        return "cancelled"


def _continued(messages: Sequence[Message], closed: Rendered) -> Rendered:
    """The prompt up to the end of the last message's text. Raises NothingToContinue."""
    last = messages[-1]
    text = last.content.rstrip()
    at = closed.text.rfind(text) if last.role == "assistant" and text else -1
    if at < 0:
        raise NothingToContinue
    return Rendered(closed.text[: at + len(text)], closed.add_special)


def _remaining(progress: Progress, done: int, total: int, seconds: float) -> float | None:
    """By the tokens that were read; the first moments say little, and the forecast more."""
    if done > total * _TELLING_SHARE:
        return seconds * (total - done) / done
    return None if progress.expected_s is None else max(0.0, progress.expected_s - progress.seconds)


def _said(reason: Reason) -> dict[str, Any]:
    """A reason as events carry it."""
    return {"reason": reason.sentence, "reason_code": reason.code, "reason_data": reason.data}


def _notice(warning: TwofoldError) -> Notice:
    return Notice(code=warning.code, sentence=words.sentence(warning), data=warning.data)


def _joined(first: PrefillReport, second: PrefillReport) -> PrefillReport:
    """Two parts of one prompt as one; the path is the longer part's."""
    longer = first if first.tokens >= second.tokens else second
    return PrefillReport(
        path=longer.path,
        reason=longer.reason,
        tokens=first.tokens + second.tokens,
        seconds=first.seconds + second.seconds,
        bytes_read=first.bytes_read + second.bytes_read,
        wait_s=first.wait_s + second.wait_s,
        load_s=first.load_s + second.load_s,
        weight_bytes=max(first.weight_bytes, second.weight_bytes),
        cancelled=second.cancelled,
    )
