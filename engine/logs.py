"""The engine's log: rotating files of JSON lines. Prompts and answers are not in it by default."""

from __future__ import annotations

import json
import logging
import logging.handlers
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from engine import paths
from engine.settings import MB, LogSettings

FILE_NAME = "engine.log"
# Fields that hold a user's own words; a diagnostics bundle leaves them out.
PRIVATE_FIELDS = frozenset({"prompt", "answer"})
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """`time` (UTC), `level`, `from`, `event`, and what was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "from": record.name,
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_file() -> Path:
    return paths.log_folder() / FILE_NAME


def set_up(settings: LogSettings) -> None:
    """Logs to the log folder, and warnings to stderr too. A folder that cannot be written to costs
    the log, and is told."""
    root = logging.getLogger()
    root.setLevel(settings.level.upper())
    to_stderr = logging.StreamHandler(sys.stderr)
    to_stderr.setLevel(logging.WARNING)
    root.addHandler(to_stderr)
    file = log_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        to_file = logging.handlers.RotatingFileHandler(
            file,
            maxBytes=settings.file_mb * MB,
            backupCount=settings.files,
            encoding="utf-8",
        )
    except OSError as error:
        root.warning("Nothing is logged: %s cannot be written (%s).", file, error.strerror)
        return
    to_file.setFormatter(JsonFormatter())
    root.addHandler(to_file)


def tail(lines: int) -> list[str]:
    """The last lines of the log, oldest first; none if there is no log."""
    try:
        with log_file().open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=lines)]
    except OSError:
        return []
