"""Downloads: how far each is, why one failed, and how they are steered."""

from __future__ import annotations

import time

import pytest
from pytestqt.qtbot import QtBot

from app import sample_models
from app.main import Application
from app.models.job_row import JobRow
from app.models.models_view import ModelsView
from engine.api.models import JobInfo, Progress
from tests.app.models.conftest import ROUTE, posted, words
from tests.support.fake_engine import FakeEngine

GB = 1_000_000_000


@pytest.fixture
def downloads(page: ModelsView, fake: FakeEngine, qtbot: QtBot) -> ModelsView:
    page.switch.buttons["downloads"].click()
    fake.publish_jobs(*sample_models.jobs())
    qtbot.waitUntil(lambda: len(page.downloads.under_way.rows) == 5)
    return page


def row(page: ModelsView, key: str) -> JobRow:
    return {**page.downloads.under_way.rows, **page.downloads.over.rows}[key]


def test_a_running_download_shows_amount_rate_and_remaining_time(downloads: ModelsView) -> None:
    shown = row(downloads, "1")
    assert shown.facts.text() == "3.1 GB of 8.9 GB · 52.4 MB/s · about 2 min"
    assert shown.bar.value() == round(3.1 / 8.9 * 1000)
    assert downloads.switch.buttons["downloads"].text() == "Downloads (4)"


