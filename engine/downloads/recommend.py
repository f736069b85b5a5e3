"""Recommends one model to begin with: the best of the catalogue that runs well on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from engine.api.models import Recommendation, RepoListing, Variant
from engine.downloads.browse import Browser
from engine.downloads.catalog import CatalogDecoder
from engine.downloads.errors import NoVariant, RepoNotFound

# Slower than people read, a better model is no better to have.
READING_TPS = 5.0


def recommend(browser: Browser, choices: Sequence[CatalogDecoder]) -> Recommendation | None:
    """The first that fits and is fast enough, else the fastest that fits; None if nothing does.

    Raises what the hub refuses with, other than for a repo that it has not.
    """
    listings: dict[str, RepoListing | None] = {}
    slow: list[tuple[float, Recommendation]] = []
    for choice in choices:
        if choice.repo not in listings:
            listings[choice.repo] = _shown(browser, choice.repo)
        variant = _fitting(listings[choice.repo], choice.label)
        if variant is None:
            continue
        # By its size it fits; its header says so for certain.
        listing = _shown(browser, f"{choice.repo}:{variant.label}")
        variant = _fitting(listing, choice.label)
        if listing is None or variant is None:
            continue
        rate = variant.fit.decode_tps if variant.fit else None
        found = _recommendation(listing, variant)
        if rate is None or rate >= READING_TPS:
            return found
        slow.append((rate, found))
    return max(slow, key=lambda one: one[0])[1] if slow else None


def _shown(browser: Browser, reference: str) -> RepoListing | None:
    try:
        return browser.show(reference)
    except (RepoNotFound, NoVariant):
        return None


def _fitting(listing: RepoListing | None, label: str) -> Variant | None:
    """The decoder of this quantisation, if it fits; publishers prefix mixes with UD-."""
    found = [
        one
        for one in (listing.variants if listing else ())
        if one.kind == "decoder"
        and one.complete
        and (one.label or "").upper().removeprefix("UD-") == label
    ]
    chosen = min(found, key=lambda one: len(one.label or ""), default=None)
    fits = chosen is not None and chosen.fit is not None and chosen.fit.verdict == "fits"
    return chosen if fits else None


def _recommendation(listing: RepoListing, variant: Variant) -> Recommendation:
    offers = listing.prefillers.get(variant.name, ())
    return Recommendation(
        pull=f"{listing.repo}:{variant.label}",
        name=listing.repo.partition("/")[2].removesuffix("-GGUF"),
        variant=variant,
        licence=listing.licence,
        prefiller=next((one for one in offers if one.way == "published"), None),
    )
