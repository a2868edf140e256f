"""infer_example: an input for every usual architecture, a clear request where there is none, and a model left alone."""

import copy

import pytest
import torch
from support import models
from torch import nn

from ravnest.capture.example_inputs import infer_example

SINGLE_INPUT = [case for case in models.ALL if case.name not in ("mixed", "pair")]


def only_tensor(model):
    args, kwargs = infer_example(model)
    (tensor,) = (*args, *kwargs.values())
    return tensor


class Lambda(nn.Module):
    """Layers, and a forward over them."""

    def __init__(self, forward, **layers):
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.run = forward

    def forward(self, x):
        return self.run(self, x)


@pytest.mark.parametrize("case", SINGLE_INPUT, ids=lambda case: case.name)
def test_every_architecture_of_one_input_gets_an_example_that_it_runs_with(case):
    model = case.model()
    args, kwargs = infer_example(model)
    model(*args, **kwargs)
    (expected,), _ = case.example() if case.name != "bert" else ((case.example()[0][0],), {})
    assert args[0].dtype == expected.dtype
    assert args[0].dim() == expected.dim()


def test_the_digits_network_gets_the_digits_own_shape_and_a_batch_of_64():
    assert only_tensor(models.Digits()).shape == (64, 1, 8, 8)


def test_the_only_size_that_fits_is_found():
    assert only_tensor(models.ViT(image=96, dim=48, depth=1, heads=4)).shape[2:] == (96, 96)
    assert only_tensor(models.InceptionV3(width=1 / 16, classes=10)).shape[2:] == (299, 299)


def test_a_size_that_leaves_convolutions_one_pixel_is_not_taken_where_a_larger_one_does():
    assert only_tensor(models.ResNet50(width=8, classes=10)).shape == (64, 3, 64, 64)


def test_a_size_that_leaves_convolutions_one_pixel_is_taken_where_it_is_the_only_one():
    layers = (nn.Conv2d(2, 4, 8, 8), nn.Conv2d(4, 4, 3, padding=1), nn.Flatten(), nn.Linear(4, 3))
    assert only_tensor(nn.Sequential(*layers)).shape == (64, 2, 8, 8)


def test_tokens_stay_below_the_vocabulary_and_the_length_below_the_positions():
    tokens = only_tensor(models.GPT(5, 3, 16, depth=1, heads=2))
    assert tokens.dtype == torch.long
    assert tokens.min() >= 0 and tokens.max() < 5
    assert tokens.shape == (64, 3)


def test_a_length_that_stands_only_in_a_table_of_positions_is_found():
    model = Lambda(lambda self, x: self.token(x) + self.position, token=nn.Embedding(10, 4))
    model.position = nn.Parameter(torch.zeros(1, 77, 4))
    assert only_tensor(model).shape == (64, 77)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.Linear(7, 3), nn.BatchNorm1d(3)), (64, 7)),
        (Lambda(lambda self, x: self.norm(self.up(x).transpose(1, 2)), up=nn.Linear(7, 3), norm=nn.BatchNorm1d(3)),
         (64, 8, 7)),
        (nn.Conv1d(4, 2, 3), (64, 4, 8)),
        (nn.Conv3d(2, 2, 3), (64, 2, 8, 8, 8)),
        (nn.ConvTranspose2d(5, 2, 3), (64, 5, 8, 8)),
        (nn.GRU(6, 3, batch_first=True), (64, 8, 6)),
        (nn.LSTM(6, 3), (8, 64, 6)),
        (nn.LSTMCell(6, 3), (64, 6)),
        (nn.EmbeddingBag(9, 3), (64, 8)),
        (nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)), (64, 6)),
        (nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 3)), (64, 3, 8, 8)),
        (nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 2)), (64, 6)),
        (nn.TransformerEncoderLayer(8, 2, batch_first=True), (64, 8, 8)),
    ],
)  # fmt: skip
def test_each_kind_of_first_layer_gets_its_shape(model, shape):
    tensor = only_tensor(model)
    assert tensor.shape == shape
    model(tensor)


def test_a_first_layer_that_the_input_does_not_go_to_is_passed_over():
    model = Lambda(lambda self, x: self.head(self.body(x)), head=nn.Linear(5, 2), body=nn.Linear(9, 5))
    assert only_tensor(model).shape == (64, 9)


def test_what_fake_tensors_cannot_answer_is_answered_by_a_real_pass():
    model = Lambda(lambda self, x: self.body(x) if x.sum().item() > 0 else self.body(-x), body=nn.Linear(3, 2))
    assert only_tensor(model).shape == (64, 3)


def test_a_constant_that_is_no_buffer_does_no_harm():
    offset = torch.ones(2)
    assert only_tensor(Lambda(lambda self, x: self.body(x) + offset, body=nn.Linear(3, 2))).shape == (64, 3)


