"""The first page's layout: three lines and two buttons."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QVBoxLayout, QWidget

from app.first_run.first_run_controller import FirstRunController
from app.i18n import tr
from app.shell.context import Context
from app.shell.flow import Flow
from app.shell.page import Page
from app.shell.scrolled import scrolled
from app.shell.widgets import button, column, icon_button, label, restyle, row
from app.theme.icons import icon

WIDEST = 620
ICON = 20


def make_page(context: Context) -> Page:
    view = FirstRunView()
    view.controller = FirstRunController(context, view)
    return view


class FirstRunView(Page):
    def __init__(self) -> None:
        super().__init__()
        self.machine = label("", wrap=True)
        self.best = label("", "heading", wrap=True)
        self.why = label("", "secondary", wrap=True)
        self.download = button("", "primary")
        self.demo = button(tr("first_run.demo"))
        self.retry = button(tr("helps.try_again"))
        self.progress = label("", "small", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self.bar.setAccessibleName(tr("first_run.downloading"))
        self.pause = icon_button("pause", tr("models.steer_pause"), size=16)
        self._coming = QWidget()
        line = row(self.bar, self.pause, spacing=8)
        line.setStretch(0, 1)
        coming = column(spacing=4)
        coming.addLayout(line)
        coming.addWidget(self.progress)
        self._coming.setLayout(coming)
        self.other = button(tr("first_run.other"), "link")
        buttons = Flow(spacing=12)
        for made in (self.download, self.demo, self.retry):
            buttons.addWidget(made)

        content = QWidget()
        inside = QVBoxLayout(content)
        inside.setContentsMargins(24, 24, 24, 24)
        inside.setSpacing(24)
        inside.addStretch(2)
        inside.addLayout(
            column(label(tr("first_run.title"), "title", wrap=True),
                   label(tr("first_run.words"), "secondary", wrap=True))
        )  # fmt: skip
        inside.addLayout(_line("cpu", column(self.machine)))
        inside.addLayout(_line("package", column(self.best, self.why, spacing=4)))
        inside.addWidget(self._coming)
        last = column(spacing=12)
        last.addLayout(buttons)
        last.addLayout(row(self.other, None))
        inside.addLayout(last)
        inside.addStretch(3)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scrolled(content, WIDEST, tr("first_run.title")))
        self.show_download("", enabled=False)
        self.show_progress(None, "")
        self.retry.hide()

    def show_download(self, words: str, *, enabled: bool = True) -> None:
        """Without words there is nothing to download."""
        self.download.setText(words)
        self.download.setAccessibleName(words)
        self.download.setVisible(bool(words))
        self.download.setEnabled(enabled)

    def show_best(self, best: str, why: str) -> None:
        self.best.setText(best)
        self.best.setVisible(bool(best))
        self.why.setText(why)
        self.why.setVisible(bool(why))

    def put_demo_first(self, first: bool) -> None:
        """The demo is the one thing to do, or the second of two."""
        self.demo.setProperty("kind", "primary" if first else None)
        restyle(self.demo)

    def show_progress(self, share: float | None, words: str) -> None:
        """Without words nothing is being downloaded."""
        self._coming.setVisible(bool(words))
        self.bar.setValue(round((share or 0.0) * 1000))
        self.progress.setText(words)


def _line(icon_name: str, words: QVBoxLayout) -> QHBoxLayout:
    mark = QLabel()
    mark.setPixmap(icon(icon_name).pixmap(QSize(ICON, ICON)))
    line = QHBoxLayout()
    line.setSpacing(12)
    line.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
    line.addLayout(words, 1)
    return line
