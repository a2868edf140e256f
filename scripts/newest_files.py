#!/usr/bin/env python3
"""Prints source files for clang-tidy to look at, those that changed last first: newest_files.py COMPILE_COMMANDS COUNT

First what is not committed, then commit by commit, until there are COUNT files: so it is of the same use where HEAD is
the upstream's, as in CI, as where there are commits of one's own, and takes no longer after a large change. A header
that changed is looked at in a source that includes it, straight or through other headers.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
COMMITS = 50  # looked through at most


def git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def changed() -> Iterator[str]:
    yield from git("diff", "--name-only", "HEAD")
    yield from git("ls-files", "-o", "--exclude-standard")
    yield from git("log", "-m", "--first-parent", f"-{COMMITS}", "--name-only", "--format=")


def includers() -> dict[str, list[str]]:
    """header -> the files that include it."""
    found: dict[str, list[str]] = {}
    for path in git("ls-files", "-co", "--exclude-standard", "src/*.h", "src/*.cpp", "cli/*.h", "cli/*.cpp"):
        if not (ROOT / path).exists():
            continue
        for name in INCLUDE.findall((ROOT / path).read_text()):
            for header in (f"src/{name}", str(Path(path).parent / name)):
                found.setdefault(header, []).append(path)
    return found


def source_for(path: str, compiled: set[str], included_by: dict[str, list[str]]) -> str | None:
    """The file itself where it is compiled; the header's own source, or else the nearest that includes it."""
    ways, seen = [path], {path}
    while ways:
        own = str(Path(ways[0]).with_suffix(".cpp"))
        if own in compiled and (own == ways[0] or ways[0].endswith(".h")):
            return own
        after = [each for each in included_by.get(ways.pop(0), []) if each not in seen]
        seen.update(after)
        ways += after
    return None


def main(compile_commands: str, count: str) -> int:
    entries = json.loads(Path(compile_commands).read_text())
    compiled = {str(Path(entry["file"]).relative_to(ROOT)) for entry in entries if ROOT in Path(entry["file"]).parents}
    included_by = includers()
    files: dict[str, None] = {}
    for path in changed():
        if len(files) == int(count):
            break
        if path.endswith((".h", ".cpp")) and path.startswith(("src/", "cli/")) and (ROOT / path).exists():
            source = source_for(path, compiled, included_by)
            if source is not None:
                files[source] = None
    print("\n".join(files))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
