"""The recipes agree with the project and with each other, on the systems that are not here too."""

from __future__ import annotations

import configparser
import os
import plistlib
import re
import shutil
import subprocess
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from setup.variants import VARIANTS, arguments, variants
from tests.unit.packaging.scripts import PACKAGING, ROOT, script

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]
RECIPES = sorted(path for path in PACKAGING.rglob("*") if path.is_file())


def text(place: str) -> str:
    return (PACKAGING / place).read_text(encoding="utf-8")


def test_the_version_stands_in_pyproject_and_heads_the_changelog_and_nowhere_else() -> None:
    assert script("releases").releases()[0].version == VERSION
    for file in RECIPES:
        if file.suffix != ".pyc":
            assert VERSION not in file.read_text(encoding="utf-8"), file


def test_every_release_has_a_day_and_says_what_changed() -> None:
    found = script("releases").releases()
    assert found == sorted(found, key=lambda one: one.day, reverse=True)
    assert all(one.changes for one in found)


@pytest.mark.parametrize("system", ["linux", "win32", "darwin"])
def test_no_build_of_the_library_takes_this_machine_for_every_machine(system: str) -> None:
    options = arguments(system, "abc1234")
    assert {"-DGGML_NATIVE=OFF", "-DGGML_BACKEND_DL=ON", "-DGGML_CPU_ALL_VARIANTS=ON"} <= {*options}
    assert "-DLLAMA_BUILD_COMMIT=abc1234" in options


def test_nothing_is_compiled_for_the_machine_that_builds() -> None:
    described = (ROOT / "native" / "CMakeLists.txt").read_text(encoding="utf-8")
    sources = [
        described,
        *(file.read_text(encoding="utf-8") for file in RECIPES if file.suffix != ".pyc"),
    ]
    for source in sources:
        assert "-march=native" not in source
        assert "-mtune=native" not in source


def test_the_variants_reach_from_sse42_to_amx_where_the_compiler_knows_them() -> None:
    assert variants("linux", "x86_64") == VARIANTS
    assert (VARIANTS[0], VARIANTS[-1]) == ("sse42", "sapphirerapids")
    assert {*variants("win32", "AMD64")} < {*VARIANTS}
    assert variants("linux", "aarch64") == variants("darwin", "arm64") == ()


def test_what_the_other_systems_recipes_ask_for_is_told() -> None:
    facts = script("facts").facts("win32")
    asked = {*re.findall(r"\$facts\.(\w+)", text("windows/build.ps1"))}
    assert asked <= {*facts}
    assert {*re.findall(r"fact (\w+)", text("macos/build"))} - {"and"} <= {*facts}
    assert facts["sdist_sha256"] == PROJECT["tool"]["twofold"]["llama"]["sdist_sha256"]


@pytest.mark.parametrize("recipe", ["windows/build.ps1", "macos/build", "linux/build"])
def test_every_file_that_a_recipe_names_is_there(recipe: str) -> None:
    named = re.findall(r"packaging[\\/][\w\\/.-]+\.\w+", text(recipe))
    assert named
    for one in named:
        assert (ROOT / one.replace("\\", "/")).is_file(), one


def test_recipes_that_nobody_has_run_say_so() -> None:
    for recipe in ("windows/build.ps1", "windows/twofold.iss", "macos/build"):
        assert "Not yet run" in "".join(text(recipe).splitlines(keepends=True)[:3])


def test_windows_installs_for_one_person_without_rights() -> None:
    installer = text("windows/twofold.iss")
    assert "PrivilegesRequired=lowest" in installer
    assert "{localappdata}" in installer
    assert "Root: HKLM" not in installer
    assert '"/DVersion=$($facts.version)"' in text("windows/build.ps1")
    for source in re.findall(r'Source: "\.\.\\\.\.\\build\\package\\([^\\]+)', installer):
        assert source == "dist"


def test_windows_shows_the_version_among_the_programs_properties() -> None:
    made = script("windows/version_file").text("1.2.3")
    assert "filevers=(1, 2, 3, 0)" in made
    assert "StringStruct('ProductVersion', '1.2.3')" in made
    compile(made, "version", "eval")


