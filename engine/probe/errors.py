"""The ways in which probing a machine ends without a result."""

from __future__ import annotations

from engine.errors import TwofoldError


class ProbeError(TwofoldError):
    code = "probe.failed"


class ProbeStopped(ProbeError):
    code = "probe.stopped"


class BadProfile(ProbeError):
    """`path` is no profile of a machine: `reason`."""

    code = "probe.bad_profile"


class MeasuringFailed(ProbeError):
    """The process that measures `what` ended with `reason`."""

    code = "probe.measuring_failed"
