"""The package for Linux in a root without compiler, Python or checkout: install, use, remove."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.i18n.catalogue import catalogue
from engine.paths import demo_model
from tests.support.accessible import Desktop, wait
from tests.support.clean_root import HOME, CleanRoot
from tests.support.display import display

ROOT = Path(__file__).parents[2]
ARTEFACTS = ROOT / "build" / "artefacts"
QUESTION = "What is the capital of France?"
# Long enough for a prefiller, with a short answer.
LONG_QUESTION = (
    "Answer with the name of one city and with nothing else, without any explanation: what is the"
    " capital of Germany, the country that lies between France and Poland?"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        sys.platform != "linux" or not shutil.which("debootstrap") or os.geteuid() != 0,
        reason="a clean root is made by root with debootstrap, on Debian",
    ),
]


@pytest.fixture
def package() -> Path:
    (found,) = (ROOT / "build" / "package" / "installers").glob("twofold_*.deb")
    return found


@pytest.fixture
def bare(package: Path) -> Iterator[CleanRoot]:
    """A copy of the smallest system, with the package's file in /tmp."""
    with tempfile.TemporaryDirectory(prefix="twofold-root-") as folder:
        root = CleanRoot(Path(folder, "root"))
        shutil.copyfile(package, root.folder / "tmp" / package.name)
        yield root


@pytest.fixture
def installed(bare: CleanRoot, package: Path) -> CleanRoot:
    """The package is installed, and the demo model lies where it is kept."""
    bare.install(f"/tmp/{package.name}")
    place = bare.home / ".cache" / "twofold" / "models" / demo_model().name
    bare.run("mkdir", "-p", f"/{place.parent.relative_to(bare.folder)}", person=True)
    shutil.copyfile(demo_model(), place)
    return bare


def desktop_command(root: CleanRoot) -> list[str]:
    """What the installed desktop entry starts, without a file to open."""
    text = (root.folder / "usr/share/applications/twofold.desktop").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("Exec=")]
    return [part for part in line.removeprefix("Exec=").split() if not part.startswith("%")]


