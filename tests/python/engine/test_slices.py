"""A chain of stages gives the whole model's numbers, wherever the model is cut."""

import pytest
import torch
from support import models
from support.chain import one_name_each, run_chain
from support.cuts import legal_cuts, spread
from support.passes import assert_equal, assert_same, assert_same_outputs, flat_inputs, loss_of, named
from support.soaked import soaked

import ravnest

SEED, STEP = 7, 3


def whole_pass(path, args, kwargs):
    graph = ravnest.load(path)
    graph.seed, graph.step = SEED, STEP
    outputs = graph(*args, **kwargs)
    loss = loss_of(outputs)
    loss.backward()
    return graph, outputs, loss, one_gradient_each(graph)


def one_gradient_each(graph):
    """name -> gradient, a tied weight under the first of its names, weights without gradient left out."""
    found = {}
    for name, parameter in graph.named_parameters(remove_duplicate=False):
        if parameter.grad is not None:
            found.setdefault(id(parameter), (name, parameter.grad))
    return dict(found.values())


def check_chain(case, path, cuts, batch=None, through_files=None, expected=None):
    """`expected` is what whole_pass gave, where it is known."""
    args, kwargs = case.example(batch)
    whole, outputs, loss, grads = expected or whole_pass(path, args, kwargs)
    graph = ravnest.load(path)
    graph.seed, graph.step = SEED, STEP
    stages = graph.slice(cuts)
    assert [stage.index for stage in stages] == list(range(len(cuts) + 1))
    if through_files is not None:
        stages = [ravnest.load(stage.save(through_files / f"stage_{stage.index}.pt2")) for stage in stages]
        for stage in stages:
            stage.seed, stage.step = SEED, STEP
    chain_outputs, chain_loss, chain_grads = run_chain(stages, flat_inputs(args, kwargs))
    assert_same_outputs(chain_outputs, outputs, f"cuts {cuts}: output")
    assert_equal(chain_loss.detach(), loss.detach(), f"cuts {cuts}: loss")
    assert_same(one_name_each(chain_grads, named(whole)[0]), grads, f"cuts {cuts}: gradient of")
    buffers = {name: buffer for stage in stages for name, buffer in stage.named_buffers(remove_duplicate=False)}
    of_whole = named(whole)[1]
    for name, buffer in buffers.items():
        assert_equal(buffer, of_whole[name], f"cuts {cuts}: buffer {name}")


@pytest.mark.parametrize("count", [5, *soaked(10)])
@pytest.mark.parametrize("case", models.ALL, ids=lambda case: case.name)
def test_single_cuts_give_the_whole_models_gradients(case, count, archive):
    path = archive(case)
    legal = legal_cuts(ravnest.load(path))
    assert legal
    if case in models.ARCHITECTURES and case.name != "lstm":
        assert len(legal) >= 10
    expected = whole_pass(path, *case.example())
    for position in spread(legal, count):
        check_chain(case, path, [position], expected=expected)


@pytest.mark.parametrize("case", models.ALL, ids=lambda case: case.name)
def test_stages_saved_and_loaded_give_the_same_numbers(case, archive, tmp_path):
    path = archive(case)
    legal = legal_cuts(ravnest.load(path))
    check_chain(case, path, spread(legal, 5)[1:4:2] or legal[:1], batch=case.batch + 1, through_files=tmp_path)


@pytest.mark.parametrize("case", [*models.ARCHITECTURES, *soaked(*models.DEEP)], ids=lambda case: case.name)
def test_a_chain_of_many_stages_gives_the_whole_models_gradients(case, archive):
    path = archive(case)
    check_chain(case, path, spread(legal_cuts(ravnest.load(path)), 6), batch=case.batch + 2)


@pytest.mark.parametrize("name", ["digits", "gpt_tied", "in_place", "buffer_writes", "tied_twice"])
def test_the_finest_legal_chain_gives_the_whole_models_gradients(name, archive):
    case = next(case for case in models.ALL if case.name == name)
    path = archive(case)
    check_chain(case, path, legal_cuts(ravnest.load(path)))


def test_cuts_are_named_by_position_operator_or_module(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    operators = graph.operators()
    position = next(i for i, operator in enumerate(operators) if operator["module"] == "dense_1")
    for cut in (position, operators[position]["name"], "dense_1"):
        first, second = graph.slice([cut])
        assert "dense_1.weight" not in named(first)[0] and "dense_1.weight" in named(second)[0]


def test_the_digits_stages_have_the_parameters_of_the_fixed_example(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    stages = graph.slice(["dense_1", "bn_3"])
    assert [sum(p.numel() for p in stage.parameters()) for stage in stages] == [4896, 8448, 3082]
    assert [next(iter(named(stage)[0])) for stage in stages] == ["conv2d_1.weight", "dense_1.weight", "bn_3.weight"]


def test_an_unknown_name_is_no_cut(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    with pytest.raises(ValueError, match="dense_7"):
        graph.slice(["dense_7"])


def test_an_illegal_cut_is_refused_with_its_reason(archive):
    case = next(case for case in models.ALL if case.name == "in_place")
    graph = ravnest.load(archive(case))
    illegal = [cut for cut in graph.cuts() if not cut["legal"]]
    assert illegal
    for cut in illegal:
        assert cut["reason"]
        with pytest.raises(ravnest.Error, match="cut"):
            graph.slice([cut["position"]])


def test_a_position_outside_the_graph_is_refused(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    for position in (-1, 10_000):
        with pytest.raises((ravnest.Error, ValueError)):
            graph.slice([position])


def test_tied_weights_across_stages_are_reported(archive):
    case = next(case for case in models.ALL if case.name == "gpt_tied")
    stages = ravnest.load(archive(case)).slice(["blocks.1"])
    for stage in stages:
        tied = stage.tied()
        assert len(tied) >= 1
        assert all(where == [0, 1] for where in tied.values())
        assert tied.keys() <= {"token.weight", "head.weight"}
    shared = [named(stage)[0][name] for stage in stages for name in stage.tied() if name in named(stage)[0]]
    assert len({id(tensor) for tensor in shared}) == 1


@pytest.mark.parametrize("name", ["digits", "buffer_writes", "no_grad", "spectral_norm"])
def test_a_buffer_that_training_writes_belongs_to_one_stage(name, archive):
    """Also for the eval graph: a stage on another node would read a value from before the training."""
    case = next(case for case in models.ALL if case.name == name)
    graph = ravnest.load(archive(case))
    before = {name: buffer.clone() for name, buffer in graph.named_buffers()}
    args, kwargs = case.example()
    graph(*args, **kwargs)
    written = {name for name, buffer in graph.named_buffers() if not torch.equal(buffer, before[name])}
    assert written
    for position in legal_cuts(graph):
        owners = [name for stage in graph.slice([position]) for name in named(stage)[1] if name in written]
        assert sorted(owners) == sorted(written), f"cut {position}"


@pytest.mark.parametrize("case", models.ARCHITECTURES, ids=lambda case: case.name)
def test_the_eval_graph_is_cut_at_the_same_places(case, archive):
    path = archive(case)
    graph = ravnest.load(path)
    args, kwargs = case.example()
    stages = ravnest.load(path).slice(spread(legal_cuts(graph), 4))
    produced = []
    inputs = flat_inputs(args, kwargs)
    with torch.no_grad():
        for stage in stages:
            given = [inputs[i] if producer < 0 else produced[producer][i] for producer, i in stage.inputs(False)]
            produced.append(stage(*given, train=False))
        assert_same_outputs(produced[-1], graph(*args, train=False, **kwargs), "eval output")
