"""Sentences about the models on this machine."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "models.no_such_model": "No model in the library is called {name!r}. {known}",
    "models.ambiguous": "{name!r} could be any of {candidates}. Give more of the name, or the id.",
    "models.folder_unusable": "{path} cannot hold models: {reason}. Choose another folder.",
    "models.incomplete": "Of {count} parts of this model some are missing ({missing}), so it "
    "cannot be loaded. Put them into the same folder, or download it again.",
    "models.offline": "{path} cannot be reached: its drive is not connected, or it was moved. "
    "Connect the drive, or remove the entry.",
    "models.unreadable": "{path} cannot be read: {reason}. Check the file and its permissions.",
    "models.name_taken": "There is a file {path} already, so nothing was written. Rename it or "
    "move it away, and try again.",
    "models.not_a_model": "{path} cannot be brought into the library: {reason}.",
    "models.no_room": "{needed:size} are needed in {folder}, and {free:size} are free. Free some "
    "space, or choose another folder with ./twofold models move.",
    "models.write_failed": "{path} could not be written or removed: {reason}. Check the folder's "
    "permissions and the drive.",
    "models.damaged": "{path} is not what it was when it came: its SHA-256 is {found} instead of "
    "{expected}. The drive may be failing, or another program changed it. Download or import it "
    "again.",
    "models.no_hash": "No hash is known for {name}, because it was neither downloaded from the hub "
    "nor copied here, so its contents cannot be verified. Its structure is sound.",
    "models.in_use": "{name} is loaded. Unload it first.",
    "models.stopped": "{what} was stopped. Nothing half-done was left behind.",
}
