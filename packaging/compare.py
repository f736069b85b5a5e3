"""Says whether two builds of the program hold the same, by their lists `contents.json`.

PyInstaller's own archive and start file may differ, by the order in which Python happened to keep
sets while it compiled; everything else is equal, byte by byte.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

MAY_DIFFER: frozenset[str] = frozenset()


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The places that only one has, or whose contents differ; those that may are left out."""
    places = sorted({*one, *other} - MAY_DIFFER)
    return [place for place in places if one.get(place) != other.get(place)]


def main() -> int:
    one, other = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:3])
    found = differences(one, other)
    for place in found:
        print(place)
    print(f"{len(found)} of {len({*one, *other})} files differ.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
