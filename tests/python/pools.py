"""Pool files for tests."""

import json
from pathlib import Path


def write_pool(node_data, benchmarks: list[dict]) -> None:
    """node_configs.json with one local node per entry, on the ports from 8080."""
    nodes = {
        str(index): {"IP": f"0.0.0.0:{8080 + index}", "benchmarks": entry} for index, entry in enumerate(benchmarks)
    }
    Path(node_data).mkdir(parents=True, exist_ok=True)
    (Path(node_data) / "node_configs.json").write_text(json.dumps(nodes))
