"""The ways in which a prefiller cannot be built, read, or paired."""

from __future__ import annotations

from engine.errors import TwofoldError


class PrefillerError(TwofoldError):
    code = "prefiller.invalid"


class MixtureOfExperts(PrefillerError):
    """`path` has `experts` experts."""

    code = "prefiller.mixture_of_experts"


class NothingToQuantise(PrefillerError):
    """`path` has no block linear that NVFP4 can hold."""

    code = "prefiller.nothing_to_quantise"


class SourceMismatch(PrefillerError):
    """`source` is another model than `decoder`: `tensor` is `found` instead of `expected`."""

    code = "prefiller.source_mismatch"


class UnusableWeights(PrefillerError):
    """`tensor` of `path` holds infinities or NaNs, or is of a type that has no FP32 form."""

    code = "prefiller.unusable_weights"


class SourceShrank(PrefillerError):
    """`path` ended while its `tensor` was being read."""

    code = "prefiller.source_shrank"


class OutputExists(PrefillerError):
    code = "prefiller.output_exists"


class OutputIsInput(PrefillerError):
    code = "prefiller.output_is_input"


class NoSpace(PrefillerError):
    """`path` needs `needed` bytes; its folder's disk has `free`."""

    code = "prefiller.no_space"


class WriteFailed(PrefillerError):
    """`reason`: the system's words."""

    code = "prefiller.write_failed"


class Cancelled(PrefillerError):
    """The caller asked the build to stop; nothing was left behind."""

    code = "prefiller.cancelled"


class NotFound(PrefillerError):
    code = "prefiller.not_found"


class SeveralFiles(PrefillerError):
    """The folder `path` holds more than one prefiller: `files`."""

    code = "prefiller.several_files"


class PartsMissing(PrefillerError):
    """Of `count` parts, those named in `missing` are not there."""

    code = "prefiller.parts_missing"


class WrongType(PrefillerError):
    """`tensor` is stored as `type` instead of NVFP4."""

    code = "prefiller.wrong_type"


class WrongDimensions(PrefillerError):
    """`tensor` has a `shape` that is no matrix."""

    code = "prefiller.wrong_dimensions"


class NoScale(PrefillerError):
    """`tensor` has no scale, in a key or in a tensor beside it."""

    code = "prefiller.no_scale"


class BadScale(PrefillerError):
    """`tensor`'s scale is `scale`: not a finite number above 0, or not a number at all."""

    code = "prefiller.bad_scale"


class TwoScales(PrefillerError):
    """`tensor` has a scale in a key and another in a tensor beside it."""

    code = "prefiller.two_scales"


class WholeModel(PrefillerError):
    """`path` holds a model, embedding and all."""

    code = "prefiller.whole_model"


class ExtraTensor(PrefillerError):
    """`tensor` is no linear weight of a block."""

    code = "prefiller.extra_tensor"


class DuplicateTensor(PrefillerError):
    """`tensor` is in `path` and in `other`."""

    code = "prefiller.duplicate_tensor"


class MissingTensors(PrefillerError):
    """`found` tensors where the file says it has `expected`."""

    code = "prefiller.missing_tensors"


class MixedParts(PrefillerError):
    """The parts disagree on `key`: `values`."""

    code = "prefiller.mixed_parts"


class NewerFormat(PrefillerError):
    """Made by a newer tool: format `version`, and up to `known` is understood."""

    code = "prefiller.newer_format"


class Empty(PrefillerError):
    """No NVFP4 block linear in `path`."""

    code = "prefiller.empty"


class ContextTooSmall(PrefillerError):
    """The text and the context together give `tokens`; a measurement needs `needed`."""

    code = "prefiller.context_too_small"


class MeasurementStopped(PrefillerError):
    code = "prefiller.measurement_stopped"


class PairingRefused(PrefillerError):
    """`reasons`: why `prefiller` is not known to belong to `decoder`; can be forced."""

    code = "prefiller.pairing_refused"


class PairingImpossible(PairingRefused):
    """The prefiller does not fit the decoder's weights: no force can pair them."""

    code = "prefiller.pairing_impossible"
