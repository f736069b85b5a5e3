"""The ways in which something asked of the library can be refused."""

from __future__ import annotations

from engine.errors import TwofoldError


class NoSuchModel(TwofoldError):
    """Nothing in the library is called `name`; `known` lists what is there, in words."""

    code = "models.no_such_model"


class AmbiguousModel(TwofoldError):
    """`name` could be any of `candidates`."""

    code = "models.ambiguous"


class FolderUnusable(TwofoldError):
    """`path` cannot hold models: `reason`."""

    code = "models.folder_unusable"


class Incomplete(TwofoldError):
    """`count` parts, of which `missing` are not there."""

    code = "models.incomplete"


class Offline(TwofoldError):
    """`path` is on a drive that is not connected, or was taken away."""

    code = "models.offline"


class FileUnreadable(TwofoldError):
    """`path` cannot be read: `reason`."""

    code = "models.unreadable"


class NameTaken(TwofoldError):
    """Another file is already at `path`."""

    code = "models.name_taken"


class NotAModel(TwofoldError):
    """`path` is no file that the library can hold: `reason`."""

    code = "models.not_a_model"


class NoRoom(TwofoldError):
    """`needed` bytes are wanted in `folder`, where `free` are free."""

    code = "models.no_room"


class WriteFailed(TwofoldError):
    """`path` cannot be written or removed: `reason`."""

    code = "models.write_failed"


class Damaged(TwofoldError):
    """`path` is not what it was when it came: its SHA-256 is `found`, not `expected`."""

    code = "models.damaged"


class NothingToCompare(TwofoldError):
    """No hash is known for `name`."""

    code = "models.no_hash"


class InUse(TwofoldError):
    """`name` is loaded."""

    code = "models.in_use"


class Stopped(TwofoldError):
    """The user stopped `what`."""

    code = "models.stopped"


class DemoAbsent(TwofoldError):
    """The same failure as the demonstration's own, told without loading an engine."""

    code = "demo.model_missing"
