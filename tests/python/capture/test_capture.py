"""What capture accepts, what it leaves alone, and what it says."""

import os
import warnings

import pytest
import torch
from support import models
from support.passes import assert_same, assert_same_outputs, named
from torch import nn

import ravnest

DIGITS = models.ARCHITECTURES[0]


def case_named(name):
    return next(case for case in models.ALL if case.name == name)


def test_the_path_is_returned_and_is_all_that_is_written(tmp_path):
    args, kwargs = DIGITS.example()
    path = ravnest.capture(DIGITS.model(), args, kwargs, tmp_path / "digits.pt2")
    assert path == str(tmp_path / "digits.pt2")
    assert os.listdir(tmp_path) == ["digits.pt2"]


def test_the_default_path_is_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ravnest.capture(nn.Linear(3, 2), (torch.rand(4, 3),)) == "model.pt2"
    assert os.listdir(tmp_path) == ["model.pt2"]


@pytest.mark.parametrize("case", models.ALL, ids=lambda case: case.name)
def test_names_and_weights_are_the_models_own(case, archive):
    model, graph = case.model(), ravnest.load(archive(case))
    parameters, buffers = named(model)
    assert_same(named(graph)[0], parameters, "parameter")
    assert_same(named(graph)[1], buffers, "buffer")
    assert {n: p.requires_grad for n, p in graph.named_parameters(remove_duplicate=False)} == {
        n: p.requires_grad for n, p in parameters.items()
    }
    assert all(p.is_leaf for p in graph.parameters())
    assert not any(b.requires_grad for b in graph.buffers())
    ours, theirs = named(graph)[0], parameters
    for first in ours:
        for second in ours:
            assert (ours[first] is ours[second]) == (theirs[first] is theirs[second])


@pytest.mark.parametrize("name", ["digits", "buffer_writes", "stochastic_depth", "spectral_norm"])
def test_the_model_and_the_random_state_are_left_alone(name, tmp_path):
    case = case_named(name)
    model = case.model()
    model.eval()
    next(model.children()).train()
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 3.0)
    args, kwargs = case.example()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    flags = [module.training for module in model.modules()]
    torch.manual_seed(4)
    state = torch.random.get_rng_state()
    ravnest.capture(model, args, kwargs, tmp_path / "m.pt2")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [module.training for module in model.modules()] == flags
    assert_same(model.state_dict(), before, "state")
    assert all((p.grad == 3.0).all() for p in model.parameters())


def test_inputs_are_not_written_into(tmp_path):
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x):
            return self.linear(x.mul_(2))

    x = torch.rand(4, 3)
    before = x.clone()
    ravnest.capture(Writes(), (x,), path=tmp_path / "m.pt2")
    assert torch.equal(x, before)


def test_a_model_that_cannot_be_copied_is_captured_and_put_back(tmp_path):
    class Uncopyable(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)

        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

        def forward(self, x):
            return self.norm(self.linear(x))

    model = Uncopyable().eval()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    ravnest.capture(model, (torch.rand(4, 3),), path=tmp_path / "m.pt2")
    assert_same(model.state_dict(), before, "state")
    assert not any(module.training for module in model.modules())


