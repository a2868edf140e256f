"""Where things are that tests start or read."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
TESTS = ROOT / "tests/python"
SCRIPTS = Path(__file__).parent / "scripts"  # to be run as processes of their own, with TESTS in their PYTHONPATH
