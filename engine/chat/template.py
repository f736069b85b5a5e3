"""Renders a conversation with the model's own chat template, or with a built-in one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from engine.api.messages import Message
from engine.chat.template_process import (
    TemplateFailed,
    TemplateLimits,
    TemplateOverLimit,
    TemplateProcess,
    TemplateRefused,
)
from engine.errors import TwofoldError

CHATML_END = "<|im_end|>"


class TemplateFallback(TwofoldError):
    """A warning, not raised: the built-in template is in use, because of `reason`."""

    code = "template.fallback"


@dataclass(frozen=True)
class Rendered:
    """A prompt's text; `add_special` tells the tokeniser whether to add its BOS."""

    text: str
    add_special: bool


class ChatTemplate:
    """A model's template, tried out once at the start.

    If it cannot be parsed or fails on the plainest conversation, the built-in ChatML serves
    instead, `fallback` says why, and `stops` names ChatML's end mark, which such a model may not
    know as an end of generation. Templates that want content in typed parts, and those that know
    no system role, are recognised and served.
    """

    def __init__(
        self,
        source: str | None,
        *,
        bos_text: str = "",
        eos_text: str = "",
        limits: TemplateLimits | None = None,
    ) -> None:
        self.fallback: TemplateFallback | None = None
        self.stops: tuple[str, ...] = ()
        self._bos_text = bos_text
        self._typed_parts = False
        self._folds_system = False
        self._process: TemplateProcess | None = None
        self._source = source or ""
        try:
            if source is None or not source.strip():
                raise TemplateFailed(reason="the file has none")
            self._process = TemplateProcess(
                source, bos_text=bos_text, eos_text=eos_text, limits=limits or TemplateLimits()
            )
            self._try_out()
        except (TemplateFailed, TemplateOverLimit) as error:
            self.close()
            self.fallback = TemplateFallback(reason=_reason(error))
            self.stops = (CHATML_END,)

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
        """Ends the template's process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    @property
    def source(self) -> str:
        """The template's text; empty if the built-in one is in use."""
        return self._source if self._process is not None else ""

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        options: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Rendered:
        """The prompt for `messages`. `options` are the template's own, as `enable_thinking`;
        `tools` are OpenAI's descriptions of functions.

        Raises TemplateRefused, TemplateFailed or TemplateOverLimit.
        """
        if self._process is None:
            text = _chatml(messages, add_generation_prompt)
        else:
            if self._folds_system:
                messages = _fold_system(messages)
            variables = {
                **(options or {}),
                "messages": [self._as_template_sees(message) for message in messages],
                "tools": list(tools) or None,
                "documents": None,
                "add_generation_prompt": add_generation_prompt,
            }
            text = self._process.render(variables)
        has_bos = bool(self._bos_text) and text.lstrip().startswith(self._bos_text)
        return Rendered(text, add_special=not has_bos)

    def _try_out(self) -> None:
        """Finds out what the template needs. Raises if it is of no use."""
        user = Message(role="user", content="Hello")
        try:
            if user.content not in self.render([user]).text:
                self._typed_parts = True
                if user.content not in self.render([user]).text:
                    raise TemplateFailed(reason="it drops the user's message")
        except TemplateRefused:
            return  # it works, and will say again what it wants
        system = Message(role="system", content="Be brief")
        try:
            self._folds_system = system.content not in self.render([system, user]).text
        except (TemplateRefused, TemplateFailed):
            self._folds_system = True

    def _as_template_sees(self, message: Message) -> dict[str, Any]:
        parts = [{"type": "text", "text": message.content}]
        seen: dict[str, Any] = {
            "role": message.role,
            "content": parts if self._typed_parts else message.content,
        }
        if message.reasoning:
            # Two names are in use: Qwen's and DeepSeek's, and gpt-oss's.
            seen["reasoning_content"] = seen["thinking"] = message.reasoning
        if message.tool_calls:
            seen["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call.arguments)},
                }
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            seen["tool_call_id"] = message.tool_call_id
        if message.name is not None:
            seen["name"] = message.name
        return seen


def _arguments(text: str) -> Any:
    """Templates want a mapping; what is none stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _reason(error: TwofoldError) -> str:
    if isinstance(error, TemplateOverLimit):
        return f"it takes too much {error.data['what']}"
    return str(error.data["reason"])


def _chatml(messages: Sequence[Message], add_generation_prompt: bool) -> str:
    turns = [f"<|im_start|>{each.role}\n{each.content}{CHATML_END}\n" for each in messages]
    return "".join(turns) + ("<|im_start|>assistant\n" if add_generation_prompt else "")


def _fold_system(messages: Sequence[Message]) -> list[Message]:
    """Puts each system message in front of the next message of the user."""
    folded: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message.content)
        elif message.role == "user" and waiting:
            content = "\n\n".join([*waiting, message.content])
            folded.append(message.model_copy(update={"content": content}))
            waiting = []
        else:
            folded.append(message)
    if waiting:
        folded.append(Message(role="user", content="\n\n".join(waiting)))
    return folded
