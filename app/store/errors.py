"""What can go wrong with the chats' file."""

from __future__ import annotations

from engine.errors import TwofoldError


class StoreNewer(TwofoldError):
    """The file was written by a newer version (`path`, `version`, `known`)."""

    code = "store.newer"


class StoreLocked(TwofoldError):
    """Another program holds the file (`path`)."""

    code = "store.locked"


class StoreFull(TwofoldError):
    """There is no room on the disk (`path`)."""

    code = "store.disk_full"


class StoreUnwritable(TwofoldError):
    """The file or its folder cannot be written (`path`, `reason`)."""

    code = "store.unwritable"


class ChatsFileUnreadable(TwofoldError):
    """A file to import is no file of chats (`reason`)."""

    code = "chats_file.unreadable"


class ChatsFileNewer(TwofoldError):
    """A file to import was written by a newer version (`version`, `known`)."""

    code = "chats_file.newer"
