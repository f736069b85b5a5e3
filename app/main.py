"""The window as a program: `python -m app`. What is on the screen first is there at once, the
engine starts behind it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.engine_client.client import EngineClient
from app.engine_client.models import Models
from app.i18n import set_language, system_language, tr
from app.i18n.qt_words import follow_language
from app.i18n.reasons import in_language
from app.preferences import PreferencesFile
from app.shell.background import Background
from app.shell.collector import Collector
from app.shell.context import Context
from app.shell.model_loader import ModelLoader
from app.shell.single import SingleWindow
from app.shell.steps import Steps
from app.shell.window import MainWindow
from app.store.chats import ChatStore
from app.store.owner import StoreOwner
from app.store.records import Opened
from app.theme.motion import set_still
from app.theme.theme import theme
from engine.errors import TwofoldError
from engine.paths import config_folder, data_folder


class Application(QObject):
    """Everything that lives as long as the program; the window may be made anew."""

    def __init__(
        self, *, data: Path, config: Path, make_engine: Callable[[], EngineClient] = EngineClient
    ) -> None:
        super().__init__()
        self._collector = Collector(self)
        self.preferences = PreferencesFile(config / "window.json")
        values = self.preferences.values
        set_language(values.language or system_language())
        follow_language()
        theme().apply(mode=values.theme, scale=values.font_scale, accent=values.accent)
        set_still(values.reduce_motion)
        self.background = Background()
        self.store = StoreOwner(data / "chats.db", self.background.deliver)
        self.store.on_error = self._on_store_error
        self.engine = make_engine()
        self.engine.setParent(self)
        self.loader = ModelLoader(self.engine, self.preferences, self)
        self.models = Models(self.engine, self.background, self)
        self.context = Context(
            engine=self.engine,
            store=self.store,
            preferences=self.preferences,
            background=self.background,
            loader=self.loader,
            models=self.models,
            restart_window=self.remake_window,
        )
        self.window = self._make_window()
        self._collector.start()
        self._told: str | None = None
        self._remaking: Steps | None = None
        self._closed = False

    def start(self) -> None:
        """Shows the window, then starts the engine behind it."""
        self.window.show()
        QTimer.singleShot(0, self, self.engine.start)
        self.store.ask(_opened, self._on_opened)

    def come_forward(self, model: str = "") -> None:
        """Another start asks for the window, and perhaps to open a model in it."""
        self.window.come_forward()
        if model:
            self.open_model(model)

    def open_model(self, model: str) -> None:
        """Loads a model that somebody opened from outside; the engine says if it cannot be."""
        self.loader.load(Path(model))
        self.window.show_page("chat")

    def remake_window(self) -> None:
        """All pages anew, as a new language needs; the open chat stays open."""
        if self._remaking is None and not self._closed:
            self._remaking = Steps(self._remake(), self._remade, self, large=True)

    def _remake(self) -> Iterator[None]:
        """The old window stays in front until the new one is whole."""
        values = self.preferences.values
        set_language(values.language or system_language())
        follow_language()
        old, chat = self.window, self.window.chat.chat
        old.remember_place()
        self.window = self._make_window()
        yield
        old.close_pages()
        if chat is not None:
            self.window.chat.open_chat(chat)
        yield
        self.window.show()
        yield
        old.closing.disconnect(self.close)
        old.close()
        old.deleteLater()

    def _remade(self) -> None:
        assert self._remaking is not None
        self._remaking.deleteLater()
        self._remaking = None

    def close(self) -> None:
        """Keeps everything, ends the engine, and waits for what runs."""
        if self._closed:
            return
        self._closed = True
        if self._remaking is not None:
            self._remaking.finish()
        self.window.close_pages()
        self.models.close()
        self.engine.close()
        self.store.close()
        self.background.close()
        self._collector.close()
        theme().settle()

    def _make_window(self) -> MainWindow:
        window = MainWindow(self.context, self.loader)
        window.closing.connect(self.close)
        return window

    def _on_opened(self, opened: Opened) -> None:
        """Says what was found when the chats were opened, where there is something to say."""
        repair = opened.repair
        if repair is not None:
            self.window.notify(tr("store.repaired", chats=repair.chats, path=str(repair.moved_to)))

    def _on_store_error(self, error: BaseException) -> None:
        if not isinstance(error, TwofoldError):
            raise error
        words = tr(f"errors.{error.code}", **in_language(error.data))
        if words != self._told:
            self._told = words
            self.window.notify(words)


def _opened(store: ChatStore) -> Opened:
    return store.opened


def main(arguments: Sequence[str] = ()) -> int:
    """Runs until the window is closed. A second start only brings the first window forward. A
    model among the arguments is opened in it."""
    application = QApplication(["twofold", *arguments])
    application.setApplicationName("Twofold")
    application.setDesktopFileName("twofold")
    application.setStyle("Fusion")
    single = SingleWindow(data_folder())
    model = next((str(Path(one).absolute()) for one in arguments if one.endswith(".gguf")), "")
    if not single.is_first(model):
        return 0

    # Qt's loop does not let Python see Ctrl+C; a glance now and then does.
    def interrupted(_number: int, _frame: FrameType | None) -> None:
        application.quit()

    signal.signal(signal.SIGINT, interrupted)
    glance = QTimer()
    glance.timeout.connect(lambda: None)
    glance.start(500)
    window = Application(data=data_folder(), config=config_folder())
    single.asked.connect(window.come_forward)
    if model:
        window.open_model(model)
    window.start()
    try:
        return application.exec()
    finally:
        window.close()
        single.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
