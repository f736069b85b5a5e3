"""The engine's settings at their defaults, for the screenshots."""

from __future__ import annotations

from typing import Any

from engine.api.requests import SettingsAnswer
from engine.settings_store import SettingsStore


def sample_settings() -> dict[str, Any]:
    store = SettingsStore(environment={}, flags={"server.port": "11500", "log.level": "info"})
    return SettingsAnswer(settings=store.infos()).model_dump(mode="json")
