"""The main window: the sidebar, the pages beside it, shortcuts, and messages at the foot."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QCloseEvent, QGuiApplication, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QMainWindow,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.chat_controller import ChatController
from app.chat.sidebar_controller import SidebarController
from app.engine_client.client import Connection
from app.i18n import tr
from app.models.arrivals import Arrivals
from app.shell.context import Context
from app.shell.model_loader import ModelLoader
from app.shell.page import Page
from app.shell.pages import PAGES, PageEntry
from app.shell.reading_order import step
from app.shell.reveal import reveal
from app.shell.shortcuts import SHORTCUTS
from app.shell.toast import Toast
from app.shell.widgets import button, column
from app.theme.theme import theme
from app.theme.tokens import SIDEBAR_WIDTH
from engine.api.engine import EngineState

FONT_STEP = 0.1


class MainWindow(QMainWindow):
    """`closing` is sent once, before the window goes for good."""

    closing = Signal()

    def __init__(self, context: Context, loader: ModelLoader) -> None:
        super().__init__()
        self._context = context
        self._loader = loader
        self._first_run_shown = False
        self.setWindowTitle(tr("app.name"))
        self.setMinimumSize(720, 480)
        context.show_page = self.show_page
        context.notify = self.notify

        self.sidebar = SidebarController(context, self)
        self.chat = ChatController(context, loader, self)
        context.path_chosen = self.chat.choose_path
        self._pages: dict[str, Page] = {"chat": self.chat.view}
        self._stack = QStackedWidget()
        self._stack.addWidget(self.chat.view)
        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        self._splitter.setHandleWidth(1)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(self.sidebar.view)
        self._toast = Toast()
        beside = QWidget()
        beside.setLayout(column(self._stack, self._toast, spacing=0))
        self._splitter.addWidget(beside)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.setSizes([context.preferences.values.sidebar_width or SIDEBAR_WIDTH, 900])
        body = QWidget()
        layout = QVBoxLayout(body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._splitter)
        self.setCentralWidget(body)
        self._navigation = {page.id: self._nav_button(page) for page in PAGES if page.in_sidebar}

        self.sidebar.new_asked.connect(self._new_chat)
        self.sidebar.chat_asked.connect(self._open_chat)
        self.sidebar.gone.connect(self._chat_gone)
        self.chat.stored.connect(self.sidebar.refresh)
        self.chat.opened.connect(self.sidebar.set_current)
        theme().changed.connect(self._on_theme)
        context.engine.state_changed.connect(self._on_state)
        self._arrivals = Arrivals(context, self)
        self._make_shortcuts()
        self._restore_place()
        self.show_page("chat")
        self.sidebar.refresh()

    @property
    def page(self) -> str:
        """The id of the page in front."""
        current = self._stack.currentWidget()
        return next(name for name, page in self._pages.items() if page is current)

    def show_page(self, name: str) -> None:
        """Brings a page forward."""
        if name not in self._pages:
            entry = next(page for page in PAGES if page.id == name)
            page = entry.make(self._context)
            self._pages[name] = page
            self._stack.addWidget(page)
        page = self._pages[name]
        self._stack.setCurrentWidget(page)
        for key, made in self._navigation.items():
            made.setChecked(key == name)
        page.shown()

    def notify(
        self, sentence: str, action: str = "", callback: Callable[[], None] | None = None
    ) -> None:
        self._toast.say(sentence, action, callback)

    def come_forward(self) -> None:
        """Another start of the program asks for the window that is there."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()

    def close_pages(self) -> None:
        self._context.engine.state_changed.disconnect(self._on_state)
        self.chat.close()
        for name, page in self._pages.items():
            if name != "chat":
                page.close_page()

    def remember_place(self) -> None:
        values = self._context.preferences.values
        values.maximized = self.isMaximized()
        place = self.normalGeometry()
        values.window = (place.x(), place.y(), place.width(), place.height())
        if self.sidebar.view.isVisible():
            values.sidebar_width = max(200, min(600, self.sidebar.view.width()))
        self._context.preferences.save()

    def closeEvent(self, event: QCloseEvent) -> None:
        self.remember_place()
        self.closing.emit()
        super().closeEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.page == "chat":
            self.chat.composer.view.text.setFocus()

    def focusNextPrevChild(self, next: bool) -> bool:  # noqa: A002  # Qt's own name
        """Tab never goes to what nobody sees."""
        moved = step(self, forward=next) or super().focusNextPrevChild(next)
        if moved:
            reveal(self.focusWidget())
        return moved

    def _restore_place(self) -> None:
        values = self._context.preferences.values
        place = QRect(*values.window) if values.window is not None else QRect(0, 0, 1180, 780)
        screens = QGuiApplication.screens()
        # A screen that is gone must not take the window along.
        if values.window is not None and any(
            screen.availableGeometry().intersects(place) for screen in screens
        ):
            self.setGeometry(place)
        else:
            self.resize(place.size())
        if values.maximized:
            self.setWindowState(self.windowState() | Qt.WindowState.WindowMaximized)

    def _nav_button(self, page: PageEntry) -> QPushButton:
        made = button(tr(f"pages.{page.id}"), "nav", icon_name=page.icon)
        made.setCheckable(True)
        made.clicked.connect(lambda: self.show_page(page.id))
        self.sidebar.view.navigation.addWidget(made)
        return made

    def _make_shortcuts(self) -> None:
        actions: dict[str, Callable[[], None]] = {
            "new_chat": self._new_chat,
            "search": self.sidebar.focus_search,
            "write": self._write,
            "stop": self.chat.stop,
            "regenerate": self.chat.regenerate_last,
            "copy_answer": self.chat.copy_last,
            "attach": self.chat.composer.view.attach.click,
            "chat_settings": self.chat.view.settings.click,
            "why": self.chat.view.why.click,
            "larger": lambda: self._change_font(FONT_STEP),
            "smaller": lambda: self._change_font(-FONT_STEP),
            "sidebar": self._toggle_sidebar,
            "quit": self._quit,
        }
        for item in SHORTCUTS:
            if item.everywhere:
                QShortcut(QKeySequence(item.keys), self).activated.connect(actions[item.id])
        for page in PAGES:
            if not page.shortcut:
                continue
            shortcut = QShortcut(QKeySequence(page.shortcut), self)
            shortcut.activated.connect(lambda name=page.id: self.show_page(name))

    def _new_chat(self) -> None:
        self.show_page("chat")
        self.chat.new_chat()

    def _open_chat(self, chat: int, message: int | None) -> None:
        self.show_page("chat")
        self.chat.open_chat(chat, message)

    def _chat_gone(self, chat: int) -> None:
        if self.chat.chat == chat:
            self.chat.new_chat()

    def _write(self) -> None:
        self.show_page("chat")
        self.chat.composer.view.text.setFocus()

    def _change_font(self, step: float) -> None:
        values = self._context.preferences.values
        values.font_scale = round(max(0.8, min(2.0, values.font_scale + step)), 2)
        self._context.preferences.save()
        theme().apply(mode=values.theme, scale=values.font_scale)

    def _toggle_sidebar(self) -> None:
        self.sidebar.view.setVisible(not self.sidebar.view.isVisible())

    def _quit(self) -> None:
        self.close()

    def _on_state(self, state: EngineState) -> None:
        """The first start's page comes once it is known that there is no model to load."""
        connected = self._context.engine.connection is Connection.CONNECTED
        fresh = self._loader.chosen is None and not self.chat.messages
        if connected and state.status == "empty" and fresh and not self._first_run_shown:
            self._first_run_shown = True
            if self.page == "chat":
                self.show_page("first_run")

    def _on_theme(self) -> None:
        self.chat.transcript.view.redraw()
        self.chat.composer.view.refresh_theme()
        self.sidebar.view.list.viewport().update()
