"""The prefill page's logic: asks for plans, follows readings, measures the disk."""

from __future__ import annotations

import importlib
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, get_args

from pydantic import TypeAdapter
from PySide6.QtCore import QTimer

from app.chat.answer_words import reading
from app.engine_client.client import Connection
from app.engine_client.failures import sentence
from app.engine_client.http import Stream, error_in
from app.i18n import numbers, tr
from app.prefill.facts import (
    crossover_words,
    device_name,
    disk_gbps,
    memory_now,
    path_sentence,
    planned_memory,
    remark_words,
)
from app.prefill.plot_library import importing
from app.shell.announce import announce
from app.shell.context import Context
from app.shell.page import PageController
from app.shell.steps import Steps
from app.store.chats import ChatStore
from engine.api.engine import EngineState, MemoryReport, RequestProgress
from engine.api.failure import Failure
from engine.api.hardware import Disk
from engine.api.plan import Plan
from engine.api.survey import Planned, Probed, ProbeEvent, ProbeStep
from engine.api.turn import Path, PathSetting

if TYPE_CHECKING:
    from app.prefill.plot import Run, TimePlot
    from app.prefill.prefill_view import PrefillView

_probe_event: TypeAdapter[ProbeStep | Probed] = TypeAdapter(ProbeEvent)
# A prompt read behind a long one that was known already says little about one of its length.
MOST_CACHED = 0.25
PLOT_LATER_MS = 200
MEMORY_MS = 2000


