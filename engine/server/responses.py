"""Turns a turn's events into OpenAI's answers, whole or as a stream of chunks."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

from engine.api.openai import (
    ChatCompletion,
    ChatCompletionChunk,
    Choice,
    ChunkChoice,
    Delta,
    FinishReason,
    PromptDetails,
    SentMessage,
    Usage,
)
from engine.api.turn import AnswerText, ReasoningText, TurnEvent, TurnReport
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
        bytes_read=report.bytes_read,
    )


def finish_reason(report: TurnReport) -> FinishReason:
    """A turn that was cancelled ends like one that was stopped; `twofold` tells them apart."""
    return "length" if report.stop_reason in ("length", "context") else "stop"


async def report_of(job: Job) -> TurnReport:
    """Waits for the end of a turn. Raises Failed."""
    report: TurnReport | None = None
    async for event in job.events():
        if isinstance(event, TurnReport):
            report = event
    assert report is not None, "a turn that does not fail ends with its report"
    return report


async def chat_completion(job: Job, model: str) -> ChatCompletion:
    """Raises Failed."""
    report = await report_of(job)
    return ChatCompletion(
        id=job.id,
        created=int(time.time()),
        model=model,
        choices=[
            Choice(
                message=SentMessage(
                    content=report.message.content,
                    reasoning_content=report.message.reasoning,
                ),
                finish_reason=finish_reason(report),
            )
        ],
        usage=usage(report),
        twofold=report,
    )


class ChatStream:
    """The chunks of one answer, as JSON texts."""

    def __init__(self, job: Job, model: str, *, include_usage: bool, include_events: bool) -> None:
        self._job = job
        self._model = model
        self._created = int(time.time())
        self._include_usage = include_usage
        self._include_events = include_events

    async def texts(self) -> AsyncGenerator[str]:
        """Ends with `[DONE]`; a failure is an event before it."""
        try:
            yield self._chunk(Delta(role="assistant", content=""))
            async for event in self._job.events():
                if isinstance(event, AnswerText):
                    yield self._chunk(Delta(content=event.text))
                elif isinstance(event, ReasoningText):
                    yield self._chunk(Delta(reasoning_content=event.text))
                else:
                    if isinstance(event, TurnReport):
                        yield self._chunk(Delta(), finish_reason(event))
                    if self._include_events:
                        yield self._dump(self._envelope([], twofold=event))
                    if isinstance(event, TurnReport) and self._include_usage:
                        yield self._dump(self._envelope([], usage=usage(event)))
        except TwofoldError as error:
            yield error_event(error)
        yield DONE

    def _chunk(self, delta: Delta, finish: FinishReason | None = None) -> str:
        return self._dump(self._envelope([ChunkChoice(delta=delta, finish_reason=finish)]))

    def _envelope(
        self,
        choices: list[ChunkChoice],
        *,
        usage: Usage | None = None,
        twofold: TurnEvent | None = None,
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._job.id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            twofold=twofold,
        )

    @staticmethod
    def _dump(chunk: ChatCompletionChunk) -> str:
        return chunk.model_dump_json(exclude_none=True)
