"""The ways in which something asked of the library can be refused."""

from __future__ import annotations

from engine.errors import TwofoldError


class NoSuchModel(TwofoldError):
    """Nothing in the library is called `name`; `known` lists what is there, in words."""

    code = "library.no_such_model"


class AmbiguousModel(TwofoldError):
    """`name` could be any of `candidates`."""

    code = "library.ambiguous"


class FolderUnusable(TwofoldError):
    """`path` cannot hold models: `reason`."""

    code = "library.folder_unusable"


class Incomplete(TwofoldError):
    """`count` parts, of which `missing` are not there."""

    code = "library.incomplete"


class Offline(TwofoldError):
    """`path` is on a drive that is not connected, or was taken away."""

    code = "library.offline"


class FileUnreadable(TwofoldError):
    """`path` cannot be read: `reason`."""

    code = "library.unreadable"


class NameTaken(TwofoldError):
    """Another file is already at `path`."""

    code = "library.name_taken"


class NotAModel(TwofoldError):
    """`path` is no file that the library can hold: `reason`."""

    code = "library.not_a_model"


class NoRoom(TwofoldError):
    """`needed` bytes are wanted in `folder`, where `free` are free."""

    code = "library.no_room"


class WriteFailed(TwofoldError):
    """`path` cannot be written or removed: `reason`."""

    code = "library.write_failed"


class Damaged(TwofoldError):
    """`path` is not what it was when it was `expected`: its SHA-256 is `found`."""

    code = "library.damaged"


class NothingToCompare(TwofoldError):
    """No hash is known for `name`."""

    code = "library.no_hash"


class InUse(TwofoldError):
    """`name` is loaded."""

    code = "library.in_use"


class Stopped(TwofoldError):
    """The user stopped `what`."""

    code = "library.stopped"


class DemoAbsent(TwofoldError):
    """The same failure as the demonstration's own, told without loading an engine."""

    code = "demo.model_missing"
