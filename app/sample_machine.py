"""A machine, plans for it and an engine's answers, for the screenshots."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from app import sample_models
from app.engine_client.http import Failed, Http, Then
from app.sample_settings import sample_settings
from engine.api.failure import Failure
from engine.api.models import LibraryAnswer
from engine.api.survey import Planned

_PLANS: dict[str, Any] = json.loads(
    Path(__file__).with_name("sample_plans.json").read_text(encoding="utf-8")
)


def sample_plan(mode: str) -> Planned:
    return Planned.model_validate(_PLANS[mode])


def sample_report() -> dict[str, Any]:
    """What the doctor finds on a machine whose disk is nearly full."""
    return _REPORT


class StillHttp(Http):
    """Answers at once what the pages ask; nothing leaves the program. `offline` is why the hub
    cannot be asked, `library` another library than the sample's, `packs` those for graphics
    cards."""

    offline: Failure | None = None
    packs: Sequence[dict[str, Any]] = ()
    library: LibraryAnswer | None = None

    def get(self, path: str, then: Then, failed: Failed) -> None:
        del failed
        answers: dict[str, Any] = {
            "/twofold/settings": sample_settings(),
            "/twofold/probe": {"type": "probed", "profile": _PLANS["auto"]["profile"]},
            "/twofold/memory": _MEMORY,
            "/twofold/backends": {"backends": self.packs},
            "/twofold/doctor": {"type": "examined", "report": _REPORT},
            "/twofold/logs?lines=200": {"lines": [json.dumps(line) for line in _LOG]},
        }
        if path in answers:
            then(answers[path])

    def fetch(self, path: str, body: Any, then: Callable[[bytes], None], failed: Failed) -> None:
        if self.offline is not None and path.endswith(("/search", "/recommended")):
            failed(self.offline)
            return
        answer = sample_models.answer(path, body)
        if path == "/twofold/models" and self.library is not None:
            answer = self.library.model_dump(mode="json")
        if answer is not None:
            then(json.dumps(answer).encode())

    def post(self, path: str, body: Any, then: Then, failed: Failed) -> None:
        if path == "/twofold/plan":
            then(_PLANS[body["mode"]])
        elif path == "/twofold/count":
            then({"tokens": len(str(body.get("text") or "")) // 5, "context": 16_384})
        else:
            del failed


def sample_packs() -> list[dict[str, Any]]:
    """One that is used, one whose check failed, one that is switched off."""
    card = {
        "name": "Vulkan0", "description": "NVIDIA GeForce RTX 4090", "memory_free": 22_900_000_000,
        "memory_total": 25_769_803_776, "kernels": 23, "error": 0.0061,
    }  # fmt: skip
    folder = "/home/ada/.local/share/twofold/backends"
    return [
        {
            "name": name, "path": f"{folder}/{name}/libggml-{name}.so", "state": state,
            "enabled": state != "disabled", **facts,
        }
        for name, state, facts in (
            ("cuda", "unfit", {"reason": "no_driver", "detail": "NVIDIA's driver, libcuda.so.1"}),
            ("rpc", "disabled", {}),
            ("vulkan", "ready", {"devices": [card]}),
        )
    ]  # fmt: skip


_MEMORY = {
    "model": {
        "weights": 7_400_000_000, "context": 1_200_000_000, "compute": 2_600_000_000,
        "resident": 3_800_000_000, "slots": 431_000_000, "lent": 431_000_000,
        "slots_allocated": 0,
    },
    "worker_resident": 1_900_000_000,
    "machine_total": 34_359_738_368,
    "machine_available": 12_884_901_888,
    "cards": [{"bus_id": "0000:01:00.0", "total": 25_769_803_776, "free": 9_050_000_000}],
}  # fmt: skip
_LOG = [
    {
        "time": "2026-11-30T09:12:01.120Z",
        "level": "info",
        "from": "engine.server.engine",
        "event": "model.loaded",
        "model": "Qwen3.8-27B-IQ2_XXS",
        "seconds": 3.42,
    },
    {
        "time": "2026-11-30T09:12:40.511Z",
        "level": "info",
        "from": "engine.server.engine",
        "event": "request.ended",
        "path": "odp",
        "tokens": 8412,
    },
    {
        "time": "2026-11-30T09:14:02.007Z",
        "level": "warning",
        "from": "engine.server.engine",
        "event": "model.load_failed",
        "code": "gguf.truncated",
    },
]
_REPORT: dict[str, Any] = {
    "healthy": False,
    "problems": [
        {
            "code": "doctor.little_space",
            "sentence": "Only 1.5 GB are free where /home/ada/.cache/twofold is; a prefiller or a "
            "download may not fit: free some space, or move the folder with TWOFOLD_HOME.",
            "data": {"path": "/home/ada/.cache/twofold", "free": 1_500_000_000},
        }
    ],
    "twofold": "0.1.0",
    "python": "3.11.9",
    "python_path": "/home/ada/twofold/.venv/bin/python",
    "machine": {
        "system": "Linux-6.8.0-x86_64-with-glibc2.39",
        "cpu": "AMD Ryzen 9 7950X 16-Core Processor",
        "cores": 16,
        "features": ["avx2", "avx512_bf16", "avx512f", "fma"],
        "memory_total": 34_359_738_368,
        "memory_available": 12_884_901_888,
    },
    "library": {
        "version": "0.3.36",
        "wanted": "0.3.36",
        "commit": "0c1e57098",
        "build": None,
        "system_info": "CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 1",
        "kernels": [
            {"type": "Q4_0", "buffer": "CPU", "error": 0.004},
            {"type": "IQ2_XXS", "buffer": "CPU", "error": 0.006},
        ],
    },
    "devices": [],
    "folders": [
        {
            "name": "data",
            "path": "/home/ada/.local/share/twofold",
            "exists": True,
            "free_bytes": 442_381_631_488,
        },
        {
            "name": "cache",
            "path": "/home/ada/.cache/twofold",
            "exists": True,
            "free_bytes": 1_503_238_553,
        },
    ],
}
