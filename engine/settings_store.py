"""Reads settings from a TOML file, the environment and flags, and writes changes to the file."""

from __future__ import annotations

import difflib
import os
import tomllib
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin

import tomlkit
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from engine import paths
from engine.api.settings import Kind, SettingInfo, Source
from engine.errors import TwofoldError
from engine.program import called
from engine.settings import Section, Settings

PREFIX = "TWOFOLD_"

# Names that settings had before, in MiB then and in MB now.
_RENAMED = {
    "server.body_limit_mib": "server.body_limit_mb",
    "downloads.bandwidth_mib": "downloads.bandwidth_mb",
    "log.file_mib": "log.file_mb",
}
_MB_IN_A_MIB = 1.048576


class UnknownSetting(TwofoldError):
    """Data: `name`, `source`, `suggestion`: the closest name, in words, or nothing."""

    code = "settings.unknown"


class BadSetting(TwofoldError):
    """Data: `name`, `source`, `problem`, `doc`, `default`."""

    code = "settings.bad_value"


class SettingsUnreadable(TwofoldError):
    """The settings file is not TOML or cannot be read. Data: `path`, `problem`."""

    code = "settings.unreadable"


class SettingsNotSaved(TwofoldError):
    """Data: `path`, `problem`."""

    code = "settings.not_saved"


def settings_file() -> Path:
    return paths.config_folder() / "settings.toml"


class SettingsStore:
    """The settings in force (`current`), where each value came from, and how to change them."""

    def __init__(
        self,
        *,
        file: Path | None = None,
        environment: Mapping[str, str] | None = None,
        flags: Mapping[str, str] | None = None,
    ) -> None:
        """`flags` have dotted names, as `server.port`. Raises the errors above."""
        self.file = file or settings_file()
        self._environment = os.environ if environment is None else environment
        self._flags = flags or {}
        self.current, self._sources = self._read(_parsed(self.file, _text(self.file)))

    def infos(self) -> list[SettingInfo]:
        """All settings in the order of their declaration."""
        return [
            _info(name, field, self._value(name), self._sources.get(name, "default"))
            for name, field in _fields()
        ]

    def change(self, changes: Mapping[str, Any]) -> list[str]:
        """Writes new values to the file; None takes a setting out of it.

        Gives the names of those that take effect at the next start. Nothing is changed if one of
        them is refused. A value that environment or flag sets stays theirs.
        """
        text = _text(self.file)
        wanted: dict[str, Any] = _parsed(self.file, text)
        for name, value in changes.items():
            _require_known(name, "file")
            section, _, key = name.partition(".")
            table = wanted.setdefault(section, {})
            for old in _old_keys(name):
                table.pop(old, None)
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        current, sources = self._read(wanted)
        document = tomlkit.parse(text)
        for name, value in changes.items():
            section, _, key = name.partition(".")
            table = cast("dict[str, Any]", document.setdefault(section, tomlkit.table()))
            for old in _old_keys(name):
                table.pop(old, None)
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        _write(self.file, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType]
        self.current, self._sources = current, sources
        restart = {info.name for info in self.infos() if info.restart}
        return [name for name in changes if name in restart]

    def _value(self, name: str) -> Any:
        section, _, key = name.partition(".")
        return getattr(getattr(self.current, section), key)

    def _read(self, from_file: dict[str, Any]) -> tuple[Settings, dict[str, Source]]:
        values: dict[str, dict[str, Any]] = {}
        sources: dict[str, Source] = {}
        for given_name, given, source in self._given(from_file):
            name, value = _of_today(given_name, given)
            if name != given_name and sources.get(name) == source:
                continue  # both names are given: the one of today counts
            field = _require_known(name, source)
            section, _, key = name.partition(".")
            values.setdefault(section, {})[key] = (
                _from_text(field, value) if isinstance(value, str) else value
            )
            sources[name] = source
        try:
            return Settings.model_validate(values), sources
        except ValidationError as error:
            raise _bad(error, sources) from None

    def _given(self, from_file: dict[str, Any]) -> Iterator[tuple[str, Any, Source]]:
        for section, table in from_file.items():
            if not isinstance(table, dict):
                _require_known(section, "file")
                continue
            for key, value in cast("dict[str, Any]", table).items():
                yield f"{section}.{key}", value, "file"
        sections = tuple(f"{PREFIX}{section.upper()}_" for section in Settings.model_fields)
        for variable, value in self._environment.items():
            if variable.startswith(sections):
                section, _, key = variable.removeprefix(PREFIX).lower().partition("_")
                yield f"{section}.{key}", value, "environment"
        for name, value in self._flags.items():
            yield name, value, "flag"


