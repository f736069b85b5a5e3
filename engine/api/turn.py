"""What a turn tells its client: events while it runs, and the report at its end."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.api.messages import Message, ToolCall

# How a prompt is read, and what a user may ask for.
Path = Literal["decoder", "resident", "odp", "autocast"]
PathSetting = Literal["auto", "decoder", "resident", "odp", "autocast"]
# What "auto" goes by: the least time to the first token, or the better answers, for which every
# long enough prompt is read with the prefiller if the decoder has so few bits that it helps.
Policy = Literal["fastest", "best_answers"]
DEFAULT_POLICY: Policy = "best_answers"

# eos: the model ended its answer. stop: a stop string came. length: `max_tokens` reached.
# context: the context is full. cancelled: the user stopped it.
StopReason = Literal["eos", "stop", "length", "context", "cancelled"]


class Data(BaseModel):
    model_config = ConfigDict(frozen=True)


class Reason(Data):
    """Why a path was taken; `data` holds the sentence's facts."""

    code: str
    sentence: str
    data: dict[str, Any] = {}


class Notice(Data):
    """Something the user should know though the turn goes on."""

    type: Literal["notice"] = "notice"
    code: str
    sentence: str
    data: dict[str, Any] = {}


class TurnStarted(Data):
    """The prompt is known: `cached_tokens` of it are in the cache, `new_tokens` will be read."""

    type: Literal["turn_started"] = "turn_started"
    prompt_tokens: int
    cached_tokens: int
    new_tokens: int
    context_tokens: int


class PrefillProgress(Data):
    """Reading the prompt: tokens and blocks done of those this turn reads, bytes from disk, and
    how many come a second. `remaining_s` is an estimate, None while there is nothing to go by. The
    sentence `reason` says why this path, made of `reason_code` and `reason_data`."""

    type: Literal["prefill_progress"] = "prefill_progress"
    path: Path
    reason: str
    reason_code: str | None = None
    reason_data: dict[str, Any] = {}
    tokens_done: int
    tokens_total: int
    block: int
    blocks: int
    bytes_read: int
    seconds: float
    bytes_per_s: float = 0.0
    remaining_s: float | None = None


class ReasoningText(Data):
    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class AnswerText(Data):
    type: Literal["answer_text"] = "answer_text"
    text: str


class ToolCallMade(Data):
    """The model wrote a whole call of a tool."""

    type: Literal["tool_call"] = "tool_call"
    call: ToolCall


class TokenChance(Data):
    """A token's text, its bytes (text may be a part of a character) and its log probability."""

    token: str
    bytes: tuple[int, ...]
    logprob: float


class TokenSampled(Data):
    """A sampled token and the likeliest ones in its place, before penalties and truncation."""

    type: Literal["token_sampled"] = "token_sampled"
    token: TokenChance
    top: tuple[TokenChance, ...] = ()


# What guesses: the text so far, a smaller model, or a head on this one's features.
DraftMethod = Literal["ngram", "model", "eagle3"]


class DraftReport(Data):
    """What drafts did for one answer. `tau`: tokens that a verification yields on average;
    `accepted_by_position`: of the tokens drafted at each place, the share that was accepted;
    `baseline_tps`: tokens a second that the same answer would have had without drafts, by passes
    measured on the way. The passes themselves are timed, not what is done with their tokens."""

    method: DraftMethod = "ngram"
    tau: float
    verifications: int
    drafted_tokens: int
    accepted_tokens: int
    accepted_by_position: tuple[float, ...] = ()
    tps: float
    baseline_tps: float


class TurnReport(Data):
    """A turn's outcome. Times in seconds, rates in tokens per second, sizes in bytes.

    `path` and `reason` are None if the turn ended before reading began, `ttft_s` if no token was
    sampled, `decode_tps` below two tokens. `answer_tokens` are all sampled tokens, reasoning
    included, without the end-of-generation token. `prefill_weight_bytes` is the memory that
    prefill weights held. `drafts` is None if no drafted token was verified.
    """

    type: Literal["turn_report"] = "turn_report"
    message: Message
    stop_reason: StopReason
    stop_string: str | None = None
    path: Path | None = None
    reason: str | None = None
    reason_code: str | None = None
    reason_data: dict[str, Any] = {}
    prompt_tokens: int
    cached_tokens: int
    new_tokens: int
    answer_tokens: list[int]
    seed: int
    ttft_s: float | None = None
    prefill_s: float = 0.0
    prefill_tps: float | None = None
    decode_tps: float | None = None
    reasoning_s: float | None = None
    bytes_read: int = 0
    wait_s: float = 0.0
    prefill_weight_bytes: int = 0
    drafts: DraftReport | None = None


TextEvent = ReasoningText | AnswerText | ToolCallMade
TurnEvent = Annotated[
    Notice
    | TurnStarted
    | PrefillProgress
    | TokenSampled
    | ReasoningText
    | AnswerText
    | ToolCallMade
    | TurnReport,
    Field(discriminator="type"),
]
