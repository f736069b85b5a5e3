"""Passes are as wide as the plan has them, while that fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api.hardware import Disk, Host, Profile, Rates
from engine.bench.shapes import model_shape
from engine.gguf.splits import GgufModel, open_model
from engine.gguf.types import GgmlType
from engine.planner.facts import model_facts
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest
from engine.runtime import pass_width
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.pass_width import planned_width
from engine.runtime.settings import LoadSettings
from tests.support.planning import CPU_RATES, GIB
from tests.support.published_models import published_model
from tests.support.tiny_models import write_tiny

MODEL = published_model(model_shape("qwen3", "8b"), GgmlType.IQ2_XXS)
AMPLE = LoadSettings(threads=1, compute_budget=64 * GIB)


def here(monkeypatch: pytest.MonkeyPatch, free: float, rates: Rates = CPU_RATES) -> Profile:
    """Lets this machine have `free` GiB of 16."""
    host = Host(memory_total=16 * GIB, memory_free=round(free * GIB), cores=4)
    profile = Profile(host=host, disks=(Disk(path="/", read_gbps=3.0),), rates=rates)
    monkeypatch.setattr(pass_width, "known_profile", lambda _folders: profile)
    return profile


def width(model: GgufModel, settings: LoadSettings = AMPLE, context: int = 16_384) -> int | None:
    return planned_width(model, None, settings, context)


@pytest.mark.parametrize("free", [12.0, 7.4, 7.0])
def test_it_is_the_plans(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    profile = here(monkeypatch, free)
    plan = make_plan(profile, model_facts(MODEL), None, PlanRequest(context=16_384))
    assert plan.fits
    assert width(MODEL) == plan.micro_batch


def test_less_memory_makes_narrower_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int | None] = []
    for free in (12.0, 7.4, 7.0):
        here(monkeypatch, free)
        found.append(width(MODEL))
    assert None not in found
    assert found == sorted(found, key=lambda each: -(each or 0))
    assert len(set(found)) > 1


def test_where_nothing_fits_or_the_budget_is_less_the_engine_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(monkeypatch, 2.0)
    assert width(MODEL) is None
    here(monkeypatch, 12.0)
    assert width(MODEL, LoadSettings(threads=1, compute_budget=1 << 20)) is None


def test_a_loaded_model_has_the_planned_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here(monkeypatch, 12.0)
    path = write_tiny(tmp_path / "tiny.gguf", "llama")
    settings = AMPLE.model_copy(update={"context": 1000})
    planned = width(open_model(path), settings, 1000)
    model = LoadedModel(path, settings=settings)
    try:
        assert model.micro_batch == planned
    finally:
        model.close()
