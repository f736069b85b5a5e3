"""The models commands, against a local hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.cli import models as command
from engine.errors import TwofoldError
from engine.prefiller.build import build_prefiller
from engine.words import sentence
from tests.support.hub import LocalHub
from tests.support.prefiller_files import write_published
from tests.support.tiny_models import tiny_model, write_tiny

REPO = "somebody/Tiny-GGUF"
DATA = tiny_model("llama", blocks=1, context=512).encode()

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hub() -> Generator[LocalHub]:
    with LocalHub() as hub:
        hub.add(REPO, {"Tiny-Q8_0.gguf": DATA})
        yield hub


@pytest.fixture
def run(hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Exit status, stdout, and the sentence that would go to stderr."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("TWOFOLD_CACHE", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(command.app, list(arguments))
        if isinstance(done.exception, TwofoldError):
            return 1, done.stdout, sentence(done.exception)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.stdout, ""

    return run


def as_json(found: tuple[int, str, str]) -> Any:
    code, out, err = found
    assert code == 0, err
    return json.loads(out)


def test_from_search_to_removal(run: Run, tmp_path: Path) -> None:
    assert [one["repo"] for one in as_json(run("search", "tiny", "--json"))["repos"]] == [REPO]
    (variant,) = as_json(run("show", REPO, "--json"))["variants"]
    assert (variant["label"], variant["fit"]["verdict"]) == ("Q8_0", "fits")
    code, out, _ = run("pull", REPO)
    assert code == 0
    path = Path(out.strip())
    assert path.read_bytes() == DATA
    entries = as_json(run("list", "--json"))["entries"]
    entry = next(one for one in entries if one["path"] == str(path))
    assert entry["verification"] == "verified"
    assert as_json(run("verify", REPO + ":Q8_0", "--json"))["jobs"][0]["state"] == "done"
    listed = as_json(run("remove", entry["id"], "--json"))
    assert (listed["goes"], listed["removed"], path.exists()) == ([str(path)], False, True)
    assert as_json(run("remove", entry["id"], "--yes", "--json"))["removed"]
    assert not path.exists()
    as_json(run("move", str(tmp_path / "new"), "--json"))
    assert as_json(run("list", "--json"))["folders"][0]["path"] == str(tmp_path / "new")


def test_from_nothing_to_a_published_pair_that_is_whole_and_matched(
    run: Run, hub: LocalHub, tmp_path: Path
) -> None:
    decoder = write_tiny(tmp_path / "d.gguf", "qwen35", blocks=4, width=256, weight_type="IQ1_S")
    prefiller = build_prefiller(decoder, tmp_path / "p.gguf")
    parts = write_published(tmp_path / "IQ1_S", prefiller)
    repo, trained = "unsloth/Qwen3.8-27B-GGUF", "ISTA-DASLab/Qwen3.8-27B-NVFP4-prefiller"
    hub.add(repo, {"Qwen3.8-27B-UD-IQ1_S.gguf": decoder.read_bytes()})
    files = {f"IQ1_S/{path.name}": path.read_bytes() for path in parts.iterdir()}
    hub.add(trained, {**files, "IQ1_M/Other-NVFP4-prefiller-00001-of-00001.gguf": b"other"})
    assert f"{trained}:IQ1_S" in run("show", f"{repo}:IQ1_S")[1]
    jobs = as_json(run("pull", f"{repo}:IQ1_S", "--prefiller", "--json"))["jobs"]
    assert [job["state"] for job in jobs] == ["done", "done"]
    entries = {one["name"]: one for one in as_json(run("list", "--json"))["entries"]}
    found = entries["Qwen3.8-27B-UD-IQ1_S"]
    assert found["verification"] == "verified"
    (attached,) = found["prefillers"]
    assert (attached["verdict"], attached["choosable"]) == ("matched_by_name", True)
    (entry,) = (one for one in entries.values() if one["kind"] == "prefiller")
    assert (len(entry["files"]), entry["verification"]) == (4, "verified")
    assert attached["id"] == entry["id"]


def test_a_local_file_is_imported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.gguf").write_bytes(DATA)
    code, out, _ = run("import", str(tmp_path / "mine.gguf"))
    assert code == 0 and Path(out.strip()).read_bytes() == DATA


def test_a_failure_is_one_sentence_and_exit_status_1(run: Run, hub: LocalHub) -> None:
    code, out, err = run("pull", "nobody/nothing")
    assert (code, out) == (1, "")
    assert err.startswith("There is no repo nobody/nothing")
    hub.fail("Tiny-Q8_0.gguf", flip=100, times=2)
    code, out, err = run("pull", REPO)
    assert (code, out) == (1, "Tiny-Q8_0.gguf came with wrong bytes and was fetched again.\n")
    assert "came twice with other bytes" in err
    (job,) = as_json(run("list", "--jobs", "--json"))["jobs"]
    assert (job["state"], job["failure"]["code"]) == ("failed", "download.wrong_bytes")
    assert run("job", job["id"], "cancel")[0] == 0


def test_a_repo_is_shown_as_the_hub_has_it_and_its_installed_model_with_its_files(
    run: Run, hub: LocalHub
) -> None:
    hub.add(REPO, {"Tiny-Q8_0.gguf": DATA, "Tiny-Q4_0.gguf": DATA + bytes(32)})
    path = run("pull", f"{REPO}:Q8_0")[1].strip()
    listed = as_json(run("show", REPO, "--json"))["variants"]
    assert {one["label"]: one["installed"] for one in listed} == {"Q4_0": False, "Q8_0": True}
    assert as_json(run("show", f"{REPO}:Q8_0", "--json"))["path"] == path
    assert as_json(run("show", path, "--json"))["path"] == path
    assert as_json(run("show", "tiny-q8", "--json"))["path"] == path


def test_names_from_the_hub_are_shown_and_do_nothing_else(run: Run, hub: LocalHub) -> None:
    hub.add("x/Evil-GGUF", {}, licence="[bold]\x1b[31m", downloads=0)
    name = "a[/b]-Q4_0.gguf"  # an error, where names are read as markup
    hub.extra_tree["x/Evil-GGUF"] = [
        {"type": "file", "path": name, "size": 3, "oid": "0" * 40,
         "lfs": {"oid": "0" * 64, "size": 3, "pointerSize": 1}},
        {"type": "file", "path": "\x1b[31m-Q4_0.gguf", "size": 3, "oid": "0" * 40},
    ]  # fmt: skip
    for shown in (run("search", "evil"), run("show", "x/Evil-GGUF")):
        assert shown[0] == 0
        assert "[bold]" in shown[1]
        assert "\x1b" not in shown[1]
    assert name.removesuffix(".gguf") in run("show", "x/Evil-GGUF")[1]


def test_what_is_on_this_machine_is_listed_for_people(run: Run) -> None:
    code, out, _ = run("list")
    assert code == 0
    assert "demo" in out and "./twofold models search" in out
    assert run("list", "--jobs")[1] == "Nothing is in the queue.\n"
    run("pull", REPO)
    lines = run("list")[1].splitlines()
    (line,) = (line for line in lines if "Tiny-Q8_0" in line)
    assert "verified" in line and "Q8_0" in line
    assert not any("./twofold models search" in line for line in lines)
    assert "done" in run("list", "--jobs")[1]


def test_without_a_network_the_demo_model_is_still_offered(
    run: Run, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    entries = as_json(run("list", "--json"))["entries"]
    assert [one["origin"]["way"] for one in entries] == ["demo"]
    code, _, err = run("search", "tiny")
    assert code == 1 and "Offline mode is on" in err
    assert hub.requests == []
