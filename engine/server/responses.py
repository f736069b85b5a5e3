"""Turns a turn's events into OpenAI's answers, whole or as a stream of chunks."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable

from pydantic import BaseModel

from engine.api.openai import (
    ChatCompletion,
    ChatCompletionChunk,
    Choice,
    ChunkChoice,
    Completion,
    CompletionChoice,
    Delta,
    FinishReason,
    Logprobs,
    PromptDetails,
    SentFunction,
    SentMessage,
    SentToolCall,
    TextLogprobs,
    TokenLogprob,
    TopLogprob,
    Usage,
)
from engine.api.turn import (
    AnswerText,
    ReasoningText,
    TokenChance,
    TokenSampled,
    ToolCallMade,
    TurnEvent,
    TurnReport,
)
from engine.errors import TwofoldError
from engine.server.answers import error_event
from engine.server.job import Job

DONE = "[DONE]"


def usage(report: TurnReport) -> Usage:
    completion = len(report.answer_tokens)
    return Usage(
        prompt_tokens=report.prompt_tokens,
        completion_tokens=completion,
        total_tokens=report.prompt_tokens + completion,
        prompt_tokens_details=PromptDetails(cached_tokens=report.cached_tokens),
        cached_tokens=report.cached_tokens,
        ttft_s=report.ttft_s,
        prefill_tps=report.prefill_tps,
        decode_tps=report.decode_tps,
        path=report.path,
        reason=report.reason,
        reason_code=report.reason_code,
        bytes_read=report.bytes_read,
    )


def finish_reason(report: TurnReport) -> FinishReason:
    """A turn that was cancelled ends like one that was stopped; `twofold` tells them apart."""
    if report.stop_reason in ("length", "context"):
        return "length"
    return "tool_calls" if report.message.tool_calls else "stop"


class LogprobCollector:
    """Gives each text of an answer the tokens that it was made of.

    Text is held back where a stop string or a tag may begin, so tokens and texts do not come in
    step. Tokens of tags, reasoning, calls and stop strings belong to no text and are left out.
    """

    def __init__(self) -> None:
        self._waiting: list[TokenSampled] = []

    def take(self, event: TurnEvent) -> list[TokenSampled]:
        """The tokens of `event`'s text, if it is one of the answer's."""
        if isinstance(event, TokenSampled):
            self._waiting.append(event)
        elif isinstance(event, AnswerText):
            return self._covering(event.text.encode())
        return []

    def _covering(self, text: bytes) -> list[TokenSampled]:
        waiting = [bytes(each.token.bytes) for each in self._waiting]
        start = max(0, b"".join(waiting).rfind(text))
        end = start + len(text)
        taken: list[TokenSampled] = []
        left: list[TokenSampled] = []
        position = 0
        for each, piece in zip(self._waiting, waiting, strict=True):
            if position >= end:
                left.append(each)
            elif position + len(piece) > start:
                taken.append(each)
            position += len(piece)
        self._waiting = left
        return taken


async def _finished(job: Job) -> tuple[TurnReport, list[TokenSampled]]:
    """Waits for the end of a turn. Raises Failed."""
    report: TurnReport | None = None
    collector = LogprobCollector()
    sampled: list[TokenSampled] = []
    async for event in job.events():
        sampled += collector.take(event)
        if isinstance(event, TurnReport):
            report = event
    assert report is not None, "a turn that does not fail ends with its report"
    return report, sampled


# --- chat ----------------------------------------------------------------------------------------


async def chat_completion(job: Job, model: str) -> ChatCompletion:
    """Raises Failed."""
    report, sampled = await _finished(job)
    message = report.message
    return ChatCompletion(
        id=job.id,
        created=int(time.time()),
        model=model,
        choices=[
            Choice(
                message=SentMessage(
                    content=message.content or (None if message.tool_calls else ""),
                    reasoning_content=message.reasoning,
                    tool_calls=[
                        SentToolCall(
                            id=call.id,
                            function=SentFunction(name=call.name, arguments=call.arguments),
                        )
                        for call in message.tool_calls
                    ]
                    or None,
                ),
                logprobs=_logprobs(sampled),
                finish_reason=finish_reason(report),
            )
        ],
        usage=usage(report),
        twofold=report,
    )


def _logprobs(sampled: list[TokenSampled]) -> Logprobs | None:
    if not sampled:
        return None
    return Logprobs(
        content=[
            TokenLogprob(
                **_chance(each.token).model_dump(),
                top_logprobs=[_chance(chance) for chance in each.top],
            )
            for each in sampled
        ]
    )


def _chance(chance: TokenChance) -> TopLogprob:
    return TopLogprob(token=chance.token, bytes=list(chance.bytes), logprob=chance.logprob)


class ChatStream:
    """The chunks of one answer, as JSON texts."""

    def __init__(self, job: Job, model: str, *, include_usage: bool, include_events: bool) -> None:
        self._job = job
        self._model = model
        self._created = int(time.time())
        self._include_usage = include_usage
        self._include_events = include_events
        self._collector = LogprobCollector()
        self._calls = 0

    async def texts(self) -> AsyncGenerator[str]:
        """Ends with `[DONE]`; a failure is an event before it."""
        yield self._chunk(Delta(role="assistant", content=""))
        async for text in _told(self._job, self._texts_of):
            yield text

    def _texts_of(self, event: TurnEvent) -> list[str]:
        sampled = self._collector.take(event)
        if isinstance(event, AnswerText):
            return [self._chunk(Delta(content=event.text), logprobs=_logprobs(sampled))]
        if isinstance(event, ReasoningText):
            return [self._chunk(Delta(reasoning_content=event.text))]
        if isinstance(event, ToolCallMade):
            return [self._call(event)]
        texts: list[str] = []
        if isinstance(event, TurnReport):
            texts.append(self._chunk(Delta(), finish=finish_reason(event)))
        if self._include_events:
            texts.append(self._dump([], twofold=event))
        if isinstance(event, TurnReport) and self._include_usage:
            texts.append(self._dump([], usage=usage(event)))
        return texts

    def _call(self, event: ToolCallMade) -> str:
        call = SentToolCall(
            index=self._calls,
            id=event.call.id,
            function=SentFunction(name=event.call.name, arguments=event.call.arguments),
        )
        self._calls += 1
        return self._chunk(Delta(tool_calls=[call]))

    def _chunk(
        self,
        delta: Delta,
        *,
        logprobs: Logprobs | None = None,
        finish: FinishReason | None = None,
    ) -> str:
        return self._dump([ChunkChoice(delta=delta, logprobs=logprobs, finish_reason=finish)])

    def _dump(
        self,
        choices: list[ChunkChoice],
        *,
        usage: Usage | None = None,
        twofold: TurnEvent | None = None,
    ) -> str:
        chunk = ChatCompletionChunk(
            id=self._job.id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            twofold=twofold,
        )
        return _json(chunk)


# --- completions ---------------------------------------------------------------------------------


async def completion(job: Job, model: str, *, echo: str) -> Completion:
    """`echo` is put before the text. Raises Failed."""
    report, sampled = await _finished(job)
    return Completion(
        id=job.id,
        created=int(time.time()),
        model=model,
        choices=[
            CompletionChoice(
                text=echo + report.message.content,
                logprobs=_text_logprobs(sampled, len(echo)),
                finish_reason=finish_reason(report),
            )
        ],
        usage=usage(report),
        twofold=report,
    )


def _text_logprobs(sampled: list[TokenSampled], offset: int) -> TextLogprobs | None:
    if not sampled:
        return None
    offsets: list[int] = []
    for each in sampled:
        offsets.append(offset)
        offset += len(each.token.token)
    return TextLogprobs(
        tokens=[each.token.token for each in sampled],
        token_logprobs=[each.token.logprob for each in sampled],
        top_logprobs=[{chance.token: chance.logprob for chance in each.top} for each in sampled],
        text_offset=offsets,
    )


class CompletionStream:
    """The chunks of one completion, as JSON texts."""

    def __init__(
        self, job: Job, model: str, *, echo: str, include_usage: bool, include_events: bool
    ) -> None:
        self._job = job
        self._model = model
        self._created = int(time.time())
        self._echo = echo
        self._include_usage = include_usage
        self._include_events = include_events
        self._collector = LogprobCollector()
        self._length = len(echo)

    async def texts(self) -> AsyncGenerator[str]:
        """Ends with `[DONE]`; a failure is an event before it."""
        if self._echo:
            yield self._dump([CompletionChoice(text=self._echo)])
        async for text in _told(self._job, self._texts_of):
            yield text

    def _texts_of(self, event: TurnEvent) -> list[str]:
        sampled = self._collector.take(event)
        if isinstance(event, AnswerText):
            logprobs = _text_logprobs(sampled, self._length)
            self._length += len(event.text)
            return [self._dump([CompletionChoice(text=event.text, logprobs=logprobs)])]
        texts: list[str] = []
        if isinstance(event, TurnReport):
            texts.append(
                self._dump([CompletionChoice(text="", finish_reason=finish_reason(event))])
            )
        if self._include_events:
            texts.append(self._dump([], twofold=event))
        if isinstance(event, TurnReport) and self._include_usage:
            texts.append(self._dump([], usage=usage(event)))
        return texts

    def _dump(
        self,
        choices: list[CompletionChoice],
        *,
        usage: Usage | None = None,
        twofold: TurnEvent | None = None,
    ) -> str:
        chunk = Completion(
            id=self._job.id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            twofold=twofold,
        )
        return _json(chunk)


async def _told(job: Job, texts_of: Callable[[TurnEvent], list[str]]) -> AsyncGenerator[str]:
    """The texts of all events, the failure's if there is one, and the end."""
    try:
        async for event in job.events():
            for text in texts_of(event):
                yield text
    except TwofoldError as error:
        yield error_event(error)
    yield DONE


def _json(chunk: BaseModel) -> str:
    return chunk.model_dump_json(exclude_none=True)
