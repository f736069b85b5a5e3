"""Graphics cards on the hardware page: listed, switched, checked, brought in and removed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.diagnostics.card_words import about, trouble
from app.diagnostics.cards_view import CardsView
from app.diagnostics.diagnostics_controller import DiagnosticsController
from app.diagnostics.diagnostics_view import DiagnosticsView
from app.engine_client.client import Connection
from app.i18n import LANGUAGES, set_language
from app.main import Application
from app.sample_machine import sample_packs, sample_plan
from app.shell.panel import Panel
from engine.api.backends import BackendInfo
from engine.api.engine import EngineState, LoadProgress
from engine.backends.words import REASONS
from engine.paths import demo_model
from tests.support.backend_file import CRASHES, make_backend_file
from tests.support.fake_engine import FakeEngine

ROUTE = "/twofold/backends"
WAIT_MS = 60_000
Packs = list[dict[str, Any]]


class Backends:
    """The scripted engine's packs; each change is answered with all of them."""

    def __init__(self, fake: FakeEngine) -> None:
        self.packs: Packs = sample_packs()
        # What a check finds.
        self.found: dict[str, Any] = {"state": "ready"}
        answers: dict[str, Callable[[Any], Any]] = {
            f"GET {ROUTE}": lambda _: self._all(),
            f"POST {ROUTE}": self._switch,
            f"POST {ROUTE}/check": lambda body: self._change(body["name"], **self.found),
            f"POST {ROUTE}/install": lambda _: self._change("cuda", **self.found),
            f"POST {ROUTE}/remove": self._remove,
        }
        fake.answers |= answers

    def _all(self) -> dict[str, Any]:
        return {"backends": [dict(pack) for pack in self.packs]}

    def _switch(self, body: Any) -> dict[str, Any]:
        wanted = body["enabled"]
        state = "unchecked" if wanted else "disabled"
        return self._change(body["name"], state=state, enabled=wanted)

    def _change(self, name: str, **facts: Any) -> dict[str, Any]:
        for pack in self.packs:
            if pack["name"] == name:
                pack.update({"reason": None, "detail": ""} | facts)
        return self._all()

    def _remove(self, body: Any) -> dict[str, Any]:
        self.packs = [pack for pack in self.packs if pack["name"] != body["name"]]
        return self._all()


@pytest.fixture
def backends(fake: FakeEngine) -> Backends:
    profile = sample_plan("auto").profile.model_dump(mode="json")
    fake.answers["GET /twofold/probe"] = {"type": "probed", "profile": profile}
    fake.answers["GET /twofold/logs?lines=200"] = {"lines": []}
    return Backends(fake)


def open_cards(application: Application) -> CardsView:
    application.window.show_page("diagnostics")
    view = application.window.findChild(DiagnosticsView)
    assert isinstance(view, DiagnosticsView)
    return view.cards


def add(application: Application, path: Path) -> None:
    """As the file dialog does."""
    view = application.window.findChild(DiagnosticsView)
    assert isinstance(view, DiagnosticsView)
    assert isinstance(view.controller, DiagnosticsController)
    view.controller.cards.add(path)


@pytest.fixture
def cards(ready_app: Application, backends: Backends, qtbot: QtBot) -> CardsView:
    del backends  # the page asks for them
    view = open_cards(ready_app)
    qtbot.waitUntil(lambda: list(view.rows) == ["cuda", "rpc", "vulkan"])
    return view


def test_each_pack_tells_its_state_its_devices_and_what_is_wrong(cards: CardsView) -> None:
    vulkan, cuda, rpc = (cards.rows[name] for name in ("vulkan", "cuda", "rpc"))
    assert vulkan.badge.text() == "Ready" and vulkan.switch.isChecked()
    assert "NVIDIA GeForce RTX 4090, 21.3 GB of 24.0 GB free" in vulkan.facts.text()
    assert cuda.badge.text() == "Not used" and not cuda.switch.isChecked()
    assert "(NVIDIA's driver, libcuda.so.1)" in cuda.problem.text() and cuda.check.isVisible()
    assert rpc.badge.text() == "Switched off" and not rpc.switch.isChecked()
    assert rpc.switch.accessibleName() == "Use RPC"


def test_a_pack_that_is_part_of_the_program_is_switched_but_not_removed(
    ready_app: Application, backends: Backends, qtbot: QtBot
) -> None:
    next(pack for pack in backends.packs if pack["name"] == "vulkan")["carried"] = True
    view = open_cards(ready_app)
    qtbot.waitUntil(lambda: list(view.rows) == ["cuda", "rpc", "vulkan"])
    vulkan, cuda = view.rows["vulkan"], view.rows["cuda"]
    assert not vulkan.remove.isVisible() and vulkan.switch.isVisible()
    assert cuda.remove.isVisible()


