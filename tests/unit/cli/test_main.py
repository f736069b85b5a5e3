"""The command line's root: lazy commands, and failures as one sentence."""

from __future__ import annotations

import subprocess
import sys
import types
from importlib.metadata import version

import pytest
import typer
from typer.testing import CliRunner

from engine.cli import main as cli
from engine.errors import TwofoldError
from engine.native import native


def test_help_lists_every_command_without_importing_one() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from engine.cli.main import COMMANDS, app\n"
        "print(CliRunner().invoke(app, ['--help']).output)\n"
        "print('imported:', [n for n in COMMANDS if f'engine.cli.{n}' in sys.modules])\n"
        "print('native:', 'engine.native' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in cli.COMMANDS:
        assert name in done.stdout
    assert "imported: []" in done.stdout
    assert "native: False" in done.stdout


def test_the_version_names_the_librarys_commit() -> None:
    done = CliRunner().invoke(cli.app, ["--version"])
    assert done.exit_code == 0
    assert done.output.startswith(f"Twofold {version('twofold')} (llama-cpp-python ")
    assert f"llama.cpp {native().library_commit()})" in done.output


def test_an_unknown_command_is_a_usage_error_with_a_suggestion() -> None:
    done = CliRunner().invoke(cli.app, ["chatt"])
    assert done.exit_code == 2
    assert "'chat'" in done.output


def _module(monkeypatch: pytest.MonkeyPatch, name: str, app: typer.Typer) -> None:
    module = types.ModuleType(f"engine.cli.{name}")
    module.__dict__["app"] = app
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, name, "A command of the test.")


def test_a_command_is_loaded_from_its_own_module(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()

    @app.command()
    def _greet(name: str) -> None:  # pyright: ignore[reportUnusedFunction]
        print(f"hello {name}")

    _module(monkeypatch, "greet", app)
    done = CliRunner().invoke(cli.app, ["greet", "you"])
    assert (done.exit_code, done.output) == (0, "hello you\n")


def test_an_expected_failure_is_a_sentence_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = typer.Typer()

    @app.command()
    def _fail() -> None:  # pyright: ignore[reportUnusedFunction]
        raise TwofoldError(path="/nowhere")

    _module(monkeypatch, "fail", app)
    monkeypatch.setattr(sys, "argv", ["twofold", "fail"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error(path='/nowhere')\n"
