"""Sentences for the errors of reading weights from disk and streaming blocks (native code)."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "disk.open_failed": (
        "{path} cannot be opened ({reason}). Check that the file is there and that you may read it."
    ),
    "disk.read_failed": (
        "Reading {path} failed at byte {offset} ({reason}), so the answer was stopped. The drive "
        "may be failing or may have been unplugged: check it, then try again."
    ),
    "disk.short_read": (
        "{path} ends too early: at byte {offset} only {got} of {wanted} bytes were left. It was "
        "cut short while in use; restore or download it again, then load the model again."
    ),
    "disk.file_changed": (
        "{path} was changed, replaced or removed while in use, so its weights cannot be trusted. "
        "Load the model again."
    ),
    "disk.file_empty": "{path} is empty, so there is nothing to measure. Choose a larger file.",
    "disk.sync_failed": (
        "{path} could not be taken out of the page cache ({reason}), so a measurement would show "
        "the speed of memory. Use a file on a local drive."
    ),
    "disk.unaligned": (
        "Twofold made a mistake: it tried to read {path} at byte {offset} to a place in memory "
        "that does not fit. Please report it; the path 'decoder' works meanwhile."
    ),
    "disk.cancelled": "Reading from disk was stopped, as asked.",
    "stream.cancelled": "Reading the prompt was stopped, as asked.",
    "stream.order": (
        "Twofold made a mistake: block {got} asked for its weights when block {expected} was next "
        "({held} in use). Please report it; the path 'decoder' works meanwhile."
    ),
    "stream.incomplete": (
        "Twofold made a mistake: only {got} of {expected} blocks took part in reading the prompt, "
        "so the answer was stopped. Please report it; the path 'decoder' works meanwhile."
    ),
    "stream.empty": (
        "Blocks cannot be streamed with {blocks} blocks and {slots} slots: at least one of each is "
        "needed. Check the number of slots."
    ),
}
