"""Clusters that train side by side, each with a share of the cores of its own: what more of them are worth.

    python benchmarks/clusters.py [--cores 0.3] [--every 50] [--epochs 40] [--repeats 3]

The digits CNN on clusters of two processes, over sockets with TLS, each cluster with a CPU quota (this needs root).
Samples/s of 2 and 4 clusters, with rounds every so many updates and without any but the one at the end: beside those of
one cluster, and beside each other. Without rounds it is what the machine itself gives to several at a time. All in
turns; medians. Prints lines of: name value unit ratio-to-peer target.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/python"))

from support.digits_clusters import run

NEVER = 10**9


def samples_per_s(clusters: int, cores: float, epochs: int, every: int) -> float:
    """Of all clusters together. Each trains on its share, so as to be busy for as long as one alone would be."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("--epochs", str(epochs * clusters), "--reduce-factor", str(every))
        results = run(Path(folder), [2] * clusters, [cores] * clusters, *arguments)
    assert all(results), "a cluster has failed"
    roots = [max(cluster, key=lambda node: node["samples"]) for cluster in results]
    return sum(root["samples"] for root in roots) / max(root["seconds"] for root in roots)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=float, default=0.3, help="for each cluster")
    parser.add_argument("--every", type=int, default=50, help="updates between two rounds")
    parser.add_argument("--epochs", type=int, default=40, help="of a cluster alone")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    ways = {
        "1": (1, NEVER),
        "2": (2, options.every),
        "4": (4, options.every),
        "2_never": (2, NEVER),
        "4_never": (4, NEVER),
    }
    rates: dict = {way: [] for way in ways}
    for _ in range(options.repeats):
        for way, (clusters, every) in ways.items():
            rates[way].append(samples_per_s(clusters, options.cores, options.epochs, every))
    rate = {way: statistics.median(each) for way, each in rates.items()}
    print(f"# name value unit ratio-to-peer target; {options.repeats} repeats, in turns")
    print(f"clusters_1 {rate['1']:.0f} samples/s - -")
    for clusters in ("2", "4"):
        alone = f"{clusters}_never"
        scaled, bound = (rate[way] / rate["1"] for way in (clusters, alone))
        stall = statistics.median(one / other for one, other in zip(rates[clusters], rates[alone], strict=True))
        print(f"clusters_{clusters} {rate[clusters]:.0f} samples/s {scaled:.2f} >={0.9 * int(clusters):.1f}")
        print(f"clusters_{clusters}_without_rounds {rate[alone]:.0f} samples/s {bound:.2f} -")
        print(f"clusters_{clusters}_with_of_without_rounds {rate[clusters]:.0f} samples/s {stall:.3f} >=0.97")


if __name__ == "__main__":
    main()
