"""Turns typed errors into sentences: what happened, what it means, what to do."""

from __future__ import annotations

from engine import disk_words as disk
from engine import settings_words as settings
from engine.api.sentences import fill
from engine.backends import words as backends
from engine.bench import words as bench
from engine.chat import words as chat
from engine.doctor import words as doctor
from engine.downloads import words as downloads
from engine.drafts import words as drafts
from engine.errors import TwofoldError
from engine.gguf import words as gguf
from engine.kernels import words as kernels
from engine.library import words as library
from engine.packaged_words import SENTENCES as PACKAGED_SENTENCES
from engine.planner import words as planner
from engine.prefiller import words as prefiller
from engine.probe import words as probe
from engine.program import sentence_for
from engine.runtime import words as runtime
from engine.server import words as server

# One entry a code; `{name}` takes the error's data. Kept in one place for translation.
SENTENCES: dict[str, str] = {
    **backends.SENTENCES,
    **bench.SENTENCES,
    **chat.SENTENCES,
    **disk.SENTENCES,
    **doctor.SENTENCES,
    **downloads.SENTENCES,
    **drafts.SENTENCES,
    **gguf.SENTENCES,
    **kernels.SENTENCES,
    **library.SENTENCES,
    **planner.SENTENCES,
    **prefiller.SENTENCES,
    **probe.SENTENCES,
    **runtime.SENTENCES,
    **server.SENTENCES,
    **settings.SENTENCES,
    "chat.prompt_unreadable": "{path} cannot be used as a prompt: {reason}. Give a text file.",
    "memory.not_written": "The account could not be written to {path} ({reason}): choose another.",
    "demo.model_missing": (
        "The demo model is not at {path}. Run ./twofold demo: the set-up fetches it."
    ),
    "demo.stopped": "The demonstration was stopped.",
    "assets.missing": (
        "The program's own file {name} is missing (looked in {folders}), so the installation is "
        "not complete. Install Twofold again."
    ),
    **PACKAGED_SENTENCES,
}


def sentence(error: TwofoldError) -> str:
    """The sentence for `error`; an unknown code falls back to the code and its facts."""
    template = sentence_for(error.code, SENTENCES)
    return fill(template, error.data) if template else str(error)
