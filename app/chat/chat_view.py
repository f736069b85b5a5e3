"""The chat page's layout: the model and the context above, the transcript, the composer, panels."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QProgressBar,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.panels import ChatSettingsPanel, WhyPanel
from app.chat.transcript_view import TranscriptView
from app.i18n import numbers, tr
from app.shell.page import Page
from app.shell.widgets import ElidedButton, button, icon_button, label, restyle, row
from app.theme.tokens import COLUMN_WIDTH, PANEL_WIDTH, SCROLL_BAR, SPACE

PATHS = ("auto", "decoder", "resident", "odp", "autocast")
NEARLY_FULL = 0.85
LEAST_COLUMN = 440  # of the page beside a panel


class EmptyChat(QWidget):
    """What stands in a chat without messages: what can be done now."""

    demo_asked = Signal()
    models_asked = Signal()
    restart_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._title = label("", "title", wrap=True)
        self._title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._words = label("", "secondary", wrap=True)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 1000)
        self._bar.setFixedWidth(280)
        self._bar.setAccessibleName(tr("chat.model_loading"))
        self.models = button(tr("helps.choose_model"), "primary")
        self.models.clicked.connect(self.models_asked)
        self.demo = button(tr("empty.demo"))
        self.demo.clicked.connect(self.demo_asked)
        self.restart = button(tr("helps.restart"), "primary")
        self.restart.clicked.connect(self.restart_asked)
        inner = QVBoxLayout()
        inner.setSpacing(12)
        inner.addWidget(self._title)
        inner.addWidget(self._words)
        inner.addWidget(self._bar, 0, Qt.AlignmentFlag.AlignHCenter)
        inner.addSpacing(8)
        inner.addLayout(row(None, self.models, self.demo, self.restart, None, spacing=12))
        holder = QWidget()
        holder.setFixedWidth(440)
        holder.setLayout(inner)
        layout = QVBoxLayout(self)
        layout.addStretch(2)
        layout.addLayout(row(None, holder, None))
        layout.addStretch(3)

    def show_state(
        self,
        title: str,
        words: str,
        *,
        progress: float | None = None,
        choose: bool = False,
        demo: bool = False,
        restart: bool = False,
    ) -> None:
        self._title.setText(title)
        self._words.setText(words)
        self._bar.setVisible(progress is not None)
        self._bar.setValue(round((progress or 0.0) * 1000))
        self.models.setVisible(choose)
        self.demo.setVisible(demo)
        self.restart.setVisible(restart)


class ContextMeter(QWidget):
    """How full the context is, with what is being typed."""

    def __init__(self) -> None:
        super().__init__()
        self._words = label("", "small")
        self._bar = QProgressBar()
        self._bar.setProperty("kind", "thin")
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 1000)
        self._bar.setFixedWidth(64)
        self._bar.setAccessibleName(tr("chat.context"))
        self.setLayout(row(self._bar, self._words))
        self.hide()

    def show_use(self, used: int, available: int) -> None:
        self.setVisible(available > 0)
        if not available:
            return
        share = used / available
        self._words.setText(tr("chat.context_used", percent=numbers.percent(share)))
        self.setToolTip(
            tr("chat.context_tip", used=numbers.count(used), available=numbers.count(available))
        )
        self._bar.setValue(round(min(1.0, share) * 1000))
        full = share > NEARLY_FULL
        if self._bar.property("full") != full:
            self._bar.setProperty("full", full)
            restyle(self._bar)


class ChatView(Page):
    def __init__(
        self, transcript: TranscriptView, composer: QWidget, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.model = ElidedButton("quiet")
        self.model.setToolTip(tr("chat.model_tip"))
        self.path = QComboBox()
        self.path.setAccessibleName(tr("chat.path"))
        self.path.setToolTip(tr("chat.path"))
        for name in PATHS:
            self.path.addItem(tr(f"paths.{name}"), name)
            tip = tr(f"path_hints.{name}")
            self.path.setItemData(self.path.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.context = ContextMeter()
        self.settings = icon_button("sliders-horizontal", tr("chat_settings.title"))
        self.settings.setCheckable(True)
        self.why = icon_button("panel-right", tr("why.title"))
        self.why.setCheckable(True)
        bar = row(self.model, None, self.path, self.context, self.settings, self.why, spacing=12)
        bar.setContentsMargins(16, 8, 16, 8)
        top = QFrame()
        top.setLayout(bar)

        self.empty = EmptyChat()
        self.transcript = transcript
        self.body = QStackedWidget()
        self.body.addWidget(self.empty)
        self.body.addWidget(transcript)

        self.status = label("", "small")
        self.status.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.status.hide()
        below = QVBoxLayout()
        # The transcript's scroll bar moves its column by half its width; the composer follows.
        below.setContentsMargins(24, 4, 24 + SCROLL_BAR, 16)
        below.setSpacing(6)
        below.addWidget(self.status)
        composer.setMaximumWidth(COLUMN_WIDTH + 2 * SPACE.around)
        centred = QHBoxLayout()
        centred.addStretch(1)
        centred.addWidget(composer, 1000)
        centred.addStretch(1)
        below.addLayout(centred)

        self._middle = QWidget()
        middle = QVBoxLayout(self._middle)
        middle.setContentsMargins(0, 0, 0, 0)
        middle.setSpacing(0)
        middle.addWidget(top)
        middle.addWidget(self.body, 1)
        middle.addLayout(below)

        self.why_panel = WhyPanel()
        self.settings_panel = ChatSettingsPanel()
        self._panels = QStackedWidget()
        self._panels.addWidget(self.why_panel)
        self._panels.addWidget(self.settings_panel)
        self._panels.hide()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._middle, 1)
        layout.addWidget(self._panels)
        self.why.clicked.connect(lambda: self.show_panel("why" if self.why.isChecked() else ""))
        self.settings.clicked.connect(
            lambda: self.show_panel("settings" if self.settings.isChecked() else "")
        )
        self.why_panel.closed.connect(lambda: self.show_panel(""))
        self.settings_panel.closed.connect(lambda: self.show_panel(""))

    def show_panel(self, name: str) -> None:
        """`why`, `settings`, or nothing."""
        focus = cast("QWidget | None", self.window().focusWidget())
        if not name and focus is not None and self._panels.isAncestorOf(focus):
            # Back to the button that opened it.
            (self.why if self.why.isChecked() else self.settings).setFocus()
        self._panels.setVisible(bool(name))
        if name:
            panel = self.why_panel if name == "why" else self.settings_panel
            self._panels.setCurrentWidget(panel)
        self.why.setChecked(name == "why")
        self.settings.setChecked(name == "settings")
        self._arrange()

    def _arrange(self) -> None:
        """A panel takes the whole page where it would leave too little beside it."""
        alone = not self._panels.isHidden() and self.width() - PANEL_WIDTH < LEAST_COLUMN
        self._middle.setHidden(alone)
        self._panels.setMaximumWidth(self.width() if alone else PANEL_WIDTH)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def uncover(self) -> None:
        """Closes a panel that takes the whole page."""
        if self._middle.isHidden():
            self.show_panel("")

    def show_messages(self, shown: bool) -> None:
        self.body.setCurrentWidget(self.transcript if shown else self.empty)

    def show_status(self, words: str) -> None:
        self.status.setText(words)
        self.status.setVisible(bool(words))
