"""A loaded graph is called like the model, and counts its steps."""

import pytest
import torch
from support import models
from support.passes import assert_same, assert_same_outputs, gradients, loss_of, named
from torch import nn

import ravnest


def case_named(name):
    return next(case for case in models.ALL if case.name == name)


@pytest.fixture
def bert(archive):
    return ravnest.load(archive(case_named("bert")))


def test_arguments_go_by_position_or_by_name(bert):
    (ids,), kwargs = case_named("bert").example()
    mask, kinds = kwargs["attention_mask"], kwargs["token_type_ids"]
    expected = bert(ids, train=False, **kwargs)
    assert_same_outputs(bert(ids, mask, kinds, train=False), expected)
    assert_same_outputs(bert(ids, mask, token_type_ids=kinds, train=False), expected)
    assert_same_outputs(bert(token_type_ids=kinds, attention_mask=mask, input_ids=ids, train=False), expected)


def test_a_missing_argument_is_named(bert):
    (ids,), kwargs = case_named("bert").example()
    with pytest.raises(TypeError, match=r"token_type_ids not given; .*input_ids, attention_mask, token_type_ids"):
        bert(ids, kwargs["attention_mask"])


def test_an_unknown_keyword_is_named(bert):
    (ids,), kwargs = case_named("bert").example()
    with pytest.raises(TypeError, match="no argument position_ids"):
        bert(ids, position_ids=ids, **kwargs)


def test_an_argument_given_twice_is_named(bert):
    (ids,), kwargs = case_named("bert").example()
    with pytest.raises(TypeError, match="input_ids is given twice"):
        bert(ids, input_ids=ids, **kwargs)


