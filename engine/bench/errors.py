"""Typed errors of the benchmarks."""

from __future__ import annotations

from engine.errors import TwofoldError


class Stopped(TwofoldError):
    """The user stopped a measurement."""

    code = "bench.stopped"


class PromptTooShort(TwofoldError):
    """A prompt that no path but the decoder's would read. Data: `tokens`, `least`."""

    code = "bench.prompt_too_short"


class UnknownShape(TwofoldError):
    """No shape of that name. Data: `arch`, `size`, `known`."""

    code = "bench.unknown_shape"


class UnknownType(TwofoldError):
    """No type that weights can be written in. Data: `type`, `known`."""

    code = "bench.unknown_type"


class NoNvfp4(TwofoldError):
    """A model whose activations in decoding are the library's affair alone."""

    code = "bench.no_nvfp4"


class BareLibraryFailed(TwofoldError):
    """The process that runs the library alone ended. Data: `reason`, its last words."""

    code = "bench.library_failed"
