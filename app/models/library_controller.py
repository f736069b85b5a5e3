"""The library's logic: shows what is there, and has done to it what somebody asks for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QFileDialog

from app.engine_client.client import Connection
from app.engine_client.failures import sentence
from app.i18n import numbers, tr
from app.models.entry_row import Ask, EntryRow
from app.models.library_view import LibraryView
from app.models.row import Row, RowCard
from app.models.words import breakable, file_names, job_title, offer_words, pairing_words
from app.shell.announce import announce
from app.shell.context import Context
from app.shell.panel import Choice, Panel
from engine.api.failure import Failure
from engine.api.models import (
    AttachedPrefiller,
    ImportWay,
    JobInfo,
    LibraryAnswer,
    ModelEntry,
    Offers,
    Removal,
)

# From so many entries on there is a field to filter them.
FILTERED_FROM = 9
# The list follows typing when it pauses this long.
FILTER_MS = 150
WAYS: tuple[ImportWay, ...] = ("copy", "move", "reference")


class LibraryController(QObject):
    """`downloads_asked` and `discover_asked` when somebody wants to go there."""

    downloads_asked = Signal()
    discover_asked = Signal()

    def __init__(self, context: Context, view: LibraryView) -> None:
        super().__init__(view)
        self._context = context
        self._models = context.models
        self._view = view
        self._answer: LibraryAnswer | None = None
        self._rows: dict[str, EntryRow] = {}
        self._open: set[str] = set()
        view.bring_in.clicked.connect(self._choose_file)
        view.move_library.clicked.connect(self._choose_library)
        view.dropped.connect(self.offer_import)
        self._filtering = QTimer(self)
        self._filtering.setSingleShot(True)
        self._filtering.setInterval(FILTER_MS)
        self._filtering.timeout.connect(partial(self._show_entries, again=True))
        view.filter.textChanged.connect(self._filtering.start)
        view.discover.clicked.connect(self.discover_asked)
        view.trouble.retried.connect(self.refresh)
        view.trouble.settings_asked.connect(lambda: context.show_page("settings"))
        self._models.job_ended.connect(self._on_job_ended)
        context.engine.state_changed.connect(self._show_in_use)

    def close(self) -> None:
        self._context.engine.state_changed.disconnect(self._show_in_use)
        self._filtering.stop()

    def refresh(self) -> None:
        """Called each time it comes forward, and when a job has ended."""
        connected = self._context.engine.connection is Connection.CONNECTED
        self._view.bring_in.setEnabled(connected)
        self._view.move_library.setEnabled(connected)
        if connected:
            self._models.library(self._on_library, self._view.trouble.say)

    def _on_library(self, answer: LibraryAnswer) -> None:
        before, self._answer = self._answer, answer
        view = self._view
        view.trouble.hide()
        main = next((folder for folder in answer.folders if folder.main), None)
        if main is not None:
            path = breakable(str(main.path))
            free = tr("models.folder_free", size=numbers.size(main.free or 0))
            view.folder.setText(f"{path} · {free}" if main.free is not None else path)
        view.warn(
            [
                tr("models.folder_offline", path=breakable(str(folder.path)))
                for folder in answer.folders
                if not folder.online
            ]
        )
        view.filter.setVisible(len(answer.entries) >= FILTERED_FROM)
        self._show_entries(again=before is None or _ids(before) != _ids(answer))

    # What is there

    def _show_entries(self, *, again: bool) -> None:
        """`again`: other entries than before, so rows are made anew; else they show the change."""
        answer = self._answer
        if answer is None:
            return
        entries = {entry.id: entry for entry in answer.entries}
        if not again:
            for key, shown in self._rows.items():
                if shown.entry != entries[key]:
                    shown.show_entry(entries[key], entries)
            return
        self._rows = {}
        decoders, others = _sorted(answer.entries, self._view.filter.text())
        for card, shown in ((self._view.decoders, decoders), (self._view.others, others)):
            self._fill(card, shown, entries)
        only_demo = all(entry.origin.way == "demo" for entry in answer.entries)
        self._view.empty.setVisible(only_demo)
        self._view.nothing.setVisible(not decoders and not others and bool(answer.entries))

    def _fill(
        self, card: RowCard, shown: Sequence[ModelEntry], entries: dict[str, ModelEntry]
    ) -> None:
        card.fill([partial(self._entry_row, entry, entries) for entry in shown])

    def _entry_row(self, entry: ModelEntry, entries: dict[str, ModelEntry]) -> Row:
        made = EntryRow(entry, entries)
        made.asked.connect(self.act)
        made.toggled.connect(partial(self._remember_open, entry.id))
        made.show_in_use(self._is_in_use(entry))
        if entry.id in self._open:
            made.set_open(True)
        self._rows[entry.id] = made
        return made

    def _remember_open(self, key: str, is_open: bool) -> None:
        (self._open.add if is_open else self._open.discard)(key)

    def _is_in_use(self, entry: ModelEntry) -> bool:
        model = self._context.engine.state.model
        return model is not None and model.path == entry.path

    def _show_in_use(self) -> None:
        for shown in self._rows.values():
            shown.show_in_use(self._is_in_use(shown.entry))

    # What can be done

    def act(self, ask: Ask) -> None:
        """Does it, or asks first where something would be lost or there is something to choose."""
        entry = ask.entry
        match ask.action:
            case "use":
                self._use(entry, ask.prefiller)
            case "verify":
                self._models.verify(entry.id, self._on_queued, self._on_refused)
            case "export":
                folder = QFileDialog.getExistingDirectory(self._view, tr("models.export"))
                if folder:
                    self._models.export(entry.id, folder, self._on_queued, self._on_refused)
            case "build":
                show = partial(self._ask_how_to_build, entry)
                self._models.offers(entry.id, show, self._on_refused)
            case "remove":
                show = partial(self._ask_to_remove, entry)
                self._models.removal(entry.id, show, self._on_refused)

    def _use(self, entry: ModelEntry, prefiller: AttachedPrefiller | None) -> None:
        if prefiller is not None and not prefiller.choosable:
            words = [tr("models.insist_words"), pairing_words(prefiller)]
            load = partial(self._load, entry, prefiller)
            self._ask_below(entry, Panel(words, [Choice(tr("models.insist"), load, "danger")]))
            return
        self._load(entry, prefiller)

    def _load(self, entry: ModelEntry, prefiller: AttachedPrefiller | None) -> None:
        path = prefiller.path if prefiller is not None else None
        insist = prefiller is not None and not prefiller.choosable
        self._context.loader.load(entry.path, path, force_pairing=insist)
        self._context.show_page("chat")

    def _ask_how_to_build(self, entry: ModelEntry, offers: Offers) -> None:
        offered = next((one for one in offers.offers if one.way == "build"), None)
        words = [tr("models.build_words")]
        if offered is not None:
            words.append(offer_words(offered))
        choices = [
            Choice(tr("models.build_from"), partial(self._choose_source, entry)),
            Choice(tr("models.build_from_itself"), partial(self._build, entry, None)),
        ]
        self._ask_below(entry, Panel(words, choices))

    def _choose_source(self, entry: ModelEntry) -> None:
        title = tr("models.build_from")
        path, _ = QFileDialog.getOpenFileName(self._view, title, "", "GGUF (*.gguf)")
        if path:
            self._build(entry, path)

    def _build(self, entry: ModelEntry, source: str | None) -> None:
        self._models.build(entry.id, source, self._on_queued, self._on_refused)

    def _ask_to_remove(self, entry: ModelEntry, what: Removal) -> None:
        words = [tr("models.remove_words", name=entry.name, size=numbers.size(what.bytes))]
        if what.goes:
            words.append(f"{tr('models.goes')}\n{file_names(what.goes)}")
        else:
            words = [tr("models.forget_words", name=entry.name)]
        shared = [path for path in what.stays if str(path) in what.shared]
        kept = [path for path in what.stays if str(path) not in what.shared]
        for path in shared:
            users = ", ".join(what.shared[str(path)])
            words.append(tr("models.shared", path=breakable(path.name), names=users))
        if kept:
            words.append(f"{tr('models.stays')}\n{file_names(tuple(kept))}")
        if what.left_behind:
            names = ", ".join(breakable(Path(path).name) for path in what.left_behind)
            words.append(tr("models.left_behind", names=names))
        remove = partial(self._models.remove, entry.id, self._on_removed, self._on_refused)
        self._ask_below(entry, Panel(words, [Choice(tr("models.remove_now"), remove, "danger")]))

    def _on_removed(self, what: Removal) -> None:
        self._context.notify(tr("models.removed", name=what.name, size=numbers.size(what.bytes)))
        self.refresh()

    def _ask_below(self, entry: ModelEntry, panel: Panel) -> None:
        """Below the entry's row; for a prefiller's, below its decoder's."""
        shown = self._rows.get(entry.id) or next(
            (
                one
                for one in self._rows.values()
                if any(prefiller.id == entry.id for prefiller in one.entry.prefillers)
            ),
            None,
        )
        if shown is not None:
            shown.ask_below(panel)
        else:
            self._view.ask(panel)

    # Bringing in, and moving the library

    def _choose_file(self) -> None:
        title = tr("models.bring_in")
        path, _ = QFileDialog.getOpenFileName(self._view, title, "", "GGUF (*.gguf)")
        if path:
            self.offer_import(Path(path))

    def offer_import(self, path: Path) -> None:
        """Asks how the file is to become part of the library."""
        words = [tr("models.import_words", name=breakable(path.name))]
        choices = [
            Choice(tr(f"models.import_{way}"), partial(self._import, path, way)) for way in WAYS
        ]
        choices.append(Choice(tr("models.only_open"), partial(self._open_file, path)))
        self._view.ask(Panel(words, choices))

    def _import(self, path: Path, way: ImportWay) -> None:
        self._models.bring_in(str(path), way, self._on_queued, self._on_refused)

    def _open_file(self, path: Path) -> None:
        self._context.loader.load(path)
        self._context.show_page("chat")

    def _choose_library(self) -> None:
        folder = QFileDialog.getExistingDirectory(self._view, tr("models.move"))
        if folder:
            self.offer_move(folder)

    def offer_move(self, folder: str) -> None:
        words = [tr("models.move_words", folder=breakable(folder))]
        move = partial(self._models.move, folder, self._on_queued, self._on_refused)
        self._view.ask(Panel(words, [Choice(tr("models.move_now"), move)]))

    # What came of it

    def _on_queued(self, job: JobInfo) -> None:
        words = tr("models.queued_job", what=job_title(job))
        self._context.notify(words, tr("models.show_download"), self.downloads_asked.emit)

    def _on_refused(self, problem: Failure) -> None:
        self._context.notify(sentence(problem))
        announce(self._view, sentence(problem))

    def _on_job_ended(self, _: JobInfo) -> None:
        if self._answer is not None:
            self.refresh()


def _ids(answer: LibraryAnswer) -> list[str]:
    return [entry.id for entry in answer.entries]


def _sorted(entries: Sequence[ModelEntry], typed: str) -> tuple[list[ModelEntry], list[ModelEntry]]:
    """Decoders, and what belongs to none of them; only those that the typed words are in."""
    decoders = [entry for entry in entries if entry.kind == "decoder"]
    attached = {one.id for entry in decoders for one in entry.prefillers}
    attached_files = {one.path for entry in decoders for one in entry.projectors}
    others = [
        entry
        for entry in entries
        if entry.kind != "decoder" and entry.id not in attached and entry.path not in attached_files
    ]
    words = typed.lower().split()

    def matches(entry: ModelEntry) -> bool:
        text = f"{entry.name} {entry.path} {entry.quantisation} {entry.architecture}".lower()
        return all(word in text for word in words)

    return [one for one in decoders if matches(one)], [one for one in others if matches(one)]
