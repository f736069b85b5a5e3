"""The base of all typed errors: a searchable code and data; words are made in `engine.words`."""

from __future__ import annotations

from typing import Any, ClassVar


class TwofoldError(Exception):
    """An expected failure.

    `code` is stable and searchable (for example `gguf.truncated`); `data` holds the
    facts that the sentence needs (paths, sizes, names), each JSON-serialisable.
    """

    code: ClassVar[str] = "error"

    def __init__(self, **data: Any) -> None:
        super().__init__(self.code, data)
        self.data: dict[str, Any] = data

    def __str__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.data.items())
        return f"{self.code}({facts})"


class NativeError(TwofoldError):
    """Raised by `engine._native`; the code is the native error's own."""

    def __init__(self, code: str, data: dict[str, Any]) -> None:
        super().__init__(**data)
        self.code = code  # type: ignore[misc]  # an instance may carry its own code
