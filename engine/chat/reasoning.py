"""Tells reasoning from answer in a stream of text, by the tags that models write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.api.turn import AnswerText, ReasoningText, TextEvent


@dataclass(frozen=True)
class ReasoningTags:
    """What opens and what closes reasoning, each exactly as the model writes it."""

    start: str
    end: str


DEFAULT_TAGS = (
    ReasoningTags("<think>", "</think>"),
    ReasoningTags("<thinking>", "</thinking>"),
    ReasoningTags("<thought>", "</thought>"),
    ReasoningTags("<reasoning>", "</reasoning>"),
    ReasoningTags("<seed:think>", "</seed:think>"),
    ReasoningTags("[THINK]", "[/THINK]"),
    ReasoningTags("<|START_THINKING|>", "<|END_THINKING|>"),
    ReasoningTags("<|channel|>analysis<|message|>", "<|end|>"),
)

# Written between reasoning and answer, and of no interest to a reader.
DEFAULT_MARKERS = (
    "<|start|>assistant",
    "<|channel|>final<|message|>",
    "<|START_RESPONSE|>",
)


class ReasoningParser:
    """Splits text into reasoning and answer; tags may be cut anywhere.

    A tag opens reasoning only where an answer has not begun: at the start, or right after other
    reasoning. An answer that quotes `<think>` stays an answer. If the prompt already ends with a
    start tag, as some templates do, the text begins inside reasoning.
    """

    def __init__(
        self,
        prompt: str = "",
        tags: Sequence[ReasoningTags] = DEFAULT_TAGS,
        markers: Sequence[str] = DEFAULT_MARKERS,
    ) -> None:
        self._tags = tuple(tags)
        self._openers = tuple(tag.start for tag in tags) + tuple(markers)
        self._end_by_start = {tag.start: tag.end for tag in tags}
        self._end: str | None = None
        self._in_answer = False
        self._trim = False
        self._held = ""
        tail = prompt[-256:].rstrip()
        for tag in self._tags:
            if tail.endswith(tag.start):
                self._open(tag.end)

    @property
    def inside(self) -> bool:
        """Whether the text is inside reasoning now."""
        return self._end is not None

    def feed(self, text: str) -> list[TextEvent]:
        if self._in_answer:
            return [AnswerText(text=text)] if text else []
        events: list[TextEvent] = []
        self._held += text
        while self._held and not self._in_answer:
            progressed = (
                self._at_boundary(events) if self._end is None else self._inside(self._end, events)
            )
            if not progressed:
                break
        return events

    def flush(self) -> list[TextEvent]:
        """What was held: a tag that never became one, or reasoning that was never closed."""
        held, self._held = self._held, ""
        if self._end is not None:
            held = held.lstrip() if self._trim else held
            return [ReasoningText(text=held)] if held else []
        held = held.lstrip() if self._trim else held
        return [AnswerText(text=held)] if held else []

    def _open(self, end: str) -> None:
        self._end = end
        self._trim = True

    def _at_boundary(self, events: list[TextEvent]) -> bool:
        """Looks for an opening tag or a marker; white space alone decides nothing."""
        start = self._held.lstrip()
        for opener in self._openers:
            if start.startswith(opener):
                self._held = start[len(opener) :]
                self._trim = True
                if opener in self._end_by_start:
                    self._open(self._end_by_start[opener])
                return True
        if any(opener.startswith(start) for opener in self._openers):
            return False
        events.append(AnswerText(text=start if self._trim else self._held))
        self._held = ""
        self._in_answer = True
        return True

    def _inside(self, end: str, events: list[TextEvent]) -> bool:
        """Emits reasoning up to the end tag, or up to what may be the start of one."""
        if self._trim:
            self._held = self._held.lstrip()
        at = self._held.find(end)
        if at >= 0:
            safe, self._held = self._held[:at], self._held[at + len(end) :]
            self._end = None
        else:
            keep = _overlap(self._held, end)
            cut = len(self._held) - keep
            safe, self._held = self._held[:cut], self._held[cut:]
        if safe:
            events.append(ReasoningText(text=safe))
            self._trim = False
        if at >= 0:
            self._trim = True
        return at >= 0


def _overlap(text: str, tag: str) -> int:
    """The length of the longest end of `text` that begins `tag`."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
