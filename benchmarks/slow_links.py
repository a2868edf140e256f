"""A pipeline over slow links: how busy its nodes stay, and how far off the planner's prediction is.

    python benchmarks/slow_links.py [--seconds 30]

The 6-layer transformer on two processes, over TLS, with int8 on the wire, through relays with the rate and the delay
that the name says. The planner chooses the cut and the window; it is told the links, and the compute that the stages
show without a network, two of them at a time since they share this machine. Prints lines of: name value unit
ratio-to-prediction target.
"""

import argparse
import contextlib
import io
import json
import tempfile
from pathlib import Path

import pipeline
import torch
from relays import Relays
from support.ports import free_ports

import ravnest

# Name, Mbps, round trip in ms, share of the time that the slowest stage has to be busy.
LINKS = [("100mbps-80ms", 100, 80, 90), ("10mbps-150ms", 10, 150, 70)]
CODEC = "int8"


def plan(case: pipeline.Case, folder: Path, mbps: float, round_trip_ms: float, gflops: float):
    node = {"ram": 8, "bandwidth": mbps, "latency": round_trip_ms / 2, "compute": gflops}
    pool = {str(i): {"IP": f"127.0.0.1:{9000 + i}", "benchmarks": node} for i in range(2)}
    (folder / "pool.json").write_text(json.dumps(pool))
    inputs, _ = case.data(1)
    with contextlib.redirect_stdout(io.StringIO()):
        made = ravnest.clusterize(
            case.make(), (inputs,), pool=folder / "pool.json", node_data=folder / "node_data", compression=CODEC
        )
    return made.clusters[0]


def measure(name: str, mbps: float, round_trip_ms: float, target: int, seconds: float) -> None:
    case = pipeline.CASES["transformer"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        guess = plan(case, folder, mbps, round_trip_ms, 100)
        cut = guess.nodes[1].begin
        ours = pipeline.Ours(case, folder, [cut])
        alone = ours.alone(at_once=2, batch=case.batch, steps=2 * case.steps, codec=CODEC)
        # What the compute must be for the planner to see the stages as fast as they are.
        gflops = 100 * sum(node.compute_s for node in guess.nodes) / sum(alone)
        planned = plan(case, folder, mbps, round_trip_ms, gflops)
        if planned.nodes[1].begin != cut:
            ours = pipeline.Ours(case, folder, [planned.nodes[1].begin])
        ports = free_ports(2)
        with Relays(ports, "--profile", name) as relays:
            results = ours.run(
                batch=case.batch,
                seconds=seconds,
                warm_up=2 * planned.window,
                window=planned.window,
                codec=CODEC,
                addresses=relays.addresses,
                listen=[f"127.0.0.1:{port}" for port in ports],
            )
    rate = case.batch / pipeline.step_s(results)
    pipeline.tell(f"slow_link_{name}_window", planned.window, "passes")
    pipeline.tell(f"slow_link_{name}_busy", pipeline.busiest(results) * 100, "%", "-", f">={target}")
    pipeline.tell(f"slow_link_{name}_rate", rate, "samples/s", rate / planned.samples_per_s, "0.9..1.1")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for link in LINKS:
        measure(*link, given.seconds)
