"""From a model and a pool of machines to clusters, stages and rings."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from . import _core
from .capture.capture import capture
from .engine.graph import load
from .keywords import refuse_unknown
from .seed import current_seed
from .settings import compression_name, number, whole_number


def clusterize(
    model: torch.nn.Module | torch.export.ExportedProgram,
    example_args: Any = (),
    example_kwargs: Mapping[str, Any] | None = None,
    pass_data: bool = False,
    *,
    balance: str | None = None,
    min_cluster_size: int = 2,
    use_all: bool = False,
    optimizer_state: float = 2.0,
    average_every: int = 100,
    compression: bool | str = False,
    node_data: str | os.PathLike[str] = "node_data",
    pool: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    **kwargs: Any,
) -> "Plan":
    """Plan which machine of the pool trains which part of `model`, and write everything that the nodes need.

    The pool is grouped into clusters, each of which holds the whole model, one stage per node. Prints the model's
    memory and each node's part. What stood in `node_data` before is replaced only when the new plan is complete.

    Args:
        model: An nn.Module, a TorchScript module or a torch.export.ExportedProgram.
        example_args: What its forward takes by position, in the batch size that training will use, since memory and
            speed are reckoned with it. Without an example one is inferred from the model's first layers.
        example_kwargs: What its forward takes by keyword.
        pass_data: Whether to measure the model's memory by a real pass over the example, instead of from shapes.
        balance: How to cut: "params" (shares of the parameters in proportion to RAM), "time" (the slowest stage as fast
            as possible, under each node's RAM) or "memory" (the fullest node as empty as possible). By default "time"
            where every node's compute is known, else "params".
        min_cluster_size: The fewest nodes that a cluster may have.
        use_all: Whether to use nodes by time that make the pool slower; otherwise they are named as spares.
        optimizer_state: Bytes that the optimizer keeps per byte of weights: 2 for Adam, 1 for momentum, 0 for SGD.
        average_every: Updates between two averagings of the clusters.
        compression: What the nodes will be given: False, True for "fp16", "bf16", "int8", "int4" or "topk:0.01".
        node_data: The folder of the plan.
        pool: The file with the machines, by default `node_data/node_configs.json`.
        seed: Of the search for clusters, by default that of `set_seed`.
        **kwargs: There are no others; a wrong name is an error that has the right one.

    Returns:
        The plan.

    Raises:
        FileNotFoundError: There is no pool file.
        ValueError: The pool file is wrong, or the RAM of the pool, of a cluster or of a node is less than it must hold;
            the message has both numbers and what would help.
        CaptureError: The model cannot be captured.
    """
    refuse_unknown("clusterize", kwargs, clusterize)
    node_data = os.fspath(node_data)
    pool_file = os.fspath(pool) if pool is not None else os.path.join(node_data, "node_configs.json")
    _core.check_pool(pool_file)
    min_cluster_size = whole_number("min_cluster_size", min_cluster_size, 10**6)
    average_every = whole_number("average_every", average_every, 10**9)
    optimizer_state = number("optimizer_state", optimizer_state)
    if isinstance(example_args, torch.Tensor):
        example_args = (example_args,)
    args, kwargs = tuple(example_args), dict(example_kwargs or {})
    if not args and not kwargs:
        # It traces the model, with all that this takes (see `capture`).
        from .capture.example_inputs import infer_example

        args, kwargs = infer_example(model)
    with tempfile.TemporaryDirectory(prefix="ravnest-") as scratch:
        graph = load(capture(model, args, kwargs, os.path.join(scratch, "model.pt2")))
        plan = Plan(
            _core.clusterize(
                graph._core,
                graph._train.flatten(args, kwargs) if pass_data else None,
                balance=balance,
                min_cluster_size=min_cluster_size,
                use_all=bool(use_all),
                seed=(current_seed() if seed is None else seed) % 2**63,
                optimizer_state=optimizer_state,
                average_every=average_every,
                compression=compression_name(compression),
                node_data=node_data,
                pool_file=pool_file,
            )
        )
    print(plan)
    return plan


@dataclass(frozen=True)
class PlannedNode:
    """One node's part of a plan. Times are seconds per batch, memory is bytes by what it is for."""

    node: int
    name: str
    address: str
    cluster: int
    stage: int
    role: str
    begin: int
    end: int
    first_operator: str
    module: str
    parameters: int
    trainable: int
    ram: float
    memory: dict[str, int]
    compute_s: float
    send_s: float
    receive_s: float
    bytes_out: int
    bytes_in: int
    out_bytes_per_s: float
    in_bytes_per_s: float
    versions: int
    staleness: int
    ring_ids: dict[int, str]
    param_addresses: dict[str, str]


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster: its nodes in the order of their stages, and how fast it will train."""

    nodes: tuple[PlannedNode, ...]
    samples_per_s: float
    period_s: float
    window: int
    slowest: PlannedNode
    limit: str


class Plan:
    """What `clusterize` decided: `clusters` and `nodes`, the predicted `samples_per_s`, and `explain()` for people.

    `print(plan)` shows what clusterize prints.

    Attributes:
        id: The plan's own name, which its nodes' certificates carry.
        balance: How the model was cut: "params", "time" or "memory".
        batch: The samples of a batch.
        memory_bytes: What training the whole model takes.
        samples_per_s: The predicted speed of all clusters together.
        unused: The numbers of the nodes that have no stage.
        spares: Of those, the nodes without which the pool is faster.
        notes: What the planner thought worth saying.
        clusters: The clusters.
        nodes: The nodes that have a stage, by their number.
    """

    def __init__(self, core: _core.Plan) -> None:
        self._core = core
        self.id: str = core.id
        self.balance: str = core.balance
        self.batch: int = core.batch
        self.memory_bytes: int = core.memory_bytes
        self.samples_per_s: float = core.samples_per_s
        self.unused: tuple[int, ...] = tuple(core.unused)
        self.spares: tuple[int, ...] = tuple(core.spares)
        self.notes: tuple[str, ...] = tuple(core.notes)
        self.clusters: tuple[PlannedCluster, ...] = tuple(_cluster(facts) for facts in core.clusters())
        self.nodes: tuple[PlannedNode, ...] = tuple(
            sorted((n for c in self.clusters for n in c.nodes), key=lambda node: node.node)
        )

    @staticmethod
    def read(node_data: str | os.PathLike[str] = "node_data") -> "Plan":
        """The plan that an earlier clusterize, or `ravnest plan`, left.

        Args:
            node_data: The folder of the plan.
        """
        return Plan(_core.read_plan(os.fspath(node_data)))

    def explain(self) -> str:
        """A table per cluster, the memory of every node, the predicted samples per second and what limits them."""
        return self._core.explain()

    def svg(self) -> str:
        """A drawing of clusters, stages and rings."""
        return self._core.svg()

    def __str__(self) -> str:
        lines = [self._core.memory_line(), "", self._core.node_blocks(), ""]
        count = len(self.clusters)
        lines.append(
            f"{len(self.nodes)} nodes in {count} cluster{'s' if count > 1 else ''}, {self.samples_per_s:.4g} samples/s "
            "predicted; `ravnest explain` says why"
        )
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join(lines)


def _cluster(facts: dict) -> PlannedCluster:
    nodes = tuple(PlannedNode(**stage) for stage in facts["stages"])
    return PlannedCluster(
        nodes, facts["samples_per_s"], facts["period_s"], facts["window"], nodes[facts["slowest_stage"]], facts["limit"]
    )
