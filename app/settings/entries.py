"""The one list that drives the page: what each setting is called, holds and may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.i18n import LANGUAGES, tr
from app.i18n.catalogue import has
from app.preferences import Preferences
from app.theme.accents import ACCENTS
from engine.api.settings import Kind, SettingInfo

# The page's sections in their order; those after the first are the engine's.
SECTIONS = ("window", "generation", "engine", "load", "library", "downloads", "server", "log")
# Texts of which only a few are allowed.
_CHOICES = {"log.level": ("debug", "info", "warning", "error")}


@dataclass(frozen=True)
class Entry:
    """One setting. `name` as `server.port`; those of `window` are kept by the window.

    `fixed`: the command line or the environment decides it, so that it cannot be changed here.
    """

    name: str
    kind: Kind
    value: Any
    default: Any
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    restart: bool = False
    secret: bool = False
    fixed: bool = False

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    @property
    def title(self) -> str:
        return tr(f"settings.{self.name}")

    @property
    def hint(self) -> str:
        return tr(f"settings.{self.name}_hint")

    @property
    def changed(self) -> bool:
        return self.value != self.default

    def choice_words(self, choice: str) -> str:
        """A choice as it is shown; names of languages and paths are words of their own."""
        for key in (f"settings.{self.name}_{choice}", f"paths.{choice}"):
            if has(key):
                return tr(key)
        return choice

    def matches(self, typed: str) -> bool:
        """Whether every typed word is in the name, the title or the hint."""
        text = f"{self.name} {self.title} {self.hint} {tr(f'sections.{self.section}')}".casefold()
        return all(word in text for word in typed.casefold().split())


def window_entries(values: Preferences) -> list[Entry]:
    fields = Preferences.model_fields
    default = {name: fields[name].default for name in fields}
    return [
        Entry("window.theme", "choice", values.theme, default["theme"],
              choices=("system", "light", "dark")),
        Entry("window.accent", "choice", values.accent, default["accent"], choices=tuple(ACCENTS)),
        Entry("window.font_scale", "float", values.font_scale, default["font_scale"],
              minimum=0.8, maximum=2.0, step=0.1),
        Entry("window.language", "choice", values.language or "system", "system",
              choices=("system", *LANGUAGES)),
        Entry("window.reduce_motion", "bool", values.reduce_motion, default["reduce_motion"]),
    ]  # fmt: skip


def engine_entries(infos: Sequence[SettingInfo]) -> list[Entry]:
    """Those that the catalogue has words for; a newer engine's others are left to its file."""
    return [_entry(info) for info in infos if has(f"settings.{info.name}")]


def _entry(info: SettingInfo) -> Entry:
    choices = _CHOICES.get(info.name, info.choices)
    default = list(info.default) if info.kind == "list" else info.default
    return Entry(
        name=info.name,
        kind="choice" if choices else info.kind,
        value=list(info.value) if info.kind == "list" else info.value,
        default=default,
        minimum=info.minimum,
        maximum=info.maximum,
        choices=choices,
        optional=info.optional,
        restart=info.restart,
        secret=info.secret,
        fixed=info.source in ("environment", "flag"),
    )
