"""The diagnostics page's logic: asks the engine about the machine, measures, checks, exports."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from PySide6.QtCore import QStandardPaths
from PySide6.QtWidgets import QFileDialog

from app.diagnostics.cards_controller import CardsController
from app.diagnostics.facts import hardware_facts, log_line, problems, report_facts
from app.engine_client.client import Connection
from app.engine_client.failures import sentence
from app.engine_client.http import Stream, error_in
from app.i18n import tr
from app.shell.announce import announce
from app.shell.context import Context
from app.shell.page import PageController
from engine.api.failure import Failure
from engine.api.requests import LogLines
from engine.api.survey import Examined, Probed, ProbeEvent, ProbeStep

if TYPE_CHECKING:
    from app.diagnostics.diagnostics_view import DiagnosticsView

LOG_LINES = 200
_probe_event: TypeAdapter[ProbeStep | Probed] = TypeAdapter(ProbeEvent)


class DiagnosticsController(PageController):
    def __init__(self, context: Context, view: DiagnosticsView) -> None:
        super().__init__(view)
        self._context = context
        self._view = view
        self._engine = context.engine
        self._http = context.engine.http
        self._measuring: Stream | None = None
        self.cards = CardsController(context, view.cards, view)
        self.cards.changed.connect(self._read_machine)
        view.measure.clicked.connect(self._measure)
        view.check.clicked.connect(self._check)
        view.refresh_log.clicked.connect(self._read_log)
        view.export.clicked.connect(self._choose_file)
        self._engine.connection_changed.connect(self._on_connection)

    def close(self) -> None:
        self.cards.close()
        self._engine.connection_changed.disconnect(self._on_connection)
        if self._measuring is not None:
            self._measuring.abort()
            self._measuring = None

    def refresh(self) -> None:
        """Called each time the page comes forward."""
        connected = self._engine.connection is Connection.CONNECTED
        view = self._view
        view.waiting.setText("" if connected else tr("chat.engine_stopped"))
        view.waiting.setVisible(not connected)
        for control in (view.measure, view.check, view.refresh_log, view.export):
            control.setEnabled(connected)
        self.cards.refresh()
        if connected:
            self._read_machine()
            self._read_log()

    def _read_machine(self) -> None:
        self._http.get("/twofold/probe", self._on_known, self._on_problem)

    def _on_connection(self, _connection: Connection) -> None:
        if self._view.isVisible():
            self.refresh()

    def _on_known(self, answer: Any) -> None:
        self._view.hardware.show_facts(hardware_facts(Probed.model_validate(answer).profile))

    def _on_problem(self, problem: Failure) -> None:
        self._context.notify(sentence(problem))

    # Measuring

    def _measure(self) -> None:
        """Begins, or stops what runs."""
        if self._measuring is not None:
            self._measuring.abort()
            self._end_measuring()
            return
        self._view.show_measuring(tr("diagnostics.measuring"), None)
        stream = self._http.stream("/twofold/probe", {"again": True})
        stream.arrived.connect(self._on_measured)
        stream.ended.connect(self._on_measuring_ended)
        self._measuring = stream

    def _on_measured(self, data: Any) -> None:
        if "error" in data:
            self._on_problem(error_in(data))
            return
        event = _probe_event.validate_python(data)
        if isinstance(event, ProbeStep):
            words = tr("diagnostics.measuring_what", what=event.what)
            self._view.show_measuring(words, event.share)
        else:
            self._view.hardware.show_facts(hardware_facts(event.profile))
            announce(self._view, tr("diagnostics.measured"))

    def _on_measuring_ended(self, problem: Failure | None) -> None:
        if problem is not None:
            self._on_problem(problem)
        self._end_measuring()

    def _end_measuring(self) -> None:
        self._measuring = None
        self._view.show_measuring("", None)

    # Findings

    def _check(self) -> None:
        self._view.check.setEnabled(False)
        self._view.verdict.setText(tr("diagnostics.checking"))
        self._http.get("/twofold/doctor", self._on_report, self._on_check_failed)

    def _on_report(self, answer: Any) -> None:
        report = Examined.model_validate(answer).report
        view = self._view
        view.check.setEnabled(True)
        found = problems(report)
        view.verdict.setText(tr("diagnostics.well" if report["healthy"] else "diagnostics.unwell"))
        view.show_problems(found)
        view.report.show_facts(report_facts(report))
        announce(view, " ".join([view.verdict.text(), *found]))

    def _on_check_failed(self, problem: Failure) -> None:
        self._view.check.setEnabled(True)
        self._view.verdict.setText(sentence(problem))

    # The log and the bundle

    def _read_log(self) -> None:
        self._http.get(f"/twofold/logs?lines={LOG_LINES}", self._on_log, self._on_problem)

    def _on_log(self, answer: Any) -> None:
        lines = LogLines.model_validate(answer).lines
        self._view.show_log([log_line(line) for line in lines])

    def _choose_file(self) -> None:
        places = QStandardPaths.StandardLocation
        folder = QStandardPaths.writableLocation(places.DocumentsLocation)
        name = time.strftime("twofold-diagnostics-%Y%m%d-%H%M%S.zip")
        chosen, _ = QFileDialog.getSaveFileName(
            self._view, tr("diagnostics.export"), str(Path(folder, name)), "*.zip"
        )
        if chosen:
            self.export(Path(chosen))

    def export(self, path: Path) -> None:
        """Has the engine write the bundle, which takes some seconds: every kernel runs once."""
        self._view.export.setEnabled(False)
        self._view.verdict.setText(tr("diagnostics.checking"))
        self._http.post(
            "/twofold/bundle", {"path": str(path)}, self._on_exported, self._on_export_failed
        )

    def _on_exported(self, answer: Any) -> None:
        self._view.export.setEnabled(True)
        self._on_report(answer)
        path = Examined.model_validate(answer).bundle or ""
        self._context.notify(tr("diagnostics.exported", path=path))

    def _on_export_failed(self, problem: Failure) -> None:
        self._view.export.setEnabled(True)
        self._view.verdict.setText(tr("diagnostics.not_checked"))
        self._on_problem(problem)
