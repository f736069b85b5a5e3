"""Sentences about the models on this machine."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "library.no_such_model": "No model in the library is called {name!r}. {known}",
    "library.ambiguous": "{name!r} could be any of {candidates}. Give more of the name, or the id.",
    "library.folder_unusable": "{path} cannot hold models: {reason}. Choose another folder.",
    "library.incomplete": "Of {count} parts of this model some are missing ({missing}), so it "
    "cannot be loaded. Put them into the same folder, or download it again.",
    "library.offline": "{path} cannot be reached: its drive is not connected, or it was moved. "
    "Connect the drive, or remove the entry.",
    "library.unreadable": "{path} cannot be read: {reason}. Check the file and its permissions.",
    "library.name_taken": "{path} is already there and is another file, so nothing was written. "
    "Rename it or move it away, and try again.",
    "library.not_a_model": "{path} cannot be brought into the library: {reason}.",
    "library.no_room": "{needed} bytes are needed in {folder}, and {free} are free. Free some "
    "space, or choose another folder with ./twofold models move.",
    "library.write_failed": "{path} could not be written or removed: {reason}. Check the folder's "
    "permissions and the drive.",
    "library.damaged": "{path} is not what was downloaded: its SHA-256 is {found} instead of "
    "{expected}. The drive may be failing, or another program changed it. Remove it and download "
    "it again.",
    "library.no_hash": "No hash is known for {name}, because it was not downloaded from the hub, "
    "so its contents cannot be verified. Its structure is sound.",
    "library.in_use": "{name} is loaded. Unload it first.",
    "library.stopped": "{what} was stopped. Nothing half-done was left behind.",
}
