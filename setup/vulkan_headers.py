"""What building the Vulkan backend needs of the system, and newer headers where its own are old."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from setup.context import Context, file_sha256
from setup.words import SetupError

# VK_EXT_layer_settings, which the backend names, came with 1.3.272.
OLDEST = (1, 3, 272)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
INCLUDES = (Path("/usr/include"), Path("/usr/local/include"))
LOADERS = ("/usr/lib/*/libvulkan.so.1", "/usr/lib*/libvulkan.so.1", "/usr/local/lib/libvulkan.so.1")


@dataclass(frozen=True)
class Vulkan:
    """What CMake is told; None where it finds the system's own. `version` is the headers'."""

    version: str
    loader: Path
    include: Path | None
    spirv: Path | None

    @property
    def arguments(self) -> list[str]:
        found = {
            "Vulkan_LIBRARY": self.loader,
            "Vulkan_INCLUDE_DIR": self.include,
            "SPIRV-Headers_DIR": self.spirv,
        }
        return [f"-D{name}={path}" for name, path in found.items() if path]


def find(context: Context) -> Vulkan:
    """Fetches the headers if need be. Raises SetupError vulkan.missing or vulkan.headers_old."""
    loader = _loader()
    if loader is None or shutil.which("glslc") is None:
        raise SetupError("vulkan.missing")
    if new_enough(INCLUDES) and _has_spirv():
        return Vulkan(".".join(map(str, _found(INCLUDES))), loader, None, None)
    root = _fetched(context)
    version = context.pins("vulkan_headers")["libvulkan-dev"]
    return Vulkan(version, loader, root / "include", root / "share" / "cmake" / "SPIRV-Headers")


def new_enough(folders: Sequence[Path]) -> bool:
    """Whether the first Vulkan header found there has what the backend needs."""
    return _found(folders) >= OLDEST


def _found(folders: Sequence[Path]) -> tuple[int, int, int]:
    for folder in folders:
        header = folder / "vulkan" / "vulkan_core.h"
        if header.exists():
            return _version(header.read_text(encoding="utf-8", errors="replace"))
    return (0, 0, 0)


def _version(text: str) -> tuple[int, int, int]:
    """Of a vulkan_core.h: the patch has a macro of its own, the rest is in the complete one."""
    patch = re.search(r"#define VK_HEADER_VERSION (\d+)", text)
    complete = re.search(
        r"#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION\(\d+, (\d+), (\d+),", text
    )
    if not patch or not complete:
        return (0, 0, 0)
    return (int(complete.group(1)), int(complete.group(2)), int(patch.group(1)))


def _loader() -> Path | None:
    return next((path for pattern in LOADERS for path in sorted(Path("/").glob(pattern[1:]))), None)


def _has_spirv() -> bool:
    places = ("/usr/share/cmake", "/usr/lib/cmake", "/usr/local/share/cmake")
    return any(Path(place, "SPIRV-Headers").is_dir() for place in places)


def _fetched(context: Context) -> Path:
    """Debian's newer packages, unpacked below the cache; returns their `usr`."""
    pins = context.pins("vulkan_headers")
    target = context.cache / "sources" / f"vulkan-headers-{pins['libvulkan-dev']}"
    if target.exists():
        return target / "usr"
    mirror = _mirror()
    if mirror is None or not KEYRING.exists():
        raise SetupError("vulkan.headers_old", oldest=".".join(map(str, OLDEST)))
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        context.progress.step("fetching newer Vulkan headers (2 MB)", expected_s=10),
        tempfile.TemporaryDirectory(dir=target.parent) as folder,
    ):
        place = Path(folder)
        packages = _download(context, pins, mirror, place)
        for package in packages:
            context.run(
                ["dpkg-deb", "-x", package, place / "unpacked"],
                what="unpacking the Vulkan headers",
                log="vulkan-headers-unpack",
            )
        (place / "unpacked").rename(target)
    return target / "usr"


def _download(context: Context, pins: dict[str, str], mirror: str, place: Path) -> list[Path]:
    """A package list of its own, so that the system's is left as it is; signed by Debian."""
    for folder in ("state/lists/partial", "cache/archives/partial", "packages"):
        (place / folder).mkdir(parents=True)
    source = place / "sources.list"
    source.write_text(f"deb [signed-by={KEYRING}] {mirror} {pins['suite']} main\n", "utf-8")
    apt = [
        *("apt-get", "--quiet", "-o", "APT::Sandbox::User=root"),
        *("-o", f"Dir::Etc::SourceList={source}", "-o", "Dir::Etc::SourceParts=/dev/null"),
        *("-o", f"Dir::State={place / 'state'}", "-o", f"Dir::Cache={place / 'cache'}"),
    ]
    names = ("libvulkan-dev", "spirv-headers")
    wanted = [f"{name}={pins[name]}" for name in names]
    for command, folder in (["update"], None), (["download", *wanted], place / "packages"):
        context.run(
            [*apt, *command],
            what="fetching newer Vulkan headers",
            log="vulkan-headers",
            folder=folder,
        )
    packages = sorted((place / "packages").glob("*.deb"))
    for package in packages:
        name, architecture = package.stem.split("_")[0], package.stem.split("_")[-1]
        sums = (pins.get(f"{name}_{architecture}_sha256"), pins.get(f"{name}_sha256"))
        if file_sha256(package) not in sums:
            raise SetupError("hash.mismatch", what=name)
    return packages


def _mirror() -> str | None:
    """The Debian mirror that this system uses, from its own package lists."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian"],
        capture_output=True,
        text=True,
        check=False,
    )
    mirrors = [line.strip() for line in listed.stdout.splitlines() if "security" not in line]
    return mirrors[0] if mirrors else None
