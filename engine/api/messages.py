"""One message of a conversation, as clients send it and as chats are stored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

# `tool` is the result of a tool that the assistant called.
Role = Literal["system", "user", "assistant", "tool"]


def _encodable(text: str) -> str:
    """JSON can carry half a surrogate pair, a tokeniser cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"character {error.start} is half of a surrogate pair") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class ToolCall(BaseModel):
    """A tool that the assistant wants called; `arguments` is JSON text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Text
    name: Text
    arguments: Text


class Message(BaseModel):
    """A message; `reasoning` is what an assistant thought before it wrote `content`.

    `tool_call_id` and `name` say which call a tool's message answers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: Text
    reasoning: Text | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: Text | None = None
    name: Text | None = None
