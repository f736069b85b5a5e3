"""One message of a conversation, as clients send it and as chats are stored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

Role = Literal["system", "user", "assistant"]


def _encodable(text: str) -> str:
    """JSON can carry half a surrogate pair, a tokeniser cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"character {error.start} is half of a surrogate pair") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class Message(BaseModel):
    """A message; `reasoning` is what an assistant thought before it wrote `content`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: Text
    reasoning: Text | None = None
