"""Looks at a running program's window from outside, and uses its display's mouse and keys.

Nothing in the program knows of it: names, roles and places come over AT-SPI, the desktop's own
interface for assistance; clicks and keys go through the display.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jeepney import DBusAddress, DBusErrorResponse, MessageType, Properties, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

ROOT_PATH = "/org/a11y/atspi/accessible/root"
SHOWING = 25  # the number of the state "showing"


@dataclass(frozen=True)
class Node:
    """One thing in the window: where AT-SPI finds it, its role and its name."""

    bus: str
    path: str
    role: str
    name: str


def inside(root: Path, address: str) -> str:
    """A D-Bus address as it is seen from outside a root folder."""
    kind, _, rest = address.split(",guid")[0].partition("path=")
    return f"{kind}path={root}{rest}"


class Desktop:
    """A program's window, on a display and a session bus that belong to a root folder."""

    def __init__(self, root: Path, session_bus: str, screen: str) -> None:
        session = open_dbus_connection(inside(root, session_bus))
        where = DBusAddress("/org/a11y/bus", "org.a11y.Bus", "org.a11y.Bus")
        (address,) = _call(session, new_method_call(where, "GetAddress"))
        session.close()
        self._bus = open_dbus_connection(inside(root, address))
        self._environ = dict(os.environ) | {"DISPLAY": screen}

    def close(self) -> None:
        self._bus.close()

    def nodes(self) -> Iterator[Node]:
        """Everything that is shown, from the outermost in."""
        waiting = [("org.a11y.atspi.Registry", ROOT_PATH)]
        while waiting:
            bus, path = waiting.pop(0)
            try:
                (children,) = self._ask(bus, path, "Accessible", "GetChildren")
                for child_bus, child_path in children:
                    node = self._node(child_bus, child_path)
                    if node.role == "application" or self.is_showing(node):
                        yield node
                        waiting.append((child_bus, child_path))
            except DBusErrorResponse:
                continue  # it went while we looked

    def _node(self, bus: str, path: str) -> Node:
        where = DBusAddress(path, bus, "org.a11y.atspi.Accessible")
        ((_, name),) = _call(self._bus, Properties(where).get("Name"))
        (role,) = self._ask(bus, path, "Accessible", "GetRoleName")
        return Node(bus, path, role, name)

    def is_showing(self, node: Node) -> bool:
        ((low, _high),) = self._ask(node.bus, node.path, "Accessible", "GetState")
        return bool(low >> SHOWING & 1)

    def find(self, name: str, *roles: str, seconds: float = 60) -> Node:
        """The first thing of that name (and role) that is shown, waiting for it."""

        def look() -> Node | None:
            named = (one for one in self.nodes() if one.name == name)
            return next((one for one in named if not roles or one.role in roles), None)

        return wait(look, f"{name} to be seen", seconds, self.picture)

    def picture(self) -> str:
        """What is shown, for a failure's message."""
        return "\n".join(f"{one.role}: {one.name}" for one in self.nodes() if one.name)

    def click(self, node: Node) -> None:
        ((x, y, width, height),) = self._ask(
            node.bus, node.path, "Component", "GetExtents", "u", (0,)
        )
        self._do("mousemove", str(x + width // 2), str(y + height // 2), "click", "1")

    def key(self, *names: str) -> None:
        self._do("key", "--clearmodifiers", *names)

    def type(self, text: str) -> None:
        self._do("type", "--delay", "20", text)

    def focus_window(self) -> None:
        """There is no window manager that would do it."""
        self._do("search", "--sync", "--onlyvisible", "--name", "Twofold", "windowfocus")

    def _do(self, *arguments: str) -> None:
        subprocess.run(["xdotool", *arguments], env=self._environ, check=True, timeout=60)

    def _ask(
        self, bus: str, path: str, interface: str, method: str, kind: str = "", body: Any = ()
    ) -> Any:
        where = DBusAddress(path, bus, f"org.a11y.atspi.{interface}")
        return _call(self._bus, new_method_call(where, method, kind or None, body))


def _call(connection: DBusConnection, message: Any) -> Any:
    reply = connection.send_and_get_reply(message, timeout=20)
    if reply.header.message_type is MessageType.error:
        raise DBusErrorResponse(reply)
    return reply.body


def wait(
    look: Callable[[], Any], what: str, seconds: float, picture: Callable[[], str] = str
) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"waited {seconds:.0f} s for {what}; seen:\n{picture()}")
