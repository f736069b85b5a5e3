"""Packs what helps to find a fault into one archive, without what is private."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from engine import logs, paths
from engine.doctor.report import Report
from engine.errors import TwofoldError
from engine.settings_store import SettingsStore

LEFT_OUT = "[left out]"
# Of each log file, the end.
MAX_LOG_BYTES = 5 << 20
# Tokens of this program's and of model sites, keys in addresses, and e-mail addresses.
_SECRETS = re.compile(
    r"(?:(?<=Bearer )\S+)|\bhf_[A-Za-z0-9]{8,}|\bsk-[A-Za-z0-9_-]{8,}"
    r"|(?<=[?&]token=)[^&\s\"]+|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|[\w.+-]+@[\w-]+\.[\w.]+"
)
_CONTENTS = """\
What is in here: the report of `twofold doctor`, the settings (without the token), and the logs.
Left out: prompts and answers, tokens, your name, this computer's name and your home folder's path.
It is plain text: look through it before you send it.
"""


class BundleNotWritten(TwofoldError):
    """Data: `path`, `reason`."""

    code = "doctor.bundle_not_written"


class Redactor:
    """Takes private text out of what goes to others."""

    def __init__(self, *, home: str, user: str, host: str, secrets: tuple[str, ...] = ()) -> None:
        replaced = {home: "~", **dict.fromkeys(secrets, LEFT_OUT)}
        self._exact = {text: to for text, to in replaced.items() if len(text) > 1}
        # Names are words of their own; "root" and the like tell nothing and occur everywhere.
        names = {
            name: to
            for name, to in ((user, "[user]"), (host, "[host]"))
            if len(name) > 2 and name not in ("root", "user", "localhost")
        }
        self._names = {
            re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])"): to for name, to in names.items()
        }

    def text(self, text: str) -> str:
        for private, instead in self._exact.items():
            text = text.replace(private, instead)
        text = _SECRETS.sub(LEFT_OUT, text)
        for private, instead in self._names.items():
            text = private.sub(instead, text)
        return text

    def value(self, value: Any) -> Any:
        """JSON's values; fields that hold a user's own words are emptied, whatever is in them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {
                self.text(name): LEFT_OUT if name in logs.PRIVATE_FIELDS else self.value(each)
                for name, each in cast("dict[str, Any]", value).items()
            }
        return value

    def line(self, line: str) -> str:
        """A line of the log. One that is not whole may be a part of anything."""
        try:
            return json.dumps(self.value(json.loads(line)), ensure_ascii=False)
        except ValueError:
            return LEFT_OUT


def this_machines(secrets: tuple[str, ...] = ()) -> Redactor:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no name, as in some containers
        user = ""
    return Redactor(home=str(Path.home()), user=user, host=socket.gethostname(), secrets=secrets)


def default_name() -> Path:
    return Path(time.strftime("twofold-diagnostics-%Y%m%d-%H%M%S.zip"))


def write_bundle(path: Path, report: Report) -> Path:
    """Gives where it is. Raises BundleNotWritten; what was at `path` is then as before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in _files(report):
                archive.writestr(name, text)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise BundleNotWritten(path=str(path), reason=error.strerror or str(error)) from error
    return path.absolute()


def _files(report: Report) -> Iterator[tuple[str, str]]:
    settings, token = _settings()
    redactor = this_machines((token,) if token else ())
    yield "contents.txt", _CONTENTS
    yield "report.json", _pretty(redactor.value(report.model_dump(mode="json")))
    yield "settings.json", _pretty(redactor.value(settings))
    for file in sorted(paths.log_folder().glob(f"{logs.FILE_NAME}*")):
        lines = _tail(file)
        yield f"logs/{file.name}", "".join(redactor.line(line) + "\n" for line in lines)


def _settings() -> tuple[Any, str | None]:
    """The settings, or what is wrong with them; and the token, to look out for."""
    try:
        store = SettingsStore()
    except TwofoldError as error:
        return {"error": error.code, "data": error.data}, None
    return [info.model_dump(mode="json") for info in store.infos()], store.current.server.token


def _tail(file: Path) -> list[str]:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - MAX_LOG_BYTES))
            return stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
