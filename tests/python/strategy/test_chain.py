"""A step as a chain of units gives the loss, the gradients and the buffers of the uncut graph, to the bit."""

import pytest
import torch
from support import models
from support.cuts import legal_cuts, spread
from support.passes import assert_equal, assert_same, flat_inputs, loss_of, named
from support.soaked import soaked

import ravnest
from ravnest import _core

SEED, STEP = 7, 3


def uncut(path, args, kwargs):
    graph = ravnest.load(path)
    graph.seed, graph.step = SEED, STEP
    loss = loss_of(graph(*args, **kwargs))
    loss.backward()
    gradients = {}
    for name, parameter in graph.named_parameters(remove_duplicate=False):
        if parameter.grad is not None:
            gradients.setdefault(id(parameter), (name, parameter.grad))
    return loss, dict(gradients.values()), named(graph)[1]


def choices_of(graph, core) -> list[list[int]]:
    """Where to cut: nowhere, by size, at blocks, at every place that can be cut together with the others."""
    legal = legal_cuts(graph)
    together = _core.unit_cuts(core, most_units=10**6, least_bytes=1)
    blocks = _core.unit_cuts(core, blocks=True)
    return [[], _core.unit_cuts(core, most_units=4, least_bytes=1), blocks, together, *([p] for p in spread(legal, 3))]


@pytest.mark.parametrize("case", [*models.ALL, *soaked(*models.DEEP)], ids=lambda case: case.name)
def test_a_chain_gives_the_numbers_of_the_uncut_graph_at_every_choice_of_units(case, archive):
    path = archive(case)
    args, kwargs = case.example()
    loss, gradients, buffers = uncut(path, args, kwargs)
    graph = ravnest.load(path)
    for cuts in choices_of(graph, _core.load(path)):
        core = _core.load(path)
        own, found = _core.chain_step(
            core,
            cuts,
            flat_inputs(args, kwargs),
            lambda outputs: loss_of([each for each in outputs if isinstance(each, torch.Tensor)]),
            seed=SEED,
            step=STEP,
        )
        assert_equal(own.detach(), loss.detach(), f"cuts {cuts}: loss")
        assert_same(found, gradients, f"cuts {cuts}: gradient of")
        for name, buffer in core.buffers().items():
            assert_equal(buffer, buffers[name], f"cuts {cuts}: buffer {name}")


def test_the_units_of_a_transformer_are_its_blocks(archive):
    case = next(case for case in models.ARCHITECTURES if case.name == "gpt")
    core = _core.load(archive(case))
    assert len(_core.unit_cuts(core, blocks=True)) >= 3
