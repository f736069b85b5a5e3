"""Draws every page and state of the window as PNG: `./twofold screenshots OUT`, then look.

Nothing is loaded: the engine stands still in each state, the chats are samples.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QPoint, QSize
from PySide6.QtGui import QContextMenuEvent, QImage, QPainter
from PySide6.QtWidgets import QApplication, QMenu, QPushButton, QScrollArea

from app import sample_models
from app.chat.answer_words import reading
from app.chat.rows import ProblemWidget
from app.diagnostics.diagnostics_view import DiagnosticsView
from app.engine_client.client import Connection, EngineClient
from app.engine_client.failures import failure
from app.i18n import Language, tr
from app.i18n.catalogue import LANGUAGES
from app.main import Application
from app.models.models_controller import ModelsController
from app.models.models_view import ModelsView
from app.preferences import Preferences, PreferencesFile
from app.prefill.plot_library import importing
from app.sample_chats import SampleChats, fill
from app.sample_machine import StillHttp, sample_packs
from app.settings.settings_view import SettingsView
from app.shell.page import Page
from app.shell.window import MainWindow
from app.store.chats import ChatStore
from engine.api.engine import EngineState, LoadProgress, MemoryUse, ModelInfo, RequestProgress
from engine.api.turn import PrefillProgress

SIZE = QSize(1180, 780)
SETTLE_S = 0.35
MOST_LOOKS = 12


class StillEngine(EngineClient):
    """An engine that is in whatever state it is put."""

    def __init__(self) -> None:
        super().__init__()
        self.http = StillHttp(self)

    def start(self) -> None:
        pass

    def put(
        self, connection: Connection, state: EngineState, loading: LoadProgress | None = None
    ) -> None:
        self._state = state
        self._set_connection(connection)
        if connection is Connection.DIED:
            self._failure = failure("window.engine_died", how="signal 9")
        self.state_changed.emit(state)
        if loading is not None:
            self.loading.emit(loading)


def sample_model() -> ModelInfo:
    return ModelInfo(
        id="qwen3.8-27b",
        path=Path("Qwen3.8-27B-IQ2_XXS.gguf"),
        name="Qwen3.8-27B IQ2_XXS",
        architecture="qwen35",
        file_bytes=8_900_000_000,
        context=16_384,
        trained_context=262_144,
        micro_batch=2048,
        blocks=64,
        prefiller=Path("Qwen3.8-27B-NVFP4.gguf"),
        prefiller_bytes=14_200_000_000,
        memory=MemoryUse(weights=8_900_000_000, context=600_000_000, compute=500_000_000),
    )


@dataclass
class Stage:
    """What a scene works with: the running application, its sample chats and its engine."""

    application: Application
    engine: StillEngine
    chats: SampleChats

    @property
    def window(self) -> MainWindow:
        return self.application.window

    def ready(self) -> None:
        self.engine.put(Connection.CONNECTED, EngineState(status="ready", model=sample_model()))


Scene = Callable[[Stage], None]


def _starting(stage: Stage) -> None:
    stage.engine.put(Connection.STARTING, EngineState(status="empty"))


def _no_model(stage: Stage) -> None:
    stage.application.preferences.values.model = "chosen-before.gguf"
    stage.engine.put(Connection.CONNECTED, EngineState(status="empty"))


def _loading(stage: Stage) -> None:
    stage.application.preferences.values.model = "Qwen3.8-27B-IQ2_XXS.gguf"
    progress = LoadProgress(model="m", fraction=0.42, seconds=3.0, remaining_s=4.0)
    stage.engine.put(
        Connection.CONNECTED, EngineState(status="loading", loading=progress), progress
    )


def _died(stage: Stage) -> None:
    stage.engine.put(Connection.DIED, EngineState(status="empty"))


def _ready(stage: Stage) -> None:
    stage.ready()


def _answer(stage: Stage) -> None:
    stage.ready()
    stage.window.chat.open_chat(stage.chats.rich)


def _long_list(stage: Stage) -> None:
    stage.ready()
    stage.window.chat.open_chat(stage.chats.rich, stage.chats.rich_message)


def _why(stage: Stage) -> None:
    _answer(stage)
    settle()
    stage.window.chat.view.show_panel("why")


def _settings(stage: Stage) -> None:
    _answer(stage)
    settle()
    stage.window.chat.view.show_panel("settings")


def _reading(stage: Stage) -> None:
    stage.ready()
    stage.window.chat.open_chat(stage.chats.contract)
    settle()
    chat = stage.window.chat
    question = chat.messages[0]
    chat.transcript.show([question])
    chat.transcript.begin_live(chat.messages[1])
    progress = PrefillProgress(
        path="odp",
        reason="",
        tokens_done=4096,
        tokens_total=8431,
        block=38,
        blocks=64,
        bytes_read=19_400_000_000,
        seconds=3.8,
        bytes_per_s=5_105_000_000,
        remaining_s=4.0,
    )
    chat.transcript.live_reading(reading(progress))
    chat.composer.set_busy(True)


def _error(stage: Stage) -> None:
    stage.ready()
    stage.window.chat.open_chat(stage.chats.failed)


def _search(stage: Stage) -> None:
    stage.ready()
    stage.window.chat.open_chat(stage.chats.contract)
    stage.window.sidebar.view.search.setText("contract" if stage.chats.language == "en" else "계약")


def _toast(stage: Stage) -> None:
    _answer(stage)
    settle()
    stage.window.sidebar.set_current(stage.chats.contract)
    index = stage.window.sidebar.model.index_of(stage.chats.failed)
    stage.window.sidebar.view.list.delete_asked.emit(index)


def _composer(stage: Stage) -> None:
    stage.ready()
    composer = stage.window.chat.composer
    composer.view.text.setPlainText(stage.chats.typed)
    folder = Path(tempfile.mkdtemp())
    for name in ("contract-2026-final-signed-by-both-parties.txt", "notes.md"):
        (folder / name).write_text("word " * 9000)
    composer.attach(sorted(folder.iterdir()))


def _error_details(stage: Stage) -> None:
    _error(stage)
    settle()
    card = stage.window.findChild(ProblemWidget)
    assert isinstance(card, ProblemWidget)
    details = card.controls()[1]
    assert isinstance(details, QPushButton)
    details.click()


def _menu_of_chat(stage: Stage) -> None:
    _answer(stage)
    settle()
    shown = stage.window.sidebar.view.list
    index = stage.window.sidebar.model.index_of(stage.chats.rich)
    place = shown.viewport().mapToGlobal(shown.visualRect(index).bottomRight())
    shown.menu_asked.emit(index, place)


def _menu_of_chats(stage: Stage) -> None:
    _answer(stage)
    settle()
    stage.window.sidebar.view.more.click()


def _menu_of_text(stage: Stage) -> None:
    _search(stage)
    field = stage.window.sidebar.view.search
    field.selectAll()
    settle()
    place = QPoint(40, 10)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, field.mapToGlobal(place))
    QApplication.sendEvent(field, event)


def _rtl(stage: Stage) -> None:
    stage.ready()
    stage.window.chat.open_chat(stage.chats.rtl)


def _shortcuts(stage: Stage) -> None:
    stage.ready()
    stage.window.show_page("shortcuts")


def _prefill(stage: Stage) -> None:
    stage.ready()
    _runs(stage)
    for _ in importing():  # the page itself does that bit by bit
        pass
    stage.window.show_page("prefill")


def _runs(stage: Stage) -> None:
    """Prompts that this machine has read before."""
    read = [("decoder", 300, 0.31), ("odp", 3100, 2.6), ("odp", 8431, 5.4), ("decoder", 2048, 1.7)]
    model = str(sample_model().path)

    def work(store: ChatStore) -> None:
        for path, tokens, seconds in read:
            message = store.add_message(stage.chats.contract, "assistant", "", parent=None)
            report = {"path": path, "new_tokens": tokens, "ttft_s": seconds, "model": model}
            store.finish(message, "", None, report=report)

    stage.application.store.ask(work)


def _prefill_odp(stage: Stage) -> None:
    stage.application.preferences.values.path = "odp"
    _prefill(stage)
    settle()
    progress = PrefillProgress(
        path="odp",
        reason="",
        tokens_done=4096,
        tokens_total=8431,
        block=38,
        blocks=64,
        bytes_read=19_400_000_000,
        seconds=3.8,
        bytes_per_s=5_105_000_000,
        remaining_s=4.0,
    )
    stage.engine.request_progress.emit(RequestProgress(id="r", progress=progress))


def _prefill_resident(stage: Stage) -> None:
    stage.application.preferences.values.path = "resident"
    _prefill(stage)


def _prefill_empty(stage: Stage) -> None:
    stage.engine.put(Connection.CONNECTED, EngineState(status="empty"))
    stage.window.show_page("prefill")


def _prefill_foot(stage: Stage) -> None:
    _prefill(stage)
    settle()
    _scroll_to_end(stage)


def _settings_page(stage: Stage) -> None:
    stage.ready()
    stage.window.show_page("settings")
    view = next(page for page in stage.window.findChildren(SettingsView))
    while not view.complete:
        QApplication.processEvents()


def _settings_search(stage: Stage) -> None:
    _settings_page(stage)
    view = next(page for page in stage.window.findChildren(SettingsView))
    view.search.setText("port" if stage.chats.language == "en" else "포트")
    view.pending.show()
    title = view.rows["server.port"].entry.title
    view.restart_words.setText(tr("settings.pending", names=title))


def _settings_end(stage: Stage) -> None:
    _settings_page(stage)
    settle()
    _scroll_to_end(stage)


def _diagnostics(stage: Stage) -> None:
    stage.ready()
    stage.window.show_page("diagnostics")
    view = next(page for page in stage.window.findChildren(DiagnosticsView))
    view.check.click()


def _cards(stage: Stage) -> DiagnosticsView:
    _still(stage).packs = sample_packs()
    stage.ready()
    stage.window.show_page("diagnostics")
    view = next(page for page in stage.window.findChildren(DiagnosticsView))
    settle()
    area = view.findChild(QScrollArea)
    assert isinstance(area, QScrollArea)
    area.verticalScrollBar().setValue(view.cards.add.mapTo(area.widget(), QPoint()).y() - 32)
    return view


def _cards_listed(stage: Stage) -> None:
    _cards(stage)


def _cards_checking(stage: Stage) -> None:
    _cards(stage).cards.rows["cuda"].check.click()


def _cards_remove(stage: Stage) -> None:
    _cards(stage).cards.rows["vulkan"].remove.click()


def _diagnostics_end(stage: Stage) -> None:
    _diagnostics(stage)
    settle()
    _scroll_to_end(stage)


def _models(stage: Stage, tab: str = "discover") -> ModelsView:
    stage.ready()
    stage.application.models.show_jobs(sample_models.jobs() if tab == "downloads" else ())
    stage.window.show_page("models")
    view = next(page for page in stage.window.findChildren(ModelsView))
    view.switch.buttons[tab].click()
    settle()
    return view


def _discover(stage: Stage) -> None:
    _models(stage)


def _discover_found(stage: Stage) -> None:
    view = _models(stage).discover
    view.query.setText("qwen")
    view.search.click()
    settle()
    view.repos.rows[0].open_button.click()


def _discover_offline(stage: Stage) -> None:
    _still(stage).offline = sample_models.OFFLINE
    _models(stage)


def _library(stage: Stage) -> None:
    view = _models(stage, "library").library
    view.decoders.rows[0].open_button.click()


def _library_remove(stage: Stage) -> None:
    view = _models(stage, "library").library
    row = view.decoders.rows[0]
    row.menu_actions()[-1].trigger()


def _library_import(stage: Stage) -> None:
    view = _models(stage, "library")
    assert isinstance(view.controller, ModelsController)
    view.controller.library.offer_import(Path("/home/ada/Downloads/gemma-4-12b-Q4_K_M.gguf"))


def _library_empty(stage: Stage) -> None:
    _still(stage).library = sample_models.empty_library()
    _models(stage, "library")


def _downloads(stage: Stage) -> None:
    _models(stage, "downloads")


def _downloads_empty(stage: Stage) -> None:
    view = _models(stage)
    view.switch.buttons["downloads"].click()


def _still(stage: Stage) -> StillHttp:
    http = stage.engine.http
    assert isinstance(http, StillHttp)
    return http


def _first_run(stage: Stage) -> None:
    stage.engine.put(Connection.CONNECTED, EngineState(status="empty"))


def _first_run_offline(stage: Stage) -> None:
    _still(stage).offline = sample_models.OFFLINE
    _first_run(stage)


def _first_run_downloading(stage: Stage) -> None:
    _first_run(stage)
    settle()
    stage.application.models.show_jobs(sample_models.jobs()[:1])


def _scroll_to_end(stage: Stage) -> None:
    page = next(page for page in stage.window.findChildren(Page) if page.isVisible())
    area = page.findChild(QScrollArea)
    assert isinstance(area, QScrollArea)
    area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())


SCENES: dict[str, Scene] = {
    "chat-starting": _starting,
    "chat-no-model": _no_model,
    "chat-loading": _loading,
    "chat-engine-died": _died,
    "chat-ready": _ready,
    "chat-answer": _answer,
    "chat-question": _long_list,
    "chat-why": _why,
    "chat-settings": _settings,
    "chat-reading": _reading,
    "chat-error": _error,
    "chat-error-details": _error_details,
    "chat-search": _search,
    "menu-chat": _menu_of_chat,
    "menu-chats": _menu_of_chats,
    "menu-text": _menu_of_text,
    "chat-deleted": _toast,
    "chat-composer": _composer,
    "chat-rtl": _rtl,
    "shortcuts": _shortcuts,
    "models-discover": _discover,
    "models-found": _discover_found,
    "models-offline": _discover_offline,
    "models-library": _library,
    "models-remove": _library_remove,
    "models-import": _library_import,
    "models-library-empty": _library_empty,
    "models-downloads": _downloads,
    "models-downloads-empty": _downloads_empty,
    "first-run": _first_run,
    "first-run-offline": _first_run_offline,
    "first-run-downloading": _first_run_downloading,
    "prefill": _prefill,
    "prefill-reading": _prefill_odp,
    "prefill-resident": _prefill_resident,
    "prefill-foot": _prefill_foot,
    "prefill-no-model": _prefill_empty,
    "diagnostics": _diagnostics,
    "diagnostics-end": _diagnostics_end,
    "cards": _cards_listed,
    "cards-checking": _cards_checking,
    "cards-remove": _cards_remove,
    "settings": _settings_page,
    "settings-search": _settings_search,
    "settings-end": _settings_end,
}

Mode = Literal["light", "dark"]


def draw(
    out: Path, scenes: Sequence[str], mode: Mode, language: Language, scale: float
) -> list[Path]:
    """Draws the scenes in one theme, language and font size; gives the files."""
    out.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for name in scenes:
        with tempfile.TemporaryDirectory(prefix="twofold-screens-") as folder:
            files.append(_draw_one(Path(folder), out, name, mode, language, scale))
    return files


def _draw_one(
    folder: Path, out: Path, name: str, mode: Mode, language: Language, scale: float
) -> Path:
    with staged(folder, name, mode=mode, language=language) as application:
        window = application.window
        image = QImage(window.size() * scale, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(scale)
        painter = QPainter(image)
        window.render(painter, QPoint())
        for menu in _open_menus():
            menu.render(painter, window.mapFromGlobal(menu.mapToGlobal(QPoint())))
        painter.end()
    path = out / f"{name}-{mode}-{language}-{round(scale * 100)}.png"
    image.save(str(path))
    return path


@contextmanager
def staged(
    folder: Path,
    name: str,
    *,
    mode: Mode = "light",
    language: Language = "en",
    font_scale: float = 1.0,
) -> Generator[Application]:
    """The window in one scene, with its files in `folder`."""
    preferences = PreferencesFile(folder / "window.json")
    preferences.values = Preferences(
        theme=mode,
        language=language,
        font_scale=font_scale,
        window=(0, 0, SIZE.width(), SIZE.height()),
    )
    preferences.save()
    store = ChatStore(folder / "chats.db")
    chats = fill(store, language)
    store.close()
    application = Application(data=folder, config=folder, make_engine=StillEngine)
    engine = application.engine
    assert isinstance(engine, StillEngine)
    application.start()
    settle()
    SCENES[name](Stage(application, engine, chats))
    _come_to_rest(application.window)
    try:
        yield application
    finally:
        for menu in _open_menus():
            menu.close()
        application.window.close()
        application.close()
        application.window.deleteLater()
        application.deleteLater()
        settle()


def _open_menus() -> list[QMenu]:
    """Menus are windows of their own."""
    return [
        shown
        for shown in QApplication.topLevelWidgets()
        if isinstance(shown, QMenu) and shown.isVisible()
    ]


def _come_to_rest(window: MainWindow) -> None:
    """Until two looks in a row see the same: pages fill bit by bit, formulas are drawn behind."""
    before = QImage()
    for _ in range(MOST_LOOKS):
        settle()
        now = window.grab().toImage()
        if now == before:
            return
        before = now


def settle() -> None:
    """Lets everything that was asked for arrive."""
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.005)


def main(arguments: Sequence[str]) -> int:
    """OUT [SCENE ...] draws all scenes, or these, in both themes and languages, at 100 and 200%."""
    if not arguments or arguments[0].startswith("-"):
        print("Usage: ./twofold screenshots OUT [SCENE ...]", file=sys.stderr)
        return 2
    scenes = list(arguments[1:]) or list(SCENES)
    if unknown := set(scenes) - set(SCENES):
        print(
            f"No such scene: {', '.join(sorted(unknown))}. There are: {', '.join(SCENES)}.",
            file=sys.stderr,
        )
        return 2
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(["twofold"])
    application.setStyle("Fusion")
    modes: tuple[Mode, ...] = ("light", "dark")
    for mode, language, scale in itertools.product(modes, LANGUAGES, (1.0, 2.0)):
        for path in draw(Path(arguments[0]), scenes, mode, language, scale):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
