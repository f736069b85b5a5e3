"""The header of the C++ tests: the system's, or fetched from the distribution without root."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from setup.context import Context
from setup.words import SetupError

HEADER = "doctest/doctest.h"
SYSTEM = ("/usr/include", "/usr/local/include", "/opt/homebrew/include")


def folder(context: Context) -> Path:
    """Where a fetched header is kept: the include folder."""
    return context.cache / "doctest" / "usr" / "include"


def ready(context: Context) -> bool:
    return any(Path(place, HEADER).exists() for place in (*SYSTEM, folder(context)))


def make(context: Context) -> None:
    """Fetches and unpacks the Debian package; raises SetupError doctest.missing."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise SetupError("doctest.missing")
    context.cache.mkdir(parents=True, exist_ok=True)
    with (
        context.progress.step("fetching the C++ tests' header"),
        tempfile.TemporaryDirectory(dir=context.cache) as scratch,
    ):
        try:
            context.run(
                # As root, apt hands the download to a user who may not enter the folder.
                ["apt-get", "-o", "APT::Sandbox::User=root", "download", "doctest-dev"],
                what="fetching doctest",
                log="doctest",
                folder=Path(scratch),
            )
        except SetupError as error:
            raise SetupError("doctest.missing") from error
        (package,) = Path(scratch).glob("*.deb")
        unpacked = Path(scratch, "unpacked")
        context.run(
            ["dpkg", "-x", package, unpacked], what="unpacking doctest", log="doctest-unpack"
        )
        unpacked.rename(context.cache / "doctest")
