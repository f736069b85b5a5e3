"""One pipeline from token pieces to events: UTF-8, stop strings, reasoning tags, tool calls."""

from __future__ import annotations

from collections.abc import Sequence

from engine.api.turn import AnswerText, TextEvent
from engine.chat.reasoning import DEFAULT_TAGS, ReasoningParser, ReasoningTags
from engine.chat.stops import StopFilter
from engine.chat.tools import ToolStream
from engine.chat.utf8 import Utf8Stream


class TextStream:
    """Takes bytes of pieces, gives events; `stopped_by` names the stop string once it came.

    `stops` are the user's and end the answer only; `template_stops` are the template's own end
    marks and end everything, reasoning too. `prompt` is the rendered prompt, whose end may
    already have opened reasoning. `tools` finds calls in the answer.
    """

    def __init__(
        self,
        *,
        prompt: str = "",
        stops: Sequence[str] = (),
        template_stops: Sequence[str] = (),
        tags: Sequence[ReasoningTags] = DEFAULT_TAGS,
        tools: ToolStream | None = None,
    ) -> None:
        self._tools = tools
        self._utf8 = Utf8Stream()
        self._marks = StopFilter(template_stops)
        self._reasoning = ReasoningParser(prompt, tags)
        self._stops = StopFilter(stops)

    @property
    def stopped_by(self) -> str | None:
        return self._marks.found or self._stops.found

    @property
    def in_reasoning(self) -> bool:
        return self._reasoning.inside

    def feed(self, piece: bytes) -> list[TextEvent]:
        text = self._marks.feed(self._utf8.feed(piece))
        return self._stop(self._reasoning.feed(text)) if text else []

    def flush(self) -> list[TextEvent]:
        """The end of the turn: everything held that is not part of a stop string."""
        text = self._marks.feed(self._utf8.flush()) + self._marks.flush()
        events = self._stop(self._reasoning.feed(text) + self._reasoning.flush())
        held = self._stops.flush()
        if self._tools is None:
            return [*events, AnswerText(text=held)] if held else events
        return [*events, *self._tools.feed(held), *self._tools.flush()]

    def _stop(self, events: list[TextEvent]) -> list[TextEvent]:
        """Runs the user's stop strings over the answer's text."""
        kept: list[TextEvent] = []
        for event in events:
            if self._stops.found is not None:
                break
            if isinstance(event, AnswerText):
                text = self._stops.feed(event.text)
                if text and self._tools is not None:
                    kept += self._tools.feed(text)
                elif text:
                    kept.append(event if text == event.text else AnswerText(text=text))
            else:
                kept.append(event)
        return kept
