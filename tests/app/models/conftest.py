"""The models page with the samples' models behind the scripted engine."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app import sample_models
from app.main import Application
from app.models.models_view import ModelsView
from engine.api.models import JobList
from tests.support.fake_engine import FakeEngine

ROUTE = "/twofold/models"


def script(fake: FakeEngine) -> None:
    """The routes answer with the samples; work that is asked for is queued."""
    for method, route in (("GET", ""), ("GET", "/recommended"), ("POST", "/search"),
                          ("POST", "/offers"), ("POST", "/remove")):  # fmt: skip
        fake.answers[f"{method} {ROUTE}{route}"] = lambda body, route=route: sample_models.answer(
            f"{ROUTE}{route}", body
        )
    fake.answers[f"POST {ROUTE}/pull"] = lambda _: JobList(
        jobs=sample_models.jobs()[:1]
    ).model_dump(mode="json")
    for route in ("verify", "build", "import", "export", "move", "jobs"):
        queued = sample_models.jobs()[2].model_dump(mode="json")
        fake.answers[f"POST {ROUTE}/{route}"] = queued


def words(view: QWidget) -> str:
    """All that is to be read there."""
    shown = [item.text() for item in view.findChildren(QLabel) if item.isVisible()]
    return "\n".join(shown).replace("\u200b", "")


def posted(fake: FakeEngine, route: str) -> list[Any]:
    return [body for path, body in fake.posted if path == f"{ROUTE}/{route}"]


@pytest.fixture
def page(ready_app: Application, fake: FakeEngine, qtbot: QtBot) -> ModelsView:
    """The page, forward, with what fits best."""
    script(fake)
    ready_app.window.show_page("models")
    view = ready_app.window.findChild(ModelsView)
    assert isinstance(view, ModelsView)
    qtbot.waitUntil(lambda: bool(view.discover.best.rows), timeout=10_000)
    return view


@pytest.fixture
def said(ready_app: Application) -> list[str]:
    """What is said at the window's foot."""
    sentences: list[str] = []
    ready_app.context.notify = lambda sentence, *_: sentences.append(sentence)
    return sentences