class PrefillController(PageController):
    def __init__(self, context: Context, view: PrefillView) -> None:
        super().__init__(view)
        self._context = context
        self._engine = context.engine
        self._view = view
        self._plans: dict[str, Planned] = {}
        self._key: tuple[str, str | None] | None = None
        self._number = 0  # of the question whose answer counts
        self._runs: list[Any] = []
        self._reports: list[dict[str, Any]] = []
        self._memory: MemoryReport | None = None
        self._plot: TimePlot | None = None
        self._importing = False
        self._asking_memory = False
        self._memory_timer = QTimer(self)
        self._memory_timer.setInterval(MEMORY_MS)
        self._memory_timer.timeout.connect(self._ask_memory)
        self._plot_later = QTimer(self)
        self._plot_later.setSingleShot(True)
        self._plot_later.setInterval(PLOT_LATER_MS)
        self._plot_later.timeout.connect(self._import_numpy)
        self._steps: Steps | None = None
        self._closed = False
        self._measuring: Stream | None = None
        self._setting: PathSetting = context.preferences.values.path
        self._was_ready = False
        view.switch.chosen.connect(self._choose)
        view.measure.clicked.connect(self._measure)
        view.models.clicked.connect(lambda: context.show_page("models"))
        view.retry.clicked.connect(self._ask_again)
        self._engine.state_changed.connect(self._on_state)
        self._engine.connection_changed.connect(self._on_connection)
        self._engine.request_progress.connect(self._on_progress)

    @property
    def plot(self) -> TimePlot | None:
        """The plot, once its library is there."""
        return self._plot

    def close(self) -> None:
        self._closed = True
        self._number += 1
        self._plot_later.stop()
        self._memory_timer.stop()
        self._view.strip.end_reading()
        if self._steps is not None:
            self._steps.stop()
        if self._measuring is not None:
            self._measuring.abort()
            self._measuring = None
        for signal, slot in (
            (self._engine.state_changed, self._on_state),
            (self._engine.connection_changed, self._on_connection),
            (self._engine.request_progress, self._on_progress),
        ):
            signal.disconnect(slot)

    # Plans

    def refresh(self) -> None:
        """Asks what is not known yet; called each time the page comes forward."""
        if self._closed:
            return
        self._setting = self._context.preferences.values.path
        self._view.switch.show_chosen(self._setting)
        files = self._files()
        self._view.model.setText(_name(files))
        if self._engine.connection is not Connection.CONNECTED:
            self._view.show_empty(tr("chat.engine_starting"))
            return
        if files is None:
            self._view.show_empty(tr("prefill.no_model"), choose=True)
            return
        if files != self._key:
            self._key, self._plans = files, {}
        self._ask_plans()
        self._ask_memory()
        self._memory_timer.start()
        self._context.store.ask(ChatStore.reports, self._on_reports)
        self._load_plot()

    def _files(self) -> tuple[str, str | None] | None:
        """The decoder and the prefiller: those in memory, else those of the next start."""
        model = self._engine.state.model
        if model is not None:
            return str(model.path), str(model.prefiller) if model.prefiller else None
        values = self._context.preferences.values
        return (values.model, values.prefiller) if values.model else None

    def _ask_again(self) -> None:
        self._plans = {}
        self.refresh()

    def _ask_plans(self) -> None:
        missing = next((m for m in ("auto", self._setting) if m not in self._plans), None)
        if missing is None:
            self._show()
            return
        if self._key is None:
            return
        if "auto" not in self._plans:
            self._view.show_empty(tr("prefill.planning"))
        self._number += 1
        number, (model, prefiller) = self._number, self._key
        body: dict[str, Any] = {"model": model, "prefiller": prefiller, "mode": missing}
        if (loaded := self._engine.state.model) is not None:
            # Whoever loaded this pair has agreed to it.
            body |= {"context": loaded.context, "force_pairing": True}
        self._engine.http.post(
            "/twofold/plan",
            body,
            lambda answer: self._on_plan(number, missing, answer),
            lambda problem: self._on_problem(number, problem),
        )

    def _on_plan(self, number: int, mode: str, answer: Any) -> None:
        if number == self._number:
            self._plans[mode] = Planned.model_validate(answer)
            self._ask_plans()

    def _on_problem(self, number: int, problem: Failure) -> None:
        if number == self._number:
            self._view.show_empty(sentence(problem), retry=True)

    def _show(self) -> None:
        auto, chosen = self._plans["auto"], self._plans[self._setting]
        plan, view = chosen.plan, self._view
        view.show_body()
        words = path_sentence(self._setting, auto.plan, plan, disk_gbps(chosen))
        view.sentence.setText(words)
        self._show_memory(chosen)
        view.strip.show_tiers(plan.tiers or ("device",) * plan.blocks)
        view.strip_words.setText(_tier_words(plan))
        compared = _with_forecasts(auto.plan, plan)
        view.crossover.setText(crossover_words(compared))
        view.show_reasons(
            [remark_words(remark, chosen.profile) for remark in plan.reasons],
            [remark_words(remark, chosen.profile) for remark in plan.warnings],
        )
        if chosen.profile.disks:
            self._show_disk(chosen.profile.disks[0])
        self._show_plot()

    def _show_memory(self, planned: Planned) -> None:
        memory, plan = None, planned.plan
        if self._memory is not None:
            memory = memory_now(self._memory, plan.device, planned.profile)
        note = ""
        lent = self._memory.model.lent if self._memory and self._memory.model else plan.lent_bytes
        if lent:
            note = tr("prefill.lent", size=numbers.memory(lent))
        memory = memory or planned_memory(plan)
        self._view.memory.show_memory(memory, device_name(memory.device, planned.profile), note)

    def _ask_memory(self) -> None:
        """What is shown of memory is what is true now, as long as somebody sees it."""
        seen = self._view.isVisible() and self._engine.connection is Connection.CONNECTED
        if not seen:
            self._memory_timer.stop()
        elif not self._asking_memory:
            self._asking_memory = True
            self._engine.http.get("/twofold/memory", self._on_memory, self._on_no_memory)

    def _on_no_memory(self, _: Failure) -> None:
        self._asking_memory = False  # the plan tells of memory, too

    def _on_memory(self, answer: Any) -> None:
        self._asking_memory = False
        if self._closed:
            return
        self._memory = MemoryReport.model_validate(answer)
        if self._is_planned():
            self._show_memory(self._plans[self._setting])

    def _is_planned(self) -> bool:
        return "auto" in self._plans and self._setting in self._plans

    # The switch

    def _choose(self, path: str) -> None:
        assert path in get_args(PathSetting)
        self._setting = path  # type: ignore[assignment]
        self._view.switch.show_chosen(path)
        self._context.preferences.values.path = path  # type: ignore[assignment]
        self._context.preferences.save()
        self._context.path_chosen(path)
        self._ask_plans()

    # The plot

    def _load_plot(self) -> None:
        """The plotting library takes longer to import than a frame: it comes bit by bit, after
        everything else of the page is on the screen."""
        if self._plot is None and not self._importing:
            self._importing = True
            self._plot_later.start()

    def _import_numpy(self) -> None:
        # What the library needs that is not Qt's may be imported anywhere.
        self._context.background.run(
            lambda: importlib.import_module("numpy"), lambda _: self._import_plot()
        )

    def _import_plot(self) -> None:
        if not self._closed:
            self._steps = Steps(importing(), self._make_plot, self)

    def _make_plot(self) -> None:
        from app.prefill.plot import TimePlot

        plot = TimePlot()
        self._plot = plot
        self._view.show_plot(plot)
        QTimer.singleShot(0, self, self._show_plot)  # a breath between two pieces of work

    def _on_reports(self, reports: list[dict[str, Any]]) -> None:
        self._reports = reports
        self._show_plot()

    def _show_plot(self) -> None:
        if self._plot is None or not self._is_planned():
            return
        plan = _with_forecasts(self._plans["auto"].plan, self._plans[self._setting].plan)
        runs = self._found_runs()
        self._plot.show_plan(plan, runs)
        self._view.show_legend([line.path for line in plan.forecasts], runs=bool(runs))

    def _found_runs(self) -> list[Run]:
        """Real readings of this very pair."""
        from app.prefill.plot import Run

        model = self._key[0] if self._key else None
        found: list[Run] = []
        for report in self._reports:
            tokens, seconds = report.get("new_tokens") or 0, report.get("ttft_s")
            path: Path | None = report.get("path")
            if report.get("model") != model or path is None or not seconds:
                continue
            if tokens > 0 and report.get("cached_tokens", 0) <= MOST_CACHED * tokens:
                found.append(Run(path, tokens, seconds))
        return found

    # Readings

    def _on_progress(self, event: RequestProgress) -> None:
        if not self._view.isVisible():
            return
        self._view.strip.show_progress(event.progress)
        now = reading(event.progress)
        self._view.reading.setText(f"{tr('chat.reading')} {now.tokens} · {now.details}")

    def _on_state(self, state: EngineState) -> None:
        if state.running is None and self._view.strip.computing is not None:
            self._view.strip.end_reading()
            self._view.reading.setText("")
            if self._view.isVisible():
                self._context.store.ask(ChatStore.reports, self._on_reports)
        ready = state.status == "ready"
        if ready != self._was_ready:
            self._was_ready = ready
            self._plans = {}
            if self._view.isVisible():
                self.refresh()

    def _on_connection(self, connection: Connection) -> None:
        if connection is not Connection.CONNECTED:
            self._memory = None
            self._view.strip.end_reading()
        if self._view.isVisible():
            self.refresh()

    # The disk

    def _show_disk(self, disk: Disk) -> None:
        view = self._view
        if disk.read_gbps is None:
            view.disk.setText(tr("prefill.disk_unmeasured", path=disk.path))
        else:
            view.disk.setText(
                tr(
                    "prefill.disk_measured",
                    path=disk.path,
                    rate=numbers.disk_rate(disk.read_gbps * 1e9),
                    date=(disk.measured_at or "")[:10],
                )
            )
        warnings = [
            tr(f"disk_warnings.{code}", path=disk.path, rate=_rate(disk)) for code in disk.warnings
        ]
        view.disk_warning.setText(" ".join(warnings))
        view.disk_warning.setVisible(bool(warnings))

    def _measure(self) -> None:
        """Begins a measurement, or stops the one that runs."""
        if self._measuring is not None:
            self._measuring.abort()
            self._end_measuring()
            return
        if self._key is None:
            return
        folder = str(FilePath(self._key[1] or self._key[0]).absolute().parent)
        self._view.trace.begin()
        self._view.trace.show()
        self._view.measure.setText(tr("actions.stop"))
        self._view.measure.setAccessibleName(tr("actions.stop"))
        stream = self._engine.http.stream("/twofold/probe", {"folder": folder})
        stream.arrived.connect(self._on_measured)
        stream.ended.connect(self._on_measuring_ended)
        self._measuring = stream

    def _on_measured(self, data: Any) -> None:
        if "error" in data:
            self._context.notify(sentence(error_in(data)))
            return
        event = _probe_event.validate_python(data)
        if isinstance(event, ProbeStep):
            if event.gbps is not None:
                self._view.trace.add(event.gbps)
            return
        if event.profile.disks:
            self._show_disk(event.profile.disks[0])
            announce(self._view, self._view.disk.text())
        self._plans = {}  # times depend on the disk
        self._ask_plans()

    def _on_measuring_ended(self, problem: Failure | None) -> None:
        if problem is not None:
            self._context.notify(sentence(problem))
        self._end_measuring()

    def _end_measuring(self) -> None:
        self._measuring = None
        self._view.trace.hide()
        self._view.measure.setText(tr("prefill.measure"))
        self._view.measure.setAccessibleName(tr("prefill.measure"))


def _name(files: tuple[str, str | None] | None) -> str:
    if files is None:
        return ""
    model = FilePath(files[0]).stem
    if files[1] is None:
        return model
    return tr("prefill.pair", model=model, prefiller=FilePath(files[1]).stem)


def _with_forecasts(auto: Plan, chosen: Plan) -> Plan:
    """`auto`, with the lines that only the chosen plan has."""
    known = {line.path for line in auto.forecasts}
    more = tuple(line for line in chosen.forecasts if line.path not in known)
    crossover = auto.crossover if "odp" in known else chosen.crossover
    return auto.model_copy(update={"forecasts": auto.forecasts + more, "crossover": crossover})


def _tier_words(plan: Plan) -> str:
    if not plan.tiers:
        return tr("prefill.no_tiers", blocks=plan.blocks)
    counts = [(tier, plan.tier_count(tier)) for tier in ("device", "host", "disk")]
    return ", ".join(tr(f"tiers.{tier}_count", count=count) for tier, count in counts if count)


def _rate(disk: Disk) -> str:
    return numbers.disk_rate((disk.read_gbps or 0.0) * 1e9)
