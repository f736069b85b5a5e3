"""What every page is given: the engine, models, chats, preferences, ways to reach the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from app.engine_client.client import EngineClient
from app.engine_client.models import Models
from app.preferences import PreferencesFile
from app.shell.background import Background
from app.shell.model_loader import ModelLoader
from app.store.owner import StoreOwner


@dataclass
class Context:
    """`show_page` goes to a page by its id. `notify` says a sentence at the window's foot, with
    one button where `action` is given. `restart_window` builds all pages anew (a new language).
    `path_chosen` gives the open chat the path that was chosen elsewhere.
    """

    engine: EngineClient
    store: StoreOwner
    preferences: PreferencesFile
    background: Background
    loader: ModelLoader
    models: Models
    show_page: Callable[[str], None] = field(default=lambda _: None)
    notify: Callable[..., None] = field(default=lambda *_, **__: None)
    restart_window: Callable[[], None] = field(default=lambda: None)
    path_chosen: Callable[[str], None] = field(default=lambda _: None)
