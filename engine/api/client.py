"""Speaks to a running engine: typed requests, answers, streams, and errors with sentences."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from engine.api.engine import (
    EngineEvent,
    EngineState,
    LoadRequest,
    MemoryReport,
    ModelInfo,
    TokenCount,
)
from engine.api.failure import Failure
from engine.api.messages import Message
from engine.api.openai import ChatCompletionChunk, ErrorResponse, ModelList
from engine.api.requests import Cancelled, SettingsAnswer, Tokens
from engine.api.turn import TurnEvent
from engine.errors import TwofoldError

M = TypeVar("M", bound=BaseModel)

CONNECT_S = 5.0
# Between two pieces of an answer; an engine that works sends something every ten seconds.
READ_S = 60.0
_EVENT: TypeAdapter[EngineEvent] = TypeAdapter(EngineEvent)


class EngineError(TwofoldError):
    """The engine refused or failed; code, data and sentence are its own."""

    def __init__(self, failure: Failure, status: int | None = None) -> None:
        super().__init__(**failure.data)
        self.code = failure.code  # type: ignore[misc]  # as for NativeError
        self.failure = failure
        self.status = status


class EngineUnreachable(TwofoldError):
    """Nothing answers, or not an engine. Data: `url`, `reason`."""

    code = "client.unreachable"


class EngineClient:
    """One engine, by the address and token that `twofold serve` prints. Not for several threads,
    except for `cancel`."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._http = httpx.Client(
            base_url=url,
            headers={"authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            trust_env=False,  # a proxy has no business with this machine's own address
        )

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
        self._http.close()

    # --- the model ---------------------------------------------------------------------------

    def load(self, request: LoadRequest) -> ModelInfo:
        """Returns when the model is loaded, however long that takes."""
        body = request.model_dump(mode="json", exclude_unset=True)
        return self._call("POST", "/twofold/load", ModelInfo, body, timeout=None)

    def unload(self) -> EngineState:
        return self._call("POST", "/twofold/unload", EngineState)

    def state(self) -> EngineState:
        return self._call("GET", "/twofold/state", EngineState)

    def memory(self) -> MemoryReport:
        return self._call("GET", "/twofold/memory", MemoryReport)

    def models(self) -> list[str]:
        return [model.id for model in self._call("GET", "/v1/models", ModelList).data]

    @contextmanager
    def events(self) -> Generator[Iterator[EngineEvent]]:
        """The state now, and every change and progress from then on."""
        with self._stream("GET", "/twofold/events") as texts:
            yield (_EVENT.validate_json(text) for text in texts)

    # --- answers -----------------------------------------------------------------------------

    @contextmanager
    def chat(
        self, messages: Sequence[Message], **fields: Any
    ) -> Generator[Iterator[ChatCompletionChunk]]:
        """Streams an answer. `fields` are ChatRequest's others. Leaving the block cancels.

        Iterating raises EngineError where the engine fails on the way.
        """
        body = {**fields, "messages": [_sent(message) for message in messages], "stream": True}
        with self._stream("POST", "/v1/chat/completions", body) as texts:
            yield (ChatCompletionChunk.model_validate_json(text) for text in texts)

    @contextmanager
    def turn(
        self, messages: Sequence[Message], **fields: Any
    ) -> Generator[Iterator[TurnEvent | ChatCompletionChunk]]:
        """Like `chat`, with the turn's own events, its report the last, where there are any."""
        options = {**fields.pop("twofold", {}), "events": True}
        with self.chat(messages, **fields, twofold=options) as chunks:
            yield (chunk.twofold or chunk for chunk in chunks)

    def cancel(self, request: str | None = None) -> int:
        """Stops a request by its id, or everything. Gives how many were stopped."""
        body = {} if request is None else {"id": request}
        return self._call("POST", "/twofold/cancel", Cancelled, body).cancelled

    def tokenize(self, text: str) -> list[int]:
        return self._call("POST", "/twofold/tokenize", Tokens, {"text": text}).tokens

    def count(
        self, *, text: str | None = None, messages: Sequence[Message] | None = None
    ) -> TokenCount:
        """Tokens of either a text or a conversation."""
        body: dict[str, Any] = {} if text is None else {"text": text}
        if messages is not None:
            body["messages"] = [message.model_dump(exclude_none=True) for message in messages]
        return self._call("POST", "/twofold/count", TokenCount, body)

    # --- settings ----------------------------------------------------------------------------

    def settings(self) -> SettingsAnswer:
        return self._call("GET", "/twofold/settings", SettingsAnswer)

    def change_settings(self, values: dict[str, Any]) -> SettingsAnswer:
        return self._call("PUT", "/twofold/settings", SettingsAnswer, {"values": values})

    # --- how ---------------------------------------------------------------------------------

    def _call(
        self,
        method: str,
        path: str,
        answer: type[M],
        body: dict[str, Any] | None = None,
        *,
        timeout: float | None = READ_S,
    ) -> M:
        try:
            response = self._http.request(method, path, json=body or {}, timeout=timeout)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if response.is_error:
            raise _error(response.content, response.status_code, self._url)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise EngineUnreachable(url=self._url, reason="it is no Twofold engine") from error

    @contextmanager
    def _stream(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> Generator[Iterator[str]]:
        try:
            with self._http.stream(method, path, json=body or {}) as response:
                if response.is_error:
                    raise _error(response.read(), response.status_code, self._url)
                yield _texts(response, self._url)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.HTTPError) -> EngineUnreachable:
        return EngineUnreachable(url=self._url, reason=str(error) or type(error).__name__)


def _sent(message: Message) -> dict[str, Any]:
    """A message in OpenAI's form."""
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        sent["reasoning_content"] = message.reasoning
    if message.tool_calls:
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        sent["name"] = message.name
    return sent


def _texts(response: httpx.Response, url: str) -> Iterator[str]:
    """The data of each event up to `[DONE]`. Raises EngineError for an event that is one."""
    for line in response.iter_lines():
        text = line.removeprefix("data: ")
        if text == line:
            continue  # the space between events, or a comment
        if text == "[DONE]":
            return
        if text.startswith('{"error"'):
            raise _error(text.encode(), None, url)
        yield text


def _error(content: bytes, status: int | None, url: str) -> TwofoldError:
    try:
        body = ErrorResponse.model_validate_json(content).error
    except ValidationError:
        return EngineUnreachable(url=url, reason=f"status {status}")
    failure = Failure(code=body.code, sentence=body.message, data=body.data, log=tuple(body.log))
    return EngineError(failure, status)
