"""The prefiller commands: what they print, and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli import prefiller as command
from engine.prefiller.build import build_prefiller
from engine.prefiller.errors import Cancelled
from tests.support.tiny_models import write_tiny


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "tiny-Q8_0.gguf", "llama", blocks=2, context=512)


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(command.app, [str(arg) for arg in args])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def test_build_writes_beside_the_model_and_prints_where(decoder: Path) -> None:
    code, out = run("build", decoder)
    written = decoder.with_name("tiny-Q8_0.prefiller.gguf")
    assert (code, out) == (0, f"{written}\n")
    assert written.is_file()


def test_a_split_models_prefiller_is_named_for_the_whole() -> None:
    part = Path("folder/big-IQ1_S-00002-of-00003.gguf")
    assert command.default_output(part) == Path("folder/big-IQ1_S.prefiller.gguf")


def test_build_takes_an_output_and_a_source(decoder: Path, tmp_path: Path) -> None:
    source = write_tiny(tmp_path / "s.gguf", "llama", blocks=2, weight_type="BF16", seed=1)
    code, out = run("build", decoder, "-o", tmp_path / "p.gguf", "--source", source, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["path"] == str(tmp_path / "p.gguf")
    assert facts["source"] == "tiny llama 1"
    assert facts["decoder"] == "tiny llama 0"


def test_info_tells_the_facts_in_words_and_as_json(decoder: Path, tmp_path: Path) -> None:
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf")
    code, out = run("info", prefiller.path, "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["layout"], facts["blocks"], facts["tensors"]) == ("twofold", 2, 14)
    assert facts["decoder_hash"] == prefiller.decoder_hash
    code, out = run("info", prefiller.path)
    assert code == 0
    assert "decoder quantisation  Q8_0" in out


def test_check_exits_with_0_only_for_an_established_pairing(decoder: Path, tmp_path: Path) -> None:
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf").path
    code, out = run("check", prefiller, decoder)
    assert (code, out) == (0, "matched by hash: it carries the decoder's hash\n")
    other = write_tiny(tmp_path / "tiny-Q4_0.gguf", "llama", blocks=2, weight_type="Q4_0")
    code, out = run("check", prefiller, other, "--json")
    assert code == 1
    assert json.loads(out)["verdict"] == "wrong"


def test_ctrl_c_stops_a_build_with_a_sentence_and_leaves_nothing(
    decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **options: object) -> object:
        args = (*args[:3], lambda *_: signal.raise_signal(signal.SIGINT), *args[4:])
        return build_prefiller(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "build_prefiller", interrupted)
    with pytest.raises(Cancelled):
        run("build", decoder)
    assert [path.name for path in decoder.parent.iterdir()] == [decoder.name]


def test_check_measures_on_request(decoder: Path, tmp_path: Path) -> None:
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf").path
    _, out = run("check", prefiller, decoder, "--measure", "--json")
    facts = json.loads(out)
    assert facts["verdict"] == "matched_by_hash"
    assert facts["measured"]["tokens"] == 256
    assert facts["measured"]["prefiller"] - facts["measured"]["decoder"] == pytest.approx(
        facts["measured"]["difference"]
    )


def test_what_does_not_fit_is_not_measured(decoder: Path, tmp_path: Path) -> None:
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf").path
    other = write_tiny(tmp_path / "o.gguf", "llama", blocks=3)
    code, out = run("check", prefiller, other, "--measure")
    assert code == 1
    assert out.startswith("wrong: it is for 2 blocks")
    assert "nats" not in out


def test_ctrl_c_stops_a_measurement_within_a_second(decoder: Path, tmp_path: Path) -> None:
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf").path
    script = (
        "import os, signal, sys, time\n"
        "from engine.cli import prefiller as command\n"
        "from engine.prefiller import measure\n"
        "feed, pressed = measure.LoadedModel.feed, []\n"
        "def press(*args):\n"
        "    if not pressed:\n"
        "        pressed.append(time.monotonic())\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    feed(*args)\n"
        "measure.LoadedModel.feed = press\n"
        "try:\n"
        "    command.app(['check', *sys.argv[1:], '--measure'], standalone_mode=False)\n"
        "except measure.MeasurementStopped:\n"
        "    print('stopped after', time.monotonic() - pressed[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, prefiller, decoder],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    words, _, seconds = done.stdout.strip().rpartition(" ")
    assert words == "stopped after"
    assert float(seconds) < 1
