"""Step 1, once, on the requester's machine: plan who trains which part of the model.

python plan.py [--nodes 3] [--seed 42]
"""

import argparse
import json
from pathlib import Path

import torch
from digits import BATCH, make_model

import ravnest

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--nodes", type=int, default=3, help="local nodes, where there is no pool file yet")
parser.add_argument("--seed", type=int, default=42)
options = parser.parse_args()

# The pool: here a few nodes on this machine. On several machines it has each one's address; see docs/walkthrough.md.
pool = Path("node_data/node_configs.json")
if not pool.exists():
    pool.parent.mkdir(exist_ok=True)
    nodes = {i: {"IP": f"0.0.0.0:{8080 + i}", "benchmarks": {"ram": 8, "bandwidth": 10}} for i in range(options.nodes)}
    pool.write_text(json.dumps(nodes, indent=2))

ravnest.set_seed(options.seed)
ravnest.clusterize(make_model(), example_args=(torch.rand(BATCH, 1, 8, 8),))
