"""The rows that a transcript is made of, and the widgets that show them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.answer_words import Reading, report_line, token_count
from app.chat.code_view import CodeView
from app.chat.formula_cache import FormulaCache
from app.chat.prose import ProseView
from app.i18n import numbers, tr
from app.shell.widgets import ElidedButton, button, icon_button, label, row
from app.store.records import Attachment
from app.text.segments import Code, Plain, Prose
from app.theme.icons import icon
from app.theme.tokens import TYPE

Kind = Literal[
    "head", "files", "prose", "plain", "code", "reasoning", "thought", "foot", "reading", "error",
    "notice",
]  # fmt: skip

# Rows are this much wider than the column on both sides, so that a button's frame can stand out
# while its words align with the text; a quiet button has QUIET of it around its words.
INSET = 8
QUIET = 6

_ids = itertools.count(1)


@dataclass(eq=False)
class Row:
    """One row: `message` it belongs to, `gap` px above it, `card` if it lies on the message's card.

    `height` includes the gap and is an estimate until `measured` at `width`.
    """

    message: int
    kind: Kind
    data: Any = None
    gap: int = 0
    card: bool = False
    id: int = field(default_factory=lambda: next(_ids))
    height: int = 0
    width: int = 0
    measured: bool = False

    def estimate(self, width: int) -> int:
        match self.data:
            case Prose():
                characters = len(self.data.html)
            case Plain():
                characters = len(self.data.text)
            case Code():
                return (self.data.html.count("\n") + 1) * 19 + 48
            case _:
                return 36
        lines = characters * TYPE.transcript * 0.5 / max(1, width) + 1
        return round(lines * TYPE.transcript * TYPE.line_height)


# What a person can do to a message, and with which icon; the words are `actions.<name>`.
Action = Literal[
    "copy", "edit", "delete", "regenerate", "continue", "older", "newer", "why", "reasoning",
    "help", "details", "stop",
]  # fmt: skip
Act = Callable[[Action, Row], None]


class RowWidget(QWidget):
    """Shows one row. `controls` are what Tab reaches in it, in order."""

    def __init__(self, made_for: Row, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message = made_for.message
        self.kind = made_for.kind

    def show_row(self, row: Row) -> None:
        del row

    def height_for(self, width: int) -> int:
        layout = self.layout()
        if layout is None:
            return self.sizeHint().height()
        if layout.hasHeightForWidth():
            return layout.totalHeightForWidth(width + 2 * INSET)
        return layout.totalSizeHint().height()

    def set_active(self, active: bool) -> None:
        """Whether the pointer is over the row's message."""
        del active

    def redraw(self) -> None:
        pass

    def controls(self) -> list[QWidget]:
        return []


class ActionButton(QToolButton):
    """Seen while the pointer is over its message, while it has the focus, or always."""

    def __init__(self, name: Action, icon_name: str) -> None:
        super().__init__()
        tip = tr(f"actions.{name}")
        self.setIcon(icon(icon_name))
        self.setIconSize(QSize(16, 16))
        self.setFixedSize(28, 28)
        self.setToolTip(tip)
        self.setAccessibleName(tip)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._seen = False

    def set_seen(self, seen: bool) -> None:
        if seen != self._seen:
            self._seen = seen
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._seen or self.hasFocus() or self.underMouse():
            super().paintEvent(event)


class _Actions(QWidget):
    """A message's buttons, and the arrows between its versions."""

    def __init__(self, names: list[tuple[Action, str]], act: Callable[[Action], None]) -> None:
        super().__init__()
        self._always = False
        self._older = ActionButton("older", "chevron-left")
        self._newer = ActionButton("newer", "chevron-right")
        self._version = label("", "small")
        self._buttons = [ActionButton(name, icon_name) for name, icon_name in names]
        self._names = [name for name, _ in names]
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for widget in (*self._buttons, self._older, self._version, self._newer):
            layout.addWidget(widget)
        self._older.clicked.connect(lambda: act("older"))
        self._newer.clicked.connect(lambda: act("newer"))
        for (name, _), made in zip(names, self._buttons, strict=True):
            made.clicked.connect(partial(_call, act, name))

    def show_state(
        self, version: int, versions: int, *, always: bool, hidden: frozenset[str] = frozenset()
    ) -> None:
        many = versions > 1
        for widget in (self._older, self._newer, self._version):
            widget.setVisible(many)
        self._version.setText(tr("chat.version", version=version, versions=versions))
        self._older.setEnabled(version > 1)
        self._newer.setEnabled(version < versions)
        for made in (self._older, self._newer):
            made.set_seen(True)  # that there are other versions must be plain to see
        for name, made in zip(self._names, self._buttons, strict=True):
            made.setVisible(name not in hidden)
            made.set_seen(always)
        self._always = always

    def set_active(self, active: bool) -> None:
        for made in self._buttons:
            made.set_seen(active or self._always)

    def controls(self) -> list[QWidget]:
        return [
            made
            for made in (*self._buttons, self._older, self._newer)
            if not made.isHidden() and made.isEnabled()
        ]


