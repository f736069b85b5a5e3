"""`twofold chat`: a conversation in the terminal, or one answer to one prompt."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console

from engine import paths
from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.api.turn import PathSetting, TurnEvent, TurnReport
from engine.chat.cancellation import Cancellation
from engine.chat.session import ChatSession
from engine.cli.interrupts import Interrupts
from engine.cli.turns import run_turn
from engine.demo import DemoModelMissing, demo_prefiller
from engine.errors import TwofoldError
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.owner import OwnerThread
from engine.runtime.rate_store import RateStore
from engine.runtime.settings import LoadSettings
from engine.words import sentence

with contextlib.suppress(ImportError):
    importlib.import_module("readline")  # gives input() line editing where the system has it

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_HELP = "Type a message. /new starts over, /path NAME changes the path, /quit leaves (or Ctrl-D)."
_SETTINGS: tuple[PathSetting, ...] = get_args(PathSetting)


class PromptUnreadable(TwofoldError):
    """The prompt's file cannot be read as text. Data: `path`, `reason`."""

    code = "chat.prompt_unreadable"


@dataclass
class _Options:
    system: str | None
    sampling: SamplingSettings
    path: PathSetting


@app.command()
def chat(
    prompt: Annotated[
        str | None, typer.Argument(help="Answer this and exit. Without it: a conversation.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("-m", "--model", metavar="MODEL.gguf", help="Default: the demo model."),
    ] = None,
    prefiller: Annotated[
        Path | None, typer.Option(metavar="FILE-OR-FOLDER", help="NVFP4 weights that read prompts.")
    ] = None,
    draft: Annotated[
        Path | None,
        typer.Option(metavar="FILE.gguf", help="A smaller model of the same tokens, or EAGLE-3."),
    ] = None,
    path: Annotated[
        str, typer.Option(help=f"How prompts are read: {', '.join(_SETTINGS)}.")
    ] = "auto",
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Take the prompt from this text file.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="System prompt.")] = None,
    context: Annotated[
        int | None, typer.Option("--ctx", min=64, help="Context, in tokens.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, max=2.0)] = 0.8,
    top_k: Annotated[int, typer.Option(min=0)] = 40,
    top_p: Annotated[float, typer.Option(min=0.01, max=1.0)] = 0.95,
    min_p: Annotated[float, typer.Option(min=0.0, max=1.0)] = 0.05,
    repeat_penalty: Annotated[float, typer.Option(min=0.1, max=2.0)] = 1.0,
    presence_penalty: Annotated[float, typer.Option(min=-2.0, max=2.0)] = 0.0,
    frequency_penalty: Annotated[float, typer.Option(min=-2.0, max=2.0)] = 0.0,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1)] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1)] = None,
    drafts: Annotated[
        bool, typer.Option(help="Verify drafted tokens several at a time, where it is faster.")
    ] = True,
    stop: Annotated[list[str] | None, typer.Option(help="Stop string; may be repeated.")] = None,
    force_pairing: Annotated[
        bool, typer.Option("--force", help="Use a prefiller that is not known to belong.")
    ] = False,
) -> None:
    """Chat with a model in the terminal; the answer goes to stdout, everything else to stderr."""
    console = Console(stderr=True)
    options = _Options(
        system=system,
        sampling=SamplingSettings(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            seed=seed,
            max_tokens=max_tokens,
            drafts="auto" if drafts else "off",
            stop=tuple(stop or ()),
        ),
        path=_path_setting(path),
    )
    if file is not None:
        text = _read_prompt(file)
        prompt = f"{text}\n\n{prompt}" if prompt else text
    if model is None:
        model = paths.demo_model()
        if not model.is_file():
            raise DemoModelMissing(path=str(model))
        prefiller = prefiller or demo_prefiller(model)
    with Interrupts() as interrupts, OwnerThread() as owner:
        loaded = _load(owner, console, interrupts, model, prefiller, draft, force_pairing, context)
        session = owner.submit(ChatSession, loaded).result()
        try:
            conversation = _Conversation(owner, session, console, interrupts, options)
            if prompt is not None:
                conversation.ask(prompt)
            else:
                conversation.run()
        finally:
            owner.submit(session.close).result()
            owner.submit(loaded.close).result()


def _path_setting(name: str) -> PathSetting:
    for setting in _SETTINGS:
        if setting == name:
            return setting
    raise typer.BadParameter(f"{name} is not one of {', '.join(_SETTINGS)}.", param_hint="--path")


