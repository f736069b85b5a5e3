"""The diagnostics page: the machine, measuring it, findings, the log, and the bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.diagnostics.diagnostics_controller import DiagnosticsController
from app.diagnostics.diagnostics_view import DiagnosticsView
from app.diagnostics.facts import log_line, report_facts
from app.i18n import set_language
from app.main import Application
from app.sample_machine import sample_plan, sample_report
from engine.api.failure import Failure
from tests.support.fake_engine import FakeEngine

LOG = [
    {"time": "2026-11-30T09:12:01.120Z", "level": "info", "from": "a", "event": "model.loaded"},
    {"time": "2026-11-30T09:12:02.000Z", "level": "error", "from": "a", "event": "worker.ended"},
]


@pytest.fixture
def page(ready_app: Application, fake: FakeEngine, qtbot: QtBot) -> DiagnosticsView:
    profile = sample_plan("auto").profile.model_dump(mode="json")
    fake.answers["GET /twofold/probe"] = {"type": "probed", "profile": profile}
    lines = [json.dumps(line) for line in LOG]
    fake.answers["GET /twofold/logs?lines=200"] = {"lines": [*lines, "half a li"]}
    ready_app.window.show_page("diagnostics")
    found = ready_app.window.findChild(DiagnosticsView)
    assert isinstance(found, DiagnosticsView)
    qtbot.waitUntil(lambda: "RTX 4090" in words(found) and bool(found.log.toPlainText()))
    return found


def words(view: DiagnosticsView) -> str:
    return "\n".join(item.text() for item in view.findChildren(QLabel))


def test_the_machine_is_told_with_its_memory_disk_and_rates(page: DiagnosticsView) -> None:
    shown = words(page)
    assert "NVIDIA GeForce RTX 4090" in shown and "PCIe 4.0 x16" in shown
    assert "5.1 GB/s, measured on 2026-11-24" in shown
    assert "AMD Ryzen 9 7950X 16-Core Processor, 16 cores" in shown


def test_the_log_shows_what_is_serious_enough_and_broken_lines_as_they_are(
    page: DiagnosticsView,
) -> None:
    assert "09:12:01  model.loaded" in page.log.toPlainText()
    assert "half a li" in page.log.toPlainText()
    page.level.setCurrentIndex(page.level.findData("error"))
    page.level.activated.emit(page.level.currentIndex())
    assert "model.loaded" not in page.log.toPlainText()
    assert "worker.ended" in page.log.toPlainText()


def test_a_check_says_what_is_wrong_with_a_code_to_search_for(
    page: DiagnosticsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.answers["GET /twofold/doctor"] = {"type": "examined", "report": sample_report()}
    page.check.click()
    assert not page.check.isEnabled()
    qtbot.waitUntil(page.check.isEnabled)
    assert page.verdict.text() == "Something is wrong:"
    assert "[doctor.little_space]" in words(page)


def test_measuring_tells_each_step_and_shows_the_new_rates(
    page: DiagnosticsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    profile = sample_plan("auto").profile
    host = profile.host.model_copy(update={"cpu": "Another processor"})
    measured = profile.model_copy(update={"host": host}).model_dump(mode="json")
    fake.answers["POST /twofold/probe"] = [
        {"type": "step", "what": "the disk of /models", "share": 0.5, "gbps": 5.0},
        {"type": "probed", "profile": measured},
    ]
    page.measure.click()
    assert page.measure.text() == "Stop"
    qtbot.waitUntil(lambda: "Another processor" in words(page))
    qtbot.waitUntil(lambda: page.measure.text() == "Measure everything again")
    assert fake.posted[-1] == ("/twofold/probe", {"again": True})


def test_the_bundle_goes_where_it_was_asked_to(
    page: DiagnosticsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot, tmp_path: Path
) -> None:
    said: list[str] = []
    ready_app.context.notify = lambda sentence, *_: said.append(sentence)
    place = str(tmp_path / "found.zip")
    answer = {"type": "examined", "report": sample_report(), "bundle": place}
    fake.answers["POST /twofold/bundle"] = answer
    controller = page.controller
    assert isinstance(controller, DiagnosticsController)
    controller.export(Path(place))
    qtbot.waitUntil(lambda: said == [f"Diagnostics are at {place}."])
    assert fake.posted[-1] == ("/twofold/bundle", {"path": place})
    fake.answers["POST /twofold/bundle"] = Failure(code="x", sentence="The disk is full.")
    controller.export(Path(place))
    qtbot.waitUntil(lambda: said[-1] == "The disk is full.")
    assert page.export.isEnabled()


@pytest.mark.parametrize("language", ["en", "ko"])
def test_reports_and_odd_log_lines_have_words_in_both_languages(language: Any) -> None:
    set_language(language)
    assert all(name and value for name, value in report_facts(sample_report()))
    assert log_line("[1, 2]").text == "[1, 2]"
