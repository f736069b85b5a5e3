"""What a repo holds: its models by kind with size and fit, decoders with their prefillers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.engine_client.failures import sentence
from app.i18n import tr
from app.models.row import Row, RowCard
from app.models.words import DOT, breakable, fit_label, fit_sentence, offer_words
from app.shell.widgets import column, label
from engine.api.models import JobInfo, ModelKind, PrefillerOffer, RepoListing, Variant

LIVE = ("queued", "running", "paused", "failed")
KINDS: tuple[ModelKind, ...] = ("decoder", "prefiller", "projector")


@dataclass(frozen=True)
class _Ask:
    """What to pull, and what the queue calls it."""

    wanted: str
    title: str
    with_prefiller: bool


class Listing(QWidget):
    """`pull_asked` with what to pull and whether with its prefiller; `downloads_asked`."""

    pull_asked = Signal(str, bool)
    downloads_asked = Signal()

    def __init__(self, listing: RepoListing, *, framed: bool) -> None:
        super().__init__()
        self._listing = listing
        self._jobs: Sequence[JobInfo] = ()
        self._made: list[tuple[Row, Variant, PrefillerOffer | None]] = []
        self._labels = Counter(
            one.label for one in listing.variants if one.kind != "projector" and one.label
        )
        layout = column(spacing=12)
        self.setLayout(layout)  # first: a card that is filled shows itself
        if framed:  # else the row above says it
            facts = [listing.licence or tr("models.no_licence")]
            if listing.gated:
                facts.append(tr("models.gated"))
            layout.addWidget(label(DOT.join(facts), "small", wrap=True))
        for words in self._warnings():
            layout.addWidget(label(words, "warn", wrap=True))
        self.cards: dict[ModelKind, RowCard] = {}
        for kind in KINDS:
            makers = [
                partial(self._row, variant, offer)
                for variant in listing.variants
                if variant.kind == kind
                for offer in self._offers(variant)
            ]
            if makers:
                self.cards[kind] = RowCard(tr(f"models.kind_{kind}"), framed=framed)
                layout.addWidget(self.cards[kind])
                self.cards[kind].fill(makers)
        if not listing.variants:
            layout.addWidget(label(tr("models.no_variants"), "secondary", wrap=True))

    def show_jobs(self, jobs: Sequence[JobInfo]) -> None:
        """Buttons of what is in the queue lead to it."""
        self._jobs = jobs
        for shown, variant, offer in self._made:
            self._show_button(shown, variant, offer)

    def _warnings(self) -> list[str]:
        found: list[str] = []
        if self._listing.refused:
            names = ", ".join(breakable(name) for name in self._listing.refused[:3])
            found.append(tr("models.refused", names=names))
        if self._listing.failure is not None:
            found.append(sentence(self._listing.failure))
        return found

    def _offers(self, variant: Variant) -> list[PrefillerOffer | None]:
        """A row for the model alone, and one for each prefiller that may come with it."""
        return [None, *self._listing.prefillers.get(variant.name, ())]

    def _row(self, variant: Variant, offer: PrefillerOffer | None) -> Row:
        if offer is None:
            made = Row(variant.label or variant.name, self._facts(variant))
            made.show_size(variant.bytes)
            if variant.kind == "decoder":
                tip = fit_sentence(variant.fit) if variant.fit else ""
                made.show_label(fit_label(variant.fit), tip)
        else:
            name = tr("models.with_its_prefiller", name=variant.label or variant.name)
            made = Row(name, offer_words(offer))
            both = variant.bytes + offer.bytes if offer.bytes else None
            made.show_size(offer.bytes if variant.installed else both)
        made.acted.connect(partial(self._act, variant, offer))
        self._made.append((made, variant, offer))
        self._show_button(made, variant, offer)
        return made

    def _facts(self, variant: Variant) -> str:
        facts = [breakable(variant.name)]
        if len(variant.files) > 1:
            facts.append(tr("models.files", count=len(variant.files)))
        if variant.recommended:
            facts.append(tr("models.recommended"))
        if variant.installed:
            facts.append(tr("models.outdated" if variant.outdated else "models.installed"))
        if variant.kind == "projector":
            facts.append(tr("models.comes_along"))
        if not variant.complete:
            facts.append(tr("models.parts_missing"))
        return DOT.join(facts)

    def _show_button(self, shown: Row, variant: Variant, offer: PrefillerOffer | None) -> None:
        if variant.kind == "projector" or not variant.complete:
            return
        if offer is not None and offer.way != "published":
            return
        if self._is_live(self._ask(variant, offer)):
            shown.show_button(tr("models.show_download"))
        elif offer is not None:
            words = "models.download_prefiller" if variant.installed else "models.download_both"
            shown.show_button(tr(words))
        elif variant.outdated:
            shown.show_button(tr("models.update"))
        elif variant.installed:
            shown.show_button("")
        else:
            kind = "primary" if variant.recommended else "plain"
            shown.show_button(tr("models.download"), kind)

    def _act(self, variant: Variant, offer: PrefillerOffer | None) -> None:
        ask = self._ask(variant, offer)
        if self._is_live(ask):
            self.downloads_asked.emit()
        else:
            self.pull_asked.emit(ask.wanted, ask.with_prefiller)

    def _is_live(self, ask: _Ask) -> bool:
        return any(job.title == ask.title and job.state in LIVE for job in self._jobs)

    def _ask(self, variant: Variant, offer: PrefillerOffer | None) -> _Ask:
        """With an offer, the pair; of a decoder that is here, the prefiller alone."""
        if offer is not None and variant.installed:
            reference = f"{offer.repo}:{offer.variant}"
            return _Ask(reference, reference, with_prefiller=False)
        wanted, title = self._wanted(variant), self._title(variant)
        return _Ask(wanted, title, with_prefiller=offer is not None)

    def _title(self, variant: Variant) -> str:
        """What the queue calls it."""
        return f"{self._listing.repo}:{variant.label or variant.name}"

    def _wanted(self, variant: Variant) -> str:
        """By its quantisation where that names one model only, else by its file."""
        if variant.label and self._labels[variant.label] == 1:
            return f"{self._listing.repo}:{variant.label}"
        return f"{self._listing.repo}/blob/main/{variant.files[0].path}"