def test_one_click_switches_off_and_one_click_switches_on_with_a_check(
    cards: CardsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    vulkan = cards.rows["vulkan"]
    vulkan.switch.click()
    assert not vulkan.switch.isEnabled()
    qtbot.waitUntil(lambda: vulkan.badge.text() == "Switched off")
    assert fake.posted[-1] == (ROUTE, {"name": "vulkan", "enabled": False})
    assert vulkan is cards.rows["vulkan"] and not vulkan.switch.isChecked()
    vulkan.switch.click()
    qtbot.waitUntil(lambda: vulkan.badge.text() == "Ready")
    assert fake.posted[-2:] == [
        (ROUTE, {"name": "vulkan", "enabled": True}),
        (f"{ROUTE}/check", {"name": "vulkan"}),
    ]
    assert vulkan.switch.isChecked() and not cards.bar.isVisible()


def test_a_loaded_model_is_loaded_again_when_somebody_wants_the_change_now(
    cards: CardsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    ready_app.preferences.values.model = "a.gguf"
    assert not cards.reload.isVisible()
    cards.rows["vulkan"].switch.click()
    qtbot.waitUntil(cards.reload.isVisible)
    cards.reload.click()
    qtbot.waitUntil(lambda: len(fake.loads) == 1)
    assert fake.loads[0]["model"] == "a.gguf"
    progress = LoadProgress(model="a.gguf", fraction=0.1, seconds=1.0)
    fake.publish(EngineState(status="loading", loading=progress))
    qtbot.waitUntil(lambda: not cards.reload.isVisible())


def test_a_check_that_fails_says_so_and_the_pack_stays_off(
    cards: CardsView, backends: Backends, qtbot: QtBot
) -> None:
    backends.found = {"state": "unfit", "reason": "crashed", "detail": "SIGSEGV, graph: device: x"}
    cards.rows["rpc"].switch.click()
    qtbot.waitUntil(lambda: cards.rows["rpc"].badge.text() == "Not used")
    assert not cards.rows["rpc"].switch.isChecked()
    assert "ended by itself (SIGSEGV, graph: device: x)" in cards.rows["rpc"].problem.text()


def test_a_pack_is_brought_in_and_shown_as_being_checked_meanwhile(
    cards: CardsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot, tmp_path: Path
) -> None:
    add(ready_app, tmp_path / "libggml-cuda.so")
    assert cards.bar.isVisible() and not cards.add.isEnabled()
    qtbot.waitUntil(lambda: cards.rows["cuda"].badge.text() == "Ready")
    assert fake.posted[-1] == (f"{ROUTE}/install", {"path": str(tmp_path / "libggml-cuda.so")})
    assert not cards.bar.isVisible() and cards.add.isEnabled()


def test_a_pack_is_removed_after_a_question_only(
    cards: CardsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    cards.rows["cuda"].remove.click()
    words = [item.text() for item in cards.rows["cuda"].findChildren(QLabel)]
    assert any(text.startswith("CUDA is deleted here") for text in words)
    assert not fake.posted or fake.posted[-1][0] != f"{ROUTE}/remove"
    panel = cards.rows["cuda"].findChild(Panel)
    assert isinstance(panel, Panel)
    panel.buttons[0].click()
    qtbot.waitUntil(lambda: list(cards.rows) == ["rpc", "vulkan"])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_that_a_check_can_give_has_words(reason: str, language: Any) -> None:
    set_language(language)
    info = BackendInfo(
        name="vulkan", path=Path("x"), state="unfit", enabled=True, reason=reason, detail="x y"
    )
    assert "Vulkan" in trouble(info)
    assert about("vulkan") != about("odd")


@pytest.fixture
def real_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> Generator[Application]:
    """The window with the real engine's process, which has no packs yet."""
    monkeypatch.setenv("TWOFOLD_CACHE", str(demo_model().parent.parent))
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    made = Application(data=tmp_path, config=tmp_path)
    made.start()
    engine = made.engine
    qtbot.waitUntil(lambda: engine.connection is Connection.CONNECTED, timeout=WAIT_MS)
    yield made
    made.window.close()
    made.close()
    made.window.deleteLater()
    made.deleteLater()
    qtbot.wait(10)


@pytest.mark.slow
def test_the_real_engine_refuses_what_is_no_pack_and_keeps_a_crashing_one_off(
    real_app: Application, qtbot: QtBot, tmp_path: Path
) -> None:
    view = open_cards(real_app)
    qtbot.waitUntil(view.add.isEnabled, timeout=WAIT_MS)
    qtbot.waitUntil(view.empty.isVisible, timeout=WAIT_MS)
    (tmp_path / "notes.so").write_text("no library", encoding="utf-8")
    add(real_app, tmp_path / "notes.so")
    qtbot.waitUntil(lambda: "is no whole shared library" in view.problem.text(), timeout=WAIT_MS)
    add(real_app, make_backend_file(tmp_path, CRASHES))
    qtbot.waitUntil(lambda: "odd" in view.rows, timeout=WAIT_MS)
    row = view.rows["odd"]
    assert not view.problem.isVisible()
    assert row.badge.text() == "Not used" and not row.switch.isChecked()
    assert "SIGABRT" in row.problem.text()
    row.remove.click()
    panel = row.findChild(Panel)
    assert isinstance(panel, Panel)
    panel.buttons[0].click()
    qtbot.waitUntil(view.empty.isVisible, timeout=WAIT_MS)
    assert not list((tmp_path / "home" / "backends").glob("*"))
