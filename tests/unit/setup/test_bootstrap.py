"""The set-up does what is missing and no more, and stops cleanly."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from engine import paths
from setup import bootstrap, environment
from setup.bootstrap import Needs, needs_of
from setup.context import Context, cache_folder
from setup.words import SENTENCES, SetupError
from tests.unit.setup.conftest import ROOT, alive


def test_commands_ask_only_for_what_they_use() -> None:
    assert needs_of(["--help"]) == Needs(engine=False)
    assert needs_of([]) == needs_of(["app"]) == Needs(demo_model=True)
    assert needs_of(["chat", "--help"]) == Needs(engine=False)
    assert needs_of(["chat", "Hello"]) == Needs(demo_model=True)
    for model in (["-m", "x.gguf"], ["-mx.gguf"], ["--model", "x.gguf"], ["--model=x.gguf"]):
        assert needs_of(["chat", *model]) == Needs()
    assert needs_of(["doctor"]) == Needs()
    assert needs_of(["demo", "--json", "x"]) == Needs(demo_model=True)
    assert needs_of(["test"]) == Needs(demo_model=True, developing=True)


def test_nothing_is_touched_when_nothing_is_missing(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "missing", lambda *_: set[str]())
    bootstrap.set_up(context, Needs())
    assert not (context.root / "build").exists()
    assert not context.cache.exists()


def test_a_fresh_clone_misses_everything_it_needs(context: Context) -> None:
    assert bootstrap.missing(context, Needs(engine=False)) == {"environment"}
    assert bootstrap.missing(context, Needs()) == {"environment", "library", "extension"}
    assert "demo_model" in bootstrap.missing(context, Needs(demo_model=True))


def test_a_changed_lock_file_is_noticed(context: Context) -> None:
    lock = context.root / environment.RUNNING
    lock.write_text("one==1\n", encoding="utf-8")
    context.record(environment.RUNNING, environment.wanted(context, environment.RUNNING))
    assert environment.ready(context, developing=False)
    lock.write_text("one==2\n", encoding="utf-8")
    assert not environment.ready(context, developing=False)


def test_python_without_venv_or_headers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda _: "/nowhere")
    environment.require_python(headers=False)
    with pytest.raises(SetupError, match="python3-dev"):
        environment.require_python(headers=True)
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SetupError, match="python3-venv"):
        environment.require_python(headers=False)


@pytest.fixture
def _handlers() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """Puts back the signal handlers that `main` replaces in this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers")
@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "disk.full"), (errno.EROFS, "folder.not_writable")],
)
def test_what_the_system_refuses_becomes_a_sentence(
    number: int,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "refused", "/some/file")

    monkeypatch.setattr(bootstrap, "set_up", refuse)
    assert bootstrap.main(["doctor"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "/some/file" in line
    assert line.endswith(f"[{code}]")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_being_stopped_ends_every_program_that_was_started(
    number: signal.Signals, context: Context, tmp_path: Path
) -> None:
    started = tmp_path / "pids"
    driver = tmp_path / "driver.py"
    work = f"sleep 60 & echo $$ $! > {started}; wait"
    driver.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from setup import bootstrap\n"
        f"bootstrap.ROOT = Path({str(context.root)!r})\n"
        "bootstrap.set_up = lambda context, needs: context.run(\n"
        f"    ['sh', '-c', {work!r}], what='working', log='work')\n"
        "sys.exit(bootstrap.main(['doctor']))\n",
        encoding="utf-8",
    )
    with subprocess.Popen([sys.executable, driver], stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 30
        while not (started.exists() and started.read_text(encoding="utf-8").strip()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        pids = [int(pid) for pid in started.read_text(encoding="utf-8").split()]
        assert all(alive(pid) for pid in pids)
        running.send_signal(number)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert said.startswith("Stopped.")
    assert len(said.splitlines()) == 1
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"XDG_CACHE_HOME": "/x/cache"},
        {"TWOFOLD_HOME": "/x/home"},
        {"TWOFOLD_HOME": "/x/home", "TWOFOLD_CACHE": "/x/elsewhere"},
    ],
)
def test_the_set_up_and_the_engine_agree_on_the_cache(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TWOFOLD_HOME", "TWOFOLD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert cache_folder(environ) == paths.cache_folder()


def test_every_error_of_the_set_up_has_a_sentence_and_every_sentence_a_use() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "setup").glob("*.py"))
    raised = {code for code in SENTENCES if f'SetupError("{code}"' in sources.replace("\n", "")}
    split_over_lines = {
        code for code in SENTENCES if f'SetupError(        "{code}"' in sources.replace("\n", "")
    }
    assert raised | split_over_lines == set(SENTENCES)
