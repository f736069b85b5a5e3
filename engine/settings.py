"""Every setting of the engine, declared once: name, type, default, range and what it is for."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engine.api.sampling import SamplingSettings
from engine.api.turn import DEFAULT_POLICY, PathSetting, Policy
from engine.program import called

MB = 1_000_000  # bytes, as settings count them
_SAMPLING = SamplingSettings.model_fields


def _setting(
    default: Any, doc: str, *, restart: bool = False, secret: bool = False, **limits: Any
) -> Any:
    extra: dict[str, Any] = {"restart": restart, "secret": secret}
    return Field(default=default, description=doc, json_schema_extra=extra, **limits)


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ServerSettings(Section):
    host: str = _setting(
        "127.0.0.1", "The address to listen on. Others than loopback let other machines in.",
        restart=True, min_length=1, max_length=255,
    )  # fmt: skip
    port: int = _setting(
        0, "The port to listen on; 0 takes a free one.", restart=True, ge=0, le=65535
    )
    token: str | None = _setting(
        None, "The token that clients must send; without one, each start makes a new one.",
        restart=True, secret=True, min_length=16, max_length=256, pattern=r"^[\x21-\x7e]+$",
    )  # fmt: skip
    hosts: tuple[str, ...] = _setting(
        (), "Names under which clients may call this machine, besides localhost.", max_length=32
    )
    origins: tuple[str, ...] = _setting(
        (), "Web pages that may call, as https://example.org; none by default.",
        restart=True, max_length=32,
    )  # fmt: skip
    queue: int = _setting(8, "How many requests may wait while another is answered.", ge=0, le=1000)
    connections: int = _setting(
        100, "How many connections may be open at once.", restart=True, ge=4, le=10_000
    )
    body_limit_mb: int = _setting(32, "The largest request that is accepted, in MB.", ge=1, le=256)
    header_timeout_s: float = _setting(
        10.0, "How long a client may take to send a request's headers.", restart=True,
        ge=0.1, le=300,
    )  # fmt: skip
    body_timeout_s: float = _setting(
        30.0, "How long a client may take to send a request's body.", ge=0.1, le=3600
    )
    idle_timeout_s: float = _setting(
        60.0, "How long a connection may stay open without a request.", restart=True,
        ge=1, le=3600,
    )  # fmt: skip


class EngineSettings(Section):
    idle_unload_min: float = _setting(
        0.0, "Minutes without a request after which the model is unloaded; 0 keeps it.",
        ge=0, le=10_080,
    )  # fmt: skip
    path: PathSetting = _setting("auto", "How prompts are read when a request does not say.")


class LoadDefaults(Section):
    context: int | None = _setting(
        None, "Context in tokens; without one, what the model was trained for, up to 16,384.",
        ge=64, le=16_777_216,
    )  # fmt: skip
    micro_batch: int | None = _setting(
        None, "Tokens that are read at once; without one, as many as memory allows.",
        ge=32, le=65_536,
    )  # fmt: skip
    threads: int | None = _setting(
        None, "Processor threads; without one, one for each physical core.", ge=1, le=1024
    )
    slots: int = _setting(
        2, "Buffers of one block each through which a prefiller is streamed.", ge=1, le=64
    )
    policy: Policy = _setting(
        DEFAULT_POLICY,
        "What the path auto goes by: the least time to the first token, or the better answers.",
    )
    carve_out: bool = _setting(
        True, "Lends idle decoder weights' memory to the slots, so that they cost none."
    )


class GenerationSettings(Section):
    temperature: float = _setting(
        _SAMPLING["temperature"].default, "How freely tokens are chosen; 0 takes the likeliest.",
        ge=0, le=2,
    )  # fmt: skip
    top_k: int = _setting(
        _SAMPLING["top_k"].default, "Chooses among this many of the likeliest tokens; 0: all.",
        ge=0, le=1_000_000,
    )  # fmt: skip
    top_p: float = _setting(
        _SAMPLING["top_p"].default, "Chooses among the likeliest tokens of this total probability.",
        gt=0, le=1,
    )  # fmt: skip
    min_p: float = _setting(
        _SAMPLING["min_p"].default, "Leaves out tokens this much less likely than the likeliest.",
        ge=0, le=1,
    )  # fmt: skip
    repeat_penalty: float = _setting(
        _SAMPLING["repeat_penalty"].default, "Makes recent tokens less likely; 1 does not.",
        ge=0.1, le=2,
    )  # fmt: skip
    max_tokens: int | None = _setting(
        None, "The longest answer in tokens; without one, until it ends or the context is full.",
        ge=1, le=16_777_216,
    )  # fmt: skip


class LibrarySettings(Section):
    folder: str | None = _setting(
        None, called("Where models are kept; ./twofold models move changes it and moves them."),
        min_length=1, max_length=4096,
    )  # fmt: skip
    folders: tuple[str, ...] = _setting(
        (), "More folders to look for models in. Nothing is written there.", max_length=64
    )


class DownloadSettings(Section):
    parallel: int = _setting(3, "How many files are downloaded at once.", restart=True, ge=1, le=16)
    bandwidth_mb: float = _setting(
        0.0, "The most that all downloads together take, in MB a second; 0 sets no limit.",
        ge=0, le=100_000,
    )  # fmt: skip
    offline: bool = _setting(False, "Asks nothing of the network. Models that are here still work.")


class LogSettings(Section):
    level: str = _setting(
        "info", "How much is logged: debug, info, warning or error.",
        pattern="^(debug|info|warning|error)$", restart=True,
    )  # fmt: skip
    texts: bool = _setting(
        False, "Also logs prompts and answers, which are private; off unless you look for a fault."
    )
    file_mb: int = _setting(
        5, "The size of a log file in MB, beyond which a new one begins.", restart=True,
        ge=1, le=1024,
    )  # fmt: skip
    files: int = _setting(5, "How many old log files are kept.", restart=True, ge=1, le=100)


class Settings(Section):
    server: ServerSettings = ServerSettings()
    engine: EngineSettings = EngineSettings()
    load: LoadDefaults = LoadDefaults()
    generation: GenerationSettings = GenerationSettings()
    library: LibrarySettings = LibrarySettings()
    downloads: DownloadSettings = DownloadSettings()
    log: LogSettings = LogSettings()
