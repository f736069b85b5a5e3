"""Makes the .deb and the .tar.gz from the program's folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from needs import needs_of
from program import PROGRAM
from releases import Release, releases
from staging import OUT, ROOT, project, source_time

HERE = Path(__file__).parent
ICONS = OUT / "icons"
INSTALLERS = OUT / "installers"
# Where pages and pictures of the program will stand; a publisher names it, and only the list of
# software that the desktop shows reads it.
HOMEPAGE = os.environ.get("TWOFOLD_HOMEPAGE", "https://twofold.example")
# (picture, what it shows) of `twofold screenshots`.
SCREENSHOTS = (
    ("chat", "An answer, with what was read by which weights"),
    ("prefill", "Where a model's weights lie while a prompt is read"),
    ("models", "Models on this computer"),
)
# Qt opens these by name, or asks the desktop: no file of ours names them as needed.
ALSO_NEEDED = ("libegl1", "libgl1", "xkb-data", "fontconfig")
RECOMMENDED = ("fonts-noto-core", "fonts-noto-cjk", "mesa-vulkan-drivers", "libvulkan1")
MAINTAINER = "The Twofold developers <maintainers@twofold.example>"


def metainfo() -> str:
    """The AppStream description, with the releases of the changelog."""
    shots = [
        f"    <screenshot{' type=' + chr(34) + 'default' + chr(34) if number == 0 else ''}>\n"
        f"      <caption>{escape(caption)}</caption>\n"
        f"      <image>{HOMEPAGE}/screenshots/{name}.png</image>\n"
        "    </screenshot>"
        for number, (name, caption) in enumerate(SCREENSHOTS)
    ]
    listed = [
        f'    <release version="{one.version}" date="{one.day}">\n'
        "      <description>\n        <ul>\n"
        + "".join(f"          <li>{escape(plain(change))}</li>\n" for change in one.changes)
        + "        </ul>\n      </description>\n    </release>"
        for one in releases()
    ]
    text = (HERE / "app.twofold.Twofold.metainfo.xml.in").read_text(encoding="utf-8")
    text = text.replace("@HOMEPAGE@", HOMEPAGE)
    text = text.replace("@SCREENSHOTS@", "\n".join(shots))
    return text.replace("@RELEASES@", "\n".join(listed))


def plain(change: str) -> str:
    """A line of the changelog without its marks."""
    return change.replace("`", "")


def debian_changelog(listed: list[Release]) -> str:
    parts: list[str] = []
    for one in listed:
        when = format_datetime(datetime.fromisoformat(f"{one.day}T12:00:00+00:00"))
        lines = "\n".join(f"  * {plain(change)}" for change in one.changes)
        parts.append(
            f"twofold ({one.version}) unstable; urgency=medium\n\n{lines}\n\n"
            f" -- {MAINTAINER}  {when}\n"
        )
    return "\n".join(parts)


def lay_out(root: Path) -> None:
    """The installed files, as below /."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(PROGRAM, root / "opt" / "twofold", symlinks=True)
    share = root / "usr" / "share"
    for size in (16, 32, 48, 64, 128, 256, 512):
        place = share / "icons" / "hicolor" / f"{size}x{size}" / "apps" / "twofold.png"
        _put(place, (ICONS / f"twofold-{size}.png").read_bytes())
    scalable = share / "icons" / "hicolor" / "scalable" / "apps" / "twofold.svg"
    _put(scalable, (ROOT / "packaging" / "assets" / "twofold.svg").read_bytes())
    _put(share / "applications" / "twofold.desktop", (HERE / "twofold.desktop").read_bytes())
    _put(share / "mime" / "packages" / "twofold.xml", (HERE / "twofold-mime.xml").read_bytes())
    _put(share / "metainfo" / "app.twofold.Twofold.metainfo.xml", metainfo().encode())
    documents = share / "doc" / "twofold"
    _put(documents / "changelog.gz", gzip.compress(debian_changelog(releases()).encode(), mtime=0))
    _put(documents / "copyright", (HERE / "copyright").read_bytes())
    link = root / "usr" / "bin" / "twofold"
    link.parent.mkdir(parents=True)
    link.symlink_to("/opt/twofold/twofold")


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def control(size: int, needs: str) -> str:
    """The package's description; `size` in bytes."""
    return f"""Package: twofold
Version: {project().version}
Architecture: {architecture()}
Maintainer: {MAINTAINER}
Installed-Size: {size // 1024}
Depends: {needs}
Recommends: {", ".join(RECOMMENDED)}
Section: utils
Priority: optional
Homepage: {HOMEPAGE}
Description: Chat with a large language model on this computer
 Twofold runs a large language model here, with a graphics card or without. One
 set of weights can read the prompt while another writes the answer.
"""


def architecture() -> str:
    command = ["dpkg", "--print-architecture"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def make_deb(scratch: Path) -> Path:
    root = scratch / "deb"
    lay_out(root)
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    information = root / "DEBIAN"
    information.mkdir()
    needs = ", ".join(sorted({*needs_of(PROGRAM), *ALSO_NEEDED}))
    (information / "control").write_text(control(size, needs))
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"
        f"  {path.relative_to(root)}\n"
        for path in files
    ]
    (information / "md5sums").write_text("".join(sums))
    for name in ("postinst", "postrm"):
        shutil.copyfile(HERE / name, information / name)
        (information / name).chmod(0o755)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink() and path.parent != information:
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    target = INSTALLERS / f"twofold_{project().version}_{architecture()}.deb"
    _run_dpkg_deb(root, target)
    return target


def _run_dpkg_deb(root: Path, target: Path) -> None:
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", root, target],
        env={**os.environ, "SOURCE_DATE_EPOCH": source_time()},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def make_archive() -> Path:
    """The folder alone, to be unpacked anywhere."""
    name = f"twofold-{project().version}-linux-{architecture()}"
    target = INSTALLERS / f"{name}.tar.gz"
    when = int(source_time())

    def plainly(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = when
        return member

    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in (PROGRAM, *sorted(PROGRAM.rglob("*"))):
            place = Path(name, path.relative_to(PROGRAM)).as_posix()
            archive.add(path, place, recursive=False, filter=plainly)
    return target


def main() -> None:
    INSTALLERS.mkdir(parents=True, exist_ok=True)
    scratch = OUT / "installer-work"
    made = [make_deb(scratch), make_archive()]
    shutil.rmtree(scratch)
    facts: dict[str, Any] = {path.name: path.stat().st_size for path in made}
    (OUT / "installers.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    for path in made:
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