def test_the_example_has_the_type_of_the_models_weights():
    assert only_tensor(nn.Linear(3, 2, dtype=torch.float64)).dtype == torch.float64


def test_the_batch_shrinks_where_64_samples_would_take_too_much_memory():
    wide = Lambda(lambda self, x: self.body(x).repeat(1, 10_000_000), body=nn.Linear(4, 1))
    assert only_tensor(wide).shape == (16, 4)


def test_an_argument_that_goes_by_keyword_only_is_given_so():
    class Keyword(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(3, 2)

        def forward(self, *, features, scale=1.0):
            return self.body(features) * scale

    args, kwargs = infer_example(Keyword())
    assert args == ()
    assert kwargs["features"].shape == (64, 3)


@pytest.mark.parametrize("case", [case for case in models.ALL if case.name in ("digits", "resnet50", "lstm", "unet")],
                         ids=lambda case: case.name)  # fmt: skip
def test_a_scripted_module_gets_an_example(case):
    model = torch.jit.script(case.model())
    args, kwargs = infer_example(model)
    model(*args, **kwargs)
    assert args[0].shape == infer_example(case.model())[0][0].shape


def test_a_traced_module_gets_an_example_though_it_states_no_sizes():
    model = torch.jit.trace(models.Digits(), torch.rand(2, 1, 8, 8), check_trace=False)
    assert only_tensor(model).shape == (64, 1, 8, 8)


def test_what_a_scripted_module_fails_with_is_said_in_the_operators_own_words():
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 4)))
    with pytest.raises(ValueError, match=r"the first failure was: mat1 and mat2 shapes cannot be multiplied"):
        infer_example(model)


def test_an_exported_program_gives_its_own_example():
    given = torch.rand(5, 3)
    args, kwargs = infer_example(torch.export.export(nn.Linear(3, 2), (given,)))
    assert torch.equal(args[0], given)
    assert kwargs == {}


@pytest.mark.parametrize("name", ["mixed", "pair"])
def test_several_required_arguments_are_asked_for_by_name(name):
    (case,) = (case for case in models.ALL if case.name == name)
    with pytest.raises(ValueError, match="example_args") as raised:
        infer_example(case.model())
    for argument in {"mixed": ("ids", "features", "mask"), "pair": ("pair", "options")}[name]:
        assert f"{argument}=..." in str(raised.value)


def test_bilinear_asks_for_both_its_inputs():
    with pytest.raises(ValueError, match=r"input1=\.\.\., input2=\.\.\..*example_args"):
        infer_example(nn.Bilinear(3, 4, 5))


def test_a_model_that_takes_nothing_that_was_tried_says_what_was_tried():
    model = Lambda(lambda self, x: self.body(x[:, :, :11].reshape(2, 777)), body=nn.Linear(777, 2))
    with pytest.raises(ValueError, match=r"body \(Linear\): \(2, 777\) to .*example_args=\(torch.rand\(") as raised:
        infer_example(model)
    assert "first failure" in str(raised.value)


def test_a_model_without_layers_asks_for_an_example():
    with pytest.raises(ValueError, match=r"no layer that says what it takes.*example_args"):
        infer_example(nn.ReLU())


def test_lazy_layers_ask_for_an_example():
    with pytest.raises(ValueError, match="example_args"):
        infer_example(nn.Sequential(nn.LazyLinear(3)))


@pytest.mark.parametrize("case", models.ALL, ids=lambda case: case.name)
@pytest.mark.parametrize("train", [True, False])
def test_the_model_and_torchs_random_state_are_left_as_they_were(case, train):
    model = case.model().train(train)
    next(model.children()).train(not train)
    next(model.parameters()).grad = torch.ones_like(next(model.parameters()))
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    state = copy.deepcopy(model.state_dict())
    modes = [part.training for part in model.modules()]
    random = torch.random.get_rng_state()
    try:
        infer_example(model)
    except ValueError:
        assert case.name in ("mixed", "pair")
    assert torch.equal(torch.random.get_rng_state(), random)
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    now = dict(model.named_parameters()) | dict(model.named_buffers())
    assert all(now[name] is tensor for name, tensor in tensors.items())
    grads = [parameter.grad for parameter in model.parameters()]
    assert torch.equal(grads[0], torch.ones_like(grads[0])) and all(grad is None for grad in grads[1:])


def test_a_model_that_counts_its_calls_in_python_does_not_count_the_tries():
    model = Lambda(lambda self, x: setattr(self, "calls", self.calls + 1) or self.body(x), body=nn.Linear(3, 2))
    model.calls = 0
    infer_example(model)
    assert model.calls == 0
