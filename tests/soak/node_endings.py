"""Nodes of a run that trains, killed or interrupted at random moments, each role in turn, again and again.

python tests/soak/node_endings.py [TIMES]
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.endings import Run, end_again_and_again  # noqa: E402
from support.nodes import NAMES, plan_net, train_for_long  # noqa: E402


def make(folder: Path) -> list[Run]:
    plan_net(folder)
    return [Run(NAMES, lambda nodes: train_for_long(folder, nodes), lambda name: f"{name} (stage {name[-1]})")]


if __name__ == "__main__":
    end_again_and_again("node_endings", make, int(sys.argv[1]) if len(sys.argv) > 1 else 50)
