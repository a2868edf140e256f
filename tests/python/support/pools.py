"""Pool files for tests."""

import json
from pathlib import Path

from support.ports import free_addresses


def write_pool(node_data, benchmarks: list[dict]) -> None:
    """node_configs.json with one local node per entry, on the ports from 8080."""
    nodes = {
        str(index): {"IP": f"0.0.0.0:{8080 + index}", "benchmarks": entry} for index, entry in enumerate(benchmarks)
    }
    Path(node_data).mkdir(parents=True, exist_ok=True)
    (Path(node_data) / "node_configs.json").write_text(json.dumps(nodes))


def write_local_pool(
    node_data, nodes: int, compute: list[float] | None = None, ram: float = 8, **benchmarks: float
) -> None:
    """node_configs.json with so many nodes on free ports of this machine, alike but for what they compute."""
    pool = {
        i: {"IP": address, "benchmarks": {"ram": ram, "bandwidth": 1000, **benchmarks}}
        for i, address in enumerate(free_addresses(nodes))
    }
    for i, each in enumerate(compute or []):
        pool[i]["benchmarks"]["compute"] = each
    Path(node_data).mkdir(parents=True, exist_ok=True)
    (Path(node_data) / "node_configs.json").write_text(json.dumps(pool))