def test_coming_checking_and_verified_are_three_states_of_one_bar(
    downloads: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    shown = row(downloads, "1")
    job = shown.job
    assert shown.bar.property("kind") == "coming"
    checking = job.progress.model_copy(update={"step": "checking", "rate": None})
    fake.publish_jobs(job.model_copy(update={"progress": checking}))
    qtbot.waitUntil(lambda: shown.bar.property("kind") == "checking")
    assert shown.facts.text().startswith("Checking what is here")
    fake.publish_jobs(job.model_copy(update={"state": "done"}))
    qtbot.waitUntil(lambda: "1" in downloads.downloads.over.rows)
    done = row(downloads, "1")
    assert done.bar.property("kind") == "whole" and done.bar.value() == 1000
    assert done.facts.text() == "Downloaded and verified · 8.9 GB"


def test_one_that_failed_says_why_and_can_be_tried_again(
    downloads: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    failed = row(downloads, "5")
    assert failed.problem.isVisible() and "disk is full" in words(failed)
    assert failed.bar.property("kind") == "failed"
    failed.button.click()
    qtbot.waitUntil(lambda: posted(fake, "jobs") == [{"id": "5", "action": "retry"}])


def test_one_that_is_tried_again_by_itself_says_when(
    downloads: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    at = time.mktime((2026, 11, 30, 14, 5, 0, 0, 0, -1))
    fake.publish_jobs(row(downloads, "5").job.model_copy(update={"retry_at": at}))
    words = "Tried again by itself at 14:05 · 5.0 GB of 9.0 GB"
    qtbot.waitUntil(lambda: row(downloads, "5").facts.text() == words)


@pytest.mark.parametrize(
    ("key", "steer", "body"),
    [
        ("1", "pause", {"id": "1", "action": "pause"}),
        ("4", "resume", {"id": "4", "action": "resume"}),
        ("2", "cancel", {"id": "2", "action": "cancel"}),
        ("3", "first", {"id": "3", "priority": 1}),
        ("6", "remove", {"id": "6", "action": "remove"}),
    ],
)
def test_jobs_are_steered(
    downloads: ModelsView,
    fake: FakeEngine,
    qtbot: QtBot,
    key: str,
    steer: str,
    body: dict[str, object],
) -> None:
    icons = {str(name): made for name, made in row(downloads, key).icons.items()}
    assert icons[steer].isVisible()
    icons[steer].click()
    qtbot.waitUntil(lambda: posted(fake, "jobs") == [body])


def test_only_what_can_be_done_is_offered(downloads: ModelsView) -> None:
    shown = {
        key: {name for name, made in row(downloads, key).icons.items() if made.isVisible()}
        for key in ("1", "4", "6")
    }
    assert shown == {
        "1": {"first", "pause", "cancel"}, "4": {"resume", "cancel"}, "6": {"remove"},
    }  # fmt: skip


def test_rows_keep_the_focus_while_the_queue_changes(
    downloads: ModelsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    ready_app.window.activateWindow()
    pause = row(downloads, "1").icons["pause"]
    pause.setFocus()
    jobs = list(sample_models.jobs())
    progress = jobs[0].progress.model_copy(update={"done": 4 * GB})
    jobs[0] = jobs[0].model_copy(update={"progress": progress})
    fake.publish_jobs(*jobs[1:3], jobs[0])
    qtbot.waitUntil(lambda: row(downloads, "1").facts.text().startswith("4.0 GB"))
    assert row(downloads, "1").icons["pause"] is pause and pause.hasFocus()


def test_what_deserves_to_be_read_is_shown(downloads: ModelsView) -> None:
    notice = "Qwen3-8B-Q4_K_M.gguf came with wrong bytes and was fetched again."
    assert notice in words(row(downloads, "7"))


def test_the_list_of_what_is_over_can_be_cleared(
    downloads: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    downloads.downloads.clear.click()
    qtbot.waitUntil(lambda: len(posted(fake, "jobs")) == 2)
    assert {body["id"] for body in posted(fake, "jobs")} == {"6", "7"}


def test_an_empty_queue_says_what_goes_there(page: ModelsView) -> None:
    page.switch.buttons["downloads"].click()
    assert "appear here" in words(page.downloads.empty)
    page.downloads.discover.click()
    assert page.tab == "discover"


def test_the_queue_is_followed_again_after_the_engine_started_anew(
    downloads: ModelsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    ready_app.engine.start()
    qtbot.waitUntil(lambda: ready_app.engine.connection.value == "connected", timeout=10_000)
    fake.publish_jobs(sample_models.jobs()[3])
    qtbot.waitUntil(lambda: list(downloads.downloads.under_way.rows) == ["4"], timeout=10_000)


def job(state: str, **facts: object) -> JobInfo:
    running = sample_models.jobs()[0]
    return running.model_copy(update={"state": state, "progress": Progress(total=1), **facts})


def test_what_has_arrived_is_told_on_any_page_and_used_with_one_button(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    """A prefiller brings its decoder along."""
    told: list[tuple[str, ...]] = []
    buttons: list[object] = []

    def notify(sentence: str, button: str = "", act: object = None) -> None:
        told.append((sentence, button))
        buttons.append(act)

    ready_app.context.notify = notify
    ready_app.preferences.values.model = "chosen.gguf"
    entry = sample_models.library().entries[0]
    fake.answers[f"GET {ROUTE}"] = sample_models.answer(ROUTE, None)
    fake.publish_jobs(job("running"))
    qtbot.waitUntil(lambda: bool(ready_app.models.jobs))
    best = entry.prefiller
    assert best is not None
    fake.publish_jobs(job("done", result=str(best.path)))
    qtbot.waitUntil(lambda: bool(told))
    name = f"{sample_models.REPO}:IQ2_XXS"
    assert told == [(f"{name} is here and verified.", "Use")]
    use = buttons[0]
    assert callable(use)
    use()
    qtbot.waitUntil(lambda: bool(fake.loads))
    assert fake.loads[-1]["model"] == str(entry.path)
    assert fake.loads[-1]["prefiller"] == str(best.path)


def test_a_failure_is_told_on_any_page_and_leads_to_the_queue(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.publish_jobs(job("running"))
    qtbot.waitUntil(lambda: bool(ready_app.models.jobs))
    told: list[str] = []
    ready_app.context.notify = lambda sentence, *_: told.append(sentence)
    fake.publish_jobs(job("failed", failure=sample_models.OFFLINE))
    qtbot.waitUntil(lambda: told == [f"It did not work: {sample_models.REPO}:IQ2_XXS"])
