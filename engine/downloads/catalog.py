"""The catalogue: which published prefiller belongs to which published decoder."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from engine.assets import asset


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CatalogDecoder(_Entry):
    """A repo of decoders and one's quantisation."""

    repo: str
    label: str

    @property
    def name(self) -> str:
        """The model's."""
        return self.repo.partition("/")[2].removesuffix("-GGUF")


class CatalogPrefiller(_Entry):
    """The folder of the repo that holds the prefiller's parts."""

    repo: str
    folder: str


class Pair(_Entry):
    """`gib` is the size of all its parts, rounded as published; `scores`: benchmark -> (decoder
    alone, with the prefiller), in points, as published."""

    decoder: CatalogDecoder
    prefiller: CatalogPrefiller
    parts: int
    gib: float | None = None
    licence: str
    scores: dict[str, tuple[float, float]] = {}

    @property
    def reference(self) -> str:
        """What to pull."""
        return f"{self.prefiller.repo}:{self.prefiller.folder}"

    @property
    def bytes(self) -> int | None:
        """About so many."""
        return round(self.gib * (1 << 30)) if self.gib is not None else None

    @property
    def expect(self) -> str:
        """What to expect of it, in words."""
        changes = (
            f"{name} {before:g} -> {after:g}" for name, (before, after) in self.scores.items()
        )
        published = ", ".join(changes)
        return f"Trained for this decoder. Published: {published}." if published else "Trained."


class Catalog(_Entry):
    """`first_choices`: what to recommend, best answers first, to machines where it fits."""

    comment: str = ""
    first_choices: tuple[CatalogDecoder, ...] = ()
    pairs: tuple[Pair, ...]

    def prefillers_for(self, repo: str | None, label: str | None) -> list[Pair]:
        """Those for the decoder `label` of `repo`; publishers prefix mixes with UD-."""
        if repo is None or label is None:
            return []
        wanted = repo.lower(), label.upper().removeprefix("UD-")
        return [
            pair
            for pair in self.pairs
            if (pair.decoder.repo.lower(), pair.decoder.label.upper()) == wanted
        ]

    def prefillers_by_name(self, file_name: str, label: str | None) -> list[Pair]:
        """Those for a decoder of that quantisation whose name a local file's begins with."""
        name, wanted = file_name.lower(), (label or "").upper().removeprefix("UD-")
        return [
            pair
            for pair in self.pairs
            if wanted == pair.decoder.label.upper() and name.startswith(pair.decoder.name.lower())
        ]


def catalog() -> Catalog:
    return Catalog.model_validate_json(asset("catalog.json").read_text(encoding="utf-8"))
