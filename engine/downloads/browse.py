"""Looks at the hub for a person: search results, a repo's models with their fit, prefillers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from engine.api.failure import Failure
from engine.api.hardware import Profile
from engine.api.models import (
    AttachedPrefiller,
    ModelEntry,
    PrefillerOffer,
    RepoListing,
    SearchAnswer,
    Variant,
)
from engine.downloads.catalog import Catalog, Pair, catalog
from engine.downloads.errors import BadReference
from engine.downloads.hub import Hub, Repo
from engine.downloads.reference import Reference, parse_reference
from engine.downloads.remote_header import remote_model
from engine.downloads.variants import choose, recommended, sort_files
from engine.errors import TwofoldError
from engine.library.fit import fit_of_facts, fits_of_sizes
from engine.library.groups import failure_of
from engine.library.labels import looks_like_prefiller, without_quantisation
from engine.library.library import hub_name
from engine.planner.facts import QUALITY_BITS, ModelFacts, assumed_prefiller, model_facts

BUILD_EXPECT = (
    "No trained prefiller is known for this decoder. One built here by rounding helps less than a "
    "trained one (on Qwen3.8-27B in IQ1_S, MMLU-Pro 48.4 rather than 61.5, from 29.0), and only "
    "from a better file of the same model, such as Q8_0 or BF16."
)
LITTLE_EXPECT = (
    "With three bits a weight or more, a prefiller does not make answers better; it may make "
    "reading long prompts faster."
)
# More than any honest repo has, and as many as can be shown.
MOST_VARIANTS = 500
_SEARCHED = 5


class Browser:
    def __init__(
        self,
        hub: Hub,
        profile: Callable[[], Profile],
        entries: Callable[[], Sequence[ModelEntry]],
        known: Catalog | None = None,
    ) -> None:
        self._hub = hub
        self._profile = profile
        self._entries = entries
        self._catalog = known or catalog()

    def search(self, query: str, limit: int = 20) -> SearchAnswer:
        """By words; an address or a repo's name opens that repo. Raises what the hub does."""
        try:
            reference = parse_reference(query, self._hub.endpoint)
        except BadReference:
            return SearchAnswer(query=query, repos=tuple(self._hub.search(query, limit)))
        return SearchAnswer(query=query, listing=self._listing(reference))

    def show(self, text: str) -> RepoListing:
        """Raises BadReference, NoVariant and what the hub does."""
        return self._listing(parse_reference(text, self._hub.endpoint))

    def offers(self, entry: ModelEntry) -> tuple[PrefillerOffer, ...]:
        """Prefillers for a decoder that is here: installed ones, published ones, one to build."""
        installed = [
            PrefillerOffer(
                way="installed",
                variant=str(one.path),
                bytes=one.bytes,
                expect=_verdict(one),
            )
            for one in entry.prefillers
            if one.choosable
        ]
        repo = entry.origin.repo
        published = (
            self._published(repo, entry.quantisation) if repo else self._published_by_name(entry)
        )
        name = repo.partition("/")[2] if repo else entry.name
        found = [] if published or installed else self._searched(name)
        built = [_to_build(_bits(entry))]
        trained = [*installed, *published, *found]
        return tuple(trained if installed or published else [*trained, *built])

    # --- a repo --------------------------------------------------------------------------------

    def _listing(self, reference: Reference) -> RepoListing:
        repo = self._hub.repo(reference.repo, reference.revision)
        found = sort_files(repo.name, repo.files)
        variants = found.variants
        chosen = choose(repo.name, variants, reference.wanted) if reference.wanted else None
        read = chosen or _to_read(variants)
        facts, failure = self._facts(repo, read)
        listed = [*variants[:MOST_VARIANTS], *([chosen] if chosen else [])]
        fitted = self._with_fits(list(dict.fromkeys(listed)), read, facts, failure)
        best = recommended(fitted)
        here = {hub_name(entry).lower(): entry for entry in self._entries()}
        shown = tuple(
            one.model_copy(
                update={
                    **_installed(one, here.get(f"{repo.name}:{one.label or one.name}".lower())),
                    "recommended": best is not None and one.name == best.name,
                }
            )
            for one in fitted
            if chosen is None or one.name == chosen.name or one.kind == "projector"
        )
        return RepoListing(
            repo=repo.name,
            commit=repo.commit,
            gated=repo.gated,
            licence=repo.licence,
            variants=shown,
            refused=found.refused[:50],
            more=0 if chosen else max(0, len(variants) - MOST_VARIANTS),
            prefillers=self._prefillers(repo, shown, facts, chosen),
            failure=failure,
        )

    def _facts(
        self, repo: Repo, variant: Variant | None
    ) -> tuple[ModelFacts | None, Failure | None]:
        """Of one variant's header; a file that lies about itself only costs the estimate."""
        if variant is None or not variant.complete:
            return None, None
        try:
            return model_facts(remote_model(self._hub, repo.name, repo.commit, variant)), None
        except TwofoldError as error:
            return None, failure_of(error)

    def _with_fits(
        self,
        variants: Sequence[Variant],
        read: Variant | None,
        facts: ModelFacts | None,
        failure: Failure | None,
    ) -> list[Variant]:
        profile = self._profile()
        decoders = [one for one in variants if one.kind == "decoder"]
        sizes = [one.bytes for one in decoders]
        fits = fits_of_sizes(profile, facts, read.bytes if read else 0, sizes)
        by_name = {one.name: fit for one, fit in zip(decoders, fits, strict=True)}
        if read is not None and facts is not None:
            by_name[read.name] = fit_of_facts(profile, facts)
        elif (
            read is not None
            and read.name in by_name
            and failure is not None
            and failure.code.startswith("gguf.")  # the size of a file that lies says nothing
        ):
            unknown = by_name[read.name].model_copy(
                update={"verdict": "unknown", "sentence": failure.sentence}
            )
            by_name[read.name] = unknown
        return [one.model_copy(update={"fit": by_name.get(one.name)}) for one in variants]

    # --- prefillers ----------------------------------------------------------------------------

    def _prefillers(
        self,
        repo: Repo,
        variants: Iterable[Variant],
        facts: ModelFacts | None,
        chosen: Variant | None,
    ) -> dict[str, tuple[PrefillerOffer, ...]]:
        offers: dict[str, tuple[PrefillerOffer, ...]] = {}
        for variant in variants:
            if variant.kind != "decoder":
                continue
            known = self._published(repo.name, variant.label)
            if not known and chosen is not None and facts is not None and not facts.experts:
                nbytes = assumed_prefiller(facts).nbytes
                found = self._searched(repo.name.partition("/")[2])
                known = [*found, _to_build(facts.bits, nbytes)]
            if known:
                offers[variant.name] = tuple(known)
        return offers

    def _published(self, repo: str | None, label: str | None) -> list[PrefillerOffer]:
        pairs = self._catalog.prefillers_for(repo, label)
        return [_offered(pair, pair.expect) for pair in pairs]

    def _published_by_name(self, entry: ModelEntry) -> list[PrefillerOffer]:
        """For a file that did not come from the hub, or not through this program."""
        pairs = self._catalog.prefillers_by_name(entry.path.name, entry.quantisation)
        return [
            _offered(
                pair,
                f"Trained for {pair.decoder.repo}:{pair.decoder.label}; whether this file is that "
                f"one is checked when it is here. {pair.expect}",
            )
            for pair in pairs
        ]

    def _searched(self, model: str) -> list[PrefillerOffer]:
        """Repos that call themselves prefillers for the model; pairing is checked when here. What
        the catalogue knows is for other decoders, since this one is not in it."""
        known = {pair.prefiller.repo.lower() for pair in self._catalog.pairs}
        base = without_quantisation(model.removesuffix("-GGUF"))
        try:
            found = self._hub.search(f"{base} prefiller", _SEARCHED)
        except TwofoldError as error:
            return [
                PrefillerOffer(
                    way="found", expect="The hub was not asked.", failure=failure_of(error)
                )
            ]
        return [
            PrefillerOffer(
                way="found",
                repo=one.repo,
                expect="Found by its name; whether it belongs is checked when it is here.",
            )
            for one in found
            if looks_like_prefiller(one.repo) and one.repo.lower() not in known
        ]