def test_the_applications_description_for_macos_is_whole() -> None:
    described = script("contents").info_plist(VERSION)
    assert plistlib.loads(plistlib.dumps(described)) == described
    assert described["CFBundleShortVersionString"] == VERSION
    entitled = plistlib.loads(text("macos/entitlements.plist").encode())
    assert entitled == {"com.apple.security.cs.allow-unsigned-executable-memory": True}


@pytest.mark.parametrize("recipe", ["macos/build", "linux/build", "linux/postinst", "linux/postrm"])
def test_shell_recipes_parse_and_can_be_run(recipe: str) -> None:
    file = PACKAGING / recipe
    shell = text(recipe).splitlines()[0].removeprefix("#!")
    subprocess.run([shell, "-n", file], check=True)
    assert os.access(file, os.X_OK)


@pytest.mark.parametrize(
    "place",
    [
        "PySide6/Qt/translations/qt_de.qm",
        "PySide6/Qt/plugins/sqldrivers/libqsqlite.so",
        "PySide6/Qt/plugins/platforms/libqvnc.so",
        "numpy/tests/test_abc.py",
        "twofold-0.1.0.dist-info/direct_url.json",
        "libstdc++.so.6",
        "libX11.so.6",
        "libvulkan.so.1",
        "libglib-2.0.so.0",
    ],
)
def test_what_no_person_needs_stays_out(place: str) -> None:
    assert not script("contents").is_wanted(place)


@pytest.mark.parametrize(
    "place",
    [
        "PySide6/Qt/plugins/platforms/libqxcb.so",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "PySide6/Qt/plugins/imageformats/libqsvg.so",
        "PySide6/Qt/translations/qtbase_ko.qm",
        "llama_cpp/lib/libggml-cpu-sse42.so",
        "libxcb-cursor.so.0",
        "backends/libggml-vulkan.so",
        "libgomp.so.1",
        "licences/qt.txt",
    ],
)
def test_what_the_program_opens_goes_in(place: str) -> None:
    assert script("contents").is_wanted(place)


def test_the_desktop_entry_names_the_installed_program_and_the_type_of_file() -> None:
    entry = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    entry.read_string(text("linux/twofold.desktop"))
    facts = entry["Desktop Entry"]
    assert facts["exec"].split()[0] == facts["tryexec"] == "/opt/twofold/twofold"
    kind = ElementTree.fromstring(text("linux/twofold-mime.xml"))[0].attrib["type"]
    assert facts["mimetype"] == f"{kind};"


def test_the_metainfo_tells_of_every_release_and_shows_pictures() -> None:
    found = ElementTree.fromstring(script("linux/installers").metainfo())
    told = [one.attrib["version"] for one in found.iter("release")]
    assert told == [one.version for one in script("releases").releases()]
    assert len([*found.iter("screenshot")]) >= 2
    assert found.findtext("id") == script("contents").IDENTIFIER


@pytest.mark.skipif(
    not (shutil.which("appstreamcli") and shutil.which("desktop-file-validate")),
    reason="needs the packages appstream and desktop-file-utils",
)
def test_the_desktops_own_checkers_find_nothing_wrong(tmp_path: Path) -> None:
    entry = PACKAGING / "linux" / "twofold.desktop"
    subprocess.run(["desktop-file-validate", "--no-hints", entry], check=True)
    file = tmp_path / "app.twofold.Twofold.metainfo.xml"
    file.write_text(script("linux/installers").metainfo(), encoding="utf-8")
    done = subprocess.run(
        ["appstreamcli", "validate", "--no-net", file], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_a_removed_package_says_what_it_keeps_and_where() -> None:
    for action, told in (("remove", True), ("purge", True), ("upgrade", False)):
        done = subprocess.run(
            ["sh", PACKAGING / "linux" / "postrm", action], capture_output=True, text=True
        )
        assert done.returncode == 0
        assert ("~/.local/share/twofold" in done.stdout) is told
    assert "rm " not in text("linux/postrm")