def test_too_many_arguments_are_counted(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    x = torch.rand(2, 1, 8, 8)
    with pytest.raises(TypeError, match=r"takes 1 argument \(x\), but 2 were given"):
        graph(x, x)
    with pytest.raises(TypeError, match="x not given"):
        graph()


def test_nested_inputs_keep_their_structure(archive):
    case = case_named("pair")
    model, graph = case.model(), ravnest.load(archive(case))
    (pair, options), _ = case.example()
    expected = model(pair, options)
    assert_same_outputs(graph(pair, options), expected)
    assert_same_outputs(graph(pair, dict(reversed(options.items()))), expected)
    with pytest.raises(TypeError, match="pair must have the structure"):
        graph(list(pair), options)
    with pytest.raises(TypeError, match="options must have the structure"):
        graph(pair, {"scale": options["scale"]})


def test_what_is_not_a_tensor_is_refused(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    with pytest.raises((TypeError, RuntimeError), match="list"):
        graph([torch.rand(2, 1, 8, 8)])
    with pytest.raises((TypeError, RuntimeError), match="None"):
        graph(None)


def test_wrong_shapes_and_types_are_refused(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    for bad in (torch.rand(2, 3, 8, 8), torch.rand(2, 8, 8, 1), torch.rand(2, 1, 8), torch.zeros(2, 1, 8, 8).long()):
        with pytest.raises((RuntimeError, TypeError)):
            graph(bad)
    assert graph(torch.rand(2, 1, 8, 8)).shape == (2, 10)


def test_a_value_baked_into_the_graph_cannot_be_changed(tmp_path):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x, scale: float = 1.0):
            return self.linear(x) * scale

    model, x = Scaled(), torch.rand(4, 3)
    graph = ravnest.load(ravnest.capture(model, (x,), {"scale": 2.0}, tmp_path / "m.pt2"))
    assert_same_outputs(graph(x, scale=2.0), model(x, scale=2.0))
    with pytest.raises((RuntimeError, TypeError, ValueError), match="scale"):
        graph(x, scale=3.0)


def test_a_training_call_counts_a_step_and_an_eval_call_does_not(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    x = torch.rand(4, 1, 8, 8)
    graph(x)
    graph(x, train=False)
    graph(x)
    assert graph.step == 2


def test_keyed_random_numbers_hang_on_seed_and_step_only(archive):
    case = models.ARCHITECTURES[0]
    x = case.example()[0][0]
    results = {}
    for seed, step, noise in ((1, 0, 5), (1, 0, 6), (1, 1, 5), (2, 0, 5)):
        graph = ravnest.load(archive(case))
        graph.seed, graph.step = seed, step
        torch.manual_seed(noise)
        results[seed, step, noise] = graph(x)
    first = results.pop((1, 0, 5))
    assert torch.equal(first, results.pop((1, 0, 6)))
    assert all(not torch.equal(first, other) for other in results.values())


def test_keyed_random_numbers_leave_the_process_generator_alone(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    loss_of(graph(torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(1)))).backward()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_step_repeated_gives_the_same_gradients(archive):
    case = case_named("stochastic_depth")
    args, _ = case.example()
    found = []
    for _ in range(2):
        graph = ravnest.load(archive(case))
        graph.seed, graph.step = 11, 42
        loss_of(graph(*args)).backward()
        found.append(gradients(named(graph)[0]))
    assert_same(found[0], found[1], "gradient of")


def test_dropout_masks_of_one_step_differ_from_place_to_place(tmp_path):
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    graph = ravnest.load(ravnest.capture(model, (torch.ones(8, 64),), path=tmp_path / "m.pt2"))
    kept = (graph(torch.ones(8, 64)) != 0).float().mean().item()
    assert 0.15 < kept < 0.35


def test_random_is_keyed_or_plain(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    assert graph.random == "keyed"
    graph.random = "plain"
    assert graph.random == "plain"
    with pytest.raises(ValueError, match="keyed"):
        graph.random = "other"


def test_set_seed_is_the_seed_of_graphs_loaded_later(archive):
    path = archive(models.ARCHITECTURES[0])
    ravnest.set_seed(42)
    drawn = torch.rand(3)
    assert ravnest.load(path).seed == 42
    ravnest.set_seed(42)
    assert torch.equal(torch.rand(3), drawn)
    ravnest.set_seed(0)


def test_the_state_dict_is_the_models(archive):
    case = models.ARCHITECTURES[0]
    model, graph = case.model(), ravnest.load(archive(case))
    assert_same(graph.state_dict(), dict(model.state_dict()), "state")
    model.load_state_dict(graph.state_dict())


def test_parameters_and_buffers_come_as_a_module_gives_them(archive):
    for name in ("gpt_tied", "digits"):
        case = case_named(name)
        model, graph = case.model(), ravnest.load(archive(case))
        for several in (True, False):
            for kind in ("named_parameters", "named_buffers"):
                ours, theirs = (dict(getattr(each, kind)("m", remove_duplicate=several)) for each in (graph, model))
                assert_same(ours, theirs, kind)
        assert len(list(graph.parameters())) == len(list(model.parameters()))
        assert all(ours is theirs for ours, (_, theirs) in zip(graph.buffers(), graph.named_buffers(), strict=True))


def test_a_saved_graph_has_the_trained_weights(archive, tmp_path):
    case = models.ARCHITECTURES[0]
    graph = ravnest.load(archive(case))
    optimizer = torch.optim.Adam(graph.parameters())
    args, kwargs = case.example()
    loss_of(graph(*args, **kwargs)).backward()
    optimizer.step()
    again = ravnest.load(graph.save(tmp_path / "trained.pt2"))
    assert_same(again.state_dict(), graph.state_dict(), "state")
    assert_same_outputs(again(*args, train=False, **kwargs), graph(*args, train=False, **kwargs))


def test_cuts_tell_what_would_cross(archive):
    graph = ravnest.load(archive(models.ARCHITECTURES[0]))
    cuts = graph.cuts()
    before_dense = next(cut for cut in cuts if cut["module"] == "dense_1")
    assert before_dense["legal"] and before_dense["tensors"] == 1
    assert before_dense["bytes"] == models.ARCHITECTURES[0].batch * 32 * 4


def test_the_profile_counts_flops_and_weights(archive):
    case = models.ARCHITECTURES[0]
    graph = ravnest.load(archive(case))
    for profile in (graph.profile(), graph.profile(*case.example()[0])):
        assert profile["parameter_bytes"] == 4 * 16426
        linear = [op for op in profile["operators"] if "linear" in op["target"]]
        assert [op["flops"] for op in linear] == [2 * case.batch * 32 * 256, 2 * case.batch * 256 * 10]
        assert profile["peak_training_bytes"] > 2 * profile["parameter_bytes"]


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ravnest.Error, match=r"nothing\.pt2"):
        ravnest.load(tmp_path / "nothing.pt2")
