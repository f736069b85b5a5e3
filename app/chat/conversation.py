"""A stored chat as a request to the engine, and what is known of its size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from app.store.records import Attachment, ChatSettings, MessageRow

TITLE_LENGTH = 60
# A token is about this many characters of English; used only until the engine has counted.
CHARACTERS_A_TOKEN = 4
# Room that an answer needs at least, as the engine reserves it.
ANSWER_RESERVE = 256


def request(
    messages: Sequence[MessageRow], settings: ChatSettings, *, continue_last: bool = False
) -> dict[str, Any]:
    """The body of a chat completion (engine.api.openai.ChatRequest)."""
    sent: list[dict[str, Any]] = []
    if settings.system_prompt.strip():
        sent.append({"role": "system", "content": settings.system_prompt})
    for message in messages:
        content = with_attachments(message.content, message.attachments)
        item: dict[str, Any] = {"role": message.role, "content": content}
        if message.reasoning:
            item["reasoning_content"] = message.reasoning
        sent.append(item)
    return {
        "messages": sent,
        **settings.sampling,
        "twofold": {"path": settings.path, "continue_last": continue_last},
    }


def with_attachments(content: str, attachments: Sequence[Attachment]) -> str:
    """The files' texts, each between marks that name it, then what was typed."""
    parts = [f'<file name="{item.name}">\n{item.text.strip()}\n</file>' for item in attachments]
    return "\n\n".join([*parts, content] if content else parts)


def title_of(content: str, attachments: Sequence[Attachment] = ()) -> str:
    """A chat's first name: its first words, or its first file."""
    words = re.sub(r"\s+", " ", content).strip() or (attachments[0].name if attachments else "")
    if len(words) <= TITLE_LENGTH:
        return words
    cut = words.rfind(" ", TITLE_LENGTH // 2, TITLE_LENGTH)
    return words[: cut if cut > 0 else TITLE_LENGTH].rstrip(" ,.;:") + "…"


def used_tokens(messages: Sequence[MessageRow]) -> int | None:
    """Tokens of the conversation as the last answer's report counted them; None where the last
    message has none."""
    if not messages:
        return 0
    report = messages[-1].report
    if report is None:
        return None
    return int(report["prompt_tokens"]) + len(report["answer_tokens"])


def estimated_tokens(text: str) -> int:
    return (len(text) + CHARACTERS_A_TOKEN - 1) // CHARACTERS_A_TOKEN


def as_markdown(title: str, messages: Sequence[MessageRow], names: dict[str, str]) -> str:
    """The shown branch as a document; `names` say what each role is called."""
    parts = [f"# {title}"]
    for message in messages:
        files = "".join(f"\n\n> {item.name}" for item in message.attachments)
        parts.append(f"## {names[message.role]}{files}\n\n{message.content}")
    return "\n\n".join(parts) + "\n"
