"""One window a data folder: a second start brings the first one's window forward, and hands over
the model that it was to open."""

from __future__ import annotations

import hashlib
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

WAIT_MS = 500


class SingleWindow(QObject):
    """`asked` comes when another start wants this window, with the path of a model or ""."""

    asked = Signal(str)

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
        self._name = f"twofold-{digest}"
        self._server: QLocalServer | None = None

    def is_first(self, model: str = "") -> bool:
        """Whether no other window answers; if so, this one answers from now on. Another one is
        given `model`, the path of one to open."""
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if socket.waitForConnected(WAIT_MS):
            socket.write(model.encode())
            socket.waitForBytesWritten(WAIT_MS)
            socket.disconnectFromServer()
            return False
        server = QLocalServer(self)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        QLocalServer.removeServer(self._name)  # of a window that was killed
        if server.listen(self._name):
            server.newConnection.connect(self._on_connection)
            self._server = server
        return True

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _on_connection(self) -> None:
        if self._server is None:
            return
        socket = self._server.nextPendingConnection()
        socket.disconnected.connect(lambda: self._heard(socket))
        if socket.state() == QLocalSocket.LocalSocketState.UnconnectedState:
            self._heard(socket)

    def _heard(self, socket: QLocalSocket) -> None:
        socket.disconnected.disconnect()
        self.asked.emit(bytes(socket.readAll().data()).decode(errors="replace"))
        socket.deleteLater()
