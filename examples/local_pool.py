"""The pool of the examples: nodes on this machine, unless there is a pool file already."""

import json
from pathlib import Path


def write_local_pool(nodes: int = 3) -> None:
    """Write node_data/node_configs.json where there is none. docs/walkthrough.md says what it looks like elsewhere."""
    pool = Path("node_data/node_configs.json")
    if pool.exists():
        return
    pool.parent.mkdir(exist_ok=True)
    benchmarks = {"ram": 8, "bandwidth": 1000}
    pool.write_text(
        json.dumps({i: {"IP": f"0.0.0.0:{8080 + i}", "benchmarks": benchmarks} for i in range(nodes)}, indent=2)
    )
