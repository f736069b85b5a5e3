"""A root file system with nothing of a developer's in it, to install the package in.

debootstrap makes the smallest Debian once, from the machine's own package source, and keeps it in
the cache; each test works on a copy. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from engine.paths import cache_folder

PERSON = 1000
HOME = Path("home/person")


class CleanRoot:
    """A copy of the smallest system, with one person in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _run("cp", "-a", "--reflink=auto", base(), folder)
        shutil.copyfile("/etc/resolv.conf", folder / "etc" / "resolv.conf")
        self.run("useradd", "--create-home", "--uid", str(PERSON), "person")

    @property
    def home(self) -> Path:
        return self.folder / HOME

    def command(self, arguments: Sequence[str], *, person: bool, **environ: str) -> list[str]:
        """What runs `arguments` inside; all that it starts ends with it."""
        who = f"{PERSON}:{PERSON}" if person else "0:0"
        proxies = {name: value for name, value in os.environ.items() if name.endswith("_proxy")}
        inside = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": f"/{HOME}" if person else "/root",
            "LANG": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
        }
        named = [f"{name}={value}" for name, value in (proxies | inside | environ).items()]
        mounts = (
            'mount --rbind /dev "$0/dev"; mount --rbind /sys "$0/sys"; '
            'mount -t proc proc "$0/proc"; exec chroot "$@"'
        )
        return [
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", mounts),
            *(str(self.folder), f"--userspec={who}", str(self.folder), "env", "-i"),
            *(*named, *arguments),
        ]

    def run(self, *arguments: str, person: bool = False, **environ: str) -> str:
        """The output of a command inside; fails the test if the command fails."""
        return _run(*self.command(arguments, person=person, **environ))

    def install(self, *packages: str) -> str:
        """Through apt, as a person would; what was fetched is kept for the next copy."""
        kept = base().parent / "archives"
        kept.mkdir(exist_ok=True)
        inside = self.folder / "var" / "cache" / "apt" / "archives"
        for file in kept.glob("*.deb"):
            shutil.copyfile(file, inside / file.name)
        self.run("apt-get", "update", "--quiet", "--quiet")
        said = self.run(
            *("apt-get", "install", "--yes", "--quiet", "--no-install-recommends"),
            *("-o", "APT::Keep-Downloaded-Packages=true", *packages),
        )
        for file in inside.glob("*.deb"):
            if not (kept / file.name).exists():
                shutil.copyfile(file, kept / f"{file.name}.new")
                (kept / f"{file.name}.new").rename(kept / file.name)
        return said

    def let_root_look(self) -> None:
        """Lets the test, which is root outside, onto the buses of the person's session."""
        rule = '<policy context="default"><allow user="root"/></policy>'
        local = self.folder / "etc" / "dbus-1" / "session-local.conf"
        local.write_text(f"<busconfig>{rule}</busconfig>\n")
        accessibility = self.folder / "usr/share/defaults/at-spi2/accessibility.conf"
        told = accessibility.read_text(encoding="utf-8")
        accessibility.write_text(told.replace("</busconfig>", f"{rule}</busconfig>"))


def base() -> Path:
    """The smallest system, made if the cache lacks it."""
    site, suite = _source()
    target = cache_folder() / "clean_root" / suite / "base"
    if target.exists():
        return target
    unfinished = target.with_name(f"unfinished-{os.getpid()}")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    try:
        _run("debootstrap", "--variant=minbase", suite, str(unfinished), site)
        # Nothing that a package brings starts by itself.
        policy = unfinished / "usr" / "sbin" / "policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        (unfinished / "etc" / "apt" / "apt.conf.d" / "docker-clean").unlink(missing_ok=True)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _source() -> tuple[str, str]:
    """Where this machine gets Debian's main packages from, and which release."""
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    facts = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    suite = facts["VERSION_CODENAME"].strip('"')
    wanted = "$(REPO_URI) $(CODENAME) $(COMPONENT)"
    listed = _run("apt-get", "indextargets", "--format", wanted, "Created-By: Packages")
    for line in listed.splitlines():
        site, codename, component = line.split()
        if (codename, component) == (suite, "main"):
            return site, suite
    raise AssertionError(f"apt has no source of {suite}'s main packages: run apt-get update")


def _run(*arguments: str | Path) -> str:
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=1200)
    words = f"{arguments}: {done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert done.returncode == 0, words
    return done.stdout
