"""OpenAI's chat and text completions, as far as this engine speaks them, and its own additions.

Fields that are not named here are ignored, as clients send many that mean nothing to one local
model; those that would change the answer and cannot be served are named and refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.api.messages import Text
from engine.api.sampling import Drafts
from engine.api.turn import DraftReport, PathSetting, TurnEvent

FinishReason = Literal["stop", "length", "tool_calls"]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


class _Given(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True)


# --- requests ------------------------------------------------------------------------------------


class TextPart(_Given):
    type: Literal["text"]
    text: Text


class OtherPart(_Given):
    """An image, a sound or a file: known so that it can be refused by name."""

    type: Literal["image_url", "input_audio", "file", "refusal"]


Content = Text | list[Annotated[TextPart | OtherPart, Field(discriminator="type")]]


class FunctionCall(_Given):
    name: Text
    arguments: Text


class ToolCallMessage(_Given):
    id: Text
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(_Given):
    """`developer` is `system`. `reasoning_content` is what an assistant thought."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: Text | None = None
    reasoning_content: Text | None = None
    tool_calls: list[ToolCallMessage] | None = None
    tool_call_id: Text | None = None


class Function(_Given):
    name: Text = Field(min_length=1, max_length=64)
    description: Text | None = None
    parameters: dict[str, Any] | None = None


class Tool(_Given):
    type: Literal["function"]
    function: Function


class NamedFunction(_Given):
    name: Text


class ToolChoice(_Given):
    """The one tool that has to be called."""

    type: Literal["function"]
    function: NamedFunction


class JsonSchema(_Given):
    name: Text | None = None
    schema_: dict[str, Any] = Field(alias="schema")


class ResponseFormat(_Given):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(_Given):
    include_usage: bool = False


class TwofoldOptions(BaseModel):
    """What only Twofold knows. `events` adds the turn's own events to a stream, each in a chunk
    without choices; `continue_last` goes on with the last message, the assistant's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: PathSetting | None = None
    events: bool = False
    continue_last: bool = False


class _Request(_Given):
    """Empty `model` means the loaded one. What is not given comes from the settings."""

    model: Text = Field(default="", max_length=512)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, le=1_000_000)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repeat_penalty: float | None = Field(default=None, ge=0.1, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    max_tokens: Count | None = None
    stop: Text | list[Text] | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**64)
    drafts: Drafts | None = None
    n: int | None = Field(default=None, ge=1, le=128)
    logit_bias: dict[str, float] | None = None
    twofold: TwofoldOptions = TwofoldOptions()


class ChatRequest(_Request):
    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Text | None = None
    chat_template_kwargs: dict[str, Any] = {}


class CompletionRequest(_Request):
    prompt: Text | list[Text]
    echo: bool | None = None
    suffix: Text | None = None
    best_of: int | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)


# --- responses -----------------------------------------------------------------------------------


class PromptDetails(_Sent):
    cached_tokens: int


class Usage(_Sent):
    """Counts in tokens; and how the prompt was read: times in seconds, rates in tokens per
    second, `bytes_read` from disk, `path` and the `reason` it was taken. `drafts`: what drafted
    tokens did for the answer, if any were verified."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    cached_tokens: int
    ttft_s: float | None
    prefill_tps: float | None
    decode_tps: float | None
    path: str | None
    reason: str | None
    reason_code: str | None = None
    bytes_read: int
    drafts: DraftReport | None = None


class TopLogprob(_Sent):
    token: str
    bytes: list[int]
    logprob: float


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class Logprobs(_Sent):
    content: list[TokenLogprob]


class SentFunction(_Sent):
    name: str
    arguments: str


class SentToolCall(_Sent):
    """`index` is given in streams only."""

    index: int | None = None
    id: str
    type: Literal["function"] = "function"
    function: SentFunction


class SentMessage(_Sent):
    role: Literal["assistant"] = "assistant"
    content: str | None
    reasoning_content: str | None = None
    tool_calls: list[SentToolCall] | None = None


class Choice(_Sent):
    index: int = 0
    message: SentMessage
    logprobs: Logprobs | None = None
    finish_reason: FinishReason


class ChatCompletion(_Sent):
    """`twofold` is the turn's report."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    twofold: TurnEvent


class Delta(_Sent):
    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[SentToolCall] | None = None


class ChunkChoice(_Sent):
    index: int = 0
    delta: Delta
    logprobs: Logprobs | None = None
    finish_reason: FinishReason | None = None


class ChatCompletionChunk(_Sent):
    """One event of a stream. `twofold` events and the usage come without choices."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    twofold: TurnEvent | None = None


class TextLogprobs(_Sent):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(_Sent):
    index: int = 0
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: FinishReason | None = None


class Completion(_Sent):
    """A completion, or one event of its stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    twofold: TurnEvent | None = None


class Model(_Sent):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "twofold"


class ModelList(_Sent):
    object: Literal["list"] = "list"
    data: list[Model]


class ErrorBody(_Sent):
    """OpenAI's error; `message` is a sentence, `code` can be searched for, `data` has the facts."""

    message: str
    type: str
    param: str | None = None
    code: str
    data: dict[str, Any] = {}
    log: list[str] = []


class ErrorResponse(_Sent):
    error: ErrorBody
