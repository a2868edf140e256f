"""The benchmarks of data parallelism run, those of a GPU too: what they measure there is seen seldom."""

import subprocess
import sys

import pytest
from support.places import ROOT


@pytest.mark.soak
@pytest.mark.parametrize(
    "program", ["strategies.py", "strategies_overlap.py", "strategies_gpu.py", "strategies_gpu.py --input uint8"]
)
def test_a_benchmark_comes_to_its_end_with_a_value_in_every_line(program):
    name, *flags = program.split()
    command = [sys.executable, ROOT / "benchmarks" / name, "--quick", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert lines
    for words in lines:
        assert len(words) == 5, words
        assert float(words[1]) > 0, words