def _fields() -> Iterator[tuple[str, FieldInfo]]:
    for section, table in Settings.model_fields.items():
        kind = table.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, Section)
        for key, field in kind.model_fields.items():
            yield f"{section}.{key}", field


def _old_keys(name: str) -> list[str]:
    """What a setting was called in its section."""
    return [old.partition(".")[2] for old, new in _RENAMED.items() if new == name]


def _of_today(name: str, value: Any) -> tuple[str, Any]:
    """A setting under its name of today, in the unit of today."""
    if name not in _RENAMED:
        return name, value
    today = _RENAMED[name]
    field = dict(_fields())[today]
    try:
        number = float(value) * _MB_IN_A_MIB
    except (TypeError, ValueError):
        return today, value  # refused as any bad value is
    most = next(limit.le for limit in field.metadata if hasattr(limit, "le"))
    number = min(number, float(most))
    return today, round(number) if field.annotation is int else number


def _require_known(name: str, source: Source) -> FieldInfo:
    known = dict(_fields())
    if name in known:
        return known[name]
    key = name.rpartition(".")[2]
    close = [full for full in known if full.rpartition(".")[2] == key]  # in another section
    close = close or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    suggestion = f"Did you mean {close[0]}?" if close else called("See ./twofold serve --help.")
    raise UnknownSetting(name=name, source=source, suggestion=suggestion)


def _extra(field: FieldInfo, name: str) -> bool:
    extra: Any = field.json_schema_extra
    return bool(extra[name])


def _bad(error: ValidationError, sources: Mapping[str, Source]) -> BadSetting:
    first = error.errors(include_url=False, include_input=False)[0]
    name = ".".join(str(part) for part in first["loc"][:2])
    field = dict(_fields())[name]
    return BadSetting(
        name=name,
        source=sources.get(name, "file"),
        problem=first["msg"].removeprefix("Value error, "),
        doc=field.description or "",
        default="none" if field.default is None else str(field.default),
    )


def _kind(field: FieldInfo) -> tuple[Kind, bool, tuple[str, ...]]:
    """The kind, whether there may be no value, and the choices."""
    annotation: Any = field.annotation
    optional = False
    if get_origin(annotation) in (types.UnionType, Union):
        annotation = next(each for each in get_args(annotation) if each is not type(None))
        optional = True
    if get_origin(annotation) is Literal:
        return "choice", optional, get_args(annotation)
    if get_origin(annotation) is tuple:
        return "list", optional, ()
    kinds: dict[Any, Kind] = {bool: "bool", int: "int", float: "float", str: "text"}
    return kinds[annotation], optional, ()


def _from_text(field: FieldInfo, text: str) -> Any:
    """What a variable or flag says; nothing means no value, commas part a list."""
    kind, optional, _ = _kind(field)
    if optional and not text:
        return None
    if kind == "list":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _info(name: str, field: FieldInfo, value: Any, source: Source) -> SettingInfo:
    kind, optional, choices = _kind(field)
    limits: dict[str, Any] = {}
    for limit in field.metadata:
        for attribute in ("ge", "gt", "le", "lt"):
            if hasattr(limit, attribute):
                limits[attribute] = getattr(limit, attribute)
    secret = _extra(field, "secret")
    return SettingInfo(
        name=name,
        kind=kind,
        doc=field.description or "",
        default=field.default,
        value="set" if secret and value else None if secret else value,
        source=source,
        minimum=limits.get("ge", limits.get("gt")),
        maximum=limits.get("le", limits.get("lt")),
        choices=choices,
        optional=optional,
        restart=_extra(field, "restart"),
        secret=secret,
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsUnreadable(path=str(file), problem=str(error)) from error


def _parsed(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsUnreadable(path=str(file), problem=str(error)) from error


def _write(file: Path, text: str) -> None:
    """All or nothing, and readable by its owner only: a token may be in it."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SettingsNotSaved(path=str(file), problem=str(error)) from error
