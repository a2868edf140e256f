"""The accuracy of the walk-through beside plain PyTorch's at equal epochs, over several seeds and numbers of nodes.

    python benchmarks/walkthrough_accuracy.py [--nodes 2 3 4 6] [--seeds 5] [--epochs 100]

Prints lines of: name value unit difference-to-peer target. The value is the mean over the seeds of the accuracy of the
fused model on the validation set, computed by plain PyTorch; so is the peer's.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples/digits"
sys.path[:0] = [str(ROOT / "tests/python"), str(DIGITS)]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from digits import load_data, make_loaders, make_model  # noqa: E402
from support.pools import write_local_pool  # noqa: E402
from torch import nn  # noqa: E402

import ravnest  # noqa: E402


def accuracy_of(model: nn.Module) -> float:
    _, (images, targets) = load_data()
    with torch.no_grad():
        return 100 * (model.eval()(images).argmax(1) == targets.argmax(1)).float().mean().item()


def plain(seed: int, epochs: int) -> float:
    ravnest.set_seed(seed)
    model, (train, _) = make_model(), make_loaders()
    optimizer, loss = torch.optim.Adam(model.parameters()), nn.MSELoss()
    for _ in range(epochs):
        for x, y in train:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
    return accuracy_of(model)


def by_nodes(count: int, seed: int, epochs: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_local_pool(folder / "node_data", count)
        subprocess.run(
            [sys.executable, DIGITS / "plan.py", "--seed", str(seed)], cwd=folder, check=True, capture_output=True
        )
        nodes = [
            subprocess.Popen(
                [sys.executable, DIGITS / "train.py", "--epochs", str(epochs), "--seed", str(seed)],
                cwd=folder,
                env={**os.environ, "RAVNEST_NODE": f"node_{i}"},
                stderr=subprocess.DEVNULL,
            )
            for i in range(count)
        ]
        assert [node.wait(600) for node in nodes] == [0] * count
        model = make_model()
        with contextlib.redirect_stdout(None):  # where it wrote is of no interest between the results
            fused = ravnest.model_fusion(trained=folder / "trained")
        model.load_state_dict(torch.load(fused, weights_only=True), strict=True)
        return accuracy_of(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 3, 4, 6])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(1, options.seeds + 1)
    peer = statistics.mean(plain(seed, options.epochs) for seed in seeds)
    print(f"accuracy_plain {peer:.2f} % - -", flush=True)
    for count in options.nodes:
        own = statistics.mean(by_nodes(count, seed, options.epochs) for seed in seeds)
        print(f"accuracy_{count}_nodes {own:.2f} % {own - peer:+.2f} >=-0.5", flush=True)


if __name__ == "__main__":
    main()
