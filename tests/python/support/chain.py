"""A training pass over a chain of stages, as a pipeline does it: each stage knows its own inputs and outputs only."""

import torch
from torch.utils import _pytree as pytree

from support.passes import loss_of


def run_chain(stages: list, model_inputs: list) -> tuple[object, torch.Tensor, dict]:
    """Forward stage by stage on detached inputs, backward in reverse, gradients routed by `inputs`.

    Returns the model's outputs, the loss, and name -> gradient, summed over the stages that use the weight.
    """
    passes: list[tuple] = []
    for stage in stages:
        passes.append(_forward(stage, model_inputs, [results for _, results, _ in passes]))
    outputs = passes[-1][2]
    loss = loss_of(outputs)
    arrived: dict[tuple[int, int], torch.Tensor] = {}
    gradients: dict[str, torch.Tensor] = {}
    for stage, (inputs, results, _) in reversed(list(zip(stages, passes, strict=True))):
        if stage is stages[-1]:
            roots, weights = [loss], [None]
        else:
            reached = [i for i in range(len(results)) if (stage.index, i) in arrived]
            roots, weights = [results[i] for i in reached], [arrived[stage.index, i] for i in reached]
        _backward(stage, inputs, roots, weights, arrived, gradients)
    return outputs, loss, gradients


def _forward(stage, model_inputs, produced):
    inputs = []
    for producer, position in stage.inputs(True):
        value = model_inputs[position] if producer < 0 else produced[producer][position]
        if isinstance(value, torch.Tensor):
            needs_grad = producer >= 0 and value.requires_grad
            value = value.detach().requires_grad_(needs_grad)
        inputs.append(value)
    outputs = stage(*inputs)
    return inputs, pytree.tree_leaves(outputs), outputs


def _backward(stage, inputs, roots, weights, arrived, gradients):
    names = {}
    for name, parameter in stage.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            names.setdefault(id(parameter), (parameter, []))[1].append(name)
    leaves = [
        (source, value)
        for source, value in zip(stage.inputs(True), inputs, strict=True)
        if isinstance(value, torch.Tensor) and value.requires_grad
    ]
    wanted = [value for _, value in leaves] + [parameter for parameter, _ in names.values()]
    if not roots or not wanted:
        return
    results = torch.autograd.grad(roots, wanted, weights, allow_unused=True)
    for (source, _), gradient in zip(leaves, results, strict=False):
        if gradient is not None:
            arrived[source] = arrived[source] + gradient if source in arrived else gradient
    for (_, aliases), gradient in zip(names.values(), results[len(leaves) :], strict=True):
        if gradient is not None:
            name = aliases[0]
            gradients[name] = gradients[name] + gradient if name in gradients else gradient


def one_name_each(gradients: dict, parameters: dict) -> dict:
    """Gradients under the first of each weight's names, as the chain may know a tied weight by another of them."""
    first = {}
    for name, parameter in parameters.items():
        first.setdefault(id(parameter), name)
    renamed = {}
    for name, gradient in gradients.items():
        known = first[id(parameters[name])]
        if gradient is not None:
            renamed[known] = renamed[known] + gradient if known in renamed else gradient
    return renamed
