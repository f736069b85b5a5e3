"""Sentences of what the doctor finds."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "doctor.bundle_not_written": (
        "The diagnostics could not be written to {path} ({reason}). Choose another place with "
        "--output."
    ),
    "doctor.folder_not_writable": (
        "{path} cannot be written, so what belongs there would be lost: give yourself the right "
        "to, or move it with TWOFOLD_HOME."
    ),
    "doctor.little_space": (
        "Only {free:size} are free where {path} is; a prefiller or a download may not fit: "
        "free some space, or move the folder with TWOFOLD_HOME."
    ),
    "library.extension_broken": (
        "The native engine does not load ({detail}), so no model can run: delete .venv and run "
        "./twofold doctor to build it again."
    ),
    "library.missing": (
        "The model library (llama-cpp-python {wanted}) is not installed, so no model can run: run "
        "./twofold doctor to set it up."
    ),
    "library.unfit": (
        "The model library does not run right on this machine ({reason} in {kernel}: {detail}), "
        "so no model is loaded: delete .venv and {cache}/library, and run ./twofold doctor to "
        "build it again."
    ),
    "library.wrong_version": (
        "The model library is {found}, but the engine was built for {wanted} and reads its private "
        "structures, so no model is loaded: run ./twofold doctor to install the right one."
    ),
}
