"""The library: what is there and how it is, and what can be done to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QAction, QDropEvent
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app import sample_models
from app.main import Application
from app.models.entry_row import EntryRow
from app.models.models_view import ModelsView
from app.models.row import Row
from app.shell.panel import Panel
from engine.api.engine import EngineState
from engine.api.failure import Failure
from engine.api.models import LibraryAnswer
from engine.api.plan import Remark
from tests.app.models.conftest import ROUTE, posted, words
from tests.support.fake_engine import FakeEngine, model


@pytest.fixture
def library(page: ModelsView, qtbot: QtBot) -> ModelsView:
    page.switch.buttons["library"].click()
    qtbot.waitUntil(lambda: len(page.library.decoders.rows) == 4, timeout=10_000)
    return page


def show_library(page: ModelsView, fake: FakeEngine, answer: LibraryAnswer, qtbot: QtBot) -> None:
    fake.answers[f"GET {ROUTE}"] = answer.model_dump(mode="json")
    page.switch.buttons["library"].click()
    decoders = [entry for entry in answer.entries if entry.kind == "decoder"]
    qtbot.waitUntil(lambda: len(page.library.decoders.rows) == len(decoders))


def entry_row(page: ModelsView, name: str) -> EntryRow:
    for row in page.library.decoders.rows + page.library.others.rows:
        if row.title == name and isinstance(row, EntryRow):
            return row
    raise AssertionError(name)


def action(row: Row, name: str) -> QAction:
    return next(one for one in row.menu_actions() if one.text() == name)


def panel_of(page: ModelsView, qtbot: QtBot) -> Panel:
    def shown() -> list[Panel]:
        return [one for one in page.library.findChildren(Panel) if one.isVisible()]

    qtbot.waitUntil(lambda: bool(shown()))
    return shown()[0]


def press(panel: Panel, name: str) -> None:
    next(one for one in panel.buttons if one.text() == name).click()


def test_an_entry_says_what_it_is_and_whether_it_is_verified(library: ModelsView) -> None:
    first = entry_row(library, "Qwen3.8-27B-IQ2_XXS")
    assert first.amount.text() == "8.9 GB"
    assert first.facts.text() == (
        "IQ2_XXS · qwen35 · apache-2.0 · verified 2026-11-24 · prefiller matched by name"
    )
    assert "not verified" in entry_row(library, "Qwen3-8B-Q4_K_M").facts.text()
    assert "442 GB free" in library.library.folder.text()


def test_a_drive_that_is_away_keeps_its_entries_and_says_so(library: ModelsView) -> None:
    away = entry_row(library, "Llama-4-Scout-17B-Q4_K_M")
    assert away.badge.text() == "offline" and away.problem.isVisible()
    assert not away.button.isVisible(), "it cannot be used now"
    assert "/media/ada/Models is not connected" in words(library.library)


def test_a_decoder_opens_to_its_prefillers_with_verdict_and_reason(
    library: ModelsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    decoder = entry_row(library, "Qwen3.8-27B-IQ2_XXS")
    decoder.open_button.click()
    qtbot.waitUntil(lambda: "mmproj-F16.gguf" in words(decoder))
    rows = {row.title: row for row in decoder.findChildren(Row) if row.isVisible()}
    good = rows["Qwen3.8-27B-NVFP4-prefiller-IQ2_XXS"]
    assert (
        good.badge.text() == "matched by name"
        and "all tensors and shapes agree" in good.facts.text()
    )
    wrong = rows["Qwen3.8-27B-NVFP4-prefiller-IQ1_S"]
    assert wrong.badge.text() == "wrong"
    reason = "It is for IQ1_S; this decoder is IQ2_XXS."
    assert wrong.facts.text().replace("\u200b", "") == reason
    assert not wrong.button.isVisible(), "a wrong one cannot be chosen by accident"
    assert wrong.menu_actions()[0].text() == "Verify again"
    assert all("anyway" not in one.text() for one in wrong.menu_actions())
    good.button.click()
    qtbot.waitUntil(lambda: bool(fake.loads))
    assert fake.loads[-1]["prefiller"] == str(sample_models.library().entries[0].prefillers[0].path)
    assert ready_app.window.page == "chat"


def test_use_loads_the_decoder_with_its_best_prefiller(
    library: ModelsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    entry = sample_models.library().entries[0]
    entry_row(library, entry.name).button.click()
    qtbot.waitUntil(lambda: bool(fake.loads))
    best = entry.prefiller
    assert best is not None
    assert fake.loads[-1]["model"] == str(entry.path)
    assert fake.loads[-1]["prefiller"] == str(best.path)
    assert fake.loads[-1]["force_pairing"] is False
    assert ready_app.preferences.values.model == str(entry.path)


def test_an_unknown_prefiller_is_used_only_by_somebody_who_insists(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    answer = sample_models.library()
    first = answer.entries[0]
    nothing = Remark(code="no_label", sentence="nothing says so")
    unknown = first.prefillers[0].model_copy(
        update={"verdict": "unknown", "choosable": False, "reasons": (nothing,)}
    )
    first = first.model_copy(update={"prefillers": (unknown,)})
    show_library(page, fake, answer.model_copy(update={"entries": (first,)}), qtbot)
    decoder = entry_row(page, first.name)
    decoder.open_button.click()
    qtbot.waitUntil(lambda: "match unknown" in words(decoder))
    row = next(row for row in decoder.findChildren(Row) if row.badge.text() == "match unknown")
    assert not row.button.isVisible()
    action(row, "Use it anyway").trigger()
    panel = panel_of(page, qtbot)
    assert "may belong to another decoder" in words(panel) and "Neither its name" in words(panel)
    assert not fake.loads
    press(panel, "Use it anyway")
    qtbot.waitUntil(lambda: bool(fake.loads))
    assert fake.loads[-1]["force_pairing"] is True


def test_the_loaded_model_is_marked(library: ModelsView, fake: FakeEngine, qtbot: QtBot) -> None:
    entry = sample_models.library().entries[2]
    loaded = model().model_copy(update={"path": entry.path})
    fake.publish(EngineState(status="ready", model=loaded))
    row = entry_row(library, entry.name)
    qtbot.waitUntil(lambda: row.button.text() == "In use")
    assert not row.button.isEnabled()


def test_removing_lists_what_goes_and_what_shares_it_before_it_does_anything(
    library: ModelsView, fake: FakeEngine, said: list[str], qtbot: QtBot
) -> None:
    row = entry_row(library, "Qwen3.8-27B-IQ2_XXS")
    action(row, "Remove …").trigger()
    panel = panel_of(library, qtbot)
    shown = words(panel)
    assert "8.9 GB become free" in shown and "Qwen3.8-27B-IQ2_XXS.gguf" in shown
    assert "mmproj-F16.gguf stays: Qwen3.8-27B-IQ1_S needs it, too." in shown
    assert "Left without its decoder: Qwen3.8-27B-NVFP4-prefiller-IQ2_XXS.gguf" in shown
    assert posted(fake, "remove") == [{"id": row.entry.id}]
    press(panel, "Cancel")
    assert len(posted(fake, "remove")) == 1
    action(row, "Remove …").trigger()
    press(panel_of(library, qtbot), "Remove")
    qtbot.waitUntil(lambda: bool(said))
    assert posted(fake, "remove")[-1] == {"id": row.entry.id, "confirm": True}
    assert said == ["Qwen3.8-27B-IQ2_XXS was removed; 8.9 GB are free again."]


def test_escape_leaves_a_question(library: ModelsView, fake: FakeEngine, qtbot: QtBot) -> None:
    action(entry_row(library, "Qwen3.8-27B-IQ2_XXS"), "Remove …").trigger()
    panel = panel_of(library, qtbot)
    qtbot.keyClick(panel.buttons[0], Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not any(one.isVisible() for one in library.findChildren(Panel)))
    assert len(posted(fake, "remove")) == 1


def test_a_refusal_is_said(
    library: ModelsView, fake: FakeEngine, said: list[str], qtbot: QtBot
) -> None:
    loaded = Failure(code="models.in_use", sentence="Qwen is loaded.", data={})
    fake.answers[f"POST {ROUTE}/remove"] = loaded
    action(entry_row(library, "Qwen3.8-27B-IQ2_XXS"), "Remove …").trigger()
    qtbot.waitUntil(lambda: said == ["Qwen is loaded."])


def test_verify_export_and_build_are_jobs(
    library: ModelsView, fake: FakeEngine, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = entry_row(library, "Qwen3.8-27B-IQ2_XXS")
    action(row, "Verify again").trigger()
    qtbot.waitUntil(lambda: posted(fake, "verify") == [{"id": row.entry.id}])
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "/elsewhere")
    action(row, "Copy to a folder …").trigger()
    exported = [{"id": row.entry.id, "folder": "/elsewhere"}]
    qtbot.waitUntil(lambda: posted(fake, "export") == exported)
    action(row, "Build a prefiller …").trigger()
    panel = panel_of(library, qtbot)
    assert "only from a better file of the same model" in words(panel)
    press(panel, "From this file")
    qtbot.waitUntil(lambda: posted(fake, "build") == [{"id": row.entry.id}])
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("/better-BF16.gguf", ""))
    action(row, "Build a prefiller …").trigger()
    press(panel_of(library, qtbot), "From a better file …")
    qtbot.waitUntil(lambda: len(posted(fake, "build")) == 2)
    assert posted(fake, "build")[-1]["source"] == "/better-BF16.gguf"


@pytest.mark.parametrize(
    ("button", "way"),
    [("Copy it", "copy"), ("Move it", "move"), ("Leave it where it is", "reference")],
)
def test_a_local_file_is_brought_in_as_somebody_chooses(
    library: ModelsView,
    fake: FakeEngine,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    button: str,
    way: str,
) -> None:
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("/some/where.gguf", ""))
    library.library.bring_in.click()
    press(panel_of(library, qtbot), button)
    qtbot.waitUntil(lambda: posted(fake, "import") == [{"path": "/some/where.gguf", "way": way}])


def test_a_dropped_file_may_just_be_opened(
    library: ModelsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    dropped = QMimeData()
    dropped.setUrls([QUrl.fromLocalFile("/some/where.gguf")])
    event = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, dropped, Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    library.library.dropEvent(event)
    press(panel_of(library, qtbot), "Only open it now")
    qtbot.waitUntil(lambda: bool(fake.loads))
    assert fake.loads[-1]["model"] == str(Path("/some/where.gguf"))
    assert ready_app.window.page == "chat" and not posted(fake, "import")


def test_the_library_moves_after_a_question(
    library: ModelsView, fake: FakeEngine, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "/big/disk")
    library.library.move_library.click()
    press(panel_of(library, qtbot), "Move")
    qtbot.waitUntil(lambda: posted(fake, "move") == [{"folder": "/big/disk"}])


def test_an_empty_library_says_what_goes_there(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    show_library(page, fake, sample_models.empty_library(), qtbot)
    assert "appear here" in words(page.library.empty)
    page.library.discover.click()
    assert page.tab == "discover"


def test_a_finished_job_shows_in_the_library_at_once(
    library: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    verify = sample_models.jobs()[5].model_copy(update={"state": "running"})
    fake.publish_jobs(verify)
    qtbot.waitUntil(lambda: "Downloads (1)" in library.switch.buttons["downloads"].text())
    answer = sample_models.library()
    entries = [
        entry.model_copy(update={"verification": "verified", "verified_at": "2026-12-01T00:00"})
        if entry.origin.way == "demo"
        else entry
        for entry in answer.entries
    ]
    changed = answer.model_copy(update={"entries": tuple(entries)})
    fake.answers[f"GET {ROUTE}"] = changed.model_dump(mode="json")
    row = entry_row(library, "SmolLM2 135M Instruct (demo)")
    fake.publish_jobs(verify.model_copy(update={"state": "done"}))
    qtbot.waitUntil(lambda: "verified 2026-12-01" in row.facts.text())


def test_a_large_library_is_filtered_by_words(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    answer = sample_models.library()
    first = answer.entries[2]
    many = [
        first.model_copy(update={"id": f"{no:012}", "name": f"Model {no}", "path": Path(f"/{no}")})
        for no in range(20)
    ]
    show_library(page, fake, answer.model_copy(update={"entries": tuple(many)}), qtbot)
    assert page.library.filter.isVisible()
    page.library.filter.setText("model 17")
    titles = ["Model 17"]
    qtbot.waitUntil(lambda: [row.title for row in page.library.decoders.rows] == titles)
    page.library.filter.setText("nothing like it")
    qtbot.waitUntil(lambda: "No model in the library matches." in words(page.library))


def test_damaged_and_incomplete_entries_say_what_is_wrong_and_cannot_be_used(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    answer = sample_models.library()
    first = answer.entries[0]
    failure = Failure(code="x.y", sentence="Its bytes are not those of the hub")
    damaged = first.model_copy(update={"state": "damaged", "failure": failure})
    partial = first.model_copy(update={"id": "2" * 12, "state": "incomplete", "name": "Part"})
    show_library(page, fake, answer.model_copy(update={"entries": (damaged, partial)}), qtbot)
    row = entry_row(page, first.name)
    assert row.badge.text() == "damaged" and row.problem.text() == failure.sentence
    assert not row.button.isVisible()
    assert entry_row(page, "Part").badge.text() == "incomplete"
