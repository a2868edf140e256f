"""Passes over models, graphs and chains of stages, in a form that can be compared bit for bit."""

from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree


def loss_of(outputs) -> torch.Tensor:
    """A loss that reaches every floating-point output, each of its elements with another weight."""
    total = torch.zeros(())
    for leaf in pytree.tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            weights = torch.cos(torch.arange(leaf.numel(), dtype=leaf.dtype, device=leaf.device)).view(leaf.shape)
            total = total + (leaf * weights).mean() + leaf.square().mean()
    return total


def named(module: torch.nn.Module) -> tuple[dict, dict]:
    """A module's parameters and buffers by all their names."""
    return dict(module.named_parameters(remove_duplicate=False)), dict(module.named_buffers(remove_duplicate=False))


def trainable(parameters: dict) -> list[torch.Tensor]:
    """The parameters an optimizer gets: each once, frozen ones left out."""
    return [p for p in {id(p): p for p in parameters.values()}.values() if p.requires_grad]


def assert_same(ours: dict, theirs: dict, what: str) -> None:
    """Same names, same tensors to the last bit; None only where the other is None."""
    assert ours.keys() == theirs.keys(), f"{what}: {sorted(ours.keys() ^ theirs.keys())}"
    for name, value in theirs.items():
        assert_equal(ours[name], value, f"{what} {name}")


def assert_equal(ours, theirs, what: str) -> None:
    if not isinstance(theirs, torch.Tensor) or not isinstance(ours, torch.Tensor):
        assert type(ours) is type(theirs) and ours == theirs, f"{what}: {ours!r} is not {theirs!r}"
        return
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, what
    if not torch.equal(ours, theirs):
        difference = (ours.double() - theirs.double()).abs().max().item()
        raise AssertionError(f"{what} differs by {difference:.3g}")


def assert_same_outputs(ours, theirs, what: str = "output") -> None:
    """Same structure, same values to the last bit."""
    our_leaves, our_spec = pytree.tree_flatten(ours)
    their_leaves, their_spec = pytree.tree_flatten(theirs)
    assert our_spec == their_spec, f"{what}: {our_spec} is not {their_spec}"
    for position, (our_leaf, their_leaf) in enumerate(zip(our_leaves, their_leaves, strict=True)):
        assert_equal(our_leaf, their_leaf, f"{what} {position}")


def gradients(parameters: dict) -> dict:
    return {name: None if p.grad is None else p.grad.clone() for name, p in parameters.items()}


def flat_inputs(args: tuple, kwargs: dict) -> list:
    return pytree.tree_leaves((args, kwargs))


def check_steps(module: torch.nn.Module, graph, case, batches: list[int], make_optimizer: Callable) -> None:
    """One training step for each size of batch, by PyTorch and by the graph; every number must be the same."""
    module.train()
    graph.random = "plain"
    parameters = named(module)[0]
    assert_same(named(graph)[0], parameters, "parameter at the start")
    own, other = make_optimizer(trainable(parameters)), make_optimizer(trainable(named(graph)[0]))
    for step, batch in enumerate(batches):
        args, kwargs = case.example(batch, seed=10 + step)
        losses, results = [], []
        for call, optimizer in ((module, own), (graph, other)):
            optimizer.zero_grad()
            torch.manual_seed(step)
            results.append(call(*args, **kwargs))
            losses.append(loss_of(results[-1]))
            losses[-1].backward()
        assert_same_outputs(results[1], results[0], f"step {step}: output")
        assert_equal(losses[1], losses[0], f"step {step}: loss")
        assert_same(gradients(named(graph)[0]), gradients(parameters), f"step {step}: gradient of")
        own.step()
        other.step()
        assert_same(named(graph)[1], named(module)[1], f"step {step}: buffer")
        assert_same(named(graph)[0], parameters, f"step {step}: parameter")
