"""The client's part for models: the library, the hub, and the queue of work."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from engine.api.client import EngineClient
from engine.api.models import (
    ImportWay,
    JobAction,
    JobInfo,
    JobList,
    LibraryAnswer,
    Offers,
    Recommended,
    Removal,
    SearchAnswer,
    TokenAnswer,
)

# The hub may be slow, and a listing has to be read before it can be answered.
_HUB_S = 180.0
# The first look at many models reads every header.
_SCAN_S = 180.0


class ModelsClient(EngineClient):
    """Everything that the engine's client does, and models."""

    def library(self) -> LibraryAnswer:
        return self._call("GET", "/twofold/models", LibraryAnswer, timeout=_SCAN_S)

    def search(self, query: str, limit: int = 20) -> SearchAnswer:
        body = {"query": query, "limit": limit}
        return self._call("POST", "/twofold/models/search", SearchAnswer, body, timeout=_HUB_S)

    def recommended(self) -> Recommended:
        return self._call("GET", "/twofold/models/recommended", Recommended, timeout=_HUB_S)

    def offers(self, entry: str) -> Offers:
        body = {"id": entry}
        return self._call("POST", "/twofold/models/offers", Offers, body, timeout=_HUB_S)

    def pull(
        self, model: str, *, prefiller: bool = False, projector: bool = True, priority: int = 0
    ) -> JobList:
        body = {
            "model": model, "prefiller": prefiller, "projector": projector, "priority": priority
        }  # fmt: skip
        return self._call("POST", "/twofold/models/pull", JobList, body, timeout=_HUB_S)

    def build(self, entry: str, source: str | None = None) -> JobInfo:
        return self._job("build", id=entry, source=source)

    def verify(self, entry: str) -> JobInfo:
        return self._job("verify", id=entry)

    def import_model(self, path: str, way: ImportWay = "copy") -> JobInfo:
        return self._job("import", path=path, way=way)

    def export(self, entry: str, folder: str) -> JobInfo:
        return self._job("export", id=entry, folder=folder)

    def move_library(self, folder: str) -> JobInfo:
        return self._job("move", folder=folder)

    def remove(self, entry: str, *, confirm: bool = False) -> Removal:
        body = {"id": entry, "confirm": confirm}
        return self._call("POST", "/twofold/models/remove", Removal, body)

    def jobs(self) -> JobList:
        return self._call("GET", "/twofold/models/jobs", JobList)

    def change_job(
        self, job: str, action: JobAction | None = None, priority: int | None = None
    ) -> JobInfo:
        return self._job("jobs", id=job, action=action, priority=priority)

    @contextmanager
    def job_events(self) -> Generator[Iterator[JobList]]:
        """All jobs now, and again whenever one of them changes."""
        with self._stream("GET", "/twofold/models/events") as texts:
            yield (JobList.model_validate_json(text) for text in texts)

    def token_source(self) -> TokenAnswer:
        return self._call("GET", "/twofold/models/token", TokenAnswer)

    def keep_token(self, token: str | None) -> TokenAnswer:
        return self._call("PUT", "/twofold/models/token", TokenAnswer, {"token": token})

    def _job(self, route: str, **facts: Any) -> JobInfo:
        body = {name: value for name, value in facts.items() if value is not None}
        return self._call("POST", f"/twofold/models/{route}", JobInfo, body)
