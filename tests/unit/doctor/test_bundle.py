"""A bundle has what helps, and nothing that is private."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from engine.doctor.bundle import LEFT_OUT, BundleNotWritten, Redactor, write_bundle
from engine.doctor.report import Report

TOKEN = "the-servers-own-token-1234"
REPORT = Report.model_construct(python_path="/home/minji/.venv/bin/python", problems=[])


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(home="/home/minji", user="minji", host="minji-pc", secrets=(TOKEN,))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/minji")
    monkeypatch.setenv("LOGNAME", "minji")
    (tmp_path / "logs").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text(f'[server]\ntoken = "{TOKEN}"\n')
    return tmp_path


def unpacked(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/minji/models/a.gguf", "~/models/a.gguf"),
        ("by minji on minji-pc", "by [user] on [host]"),
        ("/data/minji/x", "/data/[user]/x"),
        ("minjira is another word", "minjira is another word"),
        (f"token {TOKEN}!", f"token {LEFT_OUT}!"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {LEFT_OUT}"),
        ("hf_AbCdEfGhIjKl", LEFT_OUT),
        ("https://me:secret@proxy.example:8080/", f"https://{LEFT_OUT}@proxy.example:8080/"),
        ("write to minji.kim+x@example.org", f"write to {LEFT_OUT}"),
        ("ggml.c:12: GGML_ASSERT(a->ne[0] == b)", "ggml.c:12: GGML_ASSERT(a->ne[0] == b)"),
    ],
)
def test_private_text_is_taken_out_and_the_rest_left(
    redactor: Redactor, text: str, left: str
) -> None:
    assert redactor.text(text) == left


def test_a_users_own_words_are_left_out_wherever_they_are(redactor: Redactor) -> None:
    line = json.dumps({"event": "request.ended", "prompt": {"messages": ["secret"]}, "seconds": 1})
    assert json.loads(redactor.line(line)) == {
        "event": "request.ended", "prompt": LEFT_OUT, "seconds": 1,
    }  # fmt: skip
    assert redactor.line('t": "the end of a line that was cut') == LEFT_OUT


def test_a_bundle_has_report_settings_and_logs(home: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"event": "model.loaded", "path": "/home/minji/models/a.gguf"},
        {"event": "request.ended", "prompt": "my heart aches", "answer": "see a doctor"},
        {"event": "odd", "note": f"used {TOKEN}"},
    ]
    log = "".join(json.dumps(line) + "\n" for line in lines)
    (home / "logs" / "engine.log").write_text(log)
    (home / "logs" / "engine.log.1").write_text(log)
    files = unpacked(write_bundle(home / "bundle.zip", REPORT))
    assert set(files) == {
        "contents.txt", "report.json", "settings.json", "logs/engine.log", "logs/engine.log.1",
    }  # fmt: skip
    everything = "".join(files.values())
    for private in ("heart", "see a doctor", TOKEN, "minji"):
        assert private not in everything
    assert "~/models/a.gguf" in files["logs/engine.log"]
    settings = {each["name"]: each for each in json.loads(files["settings.json"])}
    assert settings["server.token"]["value"] == "set"
    assert settings["server.queue"]["value"] == 8


def test_settings_that_cannot_be_read_do_not_keep_the_bundle_from_being_made(home: Path) -> None:
    (home / "config" / "settings.toml").write_text("= nonsense")
    files = unpacked(write_bundle(home / "bundle.zip", REPORT))
    assert json.loads(files["settings.json"])["error"] == "settings.unreadable"


def test_a_place_that_cannot_be_written_is_told_and_nothing_stays(home: Path) -> None:
    with pytest.raises(BundleNotWritten):
        write_bundle(home / "no" / "folder" / "bundle.zip", REPORT)
    (home / "taken.zip").mkdir()
    (home / "taken.zip" / "x").write_text("")
    with pytest.raises(BundleNotWritten):
        write_bundle(home / "taken.zip", REPORT)
    assert not list(home.glob(".taken.zip*"))
