"""The ways in which asking the hub, or a download, can fail."""

from __future__ import annotations

from engine.api.failure import Failure
from engine.errors import TwofoldError


class HubOffline(TwofoldError):
    """Offline mode is on, by `cause` (a setting or a variable)."""

    code = "hub.offline"


class HubUnreachable(TwofoldError):
    """Nothing answers at `endpoint`: `reason`. `hint` is advice, or empty."""

    code = "hub.unreachable"


class CertificateRefused(TwofoldError):
    """`endpoint` shows a certificate that this machine does not trust: `reason`."""

    code = "hub.certificate"


class HubFailed(TwofoldError):
    """`endpoint` answered with `status`, which is its own fault."""

    code = "hub.failed"


class HubStrange(TwofoldError):
    """`endpoint` answered with something that is no hub's answer: `reason`."""

    code = "hub.strange"


class RateLimited(TwofoldError):
    """`endpoint` wants fewer requests; `wait_s` seconds from now it will answer again."""

    code = "hub.rate_limited"


class RepoNotFound(TwofoldError):
    """No repo `repo`, or none that may be seen: with or without a `token`."""

    code = "hub.repo_not_found"


class Gated(TwofoldError):
    """`repo` wants its conditions accepted, at `page`. `advice`: what to do, which depends on
    whether there is a token."""

    code = "hub.gated"


class BadToken(TwofoldError):
    """The hub does not accept the token from `source`."""

    code = "hub.bad_token"


class Forbidden(TwofoldError):
    """`repo` may not be read with this token: `reason`."""

    code = "hub.forbidden"


class RevisionNotFound(TwofoldError):
    """`repo` has no `revision`."""

    code = "hub.revision_not_found"


class RemoteFileNotFound(TwofoldError):
    """`repo` has no file `file`."""

    code = "hub.file_not_found"


class TooManyFiles(TwofoldError):
    """`repo` lists more than `limit` files."""

    code = "hub.too_many_files"


class BadReference(TwofoldError):
    """`text` names no repo and no file of one."""

    code = "hub.bad_reference"


class NoVariant(TwofoldError):
    """`repo` has no model `wanted`; `known` lists those that it has."""

    code = "hub.no_variant"


class VariantNeeded(TwofoldError):
    """`repo` has several models (`known`), and none was named."""

    code = "hub.variant_needed"


class VariantIncomplete(TwofoldError):
    """`variant` of `repo` lacks parts even there."""

    code = "hub.variant_incomplete"


class NoPublishedPrefiller(TwofoldError):
    """The catalogue has none for `decoder`."""

    code = "hub.no_prefiller"


class UnsafeName(TwofoldError):
    """`repo` has a file `file` whose name would lead out of its folder, or that no system can
    hold."""

    code = "hub.unsafe_name"


class NoHash(TwofoldError):
    """The hub gives no hash for `file` of `repo`."""

    code = "download.no_hash"


class NoKeyring(TwofoldError):
    """The system has no keyring: `reason`."""

    code = "hub.no_keyring"


class BadTokenText(TwofoldError):
    """What was given cannot be a token: `reason`."""

    code = "hub.token_text"


# --- downloads -----------------------------------------------------------------------------------


class WrongBytes(TwofoldError):
    """`file` came with other bytes than the hub's hash says, twice: SHA-256 `found` instead of
    `expected`."""

    code = "download.wrong_bytes"


class WrongLength(TwofoldError):
    """`file` should have `expected` bytes, the server sends `found`."""

    code = "download.wrong_length"


class RemoteChanged(TwofoldError):
    """`file` of `repo` is another one than when the download began."""

    code = "download.remote_changed"


class Stalled(TwofoldError):
    """`file`: nothing, or next to nothing, came for `seconds`."""

    code = "download.stalled"


class ConnectionCut(TwofoldError):
    """`file`: the connection ended before its end: `reason`."""

    code = "download.cut"


class GaveUp(TwofoldError):
    """`file` made no progress in `attempts` attempts; `reason` is the last one's."""

    code = "download.gave_up"


class DiskFull(TwofoldError):
    """`folder` has `free` bytes free, and `needed` are still to come."""

    code = "download.disk_full"


class CannotWrite(TwofoldError):
    """`path` cannot be written: `reason`."""

    code = "download.cannot_write"


class NoSuchJob(TwofoldError):
    """There is no job `id`."""

    code = "jobs.no_such_job"


class WrongState(TwofoldError):
    """A job that is `state` cannot be `action`."""

    code = "jobs.wrong_state"


class BuildFailed(TwofoldError):
    """The process that builds a prefiller ended: `reason`."""

    code = "jobs.build_failed"


class JobFailed(TwofoldError):
    """A job that was waited for failed; code and data are its own."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(**failure.data)
        self.code = failure.code  # type: ignore[misc]  # as for NativeError