def test_an_example_of_one_sample_leaves_the_batch_size_open(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    graph = ravnest.load(ravnest.capture(model, (torch.rand(1, 3),), path=tmp_path / "m.pt2"))
    for batch in (2, 5):
        assert graph(torch.rand(batch, 3)).shape == (batch, 4)
    assert graph(torch.rand(1, 3), train=False).shape == (1, 4)


def test_a_batch_as_large_as_another_size_is_not_taken_for_it(tmp_path):
    case = case_named("gpt")
    graph = ravnest.load(ravnest.capture(case.model(), *case.example(batch=12), tmp_path / "m.pt2"))
    assert graph(torch.randint(0, 60, (3, 7))).shape == (3, 7, 60)


def test_keywords_may_come_in_another_order_than_the_signatures(tmp_path):
    case = case_named("bert")
    args, kwargs = case.example()
    shuffled = dict(reversed(kwargs.items()))
    graph = ravnest.load(ravnest.capture(case.model(), args, shuffled, tmp_path / "m.pt2"))
    graph.random = "plain"
    model = case.model()
    torch.manual_seed(1)
    expected = model(*args, **kwargs)
    torch.manual_seed(1)
    assert_same_outputs(graph(*args, **kwargs), expected)


def test_frozen_batch_norm_inside_a_training_model_stays_frozen(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    model[1].eval()
    graph = ravnest.load(ravnest.capture(model, (torch.rand(6, 3),), path=tmp_path / "m.pt2"))
    graph(torch.rand(6, 3))
    assert named(graph)[1]["1.num_batches_tracked"] == 0


def test_a_model_in_eval_mode_is_captured_in_both(tmp_path):
    model = DIGITS.model().eval()
    graph = ravnest.load(ravnest.capture(model, *DIGITS.example(), tmp_path / "m.pt2"))
    args, _ = DIGITS.example()
    graph(*args)
    assert named(graph)[1]["bn_1.num_batches_tracked"] == 1
    graph(*args, train=False)
    assert named(graph)[1]["bn_1.num_batches_tracked"] == 1


def test_a_model_without_parameters_is_captured(tmp_path):
    graph = ravnest.load(ravnest.capture(nn.Softmax(-1), (torch.rand(4, 3),), path=tmp_path / "m.pt2"))
    assert list(graph.parameters()) == []
    assert graph(torch.rand(2, 3)).sum().item() == pytest.approx(2)


def test_a_model_of_doubles_is_captured(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).double()
    graph = ravnest.load(ravnest.capture(model, (torch.rand(4, 3).double(),), path=tmp_path / "m.pt2"))
    assert graph(torch.rand(2, 3).double()).dtype == torch.float64


def test_a_model_in_bfloat16_is_captured(tmp_path):
    case = case_named("gpt")
    ravnest.capture(case.model().bfloat16(), *case.example(), tmp_path / "m.pt2")


def test_a_batch_size_that_the_model_fixes_gives_a_warning_that_names_it(tmp_path):
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x):
            return self.linear(x.view(4, 3))

    with pytest.warns(UserWarning, match="x with size 4 in dimension 0"):
        ravnest.capture(Fixed(), (torch.rand(4, 3),), path=tmp_path / "m.pt2")


def test_an_open_batch_size_gives_no_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ravnest.capture(DIGITS.model(), *DIGITS.example(), tmp_path / "m.pt2")


@pytest.mark.parametrize("name", ["digits", "bert", "in_place", "no_grad"])
@pytest.mark.filterwarnings("ignore")
def test_an_exported_program_is_captured_as_it_is(name, tmp_path):
    case = case_named(name)
    model = case.model()
    args, kwargs = case.example()
    program = torch.export.export(model, args, kwargs)
    graph = ravnest.load(ravnest.capture(program, path=tmp_path / "m.pt2"))
    graph.random = "plain"
    torch.manual_seed(1)
    expected = model(*args, **kwargs)
    torch.manual_seed(1)
    assert_same_outputs(graph(*args, **kwargs), expected)


def test_an_exported_program_with_an_open_batch_keeps_it_open(tmp_path):
    program = torch.export.export(nn.Linear(3, 2), (torch.rand(4, 3),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    graph = ravnest.load(ravnest.capture(program, path=tmp_path / "m.pt2"))
    assert graph(torch.rand(9, 3)).shape == (9, 2)


@pytest.mark.parametrize(("train", "words"), [(True, "in training mode"), (False, "in eval mode")])
def test_an_exported_program_has_one_mode_and_capture_says_so(train, words, tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)).train(train)
    program = torch.export.export(model, (torch.rand(4, 3),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    with pytest.warns(UserWarning, match=words):
        ravnest.capture(program, path=tmp_path / "m.pt2")


def test_what_is_no_model_is_a_type_error(tmp_path):
    with pytest.raises(TypeError, match=r"nn\.Module"):
        ravnest.capture(lambda x: x, (torch.rand(2, 2),), path=tmp_path / "m.pt2")


def test_a_folder_that_does_not_exist_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ravnest.capture(nn.Linear(3, 2), (torch.rand(4, 3),), path=tmp_path / "nowhere" / "m.pt2")


def test_a_tensor_given_twice_stays_two_inputs(tmp_path):
    class Difference(nn.Module):
        def forward(self, a, b):
            return a - b

    x = torch.rand(4, 3)
    graph = ravnest.load(ravnest.capture(Difference(), (x, x), path=tmp_path / "m.pt2"))
    assert torch.equal(graph(x, torch.zeros(4, 3)), x)


def test_a_recurrent_network_with_time_first_is_captured_with_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="input with size 5 in dimension 0 only"):
        path = ravnest.capture(nn.LSTM(3, 4), (torch.rand(5, 4, 3),), path=tmp_path / "m.pt2")
    assert ravnest.load(path)(torch.rand(5, 7, 3))[0].shape == (5, 7, 4)