def _installed(variant: Variant, entry: ModelEntry | None) -> dict[str, bool]:
    if entry is None:
        return {"installed": False}
    ours, theirs = ({file.sha256 for file in one.files} for one in (entry, variant))
    known = None not in ours | theirs
    return {"installed": True, "outdated": known and ours != theirs}


def _offered(pair: Pair, expect: str) -> PrefillerOffer:
    return PrefillerOffer(
        way="published",
        repo=pair.prefiller.repo,
        variant=pair.prefiller.folder,
        bytes=pair.bytes,
        expect=expect,
        scores=pair.scores,
    )


def _to_read(variants: Sequence[Variant]) -> Variant | None:
    """The one whose header costs least: of few parts, and small."""
    decoders = [one for one in variants if one.kind == "decoder" and one.complete]
    return min(decoders, key=lambda one: (len(one.files), one.bytes), default=None)


def _bits(entry: ModelEntry) -> float:
    return 8 * entry.bytes / entry.parameters if entry.parameters else 16.0


def _verdict(attached: AttachedPrefiller) -> str:
    reasons = "; ".join(remark.sentence for remark in attached.reasons)
    return f"{attached.verdict.replace('_', ' ')}: {reasons}"


def _to_build(bits: float, nbytes: int | None = None) -> PrefillerOffer:
    speed_only = bits >= QUALITY_BITS + 0.5
    expect = f"{BUILD_EXPECT} {LITTLE_EXPECT}" if speed_only else BUILD_EXPECT
    return PrefillerOffer(way="build", bytes=nbytes, expect=expect, speed_only=speed_only)
