"""Training through the executor gives the numbers of PyTorch, to the last bit."""

import pytest
import torch
from support import models
from support.passes import (
    assert_same,
    assert_same_outputs,
    check_steps,
    gradients,
    loss_of,
    named,
)

import ravnest

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
}


def cases():
    for number, case in enumerate(models.ALL):
        yield pytest.param(case, "sgd" if number % 2 else "adam", id=case.name)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("case", "optimizer"), list(cases()))
def test_three_training_steps_equal_pytorch(case, optimizer, archive):
    check_three_steps(case, optimizer, archive)


@pytest.mark.parametrize("case", models.ARCHITECTURES[:1], ids=lambda case: case.name)
@pytest.mark.usefixtures("two_threads")
def test_three_training_steps_on_two_threads_equal_pytorch(case, archive):
    check_three_steps(case, "adam", archive)


def check_three_steps(case, optimizer, archive):
    model, graph = case.model(), ravnest.load(archive(case))
    # Another size than the example's, the example's, and a short last batch.
    check_steps(model, graph, case, [case.batch + 3, case.batch, 2], OPTIMIZERS[optimizer])
    model.eval()
    for batch in (case.batch, 1, case.batch + 2):
        args, kwargs = case.example(batch, seed=20)
        with torch.no_grad():
            assert_same_outputs(graph(*args, train=False, **kwargs), model(*args, **kwargs), "eval output")
    assert_same(named(graph)[1], named(model)[1], "buffer after eval")


@pytest.mark.parametrize("case", models.ARCHITECTURES, ids=lambda case: case.name)
def test_gradients_of_inputs_equal_pytorch(case, archive):
    model, graph = case.model(), ravnest.load(archive(case))
    model.train()
    graph.random = "plain"
    found = []
    for call in (model, graph):
        args, kwargs = case.example()
        floats = [leaf for leaf in (*args, *kwargs.values()) if leaf.is_floating_point()]
        for leaf in floats:
            leaf.requires_grad_()
        torch.manual_seed(5)
        loss_of(call(*args, **kwargs)).backward()
        found.append({str(position): leaf.grad for position, leaf in enumerate(floats)})
    assert_same(found[1], found[0], "gradient of input")


@pytest.mark.parametrize("name", ["resnet50", "unet", "gpt", "bert"])
def test_sizes_other_than_the_batch_are_open(name, archive):
    case = next(case for case in models.ALL if case.name == name)
    model, graph = case.model(), ravnest.load(archive(case))
    other = {
        "resnet50": models.images(96),
        "unet": models.images(48),
        "gpt": models.tokens(60, 7),
        "bert": models.bert_inputs(100, 9),
    }[name]
    args, kwargs = other(3)
    model.train()
    graph.random = "plain"
    results = []
    for call in (model, graph):
        torch.manual_seed(3)
        results.append(call(*args, **kwargs))
    assert_same_outputs(results[1], results[0])


def test_gradients_add_up_over_calls_as_in_pytorch(archive):
    case = models.ARCHITECTURES[0]
    model, graph = case.model(), ravnest.load(archive(case))
    model.train()
    graph.random = "plain"
    for seed in (1, 2, 3):
        args, kwargs = case.example(seed=seed)
        for call in (model, graph):
            torch.manual_seed(seed)
            loss_of(call(*args, **kwargs)).backward()
    assert_same(gradients(named(graph)[0]), gradients(named(model)[0]), "gradient of")


def test_no_autograd_is_recorded_without_gradient_mode(archive):
    case = models.ARCHITECTURES[0]
    graph = ravnest.load(archive(case))
    args, _ = case.example()
    with torch.no_grad():
        assert not graph(*args).requires_grad
    assert graph(*args).requires_grad


def test_weights_written_from_outside_are_used(archive):
    case = models.ARCHITECTURES[0]
    model, graph = case.model(seed=77), ravnest.load(archive(case))
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            graph.state_dict()[name].copy_(tensor)
    args, _ = case.example()
    model.eval()
    assert_same_outputs(graph(*args, train=False), model(*args))
