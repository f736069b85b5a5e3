"""The routes about the machine: plans, measurements, and a process that dies on the way."""

from __future__ import annotations

import asyncio
import json
import sys
import zipfile
from pathlib import Path

import pytest

from engine.api.plan import PROMPT_LENGTHS
from engine.api.survey import Planned, Probed
from engine.survey.ask import SurveyEnded, asked
from engine.survey.questions import AskProbe
from tests.support.tiny_models import write_tiny
from tests.unit.server.conftest import RunApp


def test_a_plan_tells_where_weights_go_and_why(run_app: RunApp, tmp_path: Path) -> None:
    tiny_path = write_tiny(tmp_path / "tiny.gguf", "llama")

    async def check() -> None:
        async with run_app() as client:
            answer = await client.post("/twofold/plan", json={"model": str(tiny_path)})
            assert answer.status_code == 200, answer.text
            planned = Planned.model_validate_json(answer.content)
            assert [reason.code for reason in planned.plan.reasons] == ["plan.no_prefiller"]
            decoder = planned.plan.forecast("decoder")
            assert decoder is not None and len(decoder.ttft_s) == len(PROMPT_LENGTHS)
            assert planned.profile.disks[0].path == str(tiny_path.parent)

    asyncio.run(check())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/twofold/plan", {"model": "/nowhere/at/all.gguf"}),
        ("/twofold/plan", {"model": "a\0b"}),
        ("/twofold/plan", {"model": __file__}),
        ("/twofold/probe", {"folder": "/nowhere/at/all"}),
    ],
)
def test_what_is_not_there_or_no_model_is_refused_with_a_sentence(
    run_app: RunApp, path: str, body: dict[str, str]
) -> None:
    async def check() -> None:
        async with run_app() as client:
            answer = await client.post(path, json=body)
            assert answer.status_code == 400, answer.text
            error = answer.json()["error"]
            assert error["code"].startswith("gguf.") and error["message"]

    asyncio.run(check())


def test_a_measurement_streams_its_steps_and_then_the_machine(
    run_app: RunApp, tmp_path: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(b"\1" * (65 << 20))

    async def check() -> None:
        async with run_app() as client:
            answer = await client.post("/twofold/probe", json={"folder": str(tmp_path)})
            texts = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
            assert texts[-1] == "[DONE]"
            events = [json.loads(text) for text in texts[:-1]]
            shares = [event["share"] for event in events if event["type"] == "step"]
            assert shares == sorted(shares) and shares[-1] == 1.0
            disk = Probed.model_validate(events[-1]).profile.disks[0]
            assert disk.path == str(tmp_path) and disk.read_gbps and disk.measured_at

    asyncio.run(check())


def test_diagnostics_are_written_where_asked_and_nowhere_else(
    run_app: RunApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))

    async def check() -> None:
        async with run_app() as client:
            place = tmp_path / "found.zip"
            answer = await client.post("/twofold/bundle", json={"path": str(place)}, timeout=300)
            assert answer.status_code == 200, answer.text
            assert answer.json()["bundle"] == str(place)
            assert "report.json" in zipfile.ZipFile(place).namelist()
            lost = await client.post("/twofold/bundle", json={"path": "/nowhere/at/all.zip"})
            assert lost.status_code == 400

    asyncio.run(check())


def test_a_process_that_dies_is_an_error_and_not_silence() -> None:
    async def check() -> None:
        dying = (sys.executable, "-c", "import os; print('{}'[:0]); os._exit(3)")
        with pytest.raises(SurveyEnded) as caught:
            async for _ in asked(AskProbe(), dying):
                pass
        assert caught.value.data == {"exit_status": 3}

    asyncio.run(check())


def test_leaving_a_measurement_ends_its_process(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    step = '{"type": "step", "what": "x"}'
    code = f"""import os, time, pathlib
pathlib.Path({str(note)!r}).write_text(str(os.getpid()))
print({step!r}, flush=True)
time.sleep(60)"""

    async def check() -> None:
        events = asked(AskProbe(), (sys.executable, "-c", code))
        assert (await anext(events)).type == "step"
        await events.aclose()  # pyright: ignore[reportAttributeAccessIssue]

    asyncio.run(check())
    assert not Path(f"/proc/{note.read_text()}").exists()
