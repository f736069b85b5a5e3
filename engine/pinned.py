"""The version of the model library that this package was built for."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    """llama-cpp-python's, from the package's own metadata; empty if that does not say."""
    for requirement in importlib.metadata.requires("twofold") or []:
        if requirement.startswith("llama-cpp-python=="):
            return requirement.split("==")[1].split(";")[0].strip()
    return ""
