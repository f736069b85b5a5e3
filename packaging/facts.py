"""Prints, as JSON, what the recipes for Windows and macOS need to know of the project."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from staging import ROOT, project

from setup.variants import arguments, variants


def facts(system: str = sys.platform) -> dict[str, Any]:
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["twofold"]
    options = arguments(system, project().llama_commit)
    wanted = variants(system)
    if wanted:
        include = ROOT / "setup" / "portable.cmake"
        options.append(f"-DCMAKE_PROJECT_ggml_INCLUDE={include.as_posix()}")
    return asdict(project()) | {
        "sdist_sha256": pins["llama"]["sdist_sha256"],
        "library_arguments": options,
        "targets": [f"ggml-cpu-{one}" for one in wanted],
    }


if __name__ == "__main__":
    print(json.dumps(facts()))
