#!/usr/bin/env python3
"""Clang's thread safety analysis of the files that see torch, which the preset asan does not build.

scripts/check_locks.py COMPILE_COMMANDS: looks at each source with locks, of its own or in a header that it includes,
that is not among COMPILE_COMMANDS, with the headers of the torch in .venv. Some five seconds a file.
"""

import json
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = ROOT / ".venv/lib" / f"python{sysconfig.get_python_version()}" / "site-packages/torch/include"


def has_locks(file: Path) -> bool:
    text = file.read_text()
    included = (ROOT / "src" / name for name in re.findall(r'#include "(ravnest/[^"]+)"', text))
    return any(re.search(r"\bMutex(Lock)?\b", each) for each in [text, *(path.read_text() for path in included)])


def sources(compiled: set[Path]) -> list[Path]:
    every = [path for top in ("src/ravnest", "python/bindings") for path in sorted((ROOT / top).rglob("*.cpp"))]
    product = (path for path in every if not path.stem.endswith(("_test", "_fuzz")) and "testing" not in path.parts)
    return [path for path in product if path not in compiled and has_locks(path)]


def complaint(file: Path) -> str:
    """What clang says of it; nothing where all is well."""
    own = ["-Isrc", "-Ipython/bindings", "-DFMT_HEADER_ONLY"]
    theirs = [TORCH, TORCH / "torch/csrc/api/include", sysconfig.get_path("include")]
    words = ["clang++", "-std=c++20", "-fsyntax-only", "-Wthread-safety", "-Werror=thread-safety", *own]
    words += [word for folder in theirs for word in ("-isystem", str(folder))]
    result = subprocess.run([*words, str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stderr.replace(f"{ROOT}/", "") or f"{file}: clang++ failed"


def main() -> int:
    commands = json.loads(Path(sys.argv[1]).read_text())
    files = sources({Path(each["directory"], each["file"]).resolve() for each in commands})
    with ThreadPoolExecutor(cpu_count()) as workers:
        complaints = [each for each in workers.map(complaint, files) if each]
    print("\n".join(complaints), end="")
    return bool(complaints) or not files


if __name__ == "__main__":
    sys.exit(main())
