"""The whole walk-through by one command: plan, three nodes on this machine, fusion, and the model in plain PyTorch.

python demo.py [--folder demo] [--epochs 100]
"""

import argparse
import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
NODES = ["node_0", "node_1", "node_2"]


def say(words: str) -> None:
    print(f"\n== {words}", flush=True)


def write_pool(folder: Path) -> None:
    """Three nodes of this machine, on ports that are free."""
    ports = []
    while len(ports) < len(NODES):
        port = random.SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as probe:
            if port not in ports and probe.connect_ex(("127.0.0.1", port)) != 0:
                ports.append(port)
    entries = ",\n ".join(
        f'"{i}": {{"IP": "127.0.0.1:{port}", "benchmarks": {{"ram": 8, "bandwidth": 1000}}}}'
        for i, port in enumerate(ports)
    )
    (folder / "node_data").mkdir(parents=True, exist_ok=True)
    (folder / "node_data/node_configs.json").write_text(f"{{{entries}}}\n")


def run(script: str, folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, HERE / script, *arguments], cwd=folder, check=True)


def start(node: str, folder: Path, epochs: int) -> subprocess.Popen:
    """A node in a process of its own. The root's words come to this terminal, the others' go to files."""
    output = None if node == NODES[0] else (folder / f"{node}.log").open("w")
    return subprocess.Popen(
        [sys.executable, HERE / "train.py", "--epochs", str(epochs)],
        cwd=folder,
        env={**os.environ, "RAVNEST_NODE": node},
        stdout=output,
        stderr=output,
    )


def train(folder: Path, epochs: int) -> None:
    """All three nodes until they are done; whatever happens, none is left behind."""
    nodes = {node: start(node, folder, epochs) for node in NODES}
    try:
        failed = [node for node, process in nodes.items() if process.wait() != 0]
    except KeyboardInterrupt:
        # The terminal has sent it to the nodes too; they end by themselves.
        deadline = time.monotonic() + 5
        for process in nodes.values():
            process.wait(timeout=max(deadline - time.monotonic(), 0.1))
        raise SystemExit(130) from None
    finally:
        for process in nodes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
    if failed:
        raise SystemExit(f"{', '.join(failed)} failed; see {folder}/*.log")


def draw(losses: list[float], path: Path) -> None:
    """The loss over the updates as a picture, on a logarithmic scale."""
    width, height, margin = 720, 300, 44
    smooth, mean = [], losses[0]
    for loss in losses:
        mean += 0.05 * (loss - mean)
        smooth.append(math.log10(max(mean, 1e-9)))
    low, high = min(smooth), max(smooth)

    def point(i, value):
        x = margin + (width - 2 * margin) * i / max(len(smooth) - 1, 1)
        y = margin + (height - 2 * margin) * (high - value) / ((high - low) or 1)
        return f"{x:.1f},{y:.1f}"

    line = " ".join(point(i, value) for i, value in enumerate(smooth))
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<polyline fill="none" stroke="#2563eb" stroke-width="1.5" points="{line}"/>'
        f'<text x="{margin}" y="{margin - 14}">loss, digits on three nodes: {10**high:.3f} to {10**low:.4f}</text>'
        f'<text x="{width - margin}" y="{height - 14}" text-anchor="end">{len(losses)} updates</text></svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where it all happens")
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args()
    folder = options.folder.resolve()
    write_pool(folder)
    say("plan: who trains which part of the model")
    run("plan.py", folder)
    say(f"train: three nodes with TLS between them, {options.epochs} epochs")
    train(folder, options.epochs)
    say("fuse: one state dict for the model")
    draw([float(line) for line in (folder / "losses.txt").read_text().splitlines()], folder / "losses.svg")
    run("fuse.py", folder)
    print(f"the losses as a picture: {os.path.relpath(folder / 'losses.svg')}")


if __name__ == "__main__":
    main()