@contextmanager
def running(root: CleanRoot, screen: str) -> Iterator[subprocess.Popen[str]]:
    """The program started from its desktop entry, on a session bus of its own. The first line of
    its output is the bus's address."""
    start = 'echo "$DBUS_SESSION_BUS_ADDRESS"; exec "$@"'
    command = root.command(
        ["dbus-run-session", "--", "sh", "-c", start, "sh", *desktop_command(root)],
        person=True,
        DISPLAY=screen,
        XDG_CURRENT_DESKTOP="test",
        QT_LINUX_ACCESSIBILITY_ALWAYS_ON="1",  # as where a screen reader runs
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def stored(root: CleanRoot) -> list[dict[str, Any]]:
    """The messages of the person's chats, as they lie on the disk."""
    file = root.home / ".local" / "share" / "twofold" / "chats.db"
    if not file.exists():
        return []
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as chats:
        chats.row_factory = sqlite3.Row
        rows = chats.execute(
            "SELECT role, content, status, json_extract(report, '$.path') AS path"
            " FROM messages ORDER BY id"
        )
        return [dict(row) for row in rows]


def ask(desktop: Desktop, root: CleanRoot, words: str) -> dict[str, Any]:
    """Types a question, sends it, and returns its stored answer."""
    before = len(stored(root))
    desktop.click(desktop.find("Message"))
    desktop.type(words)
    desktop.key("Return")

    def answered() -> dict[str, Any] | None:
        messages = stored(root)[before:]
        return messages[1] if len(messages) == 2 and messages[1]["status"] == "done" else None

    return wait(answered, f"an answer to {words[:40]}", 600, desktop.picture)


def take_picture(screen: str, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    code = (
        "import sys; from PySide6.QtWidgets import QApplication; a = QApplication([]);"
        "sys.exit(not a.primaryScreen().grabWindow(0).save(sys.argv[1]))"
    )
    environ = dict(os.environ) | {"DISPLAY": screen, "QT_QPA_PLATFORM": "xcb"}
    subprocess.run([sys.executable, "-c", code, str(file)], env=environ, check=True, timeout=60)


def test_install_first_run_answer_odp_answer_close_remove(installed: CleanRoot) -> None:
    root = installed
    for tool in ("python3", "gcc", "cc", "c++"):
        with pytest.raises(AssertionError):
            root.run("sh", "-c", f"command -v {tool}")
    version = root.run("twofold", "--version", person=True)
    commit = version.rsplit("llama.cpp ", 1)[1].strip(")\n")
    assert len(commit) >= 7, version

    # Every variant of the library, and every kernel of ours, that this processor can run.
    # Along one path: which one is fastest is measured anew by each.
    options = ("--path", "resident", "--temperature", "0", "--max-tokens", "16")
    words = ("chat", *options, QUESTION)
    answer = root.run("twofold", *words, person=True)
    assert "Paris" in answer
    prefiller = root.home / ".cache/twofold/models" / f"{demo_model().stem}.prefiller.gguf"
    assert prefiller.exists(), "the demo's prefiller is built on first use"
    variants, kernels = usable(root)
    assert "sse42" in variants
    print("variants", variants, "kernels", kernels)
    for variant in variants:
        forced = root.run("twofold", *words, person=True, TWOFOLD_CPU_VARIANT=variant)
        assert forced == answer, f"the variant {variant} answers differently"
    for kernel in kernels:
        forced = root.run("twofold", *words, person=True, TWOFOLD_KERNEL=kernel)
        assert forced == answer, f"the kernel {kernel} answers differently"
    model = "/" + str(prefiller.with_name(demo_model().name).relative_to(root.folder))
    rounds = ("--repeat", "1", "--tokens", "4", "--prompt-tokens", "40")
    compared = root.run("twofold", "bench", "decode", "-m", model, *rounds, person=True)
    assert "library" in compared and "engine" in compared
    told = root.run("sh", "-c", "! twofold bench decode -m /none.gguf 2>&1", person=True)
    assert "./twofold" not in told + root.run("twofold", "--help", person=True)

    root.install("dbus", "at-spi2-core")  # what every desktop has
    root.let_root_look()
    with display() as screen, running(root, screen) as program:
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        desktop = wait(lambda: connected(root, address, screen), "the window", 60)
        with closing(desktop):
            demo = desktop.find("Try the small demo now", "push button", "button")
            desktop.focus_window()
            desktop.click(demo)
            desktop.find("Ask anything", seconds=120)
            first = ask(desktop, root, QUESTION)
            assert first["content"]
            desktop.key("ctrl+3")
            desktop.find(catalogue("en")["prefill.plot"], "filler")  # the plot, not its heading
            take_picture(screen, ARTEFACTS / "installed-prefill.png")
            desktop.click(desktop.find("ODP", "check box", "push button", "radio button"))
            desktop.key("ctrl+1")
            second = ask(desktop, root, LONG_QUESTION)
            assert second["path"] == "odp"
            assert second["content"]
            take_picture(screen, ARTEFACTS / "installed-window.png")
            desktop.key("ctrl+q")
        assert program.wait(timeout=60) == 0

    said = root.run("apt-get", "remove", "--yes", "--quiet", "twofold")
    assert "~/.local/share/twofold" in said, "it says where chats and models are"
    assert [item["role"] for item in stored(root)] == ["user", "assistant"] * 2
    assert prefiller.exists()
    assert not [*(root.folder / "opt").rglob("*")], "nothing of the program stays"
    for place in ("usr/bin/twofold", "usr/share/applications/twofold.desktop"):
        assert not (root.folder / place).exists()


def test_a_graphics_card_is_used_with_no_toolkit_and_done_without_where_there_is_none(
    installed: CleanRoot,
) -> None:
    """The card is Mesa's software driver, which the backend takes only where it is named."""
    root, named = installed, {"GGML_VK_VISIBLE_DEVICES": "0"}
    options = ("--temperature", "0", "--max-tokens", "8")
    assert "Paris" in root.run("twofold", "chat", *options, QUESTION, person=True)
    said = " ".join(root.run("twofold", "backend", "list", person=True).split())
    assert "No graphics driver was found for vulkan (missing: the Vulkan loader" in said

    root.install("mesa-vulkan-drivers")
    for tool in ("glslc", "c++", "cc"):
        with pytest.raises(AssertionError):
            root.run("sh", "-c", f"command -v {tool}")
    root.run("twofold", "backend", "check", "vulkan", person=True, **named)
    listed = root.run("twofold", "backend", "list", "--json", person=True, **named)
    (backend,) = json.loads(listed)["backends"]
    assert (backend["name"], backend["state"], backend["carried"]) == ("vulkan", "ready", True)
    (device,) = backend["devices"]
    assert device["name"] == "Vulkan0" and "llvmpipe" in device["description"]
    assert device["kernels"] > 0

    used = inside(root, ANSWERED_ON_A_DEVICE, QUESTION, **named)
    assert "Paris" in used["answer"]
    assert used["on_devices"] > demo_model().stat().st_size / 2, used


KEEPS = """
import json, sys
from app.preferences import PreferencesFile
from app.store.chats import ChatStore
from engine import paths
from engine.settings_store import SettingsStore

preferences = PreferencesFile(paths.config_folder() / "window.json")
chats = ChatStore(paths.data_folder() / "chats.db")
if sys.argv[1:] == ["make"]:
    preferences.values.theme = "dark"
    preferences.save()
    SettingsStore().change({"server.port": 8765})
    chat = chats.create_chat("Kept")
    asked = chats.add_message(chat, "user", "A question", parent=None)
    chats.add_message(chat, "assistant", "An answer", parent=asked)
(row,) = chats.chats()
print(json.dumps({
    "theme": preferences.values.theme,
    "port": {info.name: info.value for info in SettingsStore().infos()}["server.port"],
    "title": row.title,
    "messages": [message.content for message in chats.chat(row.id).messages],
}))
"""


def older(package: Path, root: CleanRoot) -> str:
    """The same package under a lower version, with a file that the newer one does not have."""
    unpacked = root.folder / "tmp" / "older"
    subprocess.run(["dpkg-deb", "--raw-extract", package, unpacked], check=True)
    control = unpacked / "DEBIAN" / "control"
    told = control.read_text(encoding="utf-8")
    control.write_text(re.sub(r"^Version: .*$", "Version: 0.0.1", told, flags=re.MULTILINE))
    (unpacked / "opt/twofold/_internal/dropped.txt").write_text("of an older version")
    command = ["dpkg-deb", "-Znone", "--build", unpacked, root.folder / "tmp" / "older.deb"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(unpacked)
    return "/tmp/older.deb"


def test_chats_settings_and_models_outlive_upgrade_reinstall_removal_and_purge(
    bare: CleanRoot, package: Path
) -> None:
    root = bare
    root.install(older(package, root))
    kept = inside(root, KEEPS, "make")
    assert kept == {
        "theme": "dark", "port": 8765, "title": "Kept", "messages": ["A question", "An answer"],
    }  # fmt: skip
    model = root.home / ".local/share/twofold/models/mine.gguf"
    root.run("mkdir", "-p", f"/{model.parent.relative_to(root.folder)}", person=True)
    model.write_bytes(b"a model")
    dropped = root.folder / "opt/twofold/_internal/dropped.txt"
    assert dropped.exists()

    def version() -> str:
        return root.run("dpkg-query", "--show", "--showformat=${Version}", "twofold")

    before = version()
    root.install(f"/tmp/{package.name}")
    assert version() != before == "0.0.1"
    assert not dropped.exists(), "what the newer version does not have goes"
    assert inside(root, KEEPS) == kept

    root.run("apt-get", "install", "--reinstall", "--yes", "--quiet", f"/tmp/{package.name}")
    assert inside(root, KEEPS) == kept

    said = root.run("dpkg", "--remove", "twofold")
    assert "~/.local/share/twofold" in said and "~/.config/twofold" in said
    said = root.run("dpkg", "--purge", "twofold")
    assert "~/.local/share/twofold" in said, "it says what is kept, and where"
    assert not (root.folder / "opt/twofold").exists()
    assert model.read_bytes() == b"a model"
    root.install(f"/tmp/{package.name}")
    assert inside(root, KEEPS) == kept


# Prints the answer, and how many bytes of the model the library put into devices' memory.
ANSWERED_ON_A_DEVICE = """
import json, sys
from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.chat.session import ChatSession
from engine.paths import demo_model
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings

model = LoadedModel(demo_model(), settings=LoadSettings(context=128))
chat = ChatSession(model)
report = chat.ask(
    [Message(role="user", content=sys.argv[1])],
    SamplingSettings(temperature=0, max_tokens=8, drafts="off"),
    "decoder",
    lambda event: None,
)
print(json.dumps({
    "answer": b"".join(map(model.piece, report.answer_tokens)).decode(),
    "on_devices": model.memory.on_devices,
}))
"""

USABLE = """
import json
from engine.native import library_folder, native
variants = native().cpu_variants(str(library_folder()))
print(json.dumps([[name for name, score in variants if score > 0], native().usable_kernels()]))
"""


def inside(root: CleanRoot, code: str, *arguments: str, **environ: str) -> Any:
    """What `code`, run by the program itself, prints as JSON in its last line."""
    (root.folder / HOME / "code.py").write_text(code, encoding="utf-8")
    said = root.run("twofold", "-P", f"/{HOME}/code.py", *arguments, person=True, **environ)
    return json.loads(said.splitlines()[-1])


def usable(root: CleanRoot) -> tuple[list[str], list[str]]:
    """The library's variants that run here, and our own kernels, as the program says."""
    variants, kernels = inside(root, USABLE)
    return variants, kernels


def connected(root: CleanRoot, address: str, screen: str) -> Desktop | None:
    try:
        return Desktop(root.folder, address, screen)
    except FileNotFoundError:
        return None  # the bus is not there yet
