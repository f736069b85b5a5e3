"""Server-sent events out of bytes that arrive in any pieces."""

from __future__ import annotations


class EventParser:
    """`feed` gives the data of each event that is whole. Comments and other fields are dropped."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._held = b""

    def feed(self, data: bytes) -> list[str]:
        data = self._held + data
        # The other half of a line's end may still be on its way.
        self._held = b"\r" if data.endswith(b"\r") else b""
        self._buffer += data.removesuffix(b"\r").replace(b"\r\n", b"\n")
        events: list[str] = []
        while (end := self._buffer.find(b"\n\n")) >= 0:
            block = bytes(self._buffer[:end])
            del self._buffer[: end + 2]
            lines = [
                line[5:].removeprefix(b" ")
                for line in block.split(b"\n")
                if line.startswith(b"data:")
            ]
            if lines:
                events.append(b"\n".join(lines).decode("utf-8", errors="replace"))
        return events
