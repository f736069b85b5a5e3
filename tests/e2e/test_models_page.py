"""The window's models with the real engine and a local hub: first start, search, download, use."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.engine_client.client import Connection
from app.first_run.first_run_view import FirstRunView
from app.i18n import set_language
from app.main import Application
from app.models.entry_row import EntryRow
from app.models.listing_view import Listing
from app.models.models_view import ModelsView
from engine.paths import demo_model
from tests.support.hub import LocalHub
from tests.support.tiny_models import tiny_model

WAIT_MS = 120_000
REPO = "somebody/Tiny-GGUF"
# The last of the catalogue's first choices, for the smallest machines.
CHOICE = "Qwen/Qwen3-0.6B-GGUF"
SMALL = tiny_model("llama", blocks=2, weight_type="Q8_0", context=512).encode()

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def hub() -> Generator[LocalHub]:
    with LocalHub() as hub:
        hub.add(REPO, {"Tiny-Q8_0.gguf": SMALL, "Tiny-Q4_0.gguf": SMALL + bytes(64)})
        yield hub


@pytest.fixture
def start(
    qapp: QApplication, hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Callable[[], Application]]:
    """The window with an engine of its own that knows no hub but the local one."""
    qapp.setStyle("Fusion")
    demo = demo_model()
    assert demo.is_file(), "the set-up puts the demo model there"
    for name, value in {
        "TWOFOLD_HOME": str(tmp_path / "home"),
        "TWOFOLD_CACHE": str(demo.parent.parent),
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": "",
        "NO_PROXY": "*",
    }.items():
        monkeypatch.setenv(name, value)
    running: list[Application] = []

    def make() -> Application:
        running.append(Application(data=tmp_path, config=tmp_path))
        set_language("en")
        running[-1].start()
        return running[-1]

    yield make
    for application in running:
        application.window.close()
        application.window.deleteLater()
        application.deleteLater()


def first_run(application: Application, qtbot: QtBot) -> FirstRunView:
    qtbot.waitUntil(lambda: application.window.page == "first_run", timeout=WAIT_MS)
    view = application.window.findChild(FirstRunView)
    assert isinstance(view, FirstRunView)
    return view


def test_the_first_start_recommends_downloads_verifies_and_chats(
    start: Callable[[], Application], hub: LocalHub, qtbot: QtBot
) -> None:
    hub.add(CHOICE, {"Qwen3-0.6B-Q8_0.gguf": SMALL})
    hub.fail("Qwen3-0.6B-Q8_0.gguf", cut_after=20_000)
    application = start()
    view = first_run(application, qtbot)
    qtbot.waitUntil(view.download.isVisible, timeout=WAIT_MS)
    assert view.best.text() == "Qwen3-0.6B Q8_0" and "It fits" in view.why.text()
    assert "free" in view.machine.text()
    qtbot.waitUntil(lambda: "B/s" in view.machine.text(), timeout=WAIT_MS)
    view.download.click()
    qtbot.waitUntil(lambda: application.window.page == "chat", timeout=WAIT_MS)
    qtbot.waitUntil(lambda: application.engine.state.status == "ready", timeout=WAIT_MS)
    model = application.engine.state.model
    assert model is not None and model.path.read_bytes() == SMALL
    assert application.preferences.values.model == str(model.path)


def test_without_a_network_the_demo_answers(
    start: Callable[[], Application], monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    application = start()
    view = first_run(application, qtbot)
    qtbot.waitUntil(lambda: "cannot be reached" in view.why.text(), timeout=WAIT_MS)
    assert view.demo.property("kind") == "primary" and not view.download.isVisible()
    view.demo.click()
    qtbot.waitUntil(lambda: application.engine.state.status == "ready", timeout=WAIT_MS)
    chat = application.window.chat
    chat.composer.view.text.setPlainText("Say hello.")
    chat.composer.view.sent.emit()
    qtbot.waitUntil(
        lambda: bool(chat.messages) and chat.messages[-1].status == "done",
        timeout=2 * WAIT_MS,  # it writes as long as it likes
    )
    assert chat.messages[-1].content


def test_a_model_is_searched_downloaded_verified_used_and_removed(
    start: Callable[[], Application], hub: LocalHub, qtbot: QtBot
) -> None:
    application = start()
    qtbot.waitUntil(lambda: application.engine.connection is Connection.CONNECTED, timeout=WAIT_MS)
    said: list[str] = []
    application.context.notify = lambda sentence, *_: said.append(sentence)
    application.window.show_page("models")
    page = application.window.findChild(ModelsView)
    assert isinstance(page, ModelsView)

    page.discover.query.setText("tiny")
    page.discover.search.click()
    qtbot.waitUntil(lambda: len(page.discover.repos.rows) == 1, timeout=WAIT_MS)
    page.discover.repos.rows[0].open_button.click()
    qtbot.waitUntil(lambda: page.discover.findChild(Listing) is not None, timeout=WAIT_MS)
    listing = page.discover.findChild(Listing)
    assert isinstance(listing, Listing)
    rows = {row.title: row for row in listing.cards["decoder"].rows}
    assert rows["Q8_0"].badge.text() in ("fits in memory", "fits on the GPU")
    hub.fail("Tiny-Q8_0.gguf", drip_s=0.003)
    rows["Q8_0"].button.click()
    qtbot.waitUntil(lambda: rows["Q8_0"].button.text() == "Show", timeout=WAIT_MS)

    page.switch.buttons["downloads"].click()
    qtbot.waitUntil(lambda: bool(page.downloads.over.rows), timeout=WAIT_MS)
    (done,) = page.downloads.over.rows.values()
    assert done.facts.text().startswith("Downloaded and verified")
    done.button.click()
    assert page.tab == "library"

    def entry() -> EntryRow | None:
        found = [row for row in page.library.decoders.rows if isinstance(row, EntryRow)]
        return next((row for row in found if row.entry.origin.repo == REPO), None)

    qtbot.waitUntil(lambda: entry() is not None, timeout=WAIT_MS)
    row = entry()
    assert row is not None and row.entry.verification == "verified"
    assert "verified" in row.facts.text() and row.entry.path.read_bytes() == SMALL
    row.button.click()
    qtbot.waitUntil(lambda: application.engine.state.status == "ready", timeout=WAIT_MS)
    qtbot.waitUntil(lambda: row.button.text() == "In use")

    remove = row.menu_actions()[-1]
    said.clear()
    remove.trigger()
    qtbot.waitUntil(lambda: row.panel is not None, timeout=WAIT_MS)
    panel = row.panel
    assert panel is not None
    panel.buttons[0].click()
    qtbot.waitUntil(lambda: bool(said), timeout=WAIT_MS)
    assert "is loaded" in said[-1] and row.entry.path.exists(), "a loaded model stays"
    application.engine.unload()
    qtbot.waitUntil(lambda: application.engine.state.status == "empty", timeout=WAIT_MS)
    row.menu_actions()[-1].trigger()
    qtbot.waitUntil(lambda: row.panel is not None, timeout=WAIT_MS)
    panel = row.panel
    assert panel is not None
    path = row.entry.path
    panel.buttons[0].click()
    qtbot.waitUntil(lambda: not path.exists(), timeout=WAIT_MS)
    qtbot.waitUntil(lambda: entry() is None, timeout=WAIT_MS)
