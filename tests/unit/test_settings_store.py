"""Settings come from a file, the environment and flags, in that order; mistakes are explained."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from engine.errors import TwofoldError
from engine.settings import Settings
from engine.settings_store import (
    BadSetting,
    SettingsNotSaved,
    SettingsStore,
    SettingsUnreadable,
    UnknownSetting,
)
from engine.words import sentence


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "settings.toml"


def store(file: Path, text: str = "", **given: Any) -> SettingsStore:
    if text:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return SettingsStore(file=file, environment=given.pop("environment", {}), **given)


def test_without_a_file_the_defaults_hold(file: Path) -> None:
    assert store(file).current == Settings()


def test_flags_come_before_the_environment_and_that_before_the_file(file: Path) -> None:
    found = store(
        file,
        "[server]\nport = 1\nqueue = 2\nhost = 'localhost'\n",
        environment={"TWOFOLD_SERVER_PORT": "3", "TWOFOLD_SERVER_QUEUE": "4"},
        flags={"server.port": "5"},
    )
    server = found.current.server
    assert (server.port, server.queue, server.host) == (5, 4, "localhost")
    sources = {info.name: info.source for info in found.infos()}
    assert [sources[f"server.{key}"] for key in ("port", "queue", "host", "token")] == [
        "flag", "environment", "file", "default",
    ]  # fmt: skip


def test_texts_become_what_the_setting_is(file: Path) -> None:
    found = store(
        file,
        environment={
            "TWOFOLD_SERVER_HOSTS": "a.lan, b.lan",
            "TWOFOLD_LOG_TEXTS": "true",
            "TWOFOLD_LOAD_CONTEXT": "",
            "TWOFOLD_ENGINE_IDLE_UNLOAD_MIN": "1.5",
        },
    ).current
    assert found.server.hosts == ("a.lan", "b.lan")
    assert found.log.texts is True
    assert found.load.context is None
    assert found.engine.idle_unload_min == 1.5


def test_variables_of_others_are_left_alone(file: Path) -> None:
    assert store(file, environment={"TWOFOLD_HOME": "x", "TWOFOLD_LLAMA_LIB": "y"}).current


@pytest.mark.parametrize(
    ("given", "suggestion"),
    [
        ({"flags": {"server.prot": "1"}}, "server.port"),
        ({"flags": {"idle_unload_min": "1"}}, "engine.idle_unload_min"),
        ({"environment": {"TWOFOLD_SERVER_TOKN": "1"}}, "server.token"),
        ({"flags": {"load.port": "1"}}, "server.port"),
        ({"text": "[sever]\nport = 1\n"}, "server.port"),
        ({"text": "port = 1\n"}, "server.port"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(
    file: Path, given: dict[str, Any], suggestion: str
) -> None:
    with pytest.raises(UnknownSetting) as unknown:
        store(file, **given)
    assert f"Did you mean {suggestion}?" in sentence(unknown.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server.port", "65536"), ("server.port", "many"), ("server.queue", "-1"),
        ("server.token", "short"), ("server.token", "x" * 300), ("log.level", "loud"),
        ("engine.path", "odd"), ("generation.temperature", "nan"), ("log.texts", "perhaps"),
    ],
)  # fmt: skip
def test_a_bad_value_is_explained_and_not_repeated(file: Path, name: str, value: str) -> None:
    with pytest.raises(BadSetting) as bad:
        store(file, flags={name: value})
    words = sentence(bad.value)
    assert name in words
    assert "Its default is" in words
    assert name != "server.token" or value not in words


def test_sizes_that_earlier_versions_kept_in_mib_still_hold(file: Path) -> None:
    kept = store(file, "[server]\nbody_limit_mib = 64\n[downloads]\nbandwidth_mib = 2.5\n")
    assert kept.current.server.body_limit_mb == 67
    assert kept.current.downloads.bandwidth_mb == pytest.approx(2.62144)
    assert store(file, "[log]\nfile_mib = 1024\n").current.log.file_mb == 1024  # the most
    both = store(file, "[log]\nfile_mb = 7\nfile_mib = 99\n")
    assert both.current.log.file_mb == 7
    with pytest.raises(BadSetting):
        store(file, '[log]\nfile_mib = "much"\n')


def test_a_change_drops_the_settings_old_name(file: Path) -> None:
    kept = store(file, "[log]\nfile_mib = 9\n")
    kept.change({"log.file_mb": 20})
    assert "file_mib" not in file.read_text()
    assert store(file).current.log.file_mb == 20


def test_a_file_that_is_no_toml_is_told(file: Path) -> None:
    with pytest.raises(SettingsUnreadable) as unreadable:
        store(file, "port = = 1")
    assert str(file) in sentence(unreadable.value)


def test_a_change_keeps_comments_and_is_for_the_owners_eyes(file: Path) -> None:
    found = store(file, "# mine\n[server]\nport = 1  # old\n")
    restart = found.change({"server.port": 2, "server.queue": 3, "generation.temperature": 0.5})
    assert restart == ["server.port"]
    text = file.read_text()
    assert "# mine" in text
    assert "port = 2" in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert store(file).current == found.current
    found.change({"server.port": None})
    assert found.current.server.port == 0


@pytest.mark.parametrize(
    "changes", [{"server.queue": -1}, {"server.no": 1}, {"server.queue": 1, "log.level": 5}]
)
def test_a_refused_change_changes_nothing(file: Path, changes: dict[str, Any]) -> None:
    found = store(file, "[server]\nqueue = 7\n")
    with pytest.raises(TwofoldError):
        found.change(changes)
    assert found.current.server.queue == 7
    assert file.read_text() == "[server]\nqueue = 7\n"


@pytest.mark.parametrize("value", [{"a": 1}, [1, {"b": None}], 2**70, [[None]], "\ud800", b"x"])
def test_a_change_to_something_odd_is_refused_and_not_written(file: Path, value: Any) -> None:
    found = store(file, "[server]\nqueue = 7\n")
    with pytest.raises(TwofoldError):
        found.change({"server.queue": value})
    assert file.read_text() == "[server]\nqueue = 7\n"


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file where the folder should be")
    found = SettingsStore(file=tmp_path / "settings.toml", environment={})
    found.file = tmp_path / "config" / "settings.toml"
    with pytest.raises((SettingsNotSaved, SettingsUnreadable)):
        found.change({"server.queue": 1})


def test_every_setting_says_what_it_is_for(file: Path) -> None:
    infos = store(file).infos()
    assert len(infos) > 25
    for info in infos:
        assert info.doc.endswith("."), info.name
        assert info.kind != "choice" or len(info.choices) > 1
    token = next(info for info in infos if info.name == "server.token")
    assert token.secret
    assert token.optional


def test_a_secret_is_not_told(file: Path) -> None:
    found = store(file, flags={"server.token": "a-very-secret-token"})
    assert "very-secret" not in str([info.model_dump() for info in found.infos()])
    assert next(i for i in found.infos() if i.name == "server.token").value == "set"
