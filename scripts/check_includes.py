#!/usr/bin/env python3
"""Holds the #include lines of src/ravnest against the order of its rooms, which stands in src/ravnest/rooms.txt.

A file may include its own room and those above it in the list. A test, and what stands in a folder `testing`, may also
use other rooms within its own top folder; nothing else may include a `testing` folder. Every file stands in a room of
the list, and docs/architecture.md names the same rooms in the same order.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "ravnest"
INCLUDE = re.compile(r'^\s*#\s*include\s*"ravnest/([^"]+)"', re.MULTILINE)


def rooms() -> list[str]:
    lines = (SOURCE / "rooms.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def room_of(path: str, order: list[str]) -> str | None:
    folder = path.rpartition("/")[0].removesuffix("/testing")
    return folder if folder in order else None


def is_for_tests(path: str) -> bool:
    return "/testing/" in path or path.endswith(("_test.cpp", "_fuzz.cpp"))


def complaints_about(path: str, order: list[str]) -> list[str]:
    room = room_of(path, order)
    if room is None:
        return [f"{path} stands in no room of rooms.txt"]
    complaints = []
    for included in INCLUDE.findall((SOURCE / path).read_text()):
        other = room_of(included, order)
        if other is None or not (SOURCE / included).exists():
            complaints.append(f"{path} includes {included}, which is in no room")
            continue
        if not is_for_tests(path) and "/testing/" in included:
            complaints.append(f"{path} includes {included}, which is for tests")
        neighbours = is_for_tests(path) and room.split("/")[0] == other.split("/")[0]
        if order.index(other) > order.index(room) and not neighbours:
            complaints.append(f"{path} includes {included}: the room {other} comes after {room}")
    return complaints


def documented() -> list[str]:
    """The first column of the table of rooms, without those that are only planned."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.split("| folder | what lives there | torch |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `([a-z_/]+)` \|", table, re.MULTILINE)


def main() -> int:
    order = rooms()
    complaints = []
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in (".h", ".cpp") and path.parent != SOURCE:  # ravnest.h names what users include
            complaints += complaints_about(path.relative_to(SOURCE).as_posix(), order)
    if documented() != order:
        complaints.append("docs/architecture.md and rooms.txt do not name the same rooms in the same order")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
