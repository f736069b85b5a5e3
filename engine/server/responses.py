"""Turns a turn's events into OpenAI's answers, whole or as a stream of chunks."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from typing import Generic, TypeVar

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
from engine.server.job import Answers, Job
from engine.worker.protocol import Complete

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
        drafts=report.drafts,
    )


def usage_of(reports: Sequence[TurnReport], n: int) -> Usage:
    """Of all answers to one request, `n` to each prompt, which counts once. How a prompt was read
    is the first answer's."""
    first = usage(reports[0])
    prompts = sum(report.prompt_tokens for report in reports[::n])
    written = sum(len(report.answer_tokens) for report in reports)
    counts = {
        "prompt_tokens": prompts,
        "completion_tokens": written,
        "total_tokens": prompts + written,
        "bytes_read": sum(report.bytes_read for report in reports),
    }
    return first.model_copy(update=counts)


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


async def chat_completion(answers: Answers, model: str) -> ChatCompletion:
    """Raises Failed."""
    reports: list[TurnReport] = []
    choices: list[Choice] = []
    async for job in answers.jobs():
        report, sampled = await _finished(job)
        choices.append(_choice(report, sampled, len(reports)))
        reports.append(report)
    return ChatCompletion(
        id=answers.id,
        created=int(time.time()),
        model=model,
        choices=choices,
        usage=usage_of(reports, answers.n),
        twofold=reports[0],
    )


def _choice(report: TurnReport, sampled: list[TokenSampled], index: int) -> Choice:
    message = report.message
    calls = [
        SentToolCall(id=call.id, function=SentFunction(name=call.name, arguments=call.arguments))
        for call in message.tool_calls
    ]
    return Choice(
        index=index,
        message=SentMessage(
            content=message.content or (None if calls else ""),
            reasoning_content=message.reasoning,
            tool_calls=calls or None,
        ),
        logprobs=_logprobs(sampled),
        finish_reason=finish_reason(report),
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


C = TypeVar("C", ChunkChoice, CompletionChoice)


class _Stream(ABC, Generic[C]):
    """The chunks of one request's answers, one after the other, as JSON texts."""

    def __init__(
        self, answers: Answers, model: str, *, include_usage: bool, include_events: bool
    ) -> None:
        self._answers = answers
        self._model = model
        self._created = int(time.time())
        self._include_usage = include_usage
        self._include_events = include_events
        self._reports: list[TurnReport] = []
        self._collector = LogprobCollector()

    @property
    def _index(self) -> int:
        """The answer that is being written."""
        return len(self._reports)

    async def texts(self) -> AsyncGenerator[str]:
        """Ends with `[DONE]`; a failure is an event before it."""
        try:
            async for job in self._answers.jobs():
                self._collector = LogprobCollector()
                for text in self._beginning():
                    yield text
                async for event in job.events():
                    for text in self._told(event):
                        yield text
            if self._include_usage:
                yield self._usage(usage_of(self._reports, self._answers.n))
        except TwofoldError as error:
            yield error_event(error)
        yield DONE

    def _told(self, event: TurnEvent) -> list[str]:
        texts = self._texts_of(event, self._collector.take(event))
        if self._include_events:
            texts.append(self._event(event))
        if isinstance(event, TurnReport):
            self._reports.append(event)
        return texts

    @abstractmethod
    def _beginning(self) -> list[str]: ...

    @abstractmethod
    def _texts_of(self, event: TurnEvent, sampled: list[TokenSampled]) -> list[str]: ...

    def _event(self, event: TurnEvent) -> str:
        return self._dump([], twofold=event)

    def _usage(self, usage: Usage) -> str:
        return self._dump([], usage=usage)

    @abstractmethod
    def _dump(
        self,
        choices: list[C],
        *,
        usage: Usage | None = None,
        twofold: TurnEvent | None = None,
    ) -> str: ...


class ChatStream(_Stream[ChunkChoice]):
    _calls = 0

    def _beginning(self) -> list[str]:
        self._calls = 0
        return [self._chunk(Delta(role="assistant", content=""))]

    def _texts_of(self, event: TurnEvent, sampled: list[TokenSampled]) -> list[str]:
        if isinstance(event, AnswerText):
            return [self._chunk(Delta(content=event.text), logprobs=_logprobs(sampled))]
        if isinstance(event, ReasoningText):
            return [self._chunk(Delta(reasoning_content=event.text))]
        if isinstance(event, ToolCallMade):
            return [self._call(event)]
        if isinstance(event, TurnReport):
            return [self._chunk(Delta(), finish=finish_reason(event))]
        return []

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
        choice = ChunkChoice(
            index=self._index, delta=delta, logprobs=logprobs, finish_reason=finish
        )
        return self._dump([choice])

    def _dump(
        self,
        choices: list[ChunkChoice],
        *,
        usage: Usage | None = None,
        twofold: TurnEvent | None = None,
    ) -> str:
        chunk = ChatCompletionChunk(
            id=self._answers.id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            twofold=twofold,
        )
        return _json(chunk)


# --- completions ---------------------------------------------------------------------------------


async def completion(answers: Answers, model: str, *, echo: bool) -> Completion:
    """`echo` puts each prompt before its text. Raises Failed."""
    reports: list[TurnReport] = []
    choices: list[CompletionChoice] = []
    async for job in answers.jobs():
        report, sampled = await _finished(job)
        before = _prompt(job) if echo else ""
        choice = CompletionChoice(
            index=len(reports),
            text=before + report.message.content,
            logprobs=_text_logprobs(sampled, len(before)),
            finish_reason=finish_reason(report),
        )
        choices.append(choice)
        reports.append(report)
    return Completion(
        id=answers.id,
        created=int(time.time()),
        model=model,
        choices=choices,
        usage=usage_of(reports, answers.n),
        twofold=reports[0],
    )


def _prompt(job: Job) -> str:
    return job.command.prompt if isinstance(job.command, Complete) else ""


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


class CompletionStream(_Stream[CompletionChoice]):
    """`echo` puts each prompt before its text."""

    def __init__(
        self,
        answers: Answers,
        model: str,
        *,
        echo: bool,
        include_usage: bool,
        include_events: bool,
    ) -> None:
        super().__init__(answers, model, include_usage=include_usage, include_events=include_events)
        self._echo = echo
        self._length = 0

    def _beginning(self) -> list[str]:
        before = _prompt(self._answers.job) if self._echo else ""
        self._length = len(before)
        return [self._chunk(before)] if before else []

    def _texts_of(self, event: TurnEvent, sampled: list[TokenSampled]) -> list[str]:
        if isinstance(event, AnswerText):
            logprobs = _text_logprobs(sampled, self._length)
            self._length += len(event.text)
            return [self._chunk(event.text, logprobs=logprobs)]
        if isinstance(event, TurnReport):
            return [self._chunk("", finish=finish_reason(event))]
        return []

    def _chunk(
        self,
        text: str,
        *,
        logprobs: TextLogprobs | None = None,
        finish: FinishReason | None = None,
    ) -> str:
        choice = CompletionChoice(
            index=self._index, text=text, logprobs=logprobs, finish_reason=finish
        )
        return self._dump([choice])

    def _dump(
        self,
        choices: list[CompletionChoice],
        *,
        usage: Usage | None = None,
        twofold: TurnEvent | None = None,
    ) -> str:
        chunk = Completion(
            id=self._answers.id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            twofold=twofold,
        )
        return _json(chunk)


def _json(chunk: BaseModel) -> str:
    return chunk.model_dump_json(exclude_none=True)
