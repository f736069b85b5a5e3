"""Every keyboard shortcut of the window in one list, for the window and for the page about them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shortcut:
    """`keys` as Qt writes them; the words are `shortcuts.<id>`. Those of one place need no id's
    action: the widget that has the focus knows them."""

    id: str
    keys: str
    everywhere: bool = True


SHORTCUTS: tuple[Shortcut, ...] = (
    Shortcut("new_chat", "Ctrl+N"),
    Shortcut("search", "Ctrl+K"),
    Shortcut("write", "Ctrl+L"),
    Shortcut("stop", "Ctrl+."),
    Shortcut("regenerate", "Ctrl+R"),
    Shortcut("copy_answer", "Ctrl+Shift+C"),
    Shortcut("attach", "Ctrl+O"),
    Shortcut("chat_settings", "Ctrl+Shift+S"),
    Shortcut("why", "Ctrl+Shift+W"),
    Shortcut("larger", "Ctrl++"),
    Shortcut("smaller", "Ctrl+-"),
    Shortcut("sidebar", "Ctrl+B"),
    Shortcut("quit", "Ctrl+Q"),
    Shortcut("send", "Return", everywhere=False),
    Shortcut("new_line", "Shift+Return", everywhere=False),
    Shortcut("scroll", "PgUp", everywhere=False),
    Shortcut("rename", "F2", everywhere=False),
    Shortcut("delete", "Del", everywhere=False),
    Shortcut("menu", "Shift+F10", everywhere=False),
)
