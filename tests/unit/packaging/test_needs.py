"""What the program's files link to becomes the package's dependencies."""

from __future__ import annotations

import pytest

from tests.unit.packaging.scripts import script

SAID = """
Dynamic Section:
  NEEDED               libc.so.6
  NEEDED               libstdc++.so.6
  NEEDED               libours.so.1
Version References:
  required from libc.so.6:
    0x09691a75 0x00 02 GLIBC_2.2.5
    0x06969187 0x00 03 GLIBC_2.34
  required from libstdc++.so.6:
    0x02297f89 0x00 04 GLIBCXX_3.4.29
"""
OWNERS = {"libc.so.6": "libc6", "libstdc++.so.6": "libstdc++6"}


def test_libraries_become_packages_of_the_versions_that_the_symbols_need() -> None:
    needs = script("linux/needs")
    links = needs.read_links(SAID)
    assert links.needed == {"libc.so.6", "libstdc++.so.6", "libours.so.1"}
    found = needs.packages([links], {"libours.so.1"}, OWNERS)
    assert found == ["libc6 (>= 2.34)", "libstdc++6 (>= 11)"]


def test_vulkans_loader_is_not_asked_for_because_the_program_runs_without() -> None:
    needs = script("linux/needs")
    links = needs.read_links("  NEEDED               libvulkan.so.1\n")
    assert needs.packages([links], set(), {"libvulkan.so.1": "libvulkan1"}) == []
    assert "libvulkan1" in script("linux/installers").RECOMMENDED


def test_a_library_that_no_package_owns_is_not_passed_over() -> None:
    needs = script("linux/needs")
    with pytest.raises(KeyError, match=r"libours\.so\.1"):
        needs.packages([needs.read_links(SAID)], set(), OWNERS)
