"""The pinned inputs, read from pyproject.toml in a checkout or from what the build recorded."""

from __future__ import annotations

LLAMA_VERSION = "0.3.36"
