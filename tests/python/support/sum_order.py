"""Where a cut makes gradients add up in another order than one process does."""

import bisect
from collections import defaultdict

import torch


def summed_apart(path, cuts: list[int]) -> set[str]:
    """Results and tied weights whose gradients a stage sums up before they meet those of a later stage: read by several
    stages after the one that makes (or keeps) them, and by one of these, not the last, more than once."""
    program = torch.export.load(path)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    stage_of = {node: bisect.bisect_right(cuts, position) for position, node in enumerate(nodes)}
    parameters = program.graph_signature.inputs_to_parameters
    tensors = program.state_dict
    uses = defaultdict(list)  # of a value, or of a weight under all its names
    made = {}
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        weight = tensors.get(parameters.get(node.name))
        key = node.name if weight is None else weight.data_ptr()
        uses[key] += [stage_of[user] for user in node.users if user in stage_of]
        if node in stage_of:
            made[key] = stage_of[node]
        elif weight is None:
            made[key] = None  # an input or a buffer: nobody asks for its gradient
    found = set()
    for key, stages in uses.items():
        keeper = made.get(key, min(stages, default=0))
        if keeper is None:
            continue
        later = [stage for stage in stages if stage > keeper]
        if any(later.count(stage) > 1 for stage in set(later) - {max(later, default=0)}):
            found.add(str(key))
    return found
