"""`twofold demo`: the main job on real input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import assets
from engine.gguf.splits import open_model
from engine.prefiller.formats import open_prefiller
from engine.prefiller.pairing import Verdict, check_pairing
from tests.support.terminal import Terminal


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demo_reads_along_each_path_and_reports_what_it_did(tmp_path: Path) -> None:
    report = tmp_path / "demo.json"
    with Terminal("demo", "--json", str(report)) as demo:
        assert demo.finish(1100) == 0, demo.err
    result = json.loads(report.read_text())
    prefiller = open_prefiller(Path(result["prefiller"]))
    pairing = check_pairing(prefiller, open_model(Path(result["model"])))
    decoder, resident, odp = (result["paths"][path] for path in ("decoder", "resident", "odp"))

    assert pairing.verdict is Verdict.MATCHED_BY_HASH
    assert result["prompt_tokens"] > 6000
    assert result["odp_equals_resident"]
    assert odp["answer_tokens"] == resident["answer_tokens"]
    assert odp["answer_tokens"] != decoder["answer_tokens"]
    assert decoder["bytes_read"] == resident["bytes_read"] == 0
    assert odp["bytes_read"] >= prefiller.nbytes
    assert decoder["prefill_weight_bytes"] == 0
    assert resident["prefill_weight_bytes"] >= prefiller.nbytes
    # The demo model has thirty equal blocks: two slots hold a fifteenth of the prefiller.
    assert odp["prefill_weight_bytes"] <= 2 * prefiller.nbytes / 30 + (1 << 20)
    assert assets.demo().answer in demo.out