@dataclass(frozen=True)
class Head:
    """Who speaks; a person's message has its buttons here. `busy` while an answer is written."""

    role: str
    version: int = 1
    versions: int = 1
    busy: bool = False


class HeadWidget(RowWidget):
    def __init__(self, made_for: Row, act: Act, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        self._row = made_for
        names: list[tuple[Action, str]] = [
            ("copy", "copy"), ("edit", "pencil"), ("delete", "trash-2"),
        ]  # fmt: skip
        self._actions = _Actions(names, lambda name: act(name, self._row))
        self._who = label("")
        layout = row(self._who, None, self._actions)
        layout.setContentsMargins(INSET, 0, INSET, 0)
        self.setLayout(layout)
        self.setFixedHeight(28)

    def show_row(self, row: Row) -> None:
        self._row = row
        head: Head = row.data
        is_user = head.role == "user"
        self._who.setText(tr("chat.you") if is_user else tr("app.name"))
        self._who.setProperty("kind", "you" if is_user else "twofold")
        self._who.style().polish(self._who)
        self._actions.setVisible(is_user)
        hidden = frozenset({"edit", "delete"}) if head.busy else frozenset[str]()
        self._actions.show_state(head.version, head.versions, always=False, hidden=hidden)

    def height_for(self, width: int) -> int:
        del width
        return 28

    def set_active(self, active: bool) -> None:
        self._actions.set_active(active)

    def controls(self) -> list[QWidget]:
        return [] if self._actions.isHidden() else self._actions.controls()


class FilesWidget(RowWidget):
    """The files that came with a message."""

    def __init__(self, made_for: Row, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(INSET, 0, INSET, 4)
        layout.setSpacing(4)
        files: tuple[Attachment, ...] = made_for.data
        for item in files:
            layout.addWidget(file_chip(item), 0, Qt.AlignmentFlag.AlignLeft)


def file_chip(item: Attachment, *, remove: QToolButton | None = None) -> QFrame:
    chip = QFrame()
    chip.setProperty("kind", "chip")
    picture = QLabel()
    picture.setPixmap(icon("file-text").pixmap(QSize(16, 16)))
    name = label(_short(item.name))
    name.setToolTip(item.name)
    tokens = token_count(item.tokens) if item.tokens is not None else ""
    widgets = [picture, name, label(tokens, "small"), *([remove] if remove else [])]
    chip.setLayout(row(*widgets))
    layout = chip.layout()
    assert layout is not None
    layout.setContentsMargins(10, 4, 4 if remove else 10, 4)
    return chip


def _short(name: str, length: int = 48) -> str:
    """A long name keeps its end, which tells the kind of file."""
    return name if len(name) <= length else f"{name[: length - 13]}…{name[-12:]}"


class ProseWidget(RowWidget):
    def __init__(self, made_for: Row, formulas: FormulaCache, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        self._view = ProseView(formulas, secondary=made_for.kind == "thought", parent=self)
        self._indent = 16 if made_for.kind == "thought" else 0

    def show_row(self, row: Row) -> None:
        self._view.show_segment(row.data)

    def height_for(self, width: int) -> int:
        height = self._view.height_for(width - self._indent)
        self._view.setGeometry(INSET + self._indent, 0, width - self._indent, height)
        return height

    def redraw(self) -> None:
        self._view.redraw()

    def controls(self) -> list[QWidget]:
        return [self._view] if self._view.is_stop else []


class CodeWidget(RowWidget):
    def __init__(self, made_for: Row, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        self._view = CodeView(made_for.data, self)

    def show_row(self, row: Row) -> None:
        self._view.show_segment(row.data)

    def height_for(self, width: int) -> int:
        height = self._view.height_for(width)
        self._view.setGeometry(INSET, 0, width, height)
        return height

    def redraw(self) -> None:
        self._view.redraw()

    def controls(self) -> list[QWidget]:
        return self._view.controls()


@dataclass(frozen=True)
class Thought:
    """An answer's reasoning: `seconds` it took, None while it lasts or where nobody knows."""

    open: bool
    running: bool = False
    seconds: float | None = None


class ReasoningWidget(RowWidget):
    """The line that opens and closes the reasoning."""

    def __init__(self, made_for: Row, act: Act, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        self._row = made_for
        self._button = button("", "quiet")
        self._button.setIconSize(QSize(14, 14))
        self._button.clicked.connect(lambda: act("reasoning", self._row))
        layout = row(self._button, None)
        layout.setContentsMargins(INSET - QUIET, 0, INSET, 0)
        self.setLayout(layout)

    def show_row(self, row: Row) -> None:
        self._row = row
        thought: Thought = row.data
        if thought.running:
            words = tr("chat.thinking")
        elif thought.seconds is None:
            words = tr("chat.thoughts")
        else:
            words = tr("chat.thought_for", time=numbers.seconds(thought.seconds))
        self._button.setText(words)
        self._button.setIcon(icon("chevron-down" if thought.open else "chevron-right"))
        state = tr("chat.expanded") if thought.open else tr("chat.collapsed")
        self._button.setAccessibleName(f"{words}, {state}")

    def controls(self) -> list[QWidget]:
        return [self._button]


@dataclass(frozen=True)
class Foot:
    """Below an answer: its report where there is one, its buttons always on the `last` answer."""

    report: dict[str, Any] | None
    status: str
    version: int
    versions: int
    last: bool
    busy: bool = False


class FootWidget(RowWidget):
    def __init__(self, made_for: Row, act: Act, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        self._row = made_for
        self._report = ElidedButton("quiet", Qt.TextElideMode.ElideRight)
        self._report.setToolTip(tr("chat.open_why"))
        self._report.clicked.connect(lambda: act("why", self._row))
        names: list[tuple[Action, str]] = [
            ("copy", "copy"), ("regenerate", "refresh-cw"), ("continue", "step-forward"),
            ("edit", "pencil"), ("delete", "trash-2"),
        ]  # fmt: skip
        self._actions = _Actions(names, lambda name: act(name, self._row))
        self._line = row(self._report, None, self._actions)
        self._line.setContentsMargins(INSET - QUIET, 0, INSET, 0)
        self.setLayout(self._line)

    def show_row(self, row: Row) -> None:
        self._row = row
        foot: Foot = row.data
        if foot.report is not None:
            line = report_line(foot.report)
        elif foot.status == "interrupted":
            line = tr("chat.interrupted")
        else:
            line = ""
        self._report.setVisible(bool(line))
        self._report.show_words(line)
        self._report.setAccessibleName(f"{line}. {tr('chat.open_why')}")
        self._report.setEnabled(foot.report is not None)
        hidden = set[str]()
        if foot.busy:
            hidden |= {"regenerate", "continue", "edit", "delete"}
        if not foot.last:
            hidden.add("continue")
        self._actions.show_state(
            foot.version, foot.versions, always=foot.last, hidden=frozenset(hidden)
        )

    def height_for(self, width: int) -> int:
        """One line, or the buttons below the report where both do not fit side by side."""
        margins = self._line.contentsMargins()
        room = width - margins.left() - margins.right() - self._line.spacing()
        wanted = 0 if self._report.isHidden() else self._report.sizeHint().width()
        fits = wanted + self._actions.sizeHint().width() <= room
        ways = QBoxLayout.Direction
        self._line.setDirection(ways.LeftToRight if fits else ways.TopToBottom)
        side = Qt.AlignmentFlag(0) if fits else Qt.AlignmentFlag.AlignRight
        self._line.setAlignment(self._actions, side)
        return 34 if fits else 64

    def set_active(self, active: bool) -> None:
        self._actions.set_active(active)

    def controls(self) -> list[QWidget]:
        own: list[QWidget] = [] if self._report.isHidden() else [self._report]
        return own + self._actions.controls()


class ReadingWidget(RowWidget):
    """A prompt that is being read: how far, how fast, how long still."""

    def __init__(self, made_for: Row, act: Act, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        self._row = made_for
        self._title = label(tr("chat.reading"), "reading")
        self._tokens = label("")
        self._details = label("", "small")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 1000)
        self._bar.setAccessibleName(tr("chat.reading"))
        self._stop = icon_button("x", tr("actions.stop"), size=16)
        self._stop.clicked.connect(lambda: act("stop", self._row))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(INSET, 0, INSET, 8)
        layout.setSpacing(4)
        layout.addLayout(row(self._title, self._tokens, None, self._stop))
        layout.addWidget(self._bar)
        layout.addWidget(self._details)

    def show_row(self, row: Row) -> None:
        self._row = row
        state: Reading | str | None = row.data
        if isinstance(state, Reading):
            self._title.setText(tr("chat.reading"))
            self._bar.setRange(0, 1000)
            self._bar.setValue(round(state.fraction * 1000))
            self._tokens.setText(state.tokens)
            self._details.setText(state.details)
        else:
            self._title.setText(state or tr("chat.waiting"))
            self._bar.setRange(0, 1)  # an empty bar: nothing is known yet
            self._bar.setValue(0)
            self._tokens.setText("")
            self._details.setText("")

    def controls(self) -> list[QWidget]:
        return [self._stop]


@dataclass(frozen=True)
class Problem:
    """What went wrong, in a sentence; `help` is the button's action (`helps.<help>`)."""

    sentence: str
    code: str
    help: str
    details: str
    open: bool = False


class ProblemWidget(RowWidget):
    """A failure as a card: a sentence, one button that helps, details folded."""

    def __init__(self, made_for: Row, act: Act, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        self._row = made_for
        card = QFrame()
        card.setProperty("kind", "error-card")
        picture = QLabel()
        picture.setPixmap(icon("circle-alert", "error").pixmap(QSize(20, 20)))
        picture.setAlignment(Qt.AlignmentFlag.AlignTop)
        picture.setFixedWidth(24)
        self._sentence = label("", wrap=True)
        self._sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._help = button("", "primary")
        self._help.clicked.connect(lambda: act("help", self._row))
        self._more = button(tr("chat.details"), "quiet")
        self._more.clicked.connect(lambda: act("details", self._row))
        self._details = label("", "small", wrap=True)
        self._details.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        inner = QVBoxLayout()
        inner.setSpacing(12)
        inner.addWidget(self._sentence)
        inner.addLayout(row(self._help, self._more, None))
        inner.addWidget(self._details)
        whole = QHBoxLayout(card)
        whole.setContentsMargins(16, 16, 16, 16)
        whole.setSpacing(12)
        whole.addWidget(picture)
        whole.addLayout(inner, 1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(INSET, 4, INSET, 4)
        outer.addWidget(card)

    def show_row(self, row: Row) -> None:
        self._row = row
        problem: Problem = row.data
        self._sentence.setText(problem.sentence)
        self._help.setText(tr(f"helps.{problem.help}"))
        self._help.setAccessibleName(self._help.text())
        self._more.setIcon(icon("chevron-down" if problem.open else "chevron-right"))
        self._details.setText(f"{problem.code}\n{problem.details}".strip())
        self._details.setVisible(problem.open)

    def controls(self) -> list[QWidget]:
        return [self._help, self._more]


class NoticeWidget(RowWidget):
    """Something to know about an answer that was given all the same."""

    def __init__(self, made_for: Row, parent: QWidget) -> None:
        super().__init__(made_for, parent)
        picture = QLabel()
        picture.setPixmap(icon("triangle-alert", "warn").pixmap(QSize(16, 16)))
        picture.setFixedWidth(20)
        self._words: QLabel = label("", "warn", wrap=True)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(INSET, 2, INSET, 6)
        layout.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self._words, 1)

    def show_row(self, row: Row) -> None:
        self._words.setText(str(row.data))


def _call(act: Callable[[Action], None], name: Action, _checked: bool = False) -> None:
    act(name)


def make_row_widget(made_for: Row, act: Act, formulas: FormulaCache, parent: QWidget) -> RowWidget:
    match made_for.kind:
        case "head":
            return HeadWidget(made_for, act, parent)
        case "files":
            return FilesWidget(made_for, parent)
        case "code":
            return CodeWidget(made_for, parent)
        case "reasoning":
            return ReasoningWidget(made_for, act, parent)
        case "foot":
            return FootWidget(made_for, act, parent)
        case "reading":
            return ReadingWidget(made_for, act, parent)
        case "error":
            return ProblemWidget(made_for, act, parent)
        case "notice":
            return NoticeWidget(made_for, parent)
        case "prose" | "plain" | "thought":
            return ProseWidget(made_for, formulas, parent)
