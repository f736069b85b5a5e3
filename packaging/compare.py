"""Says whether two builds hold the same, byte by byte, by their lists `contents.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The places that only one has, or whose contents differ."""
    return [place for place in sorted({*one, *other}) if one.get(place) != other.get(place)]


def main() -> int:
    one, other = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:3])
    found = differences(one, other)
    for place in found:
        print(place)
    print(f"{len(found)} of {len({*one, *other})} files differ.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
