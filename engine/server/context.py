"""What the routes share: the engine, the settings and the models."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.requests import Request

from engine.server.engine import Engine
from engine.server.lazy_models import LazyModels
from engine.settings_store import SettingsStore


@dataclass(frozen=True, slots=True)
class Context:
    engine: Engine
    settings: SettingsStore
    models: LazyModels = field(default_factory=LazyModels)


def context_of(request: Request) -> Context:
    return request.app.state.context
