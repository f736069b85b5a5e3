"""Models on disk and on the hub, and the work that brings them: what routes and commands tell."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.api.failure import Failure
from engine.api.messages import Text
from engine.api.plan import Remark

# decoder: writes answers, projector: turns images into tokens for one.
ModelKind = Literal["decoder", "prefiller", "projector"]
# incomplete: parts are missing. damaged: no sound GGUF. offline: its drive is not connected.
# absent: offered, and not on this machine yet.
EntryState = Literal["ready", "incomplete", "damaged", "unreadable", "offline", "absent"]
# changed: the files are not those that were verified.
Verification = Literal["verified", "not_verified", "changed"]
PairingVerdict = Literal["matched_by_hash", "matched_by_name", "unknown", "wrong"]
FitVerdict = Literal["fits", "partly", "too_large", "unknown"]

JobKind = Literal["download", "build", "verify", "import", "export", "move"]
JobState = Literal["queued", "running", "paused", "failed", "done", "cancelled"]
# How a local file becomes part of the library.
ImportWay = Literal["copy", "move", "reference"]
JobAction = Literal["pause", "resume", "cancel", "retry", "remove"]


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Given(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# --- on disk -------------------------------------------------------------------------------------


class ModelFile(_Sent):
    """One file of an entry, its size in bytes; `sha256` as the hub gave it, or as it was copied."""

    path: Path
    bytes: int
    sha256: str | None = None


class Origin(_Sent):
    """Where an entry came from. `repo` and `commit` are the hub's, `source` a local path."""

    way: Literal["download", "copy", "move", "reference", "build", "found", "demo"]
    repo: str | None = None
    commit: str | None = None
    licence: str | None = None
    source: str | None = None


class AttachedPrefiller(_Sent):
    """A prefiller beside the decoder that it may belong to. Only `choosable` ones are offered;
    others need the user to insist."""

    id: str
    path: Path
    bytes: int
    verdict: PairingVerdict
    reasons: tuple[Remark, ...]
    choosable: bool


class AttachedDrafter(_Sent):
    """A head that guesses what the decoder writes, and fits it; by its file's `method`."""

    path: Path
    bytes: int
    method: str
    verdict: PairingVerdict
    reasons: tuple[Remark, ...]


class AttachedProjector(_Sent):
    """`fits`: whether its output is as wide as the decoder's tokens; None if it does not say."""

    path: Path
    bytes: int
    fits: bool | None
    reason: str


class ModelEntry(_Sent):
    """One model, however many files it has. `path` is what to load; sizes in bytes, `context` in
    tokens. `failure` says what is wrong with one that is not ready."""

    id: str
    kind: ModelKind
    state: EntryState
    name: str
    path: Path
    files: tuple[ModelFile, ...]
    bytes: int
    quantisation: str | None = None
    architecture: str | None = None
    context: int | None = None
    parameters: int | None = None
    licence: str | None = None
    origin: Origin
    verification: Verification = "not_verified"
    verified_at: str | None = None
    failure: Failure | None = None
    prefillers: tuple[AttachedPrefiller, ...] = ()
    projectors: tuple[AttachedProjector, ...] = ()
    drafters: tuple[AttachedDrafter, ...] = ()

    @property
    def prefiller(self) -> AttachedPrefiller | None:
        """The one to use unless the user says otherwise: matched by hash before by name."""
        choosable = [one for one in self.prefillers if one.choosable]
        return min(choosable, key=lambda one: one.verdict, default=None)


class LibraryFolder(_Sent):
    """`main`: downloads go there. `free` bytes, None while it is not connected."""

    path: Path
    main: bool
    online: bool
    writable: bool
    free: int | None


class LibraryAnswer(_Sent):
    folders: tuple[LibraryFolder, ...]
    entries: tuple[ModelEntry, ...]


class Removal(_Sent):
    """What removing an entry does: files that `goes`, those that stay because other entries
    (`shared`, by file) need them or they are not the library's, bytes freed, and prefillers that
    are left without their decoder."""

    id: str
    name: str
    goes: tuple[Path, ...]
    stays: tuple[Path, ...]
    shared: dict[str, tuple[str, ...]]
    bytes: int
    left_behind: tuple[str, ...]


# --- on the hub ----------------------------------------------------------------------------------


class Fit(_Sent):
    """Whether a model runs here. `estimated`: by its size, without its header.

    What the sentence rests on: `device` ("CPU" is the host) computes `device_blocks` of `blocks`,
    with `context` tokens; `missing` bytes are wanted beyond what is free.
    """

    verdict: FitVerdict
    sentence: str
    estimated: bool = False
    decode_tps: float | None = None
    device: str | None = None
    blocks: int | None = None
    device_blocks: int | None = None
    context: int | None = None
    missing: int = 0


class RepoSummary(_Sent):
    repo: str
    downloads: int | None = None
    likes: int | None = None
    updated: str | None = None
    gated: bool = False
    licence: str | None = None
    pipeline: str | None = None


class VariantFile(_Sent):
    path: str
    bytes: int
    sha256: str | None


