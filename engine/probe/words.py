"""Sentences for what probing meets: errors, and remarks about a disk."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "probe.stopped": "The measurement was stopped; what was known before still holds.",
    "probe.bad_profile": (
        "{path} does not describe a machine: {reason}. Make such a file with "
        "./twofold probe --json."
    ),
    "probe.measuring_failed": (
        "The process that measures {what} ended early ({reason}), so its speed is not known. "
        "Run ./twofold doctor to see whether the library is fit."
    ),
    "survey.ended": (
        "The process that looks at the machine ended early (exit status {exit_status}), so there "
        "is no answer. Run ./twofold doctor to see whether the library is fit."
    ),
}

# Codes that a Disk's `warnings` carry.
DISK_SENTENCES: dict[str, str] = {
    "probe.no_model_file": (
        "There is no model file of {least_mib} MiB or more under {path}, so the disk's speed "
        "could not be measured. Download a model and probe again."
    ),
    "probe.not_direct": (
        "The file system of {path} does not allow reads past the page cache, so its speed is "
        "less certain."
    ),
    "probe.rate_implausible": (
        "{path} was read at {gbps:.1f} GB/s, more than any disk gives: it lies in memory or in a "
        "cache, and a model that is not may come more slowly."
    ),
    "probe.throttled": (
        "{path} became slower while it was read, as drives do when they get hot or their cache is "
        "used up; the slower rate of {gbps:.2f} GB/s counts."
    ),
    "probe.unsteady": "The speed of {path} varied much while it was measured.",
    "probe.network": (
        "{path} is on a network drive: reading a prefiller from there is slow and stops when the "
        "network does. Keep models on a disk of this machine."
    ),
    "probe.usb": (
        "{path} is on a USB drive, which is often slow and can be unplugged. Keep models on a "
        "built-in disk if you can."
    ),
    "probe.hdd": "{path} is on a spinning disk, which is far too slow for streaming a prefiller.",
    "probe.read_failed": "{path} could not be read, so the disk's speed is not known.",
}
