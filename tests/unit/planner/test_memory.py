"""Memory by formula against the library's own count, and the library's count in a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api.plan import KvType
from engine.gguf.splits import open_model
from engine.planner.facts import model_facts
from engine.planner.layout import Layout, Task
from engine.planner.machine import machine
from engine.planner.memory import MARGIN, compute_bytes, margin
from engine.planner.plan import make_plan
from engine.planner.request import PlanRequest
from engine.probe.errors import MeasuringFailed
from engine.probe.memory import measured_memory
from tests.support.planning import GIB, laptop
from tests.support.published_models import write_sparse


@pytest.mark.parametrize(
    ("arch", "size", "type_", "context", "kv_type"),
    [
        ("qwen3", "8b", "Q4_K", 16_384, "f16"),
        ("qwen3", "0.6b", "Q4_0", 4096, "q8_0"),
        ("qwen35", "27b", "IQ2_XXS", 32_768, "f16"),
    ],
)
def test_the_formula_is_within_10_percent_of_the_library(
    tmp_path: Path, arch: str, size: str, type_: str, context: int, kv_type: KvType
) -> None:
    model = open_model(write_sparse(tmp_path / "m.gguf", arch, size, type_))
    facts = model_facts(model)
    counted = measured_memory(model, context, kv_type)
    room = machine(laptop(64), None, None, {})
    task = Task(room, facts, None, context, kv_type, slots=2, carve_out=True)
    layout = Layout(task, 512, len(facts.blocks), False)
    by_kind = {item.kind: item.bytes for item in layout.items}
    cache = by_kind["kv_cache"] + by_kind.get("state", 0)
    assert cache == pytest.approx(counted.context_bytes, rel=0.001)
    for width in (128, 2048):
        ours, theirs = (compute_bytes(facts, context, width, how) for how in (None, counted))
        assert ours == pytest.approx(theirs, rel=0.10)


def test_a_plan_takes_the_librarys_count_for_its_own_context(tmp_path: Path) -> None:
    model = open_model(write_sparse(tmp_path / "m.gguf", "qwen3", "0.6b", "Q4_0"))
    facts = model_facts(model)
    counted = measured_memory(model, 4096, "f16").model_copy(update={"context_bytes": 123 << 20})
    exact = make_plan(laptop(16), facts, None, PlanRequest(context=4096), counted)
    assert exact.memory_exact
    assert {item.kind: item.bytes for item in exact.memory}["kv_cache"] == 123 << 20
    other = make_plan(laptop(16), facts, None, PlanRequest(context=8192), counted)
    assert not other.memory_exact


def test_what_the_library_cannot_load_ends_the_child_alone(tmp_path: Path) -> None:
    path = write_sparse(tmp_path / "m.gguf", "qwen3", "0.6b", "Q4_0")
    model = open_model(path)
    path.write_bytes(path.read_bytes()[:4096])
    with pytest.raises(MeasuringFailed):
        measured_memory(model, 4096, "f16")


def test_the_margin_is_2_gib_and_less_where_memory_is_small() -> None:
    assert margin(20 * GIB, 24 * GIB) == MARGIN
    assert margin(6 * GIB, 8 * GIB) == pytest.approx(0.8 * GIB)
    assert margin(1 * GIB, 24 * GIB) == GIB // 4
