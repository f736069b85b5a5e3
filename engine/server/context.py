"""What the routes share: the engine and the settings."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from engine.server.engine import Engine
from engine.settings_store import SettingsStore


@dataclass(frozen=True, slots=True)
class Context:
    engine: Engine
    settings: SettingsStore


def context_of(request: Request) -> Context:
    return request.app.state.context
