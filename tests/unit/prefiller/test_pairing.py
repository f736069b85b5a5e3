"""Which pairings are established, by what, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.gguf.splits import open_model
from engine.prefiller.build import build_prefiller
from engine.prefiller.decoder import label_in
from engine.prefiller.errors import MixtureOfExperts, PairingImpossible, PairingRefused
from engine.prefiller.formats import Prefiller, open_prefiller
from engine.prefiller.pairing import Verdict, check_pairing, require_pairing
from tests.support.gguf_bytes import text, u32
from tests.support.prefiller_files import published_parts, upstream, write_published
from tests.support.tiny_models import write_tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_tiny(folder / "tiny-Q4_0.gguf", "llama", blocks=2, weight_type="Q4_0")
    build_prefiller(folder / "tiny-Q4_0.gguf", folder / "ours.gguf")
    return folder


@pytest.fixture(scope="module")
def ours(folder: Path) -> Prefiller:
    return open_prefiller(folder / "ours.gguf")


def test_the_decoder_it_was_built_for_matches_by_hash(folder: Path, ours: Prefiller) -> None:
    moved = folder / "renamed.gguf"
    moved.write_bytes((folder / "tiny-Q4_0.gguf").read_bytes())
    pairing = require_pairing(ours, open_model(moved))
    assert pairing.verdict is Verdict.MATCHED_BY_HASH


def test_another_quantisation_of_the_same_model_is_wrong_by_hash(
    tmp_path: Path, ours: Prefiller
) -> None:
    other = open_model(write_tiny(tmp_path / "tiny-Q8_0.gguf", "llama", blocks=2))
    pairing = check_pairing(ours, other)
    assert (pairing.verdict, pairing.fits) == (Verdict.WRONG, True)
    with pytest.raises(PairingRefused) as refused:
        require_pairing(ours, other)
    assert refused.value.code == "prefiller.pairing_refused"
    assert "tiny llama 0 in Q4_0" in refused.value.data["reasons"]
    assert require_pairing(ours, other, force=True).verdict is Verdict.WRONG


def test_a_published_folder_matches_by_its_name(folder: Path, ours: Prefiller) -> None:
    published = open_prefiller(write_published(folder / "a" / "Q4_0", ours))
    pairing = require_pairing(published, open_model(folder / "tiny-Q4_0.gguf"))
    assert pairing.verdict is Verdict.MATCHED_BY_NAME


def test_a_decoder_says_its_quantisation_in_its_metadata_too(
    tmp_path: Path, ours: Prefiller
) -> None:
    published = open_prefiller(write_published(tmp_path / "IQ1_S", ours))
    decoder = write_tiny(
        tmp_path / "m.gguf",
        "llama",
        blocks=2,
        extra={"general.file_type": u32(24)},  # LLAMA_FTYPE_MOSTLY_IQ1_S
    )
    assert check_pairing(published, open_model(decoder)).verdict is Verdict.MATCHED_BY_NAME


def test_a_published_folder_of_another_quantisation_is_wrong(folder: Path, ours: Prefiller) -> None:
    published = open_prefiller(write_published(folder / "b" / "IQ1_M", ours))
    decoder = open_model(folder / "tiny-Q4_0.gguf")
    assert check_pairing(published, decoder).verdict is Verdict.WRONG
    with pytest.raises(PairingRefused, match="IQ1_M"):
        require_pairing(published, decoder)


def test_without_a_hash_or_a_name_it_is_unknown(folder: Path, ours: Prefiller) -> None:
    path = folder / "some-nvfp4.gguf"
    path.write_bytes(upstream(ours).encode())
    decoder = open_model(folder / "tiny-Q4_0.gguf")
    assert check_pairing(open_prefiller(path), decoder).verdict is Verdict.UNKNOWN
    with pytest.raises(PairingRefused):
        require_pairing(open_prefiller(path), decoder)
    assert require_pairing(open_prefiller(path), decoder, force=True).verdict is Verdict.UNKNOWN


def test_a_decoder_of_unknown_quantisation_is_not_matched_by_name(
    folder: Path, ours: Prefiller
) -> None:
    published = open_prefiller(write_published(folder / "c" / "Q4_0", ours))
    nameless = folder / "nameless.gguf"
    nameless.write_bytes((folder / "tiny-Q4_0.gguf").read_bytes())
    assert check_pairing(published, open_model(nameless)).verdict is Verdict.UNKNOWN


def test_the_same_label_of_another_base_model_is_unknown(folder: Path, ours: Prefiller) -> None:
    target = folder / "d" / "Q4_0"
    target.mkdir(parents=True)
    parts = published_parts(ours)
    for number, part in enumerate(parts, start=1):
        part.metadata.append(("general.basename", text("Qwen3.8")))
        (target / f"p-{number:05d}-of-{len(parts):05d}.gguf").write_bytes(part.encode())
    decoder = write_tiny(
        folder / "coder-Q4_0.gguf",
        "llama",
        blocks=2,
        weight_type="Q4_0",
        extra={"general.basename": text("Qwen3.8-Coder")},
    )
    pairing = check_pairing(open_prefiller(target), open_model(decoder))
    assert pairing.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("arch", "blocks", "width", "reason"),
    [
        ("qwen2", 2, 128, "architecture llama"),
        ("llama", 3, 128, "for 2 blocks"),
        ("llama", 2, 192, "the decoder's is 192 x 192"),
    ],
)
def test_what_does_not_fit_cannot_be_forced(
    tmp_path: Path, ours: Prefiller, arch: str, blocks: int, width: int, reason: str
) -> None:
    path = write_tiny(tmp_path / "Q4_0.gguf", arch, blocks=blocks, width=width)
    for force in (False, True):
        with pytest.raises(PairingImpossible) as refused:
            require_pairing(ours, open_model(path), force=force)
        assert refused.value.code == "prefiller.pairing_impossible"
        assert reason in refused.value.data["reasons"]


def test_a_tensor_that_the_decoder_lacks_cannot_be_forced(folder: Path, tmp_path: Path) -> None:
    hybrid = write_tiny(tmp_path / "h.gguf", "qwen35", blocks=4)
    prefiller = build_prefiller(hybrid, tmp_path / "p.gguf")
    parts = published_parts(prefiller)
    path = tmp_path / "Q4_0.gguf"
    parts[0].metadata[0] = ("general.architecture", text("llama"))
    path.write_bytes(parts[0].encode())
    with pytest.raises(PairingImpossible, match="no place for"):
        decoder = open_model(folder / "tiny-Q4_0.gguf")
        require_pairing(open_prefiller(path), decoder, force=True)


def test_a_prefiller_that_lacks_a_block_is_wrong_but_can_be_forced(
    folder: Path, tmp_path: Path, ours: Prefiller
) -> None:
    path = tmp_path / "Q4_0.gguf"
    path.write_bytes(published_parts(ours)[0].encode())
    decoder = open_model(folder / "tiny-Q4_0.gguf")
    pairing = check_pairing(open_prefiller(path), decoder)
    assert (pairing.verdict, pairing.fits) == (Verdict.WRONG, True)
    assert "lacks 7 tensors" in pairing.reasons[0]
    assert require_pairing(open_prefiller(path), decoder, force=True) == pairing


def test_a_mixture_of_experts_pairs_with_nothing(tmp_path: Path, ours: Prefiller) -> None:
    experts = write_tiny(tmp_path / "e.gguf", "llama", extra={"llama.expert_count": u32(4)})
    with pytest.raises(MixtureOfExperts):
        require_pairing(ours, open_model(experts), force=True)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Qwen3.8-27B-UD-IQ1_S", "IQ1_S"),
        ("Qwen3.8-27B-IQ2_XXS-00001-of-00064", "IQ2_XXS"),
        ("SmolLM2-135M-Instruct.Q4_1", "Q4_1"),
        ("model-q4_k_m", "Q4_K_M"),
        ("Llama-Q6_K.prefiller", "Q6_K"),
        ("Qwen3-8B-NVFP4", None),
        ("IQ1_SOMETHING", None),
        ("MYQ4_0X", None),
    ],
)
def test_a_quantisation_is_read_from_a_name(name: str, label: str | None) -> None:
    assert label_in(name) == label
