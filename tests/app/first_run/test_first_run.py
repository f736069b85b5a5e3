"""The first start: what was found, what fits best, and a chat within three clicks."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from app import sample_models
from app.first_run.first_run_view import FirstRunView
from app.first_run.words import machine_line
from app.i18n import set_language
from app.main import Application
from app.sample_machine import sample_plan
from app.shell.model_loader import ModelLoader
from engine.api.hardware import Host, Profile
from engine.api.models import Recommended
from tests.app.conftest import MakeApp
from tests.app.models.conftest import ROUTE, posted, script
from tests.support.fake_engine import FakeEngine


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "demo.gguf"
    monkeypatch.setattr(ModelLoader, "demo", staticmethod(lambda: path))
    return path


@pytest.fixture
def scripted(fake: FakeEngine) -> FakeEngine:
    script(fake)
    profile = sample_plan("auto").profile.model_dump(mode="json")
    fake.answers["GET /twofold/probe"] = {"type": "probed", "profile": profile}
    return fake


def opened(application: Application, qtbot: QtBot) -> FirstRunView:
    qtbot.waitUntil(lambda: application.window.page == "first_run", timeout=10_000)
    view = application.window.findChild(FirstRunView)
    assert isinstance(view, FirstRunView)
    qtbot.waitUntil(lambda: bool(view.why.text()))
    return view


@pytest.mark.usefixtures("demo")
def test_it_says_what_was_found_what_fits_best_and_why(
    make_app: MakeApp, scripted: FakeEngine, qtbot: QtBot
) -> None:
    view = opened(make_app(), qtbot)
    machine = "NVIDIA GeForce RTX 4090, 24.0 GB, 22.4 GB free; NVMe at 5.1 GB/s"
    qtbot.waitUntil(lambda: view.machine.text() == machine)
    assert view.best.text() == "Qwen3.8-27B IQ2_XXS + prefiller"
    assert "It writes about 31 tok/s." in view.why.text()
    assert "MMLU-Pro 70.5 → 77.93" in view.why.text()
    assert view.download.text() == "Download 22.6 GB" and view.download.hasFocus()
    assert view.demo.text() == "Try the small demo now"
    assert not scripted.loads and not posted(scripted, "pull"), "nothing begins by itself"


@pytest.mark.usefixtures("demo")
def test_a_disk_that_was_never_measured_is_measured_meanwhile(
    make_app: MakeApp, scripted: FakeEngine, qtbot: QtBot
) -> None:
    measured = sample_plan("auto").profile
    disk = measured.disks[0].model_copy(update={"read_gbps": None})
    unknown = measured.model_copy(update={"disks": (disk,)})
    scripted.answers["GET /twofold/probe"] = {
        "type": "probed", "profile": unknown.model_dump(mode="json"),
    }  # fmt: skip
    scripted.answers["POST /twofold/probe"] = [
        {"type": "step", "what": "the disk", "share": 0.5, "gbps": 5.0},
        {"type": "probed", "profile": measured.model_dump(mode="json")},
    ]
    view = opened(make_app(), qtbot)
    qtbot.waitUntil(lambda: view.machine.text().endswith("NVMe at 5.1 GB/s"))
    assert ("/twofold/probe", {"again": False}) in scripted.posted


@pytest.mark.usefixtures("scripted")
def test_the_demo_is_two_clicks_from_a_chat(
    make_app: MakeApp, fake: FakeEngine, demo: Path, qtbot: QtBot
) -> None:
    application = make_app()
    view = opened(application, qtbot)
    view.demo.click()
    qtbot.waitUntil(lambda: bool(fake.loads))
    assert fake.loads[-1]["model"] == str(demo)
    assert application.window.page == "chat"
    chat = application.window.chat
    qtbot.waitUntil(lambda: application.engine.state.status == "ready")
    chat.composer.view.text.setPlainText("Hello?")
    chat.composer.view.sent.emit()
    qtbot.waitUntil(lambda: bool(chat.messages) and chat.messages[-1].status == "done")


@pytest.mark.usefixtures("demo")
def test_without_a_network_the_demo_is_the_first_choice_and_the_reason_is_said(
    make_app: MakeApp, scripted: FakeEngine, qtbot: QtBot
) -> None:
    scripted.answers[f"GET {ROUTE}/recommended"] = sample_models.OFFLINE
    view = opened(make_app(), qtbot)
    qtbot.waitUntil(lambda: "cannot be reached" in view.why.text())
    assert "works without a network" in view.why.text()
    assert view.demo.property("kind") == "primary" and not view.download.isVisible()
    scripted.answers[f"GET {ROUTE}/recommended"] = sample_models.answer(f"{ROUTE}/recommended", 0)
    view.retry.click()
    qtbot.waitUntil(view.download.isVisible)
    assert view.demo.property("kind") is None and not view.retry.isVisible()


@pytest.mark.usefixtures("demo")
def test_a_machine_that_nothing_fits_is_offered_the_demo(
    make_app: MakeApp, scripted: FakeEngine, qtbot: QtBot
) -> None:
    nothing = Recommended(best=None).model_dump(mode="json")
    scripted.answers[f"GET {ROUTE}/recommended"] = nothing
    view = opened(make_app(), qtbot)
    qtbot.waitUntil(lambda: view.why.text().startswith("None of the models known to run well"))
    assert view.demo.property("kind") == "primary"


@pytest.mark.usefixtures("demo")
def test_a_download_is_followed_and_its_model_loaded_when_it_is_whole(
    make_app: MakeApp, scripted: FakeEngine, qtbot: QtBot
) -> None:
    application = make_app()
    view = opened(application, qtbot)
    first, second = sample_models.jobs()[:2]
    scripted.answers[f"POST {ROUTE}/pull"] = {
        "jobs": [first.model_dump(mode="json"), second.model_dump(mode="json")]
    }
    view.download.click()
    qtbot.waitUntil(lambda: bool(posted(scripted, "pull")))
    assert posted(scripted, "pull") == [
        {"model": f"{sample_models.REPO}:IQ2_XXS", "prefiller": True}
    ]
    scripted.publish_jobs(first, second)
    qtbot.waitUntil(lambda: "52.4 MB/s · about 2 min" in view.progress.text())
    assert not view.download.isVisible() and view.demo.isVisible()
    view.pause.click()
    qtbot.waitUntil(lambda: len(posted(scripted, "jobs")) == 2)
    entry = sample_models.library().entries[0]
    whole = first.model_copy(update={"state": "done", "result": str(entry.path)})
    scripted.publish_jobs(whole, second)
    qtbot.waitUntil(lambda: "13.7 GB" in view.progress.text())
    assert not scripted.loads, "the prefiller is still coming"
    scripted.publish_jobs(whole, second.model_copy(update={"state": "done"}))
    qtbot.waitUntil(lambda: bool(scripted.loads))
    best = entry.prefiller
    assert best is not None
    assert scripted.loads[-1]["model"] == str(entry.path)
    assert scripted.loads[-1]["prefiller"] == str(best.path)
    assert application.window.page == "chat"


@pytest.mark.usefixtures("demo")
def test_a_download_that_an_earlier_start_began_is_followed(
    make_app: MakeApp, scripted: FakeEngine, qtbot: QtBot
) -> None:
    scripted.jobs = sample_models.jobs()[:1]
    view = opened(make_app(), qtbot)
    qtbot.waitUntil(lambda: "52.4 MB/s" in view.progress.text())
    assert not view.download.isVisible()


@pytest.mark.usefixtures("demo")
def test_a_failed_download_says_why_and_goes_on_when_asked(
    make_app: MakeApp, scripted: FakeEngine, qtbot: QtBot
) -> None:
    scripted.jobs = sample_models.jobs()[:1]
    view = opened(make_app(), qtbot)
    qtbot.waitUntil(lambda: "52.4 MB/s" in view.progress.text())
    update = {"state": "failed", "failure": sample_models.OFFLINE}
    scripted.publish_jobs(sample_models.jobs()[0].model_copy(update=update))
    qtbot.waitUntil(lambda: "cannot be reached" in view.progress.text())
    assert view.pause.accessibleName() == "Go on"
    view.pause.click()
    qtbot.waitUntil(lambda: posted(scripted, "jobs") == [{"id": "1", "action": "resume"}])


@pytest.mark.usefixtures("demo", "scripted")
def test_an_engine_that_died_is_said_and_asked_anew_when_it_is_back(
    make_app: MakeApp, qtbot: QtBot
) -> None:
    application = make_app()
    view = opened(application, qtbot)
    qtbot.waitUntil(view.download.isVisible)
    os.kill(application.engine.pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: view.machine.text() == "The engine is not running", timeout=10_000)
    assert not view.download.isVisible()
    application.engine.start()
    qtbot.waitUntil(view.download.isVisible, timeout=10_000)
    qtbot.waitUntil(lambda: "RTX 4090" in view.machine.text())


@pytest.mark.usefixtures("demo", "scripted")
def test_it_comes_only_while_no_model_was_ever_chosen(make_app: MakeApp, qtbot: QtBot) -> None:
    application = make_app()
    opened(application, qtbot)
    application.loader.load(Path("chosen.gguf"))
    again = make_app()
    qtbot.waitUntil(lambda: again.engine.state.status == "ready", timeout=10_000)
    qtbot.wait(100)
    assert again.window.page == "chat"


@pytest.mark.usefixtures("demo", "scripted")
def test_it_does_not_take_somebody_from_another_page(make_app: MakeApp, qtbot: QtBot) -> None:
    application = make_app()
    application.window.show_page("shortcuts")
    qtbot.waitUntil(lambda: application.engine.connection.value == "connected", timeout=10_000)
    qtbot.wait(100)
    assert application.window.page == "shortcuts"


@pytest.mark.usefixtures("demo", "scripted")
def test_everything_on_it_has_a_name_and_is_reached_by_tab(make_app: MakeApp, qtbot: QtBot) -> None:
    application = make_app()
    view = opened(application, qtbot)
    application.window.activateWindow()
    wanted = {one for one in view.findChildren(QAbstractButton) if one.isVisible()}
    assert len(wanted) == 3 and all(one.accessibleName() for one in wanted)
    reached: set[object] = set()
    for _ in range(40):
        focus = application.window.focusWidget()
        reached.add(focus)
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
    assert wanted <= reached


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_machine_without_a_graphics_card_is_told_in_one_line(language: str) -> None:
    set_language("ko" if language == "ko" else "en")
    host = Host(memory_total=16 << 30, memory_free=9 << 30, cpu="Ryzen 7", cores=8)
    line = machine_line(Profile(host=host))
    set_language("en")
    assert "Ryzen 7" in line and "9.0 GB" in line and "8" in line
