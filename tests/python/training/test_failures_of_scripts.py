"""How a failure of what users write is said: with its traceback where it happened, in one line elsewhere."""

import subprocess
import sys

import pytest
from support import command, npy_run
from support.nodes import NAMES, outcomes, start
from support.places import TESTS
from support.soaked import soaked

pytestmark = pytest.mark.slow

BROKEN = """
import torch
from support.small_net import criterion, loaders
from ravnest import Node, Trainer

def broken(*_):
    raise ValueError("no such\\nclass")

class Own(torch.optim.SGD):
    def step(self, closure=None):
        if node.name == "node_2":
            broken()
        return super().step(closure)

train, val = loaders()
with Node(OPTIONS, labels=train) as node:
    Trainer(node=node, train_loader=train, epochs=2).train()
"""
BROKEN_CRITERION = "optimizer=torch.optim.Adam, criterion=broken"


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("criterion", BROKEN_CRITERION),
        ("optimizer", 'optimizer=Own, optimizer_params={"lr": 0.1}, criterion=criterion'),
    ],
)
def test_a_failure_has_its_traceback_where_it_happened_and_is_one_line_elsewhere(folder, processes, what, options):
    script = folder / "broken.py"
    script.write_text(f"import sys\nsys.path.append({str(TESTS)!r})\n" + BROKEN.replace("OPTIONS", options))
    for name in NAMES:
        processes[name] = start(script, name, folder)
    sentence = f"node_2 (stage 2) failed: the {what} raised ValueError: no such class (broken.py, line 9, in broken)"
    for name, (status, output) in outcomes(processes).items():
        assert status == 1, (name, output)
        own = name == "node_2"
        last = output.strip().splitlines()[-1]
        assert last == ("ravnest.Error: " if own else "ravnest: ") + sentence, output
        assert output.count(sentence) == 1, output
        assert ("Traceback" in output) == own, output
        assert ('raise ValueError("no such' in output) == own, output


@pytest.mark.parametrize("by", [*soaked("python"), "command"])
def test_under_up_a_failure_is_said_once_and_last(folder, by):
    script = folder / "broken.py"
    script.write_text(f"import sys\nsys.path.append({str(TESTS)!r})\n" + BROKEN.replace("OPTIONS", BROKEN_CRITERION))
    npy_run.write_files(folder)
    (folder / "taken").write_text("a file where a folder should be")
    arguments = ["--", sys.executable, script] if by == "python" else ["--trained", "taken"]
    result = subprocess.run(
        [command.COMMAND, "up", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 1, result.stdout
    sentence = "the criterion raised ValueError: no such class" if by == "python" else "node_0 (stage 0) failed: cannot"
    assert result.stdout.count(sentence) == 1, result.stdout
    last = result.stdout.strip().splitlines()[-1]
    assert last.startswith("ravnest: ") and sentence in last, result.stdout
    assert result.stdout.count("Traceback") == (2 if by == "python" else 0), result.stdout
