"""Everything about models in one place, as the command line and the server use it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.api.hardware import Profile
from engine.api.models import ImportWay, JobAction, ModelEntry, Recommendation, Removal, TokenAnswer
from engine.downloads import ordering
from engine.downloads.browse import Browser
from engine.downloads.catalog import Catalog, catalog
from engine.downloads.errors import NoPublishedPrefiller
from engine.downloads.hub import Hub
from engine.downloads.jobs import AnyWork, Build, Download, Export, Import, Job, Move, Queue, Verify
from engine.downloads.recommend import recommend
from engine.downloads.runner import Runner
from engine.downloads.token import keep_token
from engine.downloads.transfer import Limits
from engine.library import changes
from engine.library.database import Database
from engine.library.errors import NotAModel, Offline
from engine.library.library import Folders, Library, absolute, default_folder
from engine.settings_store import SettingsStore


class Models:
    """`store` is asked anew for each thing; changes of settings count at once."""

    def __init__(
        self,
        store: SettingsStore,
        *,
        database: Database | None = None,
        limits: Limits | None = None,
        known: Catalog | None = None,
    ) -> None:
        """Raises WriteFailed where the data folder cannot be used."""
        self._store = store
        self._catalog = known or catalog()
        self.database = database or Database()
        self.library = Library(self.database, self._folders)
        self.queue = Queue(self.database)
        self.hub = Hub(offline=lambda: store.current.downloads.offline)
        self.runner = Runner(
            self.library,
            self.queue,
            self.hub,
            settings=lambda: store.current.downloads,
            renew=lambda work: ordering.renew(self.hub, work),
            remember_folder=self._remember_folder,
            limits=limits,
        )

    def close(self) -> None:
        self.runner.close()
        self.database.close()

    def browser(self, profile: Callable[[], Profile]) -> Browser:
        return Browser(self.hub, profile, self.library.entries, self._catalog)

    def recommended(self, profile: Callable[[], Profile]) -> Recommendation | None:
        return recommend(self.browser(profile), self._catalog.first_choices)

    # --- work for the queue ------------------------------------------------------------------

    def pull(
        self, text: str, *, prefiller: bool = False, projector: bool = True, priority: int = 0
    ) -> list[Job]:
        """The model's job, and its published prefiller's. Raises what ordering raises, and
        NoPublishedPrefiller; then nothing is queued."""
        work, title = ordering.order(self.hub, text, projector=projector)
        orders = [(work, title)]
        if prefiller:
            repo, _, label = title.partition(":")
            pairs = self._catalog.prefillers_for(repo, label)
            if not pairs:
                raise NoPublishedPrefiller(decoder=title)
            orders.append(ordering.order(self.hub, pairs[0].reference))
        return [self._add(work, title, priority) for work, title in orders]

    def build(self, name: str, source: Path | None = None) -> Job:
        """A prefiller for the decoder `name`, beside it where that can be written.

        Raises NoSuchModel, AmbiguousModel, NotAModel or Offline.
        """
        entry = self.library.find(name)
        if entry.kind != "decoder":
            raise NotAModel(path=str(entry.path), reason="only a decoder can have a prefiller")
        if entry.state != "ready":
            raise Offline(path=str(entry.path))
        work = Build(
            decoder=entry.path,
            source=absolute(str(source)) if source else None,
            out=self._output(entry),
        )
        return self._add(work, entry.name)

    def verify(self, name: str) -> Job:
        entry = self.library.find(name)
        return self._add(Verify(entry=entry.id), entry.name)

    def bring_in(self, path: Path, way: ImportWay) -> Job:
        files = changes.model_files(path)
        return self._add(Import(path=files[0], way=way), files[0].name)

    def export(self, name: str, folder: Path) -> Job:
        entry = self.library.find(name)
        target = absolute(str(folder))
        return self._add(Export(entry=entry.id, folder=target), entry.name)

    def move(self, folder: Path) -> Job:
        target = absolute(str(folder))
        changes.require_movable(self.library.folders.main, target)
        return self._add(Move(folder=target), str(target))

    def act(self, job_id: str, action: JobAction | None, priority: int | None) -> Job:
        job = self.queue.get(job_id)
        if priority is not None:
            job = self.queue.set_priority(job_id, priority)
        if action is not None:
            job = self.queue.act(job_id, action)
        self.runner.wake()
        return job

    # --- at once -----------------------------------------------------------------------------

    def removal(self, name: str) -> tuple[ModelEntry, Removal]:
        entries = self.library.entries()
        entry = self.library.find(name)
        return entry, changes.removal(self.library, entry, entries)

    def remove(self, removal: Removal) -> None:
        changes.take_out(self.library, removal)

    def token(self, value: str | None) -> TokenAnswer:
        keep_token(value)
        self.hub.forget_token()
        return self.token_source()

    def token_source(self) -> TokenAnswer:
        return TokenAnswer(source=self.hub.token().source)

    # --- how ---------------------------------------------------------------------------------

    def _add(self, work: AnyWork, title: str, priority: int = 0) -> Job:
        """The same work twice is one job: asking again for one that waits resumes it."""
        same = self.queue.same(work)
        if same is not None:
            return self.act(same.id, None if same.state == "running" else "resume", None)
        total = sum(file.bytes for file in work.files) if isinstance(work, Download) else 0
        job = self.queue.add(work, title, priority=priority, total=total)
        self.runner.wake()
        return job

    def _output(self, entry: ModelEntry) -> Path:
        name = f"{changes.folder_name(entry.path)}.prefiller.gguf"
        beside = entry.path.parent
        if entry.origin.way != "reference" and changes.is_writable(beside):
            return beside / name
        return self.library.folders.main / "built" / name

    def _folders(self) -> Folders:
        settings = self._store.current.library
        main = absolute(settings.folder) if settings.folder else None
        others = tuple(absolute(one) for one in settings.folders)
        return Folders(main or default_folder(), others)

    def _remember_folder(self, folder: Path) -> None:
        self._store.change({"library.folder": str(folder)})
