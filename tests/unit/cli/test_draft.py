"""The drafter command: what it prints, and that it converts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from engine.cli import draft as command
from engine.drafts.convert import convert_draft
from engine.drafts.errors import PairingRefused
from engine.gguf.splits import open_model
from tests.support.drafts import shapes
from tests.support.drafts.checkpoints import write_checkpoint
from tests.support.tiny_models import write_tiny


def test_convert_writes_the_file_and_says_where(tmp_path: Path) -> None:
    weights = {
        f"medusa.{head}.{name}": np.ones(shape, np.float32)
        for head in range(shapes.MEDUSA_HEADS)
        for name, shape in {"0.weight": (8, 8), "0.bias": (8,), "output.weight": (5, 8)}.items()
    }
    folder, out = write_checkpoint(tmp_path / "in", "medusa", weights), tmp_path / "out.gguf"
    done = CliRunner().invoke(command.app, ["convert", str(folder), str(out)])
    assert (done.exit_code, done.stdout) == (0, f"{out}\n")
    assert open_model(out).metadata["medusa.vocab_size"] == 5
    again = ["convert", str(folder), str(out), "--force", "--json"]
    facts = json.loads(CliRunner().invoke(command.app, again).stdout)
    assert facts["method"] == "medusa"
    assert facts["bytes"] == out.stat().st_size
    assert facts["tensors"] == len(weights)


def test_check_says_what_fits_and_fails_for_what_does_not(tmp_path: Path) -> None:
    parts = {"0.weight": (64, 64), "0.bias": (64,), "output.weight": (32, 64)}
    weights = {
        f"medusa.{head}.{name}": np.ones(shape, np.float32)
        for head in range(shapes.MEDUSA_HEADS)
        for name, shape in parts.items()
    }
    folder, out = write_checkpoint(tmp_path / "in", "medusa", weights), tmp_path / "out.gguf"
    convert_draft(folder, out)
    for vocab, fits in ((32, True), (33, False)):
        model = write_tiny(tmp_path / f"{vocab}.gguf", "qwen3", width=64, vocab=vocab)
        arguments = ["check", str(out), str(model)]
        done = CliRunner().invoke(command.app, arguments)
        asked = CliRunner().invoke(command.app, [*arguments, "--json"])
        facts = json.loads(asked.stdout)
        assert facts["fits"] == fits
        if fits:
            assert done.stdout.startswith("unknown: it fits")
            assert (done.exit_code, asked.exit_code) == (0, 0)
        else:
            assert isinstance(done.exception, PairingRefused)
            assert facts["reasons"] == ["it knows 32 tokens, the model has 33"]
            assert asked.exit_code == 1
