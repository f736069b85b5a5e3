"""One row of a list of models: name and facts, size, a label, one button, and what it opens to."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from PySide6.QtCore import QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QLabel,
    QMenu,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.i18n import numbers, tr
from app.models.words import Tone, breakable
from app.shell.widgets import (
    ButtonKind,
    button,
    clear_layout,
    column,
    icon_button,
    label,
    restyle,
    row,
    rule,
)
from app.theme.icons import icon
from app.theme.theme import theme

# Narrower than this, size and label go below the name.
WIDE = 560
NARROWEST = 180
SIZE_WIDTH = 72
LABEL_WIDTH = 152
BUTTON_WIDTH = 140
OPEN_WIDTH = 28
INDENT = OPEN_WIDTH + 8
# Rows in a list before "show more", and the time that making them may take at once.
MOST = 60
BATCH_S = 0.012


class Row(QWidget):
    """`acted` when its button is pressed, `toggled` when its details are opened or closed.

    `add_menu` gives the row its further actions; `among_menus` are rows of a list in which some
    have such.
    """

    acted = Signal()
    toggled = Signal(bool)

    def __init__(
        self, name: str, facts: str = "", *, opens: bool = False, among_menus: bool = False
    ) -> None:
        super().__init__()
        self._among_menus = among_menus
        self.title = name
        self._opens = opens
        self._kind: ButtonKind = "plain"
        self._wide = True
        self.rule = rule()
        self.name = label(breakable(name), "heading", wrap=True)
        self.facts = label("", "small", wrap=True)
        self.problem = label("", "error", wrap=True)
        self.problem.hide()
        self.amount = label("", "secondary")
        self.amount.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.badge = label("", "badge")
        self._badge_place = QWidget()
        line = row(None, spacing=0)
        line.insertWidget(0, self.badge, 0, Qt.AlignmentFlag.AlignVCenter)
        self._badge_place.setLayout(line)
        self.button = button("")
        self.button.clicked.connect(self.acted)
        self.button.hide()
        self.open_button = icon_button("chevron-right", "", size=16)
        self.open_button.clicked.connect(lambda: self.set_open(not self.is_open))
        self.open_button.setFixedWidth(OPEN_WIDTH)
        self.open_button.setVisible(opens)
        self.menu_button = icon_button("ellipsis", tr("models.more", name=name), size=16)
        self.menu_button.clicked.connect(self._show_menu)
        self.menu_button.hide()
        self._menu: QMenu | None = None

        self._figures = QWidget()
        self._figures.setLayout(row(self.amount, self._badge_place, spacing=12))
        self._figures.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self._line = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._line.setSpacing(8)
        self._line.addLayout(column(self.name, self.facts, self.problem, spacing=2), 1)
        self._line.addWidget(self._figures)
        self._actions = row(self.button, self.menu_button, spacing=8)
        self._line.addLayout(self._actions)
        head = row(self.open_button, spacing=8)
        head.addLayout(self._line, 1)
        head.setContentsMargins(0, 10, 0, 10)
        self._details = QWidget()
        self.details = QVBoxLayout(self._details)
        self.details.setContentsMargins(INDENT if opens else 0, 0, 0, 10)
        self.details.setSpacing(4)
        self._details.hide()
        whole = column(self.rule, spacing=0)
        whole.addLayout(head)
        whole.addWidget(self._details)
        self.setLayout(whole)
        self.show_facts(facts)
        self.show_size(None)
        self.show_label(None)
        self._name_open_button()
        self._arrange(wide=True)

    def minimumSizeHint(self) -> QSize:
        """Narrower than side by side, since all can stand below each other."""
        return QSize(theme().px(NARROWEST), super().minimumSizeHint().height())

    def add_words(self, words: str) -> QLabel:
        """A sentence below, in the details."""
        shown = label(words, "secondary", wrap=True)
        self.details.addWidget(shown)
        return shown

    @property
    def is_open(self) -> bool:
        return not self._details.isHidden()

    def set_open(self, is_open: bool) -> None:
        if is_open == self.is_open:
            return
        self._details.setVisible(is_open)
        self.open_button.setIcon(icon("chevron-down" if is_open else "chevron-right"))
        self._name_open_button()
        self.toggled.emit(is_open)

    def show_facts(self, facts: str) -> None:
        self.facts.setText(facts)
        self.facts.setVisible(bool(facts))

    def show_problem(self, sentence: str) -> None:
        self.problem.setText(breakable(sentence))
        self.problem.setVisible(bool(sentence))

    def show_size(self, nbytes: int | None) -> None:
        self.amount.setText(numbers.size(nbytes) if nbytes else "")
        self._show_figures()

    def show_label(self, shown: tuple[str, Tone] | None, tip: str = "") -> None:
        words, tone = shown or ("", "badge")
        self.badge.setText(words)
        self.badge.setVisible(bool(words))
        self.badge.setToolTip(tip)
        if self.badge.property("kind") != tone:
            self.badge.setProperty("kind", tone)
            restyle(self.badge)
        self._show_figures()

    def show_button(self, words: str, kind: ButtonKind = "plain", *, enabled: bool = True) -> None:
        """Without words there is none."""
        self.button.setText(words)
        self.button.setAccessibleName(f"{words}: {self.title}" if words else "")
        self.button.setVisible(bool(words))
        self.button.setEnabled(enabled)
        if kind != self._kind:
            self._kind = kind
            self.button.setProperty("kind", None if kind == "plain" else kind)
            restyle(self.button)

    def add_menu(self, actions: Iterable[QAction]) -> None:
        if self._menu is not None:
            self._menu.deleteLater()
        self._menu = QMenu(self)
        self._menu.addActions(list(actions))
        self.menu_button.setVisible(not self._menu.isEmpty())

    @property
    def menu(self) -> QMenu | None:
        return self._menu

    def mousePressEvent(self, event: QMouseEvent) -> None:
        left = event.button() == Qt.MouseButton.LeftButton
        if left and self._opens and self._on_head(event.pos()):
            self.set_open(not self.is_open)
        super().mousePressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = self.width() >= theme().px(WIDE)
        if wide != self._wide:
            self._arrange(wide=wide)

    def _arrange(self, *, wide: bool) -> None:
        """In columns that stand below those of other rows, or each below the last."""
        self._wide = wide
        ways = QBoxLayout.Direction
        self._line.setDirection(ways.LeftToRight if wide else ways.TopToBottom)
        self._line.setSpacing(8 if wide else 6)
        sides = Qt.AlignmentFlag
        side = sides.AlignRight if wide else sides.AlignLeft
        self.amount.setAlignment(side | sides.AlignVCenter)
        for shown, width in (
            (self.amount, SIZE_WIDTH),
            (self._badge_place, LABEL_WIDTH),
            (self.button, BUTTON_WIDTH),
        ):
            shown.setMinimumWidth(theme().px(width) if wide else 0)
        for made, held in ((self.button, wide), (self.menu_button, wide and self._among_menus)):
            keeps = made.sizePolicy()
            keeps.setRetainSizeWhenHidden(held)
            made.setSizePolicy(keeps)
        for part in (self._figures, self._actions):
            self._line.setAlignment(part, sides(0) if wide else sides.AlignLeft)

    def _on_head(self, place: QPoint) -> bool:
        return place.y() < self._details.y() or not self.is_open

    def _show_figures(self) -> None:
        self._figures.setVisible(bool(self.amount.text() or self.badge.text()))

    def _name_open_button(self) -> None:
        words = tr("models.close" if self.is_open else "models.open", name=self.title)
        self.open_button.setAccessibleName(words)
        self.open_button.setToolTip(words)

    def _show_menu(self) -> None:
        if self._menu is not None:
            below = QPoint(0, self.menu_button.height())
            self._menu.popup(self.menu_button.mapToGlobal(below))


class RowCard(QFrame):
    """Rows under a heading; gone while it has none. Many rows are made a few at a time, so that
    the window stays quick, and of very many only the first, until somebody wants more."""

    filled = Signal()

    def __init__(self, heading: str = "", *, framed: bool = True) -> None:
        super().__init__()
        if framed:
            self.setProperty("kind", "card")
        self.heading = label(heading, "heading")
        self.heading.setVisible(bool(heading))
        self._rows = QVBoxLayout()
        self._rows.setSpacing(0)
        self.more = button("", "link")
        self.more.clicked.connect(self._show_more)
        self.more.hide()
        layout = column(self.heading, spacing=6)
        if framed:
            layout.setContentsMargins(16, 12, 16, 6)
        layout.addLayout(self._rows)
        layout.addWidget(self.more)
        self.setLayout(layout)
        self.rows: list[Row] = []
        self._waiting: deque[Callable[[], Row]] = deque()
        self._room = MOST
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._make_some)
        self.hide()

    def fill(self, makers: Iterable[Callable[[], Row]]) -> None:
        """Instead of the rows that are there. The first are there at once."""
        clear_layout(self._rows)
        self.rows = []
        self._waiting = deque(makers)
        self._room = MOST
        self.setVisible(bool(self._waiting))
        self._make_some()

    @property
    def is_filling(self) -> bool:
        return self._timer.isActive()

    def _make_some(self) -> None:
        end = time.monotonic() + BATCH_S
        while self._waiting and len(self.rows) < self._room:
            made = self._waiting.popleft()()
            made.rule.setVisible(bool(self.rows) or not self.heading.isHidden())
            self._rows.addWidget(made)
            self.rows.append(made)
            if time.monotonic() > end:
                break
        left = len(self._waiting)
        enough = len(self.rows) >= self._room
        self.more.setVisible(bool(left) and enough)
        if left and not enough:
            self._timer.start()
            return
        words = tr("models.show_more", count=left)
        self.more.setText(words)
        self.more.setAccessibleName(words)
        self.filled.emit()

    def _show_more(self) -> None:
        self._room += MOST
        self._make_some()