class Variant(_Sent):
    """One model of a repo: a file, or all parts of a split one. `label`: its quantisation;
    `outdated`: it is installed, and the hub has other files of that name by now."""

    name: str
    kind: ModelKind
    label: str | None
    files: tuple[VariantFile, ...]
    bytes: int
    complete: bool = True
    installed: bool = False
    outdated: bool = False
    recommended: bool = False
    fit: Fit | None = None


class PrefillerOffer(_Sent):
    """A prefiller for a decoder: published (with its repo), or one to be built here.

    What `expect` rests on: `scores` as published, benchmark -> (decoder alone, with it), in
    points; `speed_only`: the decoder has so many bits that a prefiller makes no better answers.
    """

    way: Literal["installed", "published", "found", "build"]
    repo: str | None = None
    variant: str | None = None
    bytes: int | None = None
    expect: str
    scores: dict[str, tuple[float, float]] = {}
    speed_only: bool = False
    failure: Failure | None = None


class Offers(_Sent):
    offers: tuple[PrefillerOffer, ...]


class RepoListing(_Sent):
    """A repo's models. `refused`: names of files that no honest repo has; `more`: how many models
    were left out, since there are far too many."""

    repo: str
    commit: str
    gated: bool
    licence: str | None
    variants: tuple[Variant, ...]
    refused: tuple[str, ...] = ()
    more: int = 0
    prefillers: dict[str, tuple[PrefillerOffer, ...]] = {}
    failure: Failure | None = None


class Recommendation(_Sent):
    """What to begin with here: `pull` is what to ask for, with its `prefiller` if there is one."""

    pull: str
    name: str
    variant: Variant
    licence: str | None
    prefiller: PrefillerOffer | None = None

    @property
    def bytes(self) -> int:
        """Of all that is to be downloaded."""
        return self.variant.bytes + (self.prefiller.bytes or 0 if self.prefiller else 0)


class Recommended(_Sent):
    """`best` is None where nothing of the catalogue fits this machine."""

    best: Recommendation | None


class SearchAnswer(_Sent):
    """Repos by words; or, for an address or a repo's name, that repo."""

    query: str
    repos: tuple[RepoSummary, ...] = ()
    listing: RepoListing | None = None


# --- work ----------------------------------------------------------------------------------------


class Progress(_Sent):
    """Bytes done and in all; a steady rate in bytes a second, and seconds left, if known.

    `doing` is what is done instead of fetching, in words: `step` says which of both it is.
    """

    done: int = 0
    total: int = 0
    rate: float | None = None
    remaining_s: float | None = None
    doing: str | None = None
    step: Literal["checking", "waiting"] | None = None


class JobInfo(_Sent):
    """One entry of the queue; higher priorities run first. `title` is what it is about, `kind`
    what is done with it. `notices` are remarks that deserve to be read; `result` is what a
    finished job made; `retry_at` (seconds since 1970) when a failed one is tried again by itself,
    if somebody works the queue then."""

    id: str
    kind: JobKind
    title: str
    state: JobState
    priority: int
    created: float
    progress: Progress = Progress()
    failure: Failure | None = None
    notices: tuple[Remark, ...] = ()
    result: str | None = None
    retry_at: float | None = None


class JobList(_Sent):
    """Also what an event of the stream holds: all jobs, in the order in which they run."""

    type: Literal["jobs"] = "jobs"
    jobs: tuple[JobInfo, ...]


# --- requests ------------------------------------------------------------------------------------

_Name = Field(min_length=1, max_length=4096)


class SearchRequest(_Given):
    query: Text = Field(min_length=1, max_length=500)
    limit: int = Field(default=20, ge=1, le=100)


class PullRequest(_Given):
    """`model`: user/repo:QUANT, an address, or a file's address. With `prefiller`, the published
    one comes too; with `projector`, the repo's vision projector."""

    model: Text = Field(min_length=1, max_length=500)
    prefiller: bool = False
    projector: bool = True
    priority: int = Field(default=0, ge=-100, le=100)


class ImportRequest(_Given):
    path: Text = _Name
    way: ImportWay = "copy"


class ExportRequest(_Given):
    id: Text = _Name
    folder: Text = _Name


class EntryRequest(_Given):
    id: Text = _Name


class RemoveRequest(_Given):
    """Without `confirm`, only says what would go."""

    id: Text = _Name
    confirm: bool = False


class MoveRequest(_Given):
    folder: Text = _Name


class BuildRequest(_Given):
    """A prefiller for the entry `id`, from the better file `source` if there is one."""

    id: Text = _Name
    source: Text | None = Field(default=None, min_length=1, max_length=4096)


class JobRequest(_Given):
    id: Text = _Name
    action: JobAction | None = None
    priority: int | None = Field(default=None, ge=-100, le=100)


class TokenRequest(_Given):
    """The hub's token, kept in the system's keyring; None takes it out."""

    token: Text | None = Field(default=None, min_length=8, max_length=512)


class TokenAnswer(_Sent):
    """Where the token comes from; never the token."""

    source: Literal["environment", "keyring", "huggingface", "none"]
