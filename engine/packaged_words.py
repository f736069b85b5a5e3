"""Sentences that take others' place in a package, where the set-up that they speak of is not."""

from __future__ import annotations

from engine.program import PACKAGED

_AGAIN = "install Twofold again."
_LEAST = "start Twofold with TWOFOLD_CPU_VARIANT=sse42, which asks least of the processor"

SENTENCES: dict[str, str] = {
    code + PACKAGED: words
    for code, words in {
        "backend.build_elsewhere": (
            "Backends are built from Twofold's sources, which a package does not have: build "
            "{name} in a checkout, and install the file with ./twofold backend install FILE."
        ),
        "demo.model_missing": (
            "The demo model is not at {path}, and the package comes without it: find a model with "
            "./twofold models search WORDS."
        ),
        "kernel.no_hook": (
            "The model library has no place for Twofold's matrix kernels ({missing} is missing), "
            f"so the installation is damaged: {_AGAIN}"
        ),
        "library.extension_broken": (
            f"The native engine does not load ({{detail}}), so no model can run: {_AGAIN}"
        ),
        "library.missing": (
            "The library that runs models (llama-cpp-python {wanted}) is missing, so the "
            f"installation is not complete: {_AGAIN}"
        ),
        "library.unfit": (
            "The model library does not run right on this machine ({reason} in {kernel}: "
            f"{{detail}}), so no model is loaded: {_LEAST}."
        ),
        "library.wrong_version": (
            "The library that runs models is version {found}, and this Twofold works only with "
            f"{{wanted}}, so the installation is damaged: {_AGAIN}"
        ),
        "phase.layout": (
            "The library's inner structures ({architecture}) are not those that this Twofold was "
            f"built for, so the installation is damaged: {_AGAIN}"
        ),
        "worker.illegal_instruction": (
            "This processor does not know an instruction that the model library used, so the "
            f"model's process {{pid}} ended: {_LEAST}, and please report this."
        ),
    }.items()
}