def _read_prompt(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise PromptUnreadable(path=str(file), reason=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise PromptUnreadable(path=str(file), reason="it is not UTF-8 text") from error


def _load(
    owner: OwnerThread,
    console: Console,
    interrupts: Interrupts,
    model: Path,
    prefiller: Path | None,
    draft: Path | None,
    force_pairing: bool,
    context: int | None,
) -> LoadedModel:
    """Loads on the owner's thread, with a status line that Ctrl-C can end."""
    stopped = Cancellation()
    with console.status(f"Loading {model.name}") as status, interrupts.stopping(stopped.cancel):

        def progress(done: float) -> bool:
            status.update(f"Loading {model.name}: {done:.0%}")
            return not stopped.cancelled

        return owner.submit(
            LoadedModel,
            model,
            prefiller=prefiller,
            draft=draft,
            force_pairing=force_pairing,
            settings=LoadSettings(context=context),
            on_load=progress,
            rates=RateStore(),
        ).result()


class _Conversation:
    """Messages so far, and the turn that comes next. A turn that fails leaves them as they were."""

    def __init__(
        self,
        owner: OwnerThread,
        session: ChatSession,
        console: Console,
        interrupts: Interrupts,
        options: _Options,
    ) -> None:
        self._owner = owner
        self._session = session
        self._console = console
        self._interrupts = interrupts
        self._options = options
        self._lines = _Lines(sys.stdin.fileno(), interrupts)
        self._start_over()

    def _start_over(self) -> None:
        system = self._options.system
        self._messages = [Message(role="system", content=system)] if system else []

    def run(self) -> None:
        self._console.print(_HELP, style="dim", highlight=False)
        while (line := self._read_line()) is not None:
            try:
                if line.startswith("/"):
                    if not self._command(line):
                        return
                elif line.strip():
                    self.ask(line)
            except TwofoldError as error:
                self._console.print(sentence(error), style="red", highlight=False)

    def _read_line(self) -> str | None:
        """The next line; None at the end. Ctrl-C at the prompt clears the line."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return self._lines.next(lambda: self._console.print("\n> ", end="", style="bold"))
        while True:
            try:
                with self._interrupts.raising():
                    return input("\n> ")  # with line editing and history
            except EOFError:
                return None
            except KeyboardInterrupt:
                continue

    def _command(self, line: str) -> bool:
        """Whether the conversation goes on."""
        name, _, argument = line.partition(" ")
        if name in ("/quit", "/exit"):
            return False
        if name == "/new":
            self._start_over()
        elif name == "/path" and argument.strip() in _SETTINGS:
            self._options.path = _path_setting(argument.strip())
        else:
            self._console.print(_HELP, style="dim", highlight=False)
        return True

    def ask(self, text: str) -> None:
        messages = [*self._messages, Message(role="user", content=text)]
        options = self._options

        def turn(on_event: Callable[[TurnEvent], None], cancel: Cancellation) -> TurnReport:
            return self._session.ask(
                messages, options.sampling, options.path, on_event, cancellation=cancel
            )

        report = run_turn(self._owner, turn, console=self._console, interrupts=self._interrupts)
        self._console.print(_summary(report), style="dim", highlight=False)
        if report.message.content or report.stop_reason != "cancelled":
            self._messages = [*messages, report.message]


class _Lines:
    """Lines of a stream that is no terminal; Ctrl-C while waiting loses none."""

    def __init__(self, descriptor: int, interrupts: Interrupts) -> None:
        self._descriptor = descriptor
        self._interrupts = interrupts
        self._bytes = b""

    def next(self, prompt: Callable[[], None]) -> str | None:
        """The next line without its end; None after the last. `prompt` asks, again if need be."""
        prompt()
        while b"\n" not in self._bytes:
            if not self._interrupts.wait(self._descriptor):
                prompt()
                continue
            arrived = os.read(self._descriptor, 1 << 16)
            if not arrived:
                rest, self._bytes = self._bytes, b""
                return rest.decode(errors="replace") if rest else None
            self._bytes += arrived
        line, _, self._bytes = self._bytes.partition(b"\n")
        return line.decode(errors="replace")


def _summary(report: TurnReport) -> str:
    reason = (report.reason or "").rstrip(".")
    facts = [f"{report.path} ({reason})" if report.path else "nothing read"]
    if report.ttft_s is not None:
        facts.append(f"first token {report.ttft_s:.1f} s")
    facts.append(f"{report.new_tokens:,} tokens read, {report.cached_tokens:,} reused")
    if report.decode_tps:
        facts.append(f"{report.decode_tps:.0f} tokens/s")
    if drafts := report.drafts:
        facts.append(f"{drafts.accepted_tokens:,} of {drafts.drafted_tokens:,} drafted accepted")
    facts.append(report.stop_reason)
    return " · ".join(facts)
