"""Works the real window as a person does, with clicks and keys, in the window's own process.

`python -m tests.support.window_driver PART` starts the program as `python -m app` does, plays the
part, and prints what was to be seen as one line of JSON. For a display that nobody looks at.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QListView, QWidget

from app import main as program
from app.engine_client.client import EngineClient
from app.first_run.first_run_view import FirstRunView
from app.main import Application
from app.prefill.prefill_view import PrefillView
from app.shell.window import MainWindow

WAIT_S = 120
LEFT = Qt.MouseButton.LeftButton


class Driver:
    def __init__(self, application: Application) -> None:
        self.application = application
        self.seen: dict[str, Any] = {}

    @property
    def window(self) -> MainWindow:
        return self.application.window

    @property
    def engine(self) -> EngineClient:
        return self.application.engine

    def wait(self, condition: Callable[[], object], what: str, seconds: float = WAIT_S) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(what)
            QTest.qWait(20)

    def page(self, kind: type[QWidget]) -> Any:
        def found() -> Any:
            page = self.window.findChild(kind)
            return page if page is not None and page.isVisible() else None

        self.wait(found, f"{kind.__name__} to be seen", 30)
        return found()

    def click(self, widget: QWidget) -> None:
        self.wait(widget.isVisible, f"{widget.accessibleName()} to be seen")
        QTest.mouseClick(widget, LEFT)

    def named(self, name: str) -> QWidget:
        """The control of that name, once it is seen; the last one, as in a conversation."""

        def found() -> list[QWidget]:
            return [
                widget
                for widget in self.window.findChildren(QWidget)
                if widget.accessibleName() == name and widget.isVisible()
            ]

        self.wait(found, f"{name} to be seen", 20)
        return found()[-1]

    def type_and_send(self, words: str) -> None:
        text = self.window.chat.composer.view.text
        QTest.mouseClick(text.viewport(), LEFT)
        QTest.keyClicks(text, words)
        QTest.keyClick(text, Qt.Key.Key_Return)

    def ask(self, words: str) -> None:
        self.type_and_send(words)
        chat = self.window.chat
        self.wait(lambda: chat.writer is not None, "the answer to begin", 20)
        self.wait(lambda: chat.writer is None, "the answer")
        self.wait(lambda: chat.messages[-1].status == "done", "the answer to be stored", 20)

    def limit_answers(self, tokens: int) -> None:
        """In the panel of the chat's settings, by keyboard."""
        self.click(self.window.chat.view.settings)
        for name, value in (("Temperature", "0"), ("Longest answer", str(tokens))):
            control = self.named(name)
            QTest.mouseClick(control, LEFT)
            QTest.keyClick(control, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
            QTest.keyClicks(control, value)
            QTest.keyClick(control, Qt.Key.Key_Tab)
        self.click(self.window.chat.view.settings)

    def stored(self) -> list[dict[str, Any]]:
        return [
            {
                "role": item.role,
                "content": item.content,
                "status": item.status,
                "path": (item.report or {}).get("path"),
                "failure": (item.failure or {}).get("code"),
            }
            for item in self.window.chat.messages
        ]

    def colours_on_screen(self) -> int:
        """Of the display itself, not of what the window would paint."""
        picture = QApplication.primaryScreen().grabWindow(0).toImage()
        places = range(0, picture.width(), 7), range(0, picture.height(), 7)
        return len({picture.pixel(x, y) for x in places[0] for y in places[1]})

    # The parts

    def first_run(self) -> None:
        """The demo model, a question, the path ODP, another question, and the engine's death."""
        window, chat = self.window, self.window.chat
        first = self.page(FirstRunView)
        self.seen["colours"] = self.colours_on_screen()
        self.click(first.demo)
        self.wait(lambda: self.engine.state.status == "ready", "the demo model")
        self.seen["prefiller"] = str(self.engine.state.model and self.engine.state.model.prefiller)
        self.limit_answers(24)
        self.ask("What is the capital of France?")

        QTest.keyClick(window, Qt.Key.Key_3, Qt.KeyboardModifier.ControlModifier)
        prefill = self.page(PrefillView)
        self.wait(lambda: prefill.body.isVisible(), "the plan")
        self.click(prefill.switch.buttons["odp"])
        self.wait(lambda: "disk" in prefill.sentence.text(), "what ODP means here")
        self.seen["sentence"] = prefill.sentence.text()
        QTest.keyClick(window, Qt.Key.Key_1, Qt.KeyboardModifier.ControlModifier)
        self.wait(lambda: window.page == "chat", "the chat", 10)
        self.ask("Write one sentence about each of these: " + "the sea, the sky, a tree, " * 8)

        self.limit_answers(2000)
        self.type_and_send("Tell me a very long story about a ship.")
        self.wait(lambda: bool(chat.writer and chat.writer.has_content), "the story to begin")
        QTest.qWait(300)
        os.kill(self.engine.pid, signal.SIGKILL)
        self.wait(lambda: chat.messages[-1].status == "failed", "the card", 20)
        self.seen["after the death"] = self.stored()
        self.click(self.named("Restart the engine"))
        self.wait(lambda: chat.writer is not None, "another try", 20)
        self.wait(lambda: bool(chat.writer and chat.writer.has_content), "the story again")
        self.click(chat.composer.view.send)  # where send stood, stop stands
        self.wait(lambda: chat.writer is None, "the end", 10)
        ended = ("interrupted", "done")
        self.wait(lambda: chat.messages[-1].status in ended, "the story to be stored", 20)
        self.seen["messages"] = self.stored()

    def killed(self) -> None:
        """The window itself is killed while an answer is written."""
        chat = self.window.chat
        self.click(self.page(FirstRunView).demo)
        self.wait(lambda: self.engine.state.status == "ready", "the demo model")
        self.type_and_send("Tell me a very long story about a ship.")
        self.wait(lambda: bool(chat.writer and chat.writer.has_content), "the story to begin")
        said: list[tuple[float, int]] = []
        end = time.monotonic() + 4
        while time.monotonic() < end and chat.writer is not None:
            said.append((time.monotonic(), len(chat.writer.content)))
            QTest.qWait(50)
        self.seen["said"] = [(at - end, length) for at, length in said]
        self.seen["engine"] = self.engine.pid
        print(json.dumps(self.seen), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def again(self) -> None:
        """Another start: the chat is where it was, with everything in it."""
        sidebar = self.window.sidebar
        self.wait(lambda: sidebar.model.rowCount() > 1, "the chats")
        self.wait(lambda: self.engine.state.status == "ready", "the model of the last time")
        chats: QListView = sidebar.view.list
        place = chats.visualRect(sidebar.model.index(1)).center()
        QTest.mouseClick(chats.viewport(), LEFT, pos=QPoint(60, place.y()))
        self.wait(lambda: bool(self.window.chat.messages), "the chat to open", 10)
        QTest.qWait(200)
        self.seen["messages"] = self.stored()
        self.seen["engine"] = self.engine.pid
        self.seen["model"] = str(self.engine.state.model and self.engine.state.model.path)


def main(part: str) -> int:
    start = Application.start

    def started(self: Application) -> None:
        application = self
        start(application)
        driver = Driver(application)

        def play() -> None:
            try:
                driver.wait(lambda: application.window.windowHandle().isExposed(), "the window")
                born = psutil.Process().create_time()
                driver.seen["seconds to the screen"] = round(time.time() - born, 3)
                # There is no window manager that would do this.
                application.window.activateWindow()
                driver.wait(application.window.isActiveWindow, "the keyboard", 20)
                getattr(driver, part)()
                driver.seen.setdefault("engine", application.engine.pid)
                memory = psutil.Process().memory_full_info()
                driver.seen["memory"] = {"rss": memory.rss, "own": memory.uss}
            except (AssertionError, TimeoutError) as problem:
                driver.seen["problem"] = repr(problem)
                driver.seen["messages"] = driver.stored()
                driver.seen["log"] = [str(application.engine.failure)]
            print(json.dumps(driver.seen), flush=True)
            application.window.close()

        QTimer.singleShot(0, application, play)

    Application.start = started
    return program.main([])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
