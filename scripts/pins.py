"""Tells the wheel which torch it needs: the one that requirements.txt pins, since the C++ core is built against it."""

import re
from pathlib import Path


def dynamic_metadata(field, settings):
    """The provider that pyproject.toml names for `dependencies`."""
    if field != "dependencies":
        raise RuntimeError(f"scripts/pins.py gives dependencies, not {field}")
    requirements = Path(__file__).parent.parent / "requirements.txt"
    pin = re.search(r"^torch==\S+", requirements.read_text(encoding="utf-8"), re.MULTILINE)
    if pin is None:
        raise RuntimeError(f"{requirements} does not pin torch with ==")
    return [pin.group()]
