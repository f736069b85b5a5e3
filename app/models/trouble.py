"""Why something could not be had, and the one thing that helps."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QLineEdit

from app.engine_client.failures import sentence
from app.i18n import tr
from app.models.words import breakable
from app.shell.widgets import button, column, label, row
from engine.api.failure import Failure

# What a token may help with.
_TOKEN = ("hub.gated", "hub.bad_token", "hub.forbidden", "hub.repo_not_found", "hub.rate_limited")


class TokenLine(QFrame):
    """Where the hub's token is put in; it is never shown. `kept` with it."""

    kept = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.field = QLineEdit()
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setPlaceholderText(tr("models.token"))
        self.field.setAccessibleName(tr("models.token"))
        self.keep = button(tr("common.save"))
        self.keep.setAccessibleName(tr("models.keep_token"))
        self.keep.clicked.connect(self._keep)
        self.field.returnPressed.connect(self._keep)
        words = label(tr("models.token_words"), "small", wrap=True)
        layout = column(spacing=4)
        layout.addLayout(row(self.field, self.keep))
        layout.addWidget(words)
        self.setLayout(layout)

    def _keep(self) -> None:
        if text := self.field.text().strip():
            self.field.clear()
            self.kept.emit(text)


class Trouble(QFrame):
    """`retried` and `settings_asked` from its buttons."""

    retried = Signal()
    settings_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "notice-card")
        self.words = label("", wrap=True)
        self.retry = button(tr("helps.try_again"))
        self.retry.clicked.connect(self.retried)
        self.settings = button(tr("models.open_settings"))
        self.settings.clicked.connect(self.settings_asked)
        self.token = TokenLine()
        layout = column(self.words, spacing=12)
        layout.addWidget(self.token)
        layout.addLayout(row(self.settings, self.retry, None))
        layout.setContentsMargins(16, 12, 16, 12)
        self.setLayout(layout)
        self.hide()

    def say(self, problem: Failure) -> None:
        self.words.setText(breakable(sentence(problem)))
        self.settings.setVisible(problem.code == "hub.offline")
        self.token.setVisible(problem.code in _TOKEN)
        self.show()
