"""The ways in which a drafter's checkpoint cannot be read or converted."""

from __future__ import annotations

from engine.errors import TwofoldError


class DraftError(TwofoldError):
    code = "draft.invalid"


class Unreadable(DraftError):
    """`reason`: the system's words, or what is wrong with the JSON."""

    code = "draft.unreadable"


class NoCheckpoint(DraftError):
    """`path` is no safetensors file and no folder with one."""

    code = "draft.no_checkpoint"


class BadSafetensors(DraftError):
    """`path` is not a well-formed safetensors file: `reason`."""

    code = "draft.bad_safetensors"


class UnknownLayout(DraftError):
    """`path`'s tensors (`tensor` and others) are of no layout that can be converted."""

    code = "draft.unknown_layout"


class MissingTensor(DraftError):
    code = "draft.missing_tensor"


class UnexpectedTensor(DraftError):
    """`tensor` is none that a `method` checkpoint has."""

    code = "draft.unexpected_tensor"


class WrongShape(DraftError):
    """`tensor` has `shape` (rows first); the configuration calls for `expected`."""

    code = "draft.shape"


class WrongType(DraftError):
    """`tensor` holds `type`s, which mean nothing there."""

    code = "draft.type"


class NotFinite(DraftError):
    """`tensor` holds infinities or NaNs."""

    code = "draft.not_finite"


class BadConfig(DraftError):
    """`key` of config.json is `value`, not `expected`."""

    code = "draft.config"


class Unsupported(DraftError):
    """The checkpoint asks for `what`, which is not converted."""

    code = "draft.unsupported"


class NeedsTarget(DraftError):
    """A `method` file carries its target's tokens: the target has to be named."""

    code = "draft.needs_target"


class WrongTarget(DraftError):
    """The drafter's `what` is `found`; the target's is `expected`."""

    code = "draft.wrong_target"


class BadTokens(DraftError):
    """`tensor` maps drafted tokens to ids that the target's vocabulary of `vocab` lacks, or twice
    to the same."""

    code = "draft.tokens"


class NotADraft(DraftError):
    """`path` is a sound GGUF file, of no drafter."""

    code = "draft.not_a_draft"


class NotRun(DraftError):
    """`path` is a drafter of a `method` that is converted, but not run."""

    code = "draft.not_run"


class PairingRefused(DraftError):
    """`reasons`: why `draft` cannot run beside `target`."""

    code = "draft.pairing_refused"
