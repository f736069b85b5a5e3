"""One row of a list of models: name and facts, size, a label, one button, and what it opens to."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import QEvent, QPoint, QSize, Qt, QTimer, Signal
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
from app.shell.flow import Flow
from app.shell.widgets import (
    ButtonKind,
    button,
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
NARROWEST = 110
SIZE_WIDTH = 72
LABEL_WIDTH = 152
BUTTON_WIDTH = 140
OPEN_WIDTH = 28
INDENT = OPEN_WIDTH + 8
# Rows in a list before "show more", and the time that making them may take at once.
MOST = 60
BATCH_S = 0.006


class Row(QWidget):
    """`acted` when its button is pressed, `toggled` when its details are opened or closed.

    `set_menu` gives the row its further actions; `among_menus` are rows of a list in which some
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
        # Shown before it lies in the row, it would be a window of its own and take the focus.
        if not opens:
            self.open_button.hide()
        self.menu_button = icon_button("ellipsis", tr("models.more", name=name), size=16)
        self.menu_button.clicked.connect(self._show_menu)
        self.menu_button.hide()
        self._actions_made: Callable[[], Sequence[QAction]] | None = None

        self._figures = QWidget()
        figures = Flow(spacing=12)
        figures.addWidget(self.amount)
        figures.addWidget(self._badge_place)
        figures.setContentsMargins(0, 0, 0, 0)
        self._figures.setLayout(figures)
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
        self._height, self._height_for = 0, -1
        self._whole = column(self.rule, spacing=0)
        self._whole.addLayout(head)
        self._whole.addWidget(self._details)
        self.setLayout(self._whole)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.show_facts(facts)
        self.show_size(None)
        self.show_label(None)
        self._name_open_button()
        self._arrange(wide=True)

    def hasHeightForWidth(self) -> bool:
        """The row works its height out once for each width, and else is as high as it says: a list
        of many is laid out again for every row that it gets."""
        return False

    def sizeHint(self) -> QSize:
        return QSize(theme().px(WIDE), self._height_now())

    def minimumSizeHint(self) -> QSize:
        """Narrower than side by side, since all can stand below each other."""
        return QSize(theme().px(NARROWEST), self._height_now())

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._height_for = -1
            self.updateGeometry()
        return super().event(event)

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

    def set_menu(self, actions: Callable[[], Sequence[QAction]] | None) -> None:
        """Actions are made when somebody wants to see them; None: there are none."""
        self._actions_made = actions
        self.menu_button.setVisible(actions is not None)

    def menu_actions(self) -> Sequence[QAction]:
        return self._actions_made() if self._actions_made is not None else ()

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
        if self.width() != self._height_for:
            self.updateGeometry()

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
        policy = QSizePolicy.Policy
        width = policy.Fixed if wide else policy.Preferred
        self._figures.setSizePolicy(width, policy.Preferred)
        self._line.setAlignment(self._figures, sides.AlignVCenter if wide else sides(0))
        self._line.setAlignment(self._actions, sides(0) if wide else sides.AlignLeft)

    def _height_now(self) -> int:
        if self.width() != self._height_for:
            self._height_for = self.width()
            self._height = self._whole.totalHeightForWidth(self.width())
        return self._height

    def _on_head(self, place: QPoint) -> bool:
        return place.y() < self._details.y() or not self.is_open

    def _show_figures(self) -> None:
        self._figures.setVisible(bool(self.amount.text() or self.badge.text()))

    def _name_open_button(self) -> None:
        words = tr("models.close" if self.is_open else "models.open", name=self.title)
        self.open_button.setAccessibleName(words)
        self.open_button.setToolTip(words)

    def _show_menu(self) -> None:
        menu = QMenu(self)
        menu.aboutToHide.connect(menu.deleteLater)
        for action in self.menu_actions():
            action.setParent(menu)
            menu.addAction(action)
        menu.popup(self.menu_button.mapToGlobal(QPoint(0, self.menu_button.height())))


class RowCard(QFrame):
    """Rows under a heading; gone while it has none. Many rows are made a few at a time, so that
    the window stays quick, and of very many only the first, until somebody wants more."""

    filled = Signal()

    def __init__(self, heading: str = "", *, framed: bool = True) -> None:
        super().__init__()
        if framed:
            self.setProperty("kind", "card")
        self.heading = label(heading, "heading", wrap=True)
        if not heading:
            self.heading.hide()
        self._body, self._rows = _body()
        self.more = button("", "link")
        self.more.clicked.connect(self._show_more)
        self.more.hide()
        layout = column(self.heading, spacing=6)
        if framed:
            layout.setContentsMargins(16, 12, 16, 6)
        layout.addWidget(self._body)
        layout.addWidget(self.more)
        self.setLayout(layout)
        self._layout = layout
        self.rows: list[Row] = []
        self._waiting: deque[Callable[[], Row]] = deque()
        self._room = MOST
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._make_some)
        self._old: list[QWidget] = []
        self._tidying = QTimer(self)
        self._tidying.setSingleShot(True)
        self._tidying.setInterval(0)
        self._tidying.timeout.connect(self._tidy)
        self.hide()

    def fill(self, makers: Iterable[Callable[[], Row]]) -> None:
        """Instead of the rows that are there. The first are there at once."""
        self._bury()
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

    def _bury(self) -> None:
        """The rows are gone at once; destroying many takes its time."""
        old = self._body
        self._body, self._rows = _body()
        old.hide()
        self._layout.replaceWidget(old, self._body)
        self._old += [*self.rows, old]
        self.rows = []
        self._tidying.start()

    def _tidy(self) -> None:
        end = time.monotonic() + BATCH_S
        while self._old and time.monotonic() < end:
            gone = self._old.pop(0)
            gone.setParent(None)
            gone.deleteLater()
        if self._old:
            self._tidying.start()

    def _show_more(self) -> None:
        self._room += MOST
        self._make_some()


def _body() -> tuple[QWidget, QVBoxLayout]:
    made, layout = QWidget(), column(spacing=0)
    made.setLayout(layout)
    return made, layout
