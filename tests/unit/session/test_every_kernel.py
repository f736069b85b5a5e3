"""What a session promises holds with each kernel that this processor can run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import NativeError
from engine.native import native
from tests.support.sessions import MakePair, open_session

KERNELS: list[str] = native().usable_kernels()


def in_a_process_of_its_own(
    part: str, kernel: str, decoder: Path, prefiller: Path, **env: str
) -> list[str]:
    """A process uses one kernel from its first model to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.one_kernel", part, str(decoder), str(prefiller)],
        env=os.environ | {"TWOFOLD_KERNEL": kernel} | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("kernel", KERNELS)
def test_streamed_weights_compute_what_resident_ones_do_to_the_bit(
    pair_of: MakePair, kernel: str
) -> None:
    for arch in ("llama", "qwen35"):
        pair = pair_of(arch)
        said = in_a_process_of_its_own("streamed", kernel, pair.decoder, pair.prefiller)
        assert said == [kernel, "same"]


def test_four_bit_activations_are_the_prompts_alone(pair_of: MakePair) -> None:
    pair = pair_of("llama")
    found = {
        how: in_a_process_of_its_own(
            "phases", KERNELS[0], pair.decoder, pair.prefiller, TWOFOLD_ACTIVATIONS=how
        )
        for how in ("bf16", "a4")
    }
    prompt_bf16, decoded_bf16 = found["bf16"]
    prompt_a4, decoded_a4 = found["a4"]
    assert prompt_bf16 != prompt_a4
    assert decoded_bf16 == decoded_a4


def test_another_rounding_is_an_error(pair_of: MakePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_ACTIVATIONS", "int3")
    with pytest.raises(NativeError) as caught:
        open_session(pair_of("llama").decoder)
    assert caught.value.code == "kernel.unknown_activations"
