"""Pool files for tests."""

import json
from pathlib import Path

from stage_processes import free_ports


def write_pool(node_data, benchmarks: list[dict]) -> None:
    """node_configs.json with one local node per entry, on the ports from 8080."""
    nodes = {
        str(index): {"IP": f"0.0.0.0:{8080 + index}", "benchmarks": entry} for index, entry in enumerate(benchmarks)
    }
    Path(node_data).mkdir(parents=True, exist_ok=True)
    (Path(node_data) / "node_configs.json").write_text(json.dumps(nodes))


def write_local_pool(node_data, nodes: int) -> None:
    """node_configs.json with so many nodes that are alike, on free ports of this machine."""
    pool = {
        i: {"IP": f"127.0.0.1:{port}", "benchmarks": {"ram": 8, "bandwidth": 1000}}
        for i, port in enumerate(free_ports(nodes))
    }
    Path(node_data).mkdir(parents=True, exist_ok=True)
    (Path(node_data) / "node_configs.json").write_text(json.dumps(pool))
