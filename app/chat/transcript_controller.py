"""Decides which rows the transcript shows: stored messages, and the answer being written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.chat.formula_cache import FormulaCache
from app.chat.live_answer import LiveAnswer
from app.chat.message_rows import (
    foot_row,
    head_row,
    left_out_row,
    parsed,
    problem_row,
    segment_rows,
    thought_of,
)
from app.chat.prose import copy_text
from app.chat.rows import Action, Problem, Row, RowWidget, Thought, make_row_widget
from app.chat.transcript_view import TranscriptView
from app.chat.writer import Writer
from app.shell.background import Background
from app.store.records import MessageRow
from app.text.segments import Segment
from engine.api.failure import Failure

# Characters that are parsed at a time before something is shown.
BATCH = 30_000


@dataclass
class _Shown:
    """A message on the screen: `content` is None until it is parsed."""

    message: MessageRow
    content: list[Segment] | None = None
    reasoning: list[Segment] = field(default_factory=list[Segment])
    open: bool = False
    content_rows: list[Row] = field(default_factory=list[Row])
    reasoning_rows: list[Row] = field(default_factory=list[Row])
    fixed_rows: dict[str, Row] = field(default_factory=dict[str, Row])


@dataclass
class _Live:
    """The answer that is being written below all others."""

    message: int
    answer: LiveAnswer
    reasoning: LiveAnswer
    head: Row
    thought: Row
    reading: Row | None
    notices: list[Row] = field(default_factory=list[Row])
    open: bool = False
    thought_shown: bool = False


class TranscriptController(QObject):
    """`acted` is sent with an Action that concerns more than the transcript, and the message."""

    acted = Signal(str, int)

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._formulas = FormulaCache(background, self)
        self._formulas.drawn.connect(self._formulas_drawn)
        self.view = TranscriptView(self._make_widget)
        self._shown: dict[int, _Shown] = {}
        self._order: list[int] = []
        self._live: _Live | None = None
        self._handed_over: _Live | None = None
        self._round = 0
        self._wanted: int | None = None
        self._flush = QTimer(self)
        self._flush.setSingleShot(True)
        self._flush.setInterval(0)
        self._flush.timeout.connect(self._set_rows)

    @property
    def messages(self) -> list[MessageRow]:
        return [self._shown[key].message for key in self._order]

    # Stored messages

    def show(self, messages: Sequence[MessageRow], *, follow: bool = True) -> None:
        """Shows these messages; those that are as before stay as they are."""
        self._round += 1
        before = self._shown
        self._shown = {}
        self._order = [message.id for message in messages]
        for message in messages:
            known = before.get(message.id)
            if known is None or _text(known.message) != _text(message):
                open_before = known.open if known is not None else False
                self._shown[message.id] = _Shown(message, open=open_before)
                if known is not None:  # its rows may still fit, if it was only finished
                    self._shown[message.id].content_rows = known.content_rows
            else:
                known.message = message
                self._shown[message.id] = known
        if follow:
            self.view.scroll_to_end()
        if all(item.content is not None for item in self._shown.values()):
            self._set_rows()
        else:
            self._parse_next(self._round)

    def reveal(self, message: int) -> None:
        """Scrolls to the message, now or as soon as it is there."""
        self._wanted = message
        self._go_to_wanted()

    def toggle_reasoning(self, message: int) -> None:
        if self._live is not None and self._live.message == message:
            live = self._live
            live.open = not live.open
            live.thought.data = replace(live.thought.data, open=live.open)
            self.view.row_changed(live.thought)
        elif message in self._shown:
            shown = self._shown[message]
            shown.open = not shown.open
        self._set_rows()

    def _parse_next(self, number: int) -> None:
        """Parses the latest messages that are not, then shows them: what is read first."""
        batch: list[MessageRow] = []
        size = 0
        for key in reversed(self._order):
            item = self._shown[key]
            if item.content is None and size < BATCH:
                batch.append(item.message)
                size += len(item.message.content) + len(item.message.reasoning or "")
        if not batch:
            return

        def done(results: list[tuple[list[Segment], list[Segment]]]) -> None:
            if number != self._round:
                return
            for message, (content, reasoning) in zip(batch, results, strict=True):
                shown = self._shown[message.id]
                shown.content, shown.reasoning = content, reasoning
            self._set_rows()
            self._parse_next(number)

        self._background.run(lambda: [parsed(message) for message in batch], done)

    # The answer that is being written

    def begin_live(self, message: MessageRow) -> None:
        """From now on `message` is shown by `live_*`; it is not among the shown messages."""
        self.end_live()

        def changed(row: Row | None) -> None:
            if row is None:
                self._flush.start()
            else:
                self.view.row_changed(row)

        self._live = _Live(
            message=message.id,
            answer=LiveAnswer(message.id, self._background, changed, parent=self),
            reasoning=LiveAnswer(message.id, self._background, changed, thought=True, parent=self),
            head=head_row(message, busy=True),
            thought=Row(message.id, "reasoning", Thought(open=False, running=True)),
            reading=Row(message.id, "reading", None, gap=4),
        )
        self._set_rows()

    def live_reading(self, state: object) -> None:
        """How far the prompt is read, or what is waited for."""
        live = self._live
        if live is None:
            return
        if live.reading is None:
            live.reading = Row(live.message, "reading", state, gap=4)
            self._set_rows()
        elif live.reading.data != state:
            live.reading.data = state
            self.view.row_changed(live.reading)

    def live_notice(self, words: str) -> None:
        if self._live is not None:
            self._live.notices.append(Row(self._live.message, "notice", words))
            self._set_rows()

    def live_text(self, writer: Writer) -> None:
        """There is more of the answer. The text is joined only as often as it is shown."""
        live = self._live
        if live is None:
            return
        if live.reading is not None and (writer.has_content or writer.has_reasoning):
            live.reading = None
            self._flush.start()
        if writer.has_reasoning:
            if not live.thought_shown:
                live.thought_shown = True
                self._flush.start()
            if not writer.has_content or not live.reasoning.started:
                live.reasoning.grow(lambda: writer.reasoning)
        if writer.has_content:
            if live.thought.data.running:
                live.thought.data = replace(live.thought.data, running=False)
                self.view.row_changed(live.thought)
            live.answer.grow(lambda: writer.content)

    def end_live(self) -> None:
        """The answer is done or not shown any more; `show` shows what was stored of it."""
        live, self._live = self._live, None
        if live is None:
            return
        for part in (live.answer, live.reasoning):
            part.end()
            part.deleteLater()
        # The stored message takes over the rows, so that nothing jumps or loses its selection.
        self._handed_over = live

    # Rows

    def _set_rows(self) -> None:
        rows: list[Row] = []
        last = self._order[-1] if self._order else None
        for key in self._order:
            shown = self._shown[key]
            if shown.content is not None:
                rows += self._rows_of(shown, last=key == last and self._live is None)
            elif self._handed_over is not None and self._handed_over.message == key:
                rows += self._live_rows(self._handed_over)  # until it is parsed
        if self._live is not None:
            rows += self._live_rows(self._live)
        self.view.set_rows(rows)
        self._go_to_wanted()

    def _rows_of(self, shown: _Shown, *, last: bool) -> list[Row]:
        message = shown.message
        is_user = message.role == "user"
        busy = self._live is not None
        if (live := self._handed_over) is not None and live.message == message.id:
            shown.content_rows, shown.reasoning_rows = live.answer.rows, live.reasoning.rows
            shown.fixed_rows |= {"head": live.head, "reasoning": live.thought}
            shown.open = live.open
            self._handed_over = None
        rows = [self._fixed(shown, "head", head_row(message, busy=busy))]
        if message.attachments:
            files = Row(message.id, "files", message.attachments, card=is_user)
            rows.append(self._fixed(shown, "files", files))
        if shown.reasoning:
            thought = Row(message.id, "reasoning", thought_of(message, is_open=shown.open))
            rows.append(self._fixed(shown, "reasoning", thought))
            if shown.open:
                shown.reasoning_rows = segment_rows(
                    message.id, shown.reasoning, shown.reasoning_rows, thought=True
                )
                rows += shown.reasoning_rows
        shown.content_rows = segment_rows(
            message.id, shown.content or [], shown.content_rows, card=is_user
        )
        rows += shown.content_rows
        if (left_out := left_out_row(message)) is not None:
            rows.append(self._fixed(shown, "notice", left_out))
        if message.failure is not None:
            failure = Failure.model_validate(message.failure)
            rows.append(self._problem(shown, problem_row(message.id, failure)))
        if not is_user:
            rows.append(self._fixed(shown, "foot", foot_row(message, last=last, busy=busy)))
        return rows

    def _fixed(self, shown: _Shown, name: str, new: Row) -> Row:
        """The row that was there before, with what it shows now."""
        old = shown.fixed_rows.get(name)
        if old is None:
            shown.fixed_rows[name] = new
            return new
        if old.data != new.data:
            old.data = new.data
            self.view.row_changed(old)
        return old

    def _problem(self, shown: _Shown, new: Row) -> Row:
        old = shown.fixed_rows.get("error")
        if old is not None:
            return old  # it may be open
        shown.fixed_rows["error"] = new
        return new

    def _live_rows(self, live: _Live) -> list[Row]:
        rows = [live.head, *live.notices]
        if live.thought_shown:
            rows.append(live.thought)
            if live.open:
                rows += live.reasoning.rows
        if live.reading is not None:
            rows.append(live.reading)
        return rows + live.answer.rows

    def _make_widget(self, row: Row, parent: QWidget) -> RowWidget:
        return make_row_widget(row, self._act, self._formulas, parent)

    def _formulas_drawn(self) -> None:
        for row in self.view.rows:
            if getattr(row.data, "formulas", ()) and (widget := self.view.widget_of(row)):
                widget.redraw()
                row.measured = False
        self.view.arrange_soon()

    def _go_to_wanted(self) -> None:
        if self._wanted is None:
            return
        for row in self.view.rows:
            if row.message == self._wanted:
                self._wanted = None
                self.view.scroll_to(row)
                return

    def _act(self, action: Action, row: Row) -> None:
        if action == "reasoning":
            self.toggle_reasoning(row.message)
        elif action == "copy" and row.message in self._shown:
            copy_text(self._shown[row.message].message.content)
            self.acted.emit(action, row.message)
        elif action == "details":
            problem: Problem = row.data
            row.data = replace(problem, open=not problem.open)
            self.view.row_changed(row)
        else:
            self.acted.emit(action, row.message)


def _text(message: MessageRow) -> tuple[str, str | None, object, object]:
    return message.content, message.reasoning, message.attachments, message.failure
