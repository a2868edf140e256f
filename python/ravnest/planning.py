"""From a model and a pool of machines to clusters, stages and rings."""

import os
import tempfile
from dataclasses import dataclass

import torch

from . import _core
from .capture.capture import capture
from .capture.example_inputs import infer_example
from .engine.graph import load
from .keywords import refuse_unknown
from .seed import current_seed
from .settings import number, whole_number


def clusterize(
    model,
    example_args=(),
    example_kwargs=None,
    pass_data: bool = False,
    *,
    balance: str | None = None,
    min_cluster_size: int = 2,
    use_all: bool = False,
    optimizer_state: float = 2.0,
    average_every: int = 100,
    compression: bool | str = False,
    node_data: str = "node_data",
    pool: str | None = None,
    seed: int | None = None,
    **kwargs,
) -> "Plan":
    """Plan which machine of the pool trains which part of `model`, and write everything that the nodes need.

    `model` is an nn.Module, a TorchScript module or a torch.export.ExportedProgram; `example_args` and
    `example_kwargs` are what its forward takes, in the batch size that training will use, since memory and speed are
    reckoned with it. Without them an example is inferred from the model's first layers. The pool is read from
    `node_data/node_configs.json`, or from the file `pool`.

    The pool is grouped into clusters, each of which holds the whole model, one stage per node. Cuts follow `balance`:
    "params" (shares of the parameters in proportion to RAM), "time" (the slowest stage as fast as possible, under each
    node's RAM) or "memory" (the fullest node as empty as possible); by default "time" where every node's compute is
    known, else "params". A cluster has at least `min_cluster_size` nodes. By time, nodes that would make the pool
    slower are left out and named as spares, unless `use_all` is True. `optimizer_state` is the number of bytes that the
    optimizer keeps per byte of weights (2 for Adam, 1 for momentum, 0 for plain SGD), `average_every` the updates
    between two averagings of the clusters, `compression` what the nodes will be given (False, True for "fp16", "bf16",
    "int8", "int4" or "topk:0.01"). `pass_data=True` measures the model's memory by a real pass over the example
    instead of reckoning it from shapes. The search for clusters is seeded by `set_seed`, or by `seed`.

    Prints the model's memory and each node's part, and returns the Plan. ValueError where the pool file is wrong or
    where the RAM of the pool, of a cluster or of a node is less than it must hold, with both numbers and what would
    help; FileNotFoundError where there is no pool file. What stood in `node_data` before is replaced only when the new
    plan is complete.
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
                compression={False: "none", True: "fp16"}.get(compression, compression),
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
    memory: dict
    compute_s: float
    send_s: float
    receive_s: float
    bytes_out: int
    bytes_in: int
    out_bytes_per_s: float
    in_bytes_per_s: float
    versions: int
    staleness: int
    ring_ids: dict
    param_addresses: dict


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

    `nodes` are the nodes that have a stage, by their number; `unused` the numbers of those that have none,
    `spares` of those without which the pool is faster; `notes` what the planner thought worth saying.
    `print(plan)` shows what clusterize prints.
    """

    def __init__(self, core):
        self._core = core
        self.id = core.id
        self.balance = core.balance
        self.batch = core.batch
        self.memory_bytes = core.memory_bytes
        self.samples_per_s = core.samples_per_s
        self.unused = tuple(core.unused)
        self.spares = tuple(core.spares)
        self.notes = tuple(core.notes)
        self.clusters = tuple(_cluster(facts) for facts in core.clusters())
        self.nodes = tuple(sorted((n for c in self.clusters for n in c.nodes), key=lambda node: node.node))

    @staticmethod
    def read(node_data: str = "node_data") -> "Plan":
        """The plan that an earlier clusterize, or `ravnest plan`, left in `node_data`."""
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
