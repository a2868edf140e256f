"""Writes the stub by which type checkers know the C++ core: scripts/stub.py [FILE], by default the one in the tree.

To be run after a change of the bindings, with the module built and installed: .venv/bin/python scripts/stub.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).parents[1] / "python/ravnest/_core.pyi"
# The error is told to come from where people find it, ravnest, which has it from here.
ERROR = ("from ravnest import Error\n", "")
CLASS = ("class Model:\n", "class Error(RuntimeError):\n    of_another: bool\nclass Model:\n")


def make() -> str:
    with tempfile.TemporaryDirectory() as folder:
        tool = [sys.executable, "-m", "pybind11_stubgen", "--exit-code", "ravnest._core", "-o", folder]
        done = subprocess.run(tool, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stderr}stub.py: see the lines above for what the bindings do not say in terms of Python")
        text = (Path(folder) / "ravnest/_core.pyi").read_text()
    for found, instead in (ERROR, CLASS):
        assert found in text, f"the tool's output has changed: {found!r} is not in it"
        text = text.replace(found, instead, 1)
    return text


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else STUB).write_text(make())
