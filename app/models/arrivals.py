"""Says at the window's foot when a download or other work has ended, whatever page is in front."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from app.i18n import tr
from app.models.words import job_title
from app.shell.context import Context
from engine.api.models import JobInfo, LibraryAnswer


class Arrivals(QObject):
    """A download that is done may be used with one button; of one that failed, the queue says
    more. While no model was ever chosen the page of the first start does this."""

    def __init__(self, context: Context, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        context.models.job_ended.connect(self._on_ended)

    def _on_ended(self, job: JobInfo) -> None:
        context = self._context
        title = job_title(job)
        if job.state == "failed":
            words = tr("models.job_failed", what=title)
            context.notify(words, tr("models.show_download"), self._show)
        elif job.kind == "download" and context.loader.chosen is not None:
            words = tr("models.arrived", name=job.title)
            context.notify(words, tr("models.use"), lambda: self._use(job))
        else:
            context.notify(tr("models.job_done", what=title))

    def _show(self) -> None:
        self._context.show_page("models")

    def _use(self, job: JobInfo) -> None:
        """What it brought: a decoder, or a prefiller whose decoder is to be used with it."""
        if job.result is None:
            return
        path = Path(job.result)

        def load(answer: LibraryAnswer) -> None:
            for entry in answer.entries:
                brought = entry.path == path
                paired = any(one.path == path and one.choosable for one in entry.prefillers)
                if entry.kind == "decoder" and (brought or paired):
                    best = entry.prefiller.path if entry.prefiller is not None else None
                    self._context.loader.load(entry.path, best)
                    self._context.show_page("chat")
                    return
            self._show()

        self._context.models.library(load, lambda _: self._show())
