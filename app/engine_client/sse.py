"""Server-sent events out of bytes that arrive in any pieces."""

from __future__ import annotations


class EventParser:
    """`feed` gives the data of each event that is whole. Comments and other fields are dropped."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[str]:
        self._buffer += data.replace(b"\r\n", b"\n")
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
