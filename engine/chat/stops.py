"""Stop strings over a stream of text: nothing is emitted that may turn out to start one."""

from __future__ import annotations

from collections.abc import Sequence


class StopFilter:
    """Passes text on until a stop string is complete, and holds back as little as it can.

    The stop string that completes first wins, the longest of those that complete together, so
    the result does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._beginnings = frozenset(
            stop[:length] for stop in self._stops for length in range(1, len(stop))
        )
        self._longest_held = max((len(stop) for stop in self._stops), default=1) - 1
        self._held = ""
        self.found: str | None = None

    def feed(self, text: str) -> str:
        """The text that is now safe to show; empty after a stop string was found."""
        if not self._stops:
            return text
        if self.found is not None:
            return ""
        text = self._held + text
        ends: list[tuple[int, int, str]] = []
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0:
                ends.append((start + len(stop), start, stop))
        if ends:
            _, start, self.found = min(ends)
            self._held = ""
            return text[:start]
        for start in range(max(0, len(text) - self._longest_held), len(text)):
            if text[start:] in self._beginnings:
                self._held = text[start:]
                return text[:start]
        self._held = ""
        return text

    def flush(self) -> str:
        """The held text, which did not become a stop string after all."""
        held, self._held = self._held, ""
        return held
