"""The prefill page: what each path means here, memory, blocks, times, and measuring the disk."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.i18n import set_language
from app.main import Application
from app.prefill.block_strip import BlockStrip
from app.prefill.facts import crossover_words, memory_now, path_sentence, planned_memory
from app.prefill.prefill_controller import PrefillController
from app.prefill.prefill_view import PrefillView
from app.sample_machine import sample_plan
from app.store.chats import ChatStore
from app.theme import motion
from engine.api.engine import CardMemory, EngineState, MemoryReport, MemoryUse, RequestProgress
from engine.api.failure import Failure
from engine.api.hardware import Profile
from engine.api.plan import Remark
from engine.api.turn import PathSetting
from tests.support.fake_engine import FakeEngine, progress

GB = 1 << 30


def plans(body: dict[str, Any]) -> Any:
    return sample_plan(body["mode"]).model_dump(mode="json")


@pytest.fixture(autouse=True)
def memory(fake: FakeEngine) -> None:
    report = MemoryReport(model=None, worker_resident=0, machine_total=1, machine_available=1)
    fake.answers["GET /twofold/memory"] = report.model_dump(mode="json")


@pytest.fixture
def page(ready_app: Application, fake: FakeEngine, qtbot: QtBot) -> PrefillView:
    """The page, forward, with the sample plan."""
    fake.answers["POST /twofold/plan"] = plans
    return open_page(ready_app, qtbot)


def open_page(application: Application, qtbot: QtBot) -> PrefillView:
    application.window.show_page("prefill")
    found = application.window.findChild(PrefillView)
    assert isinstance(found, PrefillView)
    qtbot.waitUntil(lambda: found.body.isVisible() or bool(found.empty.text()), timeout=5000)
    qtbot.waitUntil(lambda: found.body.isVisible() or found.retry.isVisible(), timeout=10_000)
    return found


def words(view: PrefillView) -> str:
    return "\n".join(item.text() for item in view.findChildren(QLabel) if item.isVisible())


def test_the_page_says_what_auto_does_here_where_the_crossover_is_and_why(
    page: PrefillView, qtbot: QtBot
) -> None:
    assert "path ODP" in page.sentence.text() and "8,192 tokens" in page.sentence.text()
    assert page.crossover.text().startswith("From about 1,400 tokens ODP is faster")
    qtbot.waitUntil(lambda: "Of 64 blocks" in words(page))
    shown = words(page)
    assert "NVIDIA GeForce RTX 4090" in shown
    assert "Of 64 blocks of the prefiller, 18 stay" in shown
    assert "is read at 5.1 GB/s, measured on 2026-11-24" in shown


def test_a_chosen_path_is_kept_and_the_open_chat_takes_it(
    page: PrefillView, ready_app: Application, qtbot: QtBot
) -> None:
    page.switch.buttons["odp"].click()
    qtbot.waitUntil(lambda: "Streams 21 of 64 blocks" in page.sentence.text())
    assert ready_app.preferences.values.path == "odp"
    assert ready_app.window.chat.view.path.currentData() == "odp"
    qtbot.waitUntil(lambda: "You chose the path ODP." in words(page))


def test_arrow_keys_go_through_the_paths(page: PrefillView, qtbot: QtBot) -> None:
    page.switch.buttons["auto"].setFocus()
    QTest.keyClick(page.switch.buttons["auto"], Qt.Key.Key_Right)
    assert page.switch.buttons["decoder"].isChecked()
    QTest.keyClick(page.switch.buttons["decoder"], Qt.Key.Key_Left)
    assert page.switch.buttons["auto"].isChecked()
    qtbot.waitUntil(lambda: "path ODP" in page.sentence.text())


def test_a_plan_that_fails_is_a_sentence_with_a_way_on(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    problem = Failure(code="gguf.truncated", sentence="The file is cut off. Download it again.")
    fake.answers["POST /twofold/plan"] = problem
    view = open_page(ready_app, qtbot)
    assert "cut off" in view.empty.text()
    fake.answers["POST /twofold/plan"] = plans
    view.retry.click()
    qtbot.waitUntil(view.body.isVisible)


def test_real_readings_of_this_model_are_dots(
    ready_app: Application, fake: FakeEngine, store: ChatStore, qtbot: QtBot
) -> None:
    fake.answers["POST /twofold/plan"] = plans
    chat = store.create_chat("t")
    for model, cached in (("fake.gguf", 0), ("other.gguf", 0), ("fake.gguf", 5000)):
        message = store.add_message(chat, "assistant", "x", parent=None)
        report = {"path": "odp", "new_tokens": 900, "ttft_s": 1.5, "model": model}
        store.finish(message, "x", None, report={**report, "cached_tokens": cached})
    view = open_page(ready_app, qtbot)
    controller = view.controller
    assert isinstance(controller, PrefillController)
    qtbot.waitUntil(lambda: controller.plot is not None, timeout=20_000)
    plot = controller.plot
    assert plot is not None
    qtbot.waitUntil(lambda: "Real readings shown: 1." in plot.accessibleDescription())
    assert "ODP" in plot.accessibleDescription()


def test_a_reading_moves_along_the_blocks_and_its_end_gives_the_tiers_back(
    page: PrefillView, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.publish(RequestProgress(id="r", progress=progress(block=3)))
    qtbot.waitUntil(lambda: page.strip.computing == 2)
    assert "Reading" in page.reading.text() and "block 3 of 4" in page.reading.text()
    fake.be_ready()
    qtbot.waitUntil(lambda: page.strip.computing is None)
    assert page.reading.text() == ""
    assert not page.strip.moving


@pytest.mark.parametrize("still", [True, False])
def test_blocks_move_only_where_motion_is_wanted(still: bool, qtbot: QtBot) -> None:
    strip = BlockStrip()
    qtbot.addWidget(strip)
    strip.show_tiers(("disk",) * 4)
    strip.show()
    motion.set_still(still)
    try:
        strip.show_progress(progress(block=1))
        assert strip.moving is not still
    finally:
        motion.set_still(False)
    strip.end_reading()
    assert not strip.moving


def test_measuring_shows_each_reading_and_then_the_new_rate(
    page: PrefillView, fake: FakeEngine, qtbot: QtBot
) -> None:
    profile = sample_plan("auto").profile
    disk = profile.disks[0].model_copy(update={"read_gbps": 3.3})
    measured = profile.model_copy(update={"disks": (disk,)})

    def measured_plans(body: dict[str, Any]) -> Any:
        planned = sample_plan(body["mode"]).model_copy(update={"profile": measured})
        return planned.model_dump(mode="json")

    fake.answers["POST /twofold/probe"] = [
        {"type": "step", "what": "d", "share": 0.5, "gbps": 3.0},
        {"type": "step", "what": "d", "share": 1.0, "gbps": 3.3},
        {"type": "probed", "profile": measured.model_dump(mode="json")},
    ]
    fake.answers["POST /twofold/plan"] = measured_plans
    page.measure.click()
    qtbot.waitUntil(lambda: "3.3 GB/s" in page.disk.text())
    assert page.trace.rates == [3.0, 3.3]
    qtbot.waitUntil(lambda: page.measure.text() == "Measure again")


def test_a_measurement_that_fails_says_so(
    page: PrefillView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    said: list[str] = []
    ready_app.context.notify = lambda sentence, *_: said.append(sentence)
    fake.answers["POST /twofold/probe"] = Failure(code="survey.ended", sentence="It ended early.")
    page.measure.click()
    qtbot.waitUntil(lambda: said == ["It ended early."])
    assert page.measure.text() == "Measure again"


USE = MemoryUse(weights=4 * GB, context=GB, compute=GB, resident=2 * GB)
CARD = CardMemory(bus_id="0000:01:00.0", total=24 * GB, free=13 * GB)
REPORT = MemoryReport(
    model=USE,
    worker_resident=8 * GB,
    machine_total=32 * GB,
    machine_available=20 * GB,
    cards=(CardMemory(bus_id="0000:02:00.0", total=8 * GB, free=8 * GB), CARD),
)


def machine(bus_id: str | None) -> Profile:
    card = sample_plan("auto").profile.devices[0].model_copy(update={"bus_id": bus_id})
    return sample_plan("auto").profile.model_copy(update={"devices": (card,)})


def test_memory_adds_up_whether_planned_or_counted() -> None:
    plan = planned_memory(sample_plan("auto").plan)
    assert sum(size for _, size in plan.parts) == plan.total
    now = memory_now(REPORT, "CPU", machine(None))
    assert now is not None
    assert dict(now.parts)["other"] == 4 * GB
    assert sum(size for _, size in now.parts) == 32 * GB


def test_a_cards_memory_is_what_its_driver_counts_now() -> None:
    now = memory_now(REPORT, "CUDA0", machine("0000:01:00.0"))
    assert now is not None and now.total == 24 * GB
    parts = dict(now.parts)
    assert (parts["decoder"], parts["other"], parts["free"]) == (4 * GB, 3 * GB, 13 * GB)
    assert memory_now(REPORT, "CUDA0", machine(None)) is None


def test_memory_is_asked_for_again_while_the_page_is_seen(
    page: PrefillView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    profile = machine(CARD.bus_id)

    def plan(body: dict[str, Any]) -> Any:
        planned = sample_plan(body["mode"]).model_copy(update={"profile": profile})
        return planned.model_dump(mode="json")

    fake.answers["POST /twofold/plan"] = plan
    fake.answers["GET /twofold/memory"] = REPORT.model_dump(mode="json")
    fake.publish(EngineState(status="empty"))
    fake.be_ready()
    qtbot.waitUntil(lambda: "now, 24.0 GB" in words(page))
    assert "Free\n13.0 GB" in words(page)
    more = REPORT.model_copy(update={"cards": (CARD.model_copy(update={"free": 5 * GB}),)})
    fake.answers["GET /twofold/memory"] = more.model_dump(mode="json")
    qtbot.waitUntil(lambda: "Free\n5.0 GB" in words(page), timeout=10_000)
    ready_app.window.show_page("shortcuts")


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("setting", ["auto", "decoder", "resident", "odp", "autocast"])
def test_every_path_has_a_sentence_with_numbers_in_both_languages(
    language: Any, setting: PathSetting
) -> None:
    set_language(language)
    said = path_sentence(setting, sample_plan("auto").plan, sample_plan(setting).plan, 5.1)
    assert any(digit in said for digit in "0123456789") and "{" not in said
    assert crossover_words(sample_plan(setting).plan)


def test_without_a_prefiller_auto_says_that_it_may_take_autocast() -> None:
    """As the router does."""
    why = Remark(code="plan.no_prefiller", sentence="There is none.")
    plan = sample_plan("auto").plan.model_copy(
        update={"prefiller": None, "mode": "decoder", "reasons": (why,)}
    )
    assert "Auto takes Autocast" in path_sentence("auto", plan, plan, 5.1)
    paired = plan.model_copy(update={"prefiller": "a prefiller", "reasons": ()})
    assert "Autocast" not in path_sentence("auto", paired, paired, 5.1)
    left_out = plan.model_copy(update={"reasons": ()})  # a prefiller that would not be faster
    assert "Autocast" not in path_sentence("auto", left_out, left_out, 5.1)
