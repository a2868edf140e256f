"""TorchScript modules, scripted, traced and loaded from a file, are captured with their names and an open batch."""

import pytest
import torch
from support import models
from support.passes import loss_of, named
from support.soaked import soaked
from torch import nn

import ravnest

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning", "ignore:.*traced or exported in training mode"
)


def case_named(name):
    return next(case for case in models.ALL if case.name == name)


def close(ours, theirs, scale=None):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * (scale or 1))


def check_against(model, script, graph, case):
    """Outputs, gradients, buffers and eval outputs, at another batch size than the example's."""
    args, kwargs = case.example(case.batch + 1, seed=5)
    assert list(named(graph)[0]) == list(named(model)[0])
    graph.random = "plain"
    torch.manual_seed(1)
    ours = graph(*args, **kwargs)
    torch.manual_seed(1)
    theirs = script(*args, **kwargs)
    close(ours, theirs)
    loss_of(ours).backward()
    loss_of(theirs).backward()
    expected = {name: p.grad for name, p in script.named_parameters(remove_duplicate=False)}
    for name, parameter in graph.named_parameters(remove_duplicate=False):
        assert (parameter.grad is None) == (expected[name] is None)
        if parameter.grad is not None:
            close(parameter.grad, expected[name], scale=10)
    close(named(graph)[1], dict(script.named_buffers(remove_duplicate=False)))


def through_file(script, tmp_path):
    torch.jit.save(script, tmp_path / "script.pt")
    return torch.jit.load(tmp_path / "script.pt")


@pytest.mark.parametrize("loaded", [True, *soaked(False)], ids=["loaded", "made"])
@pytest.mark.parametrize(
    "name", ["digits", "unet", "lstm", "in_place", "buffer_writes", "stochastic_depth", "tied_twice"]
)
def test_a_scripted_module_is_captured_in_both_modes(name, loaded, tmp_path):
    case = case_named(name)
    model = case.model()
    script = torch.jit.script(model)
    if loaded:
        script = through_file(script, tmp_path)
    graph = ravnest.load(ravnest.capture(script, *case.example(), tmp_path / "m.pt2"))
    check_against(model, script, graph, case)
    script.eval()
    args, kwargs = case.example(3)
    close(graph(*args, train=False, **kwargs), script(*args, **kwargs))


@pytest.mark.parametrize("loaded", [True, *soaked(False)], ids=["loaded", "made"])
@pytest.mark.parametrize("name", ["digits", "gpt_tied", "lstm", "frozen", *soaked("vit_b32")])
def test_a_traced_module_is_captured_in_the_mode_it_was_traced_in(name, loaded, tmp_path):
    case = case_named(name)
    model = case.model()
    args, _ = case.example()
    script = torch.jit.trace(model, args, check_trace=False)
    if loaded:
        script = through_file(script, tmp_path)
    graph = ravnest.load(ravnest.capture(script, args, path=tmp_path / "m.pt2"))
    check_against(model, script, graph, case)


def test_a_module_traced_in_training_mode_has_no_eval_mode_and_capture_says_so(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))
    script = torch.jit.trace(model, torch.rand(4, 3), check_trace=False)
    with pytest.warns(UserWarning, match="in training mode and has no other"):
        path = ravnest.capture(script, (torch.rand(4, 3),), path=tmp_path / "m.pt2")
    assert (ravnest.load(path)(torch.rand(64, 3), train=False) == 0).any()


def test_a_module_traced_in_eval_mode_trains_in_eval_mode_and_capture_says_so(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)).eval()
    script = torch.jit.trace(model, torch.rand(4, 3))
    with pytest.warns(UserWarning, match="in eval mode and has no other"):
        ravnest.capture(script, (torch.rand(4, 3),), path=tmp_path / "m.pt2")


def test_a_traced_module_that_drops_no_grad_is_refused(tmp_path):
    case = case_named("no_grad")
    args, _ = case.example()
    script = torch.jit.trace(case.model(), args, check_trace=False)
    with pytest.raises(ravnest.CaptureError, match=r"buffer centre .*torch\.jit\.trace drops no_grad"):
        ravnest.capture(script, args, path=tmp_path / "m.pt2")


def test_a_script_that_decides_by_a_tensor_is_refused_with_its_line(tmp_path):
    class Decides(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x):
            x = self.linear(x)
            if bool(x.sum() > 0):
                return x
            return -x

    with pytest.raises(
        ravnest.CaptureError, match=r"decides by the value of a tensor .*test_torchscript\.py, line \d+"
    ):
        ravnest.capture(torch.jit.script(Decides()), (torch.rand(4, 3),), path=tmp_path / "m.pt2")


def test_keyword_and_default_arguments_of_a_script(tmp_path):
    class Options(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x, mask: torch.Tensor, scale: float = 2.0):
            return self.linear(x).masked_fill(mask, 0.0) * scale

    model = Options()
    x, mask = torch.rand(4, 3), torch.rand(4, 4) > 0.5
    graph = ravnest.load(ravnest.capture(torch.jit.script(model), (x,), {"mask": mask}, tmp_path / "m.pt2"))
    close(graph(x, mask=mask), model(x, mask))
    close(graph(x, mask), model(x, mask))


def test_module_paths_of_a_script_are_known_to_the_slicer(tmp_path):
    case = models.ARCHITECTURES[0]
    script = torch.jit.script(case.model())
    graph = ravnest.load(ravnest.capture(script, *case.example(), tmp_path / "m.pt2"))
    stages = graph.slice(["dense_1", "bn_3"])
    assert [sum(p.numel() for p in stage.parameters()) for stage in stages] == [4896, 8448, 3082]


class Attention(nn.Module):
    """Computes with every size of its input."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.qkv = nn.Linear(8, 24)

    def forward(self, tokens):
        x = self.embed(tokens)
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) / float(length) ** 0.5, -1)
        return (weights @ v).transpose(1, 2).reshape(batch, length, width)


def test_every_size_that_a_script_leaves_open_stays_open(tmp_path):
    model, example, other = Attention(), torch.randint(0, 16, (4, 6)), torch.randint(0, 16, (3, 9))
    graph = ravnest.load(ravnest.capture(torch.jit.script(model), (example,), path=tmp_path / "m.pt2"))
    close(graph(other), model(other))


class Decides(nn.Module):
    """Takes another path for large batches, and has options that may be left out."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.linear = nn.Linear(3, 3)
        self.offset = torch.arange(3.0)

    def forward(
        self, x, scale: float = 2.0, mask: torch.Tensor | None = None, more: dict[str, torch.Tensor] | None = None
    ):
        y = self.linear(self.norm(x)) * scale + self.offset
        if more is not None:
            y = y + more["b"] - more["a"]
        if x.size(0) > 8:
            y = y * 2
        return {"y": y if mask is None else y.masked_fill(mask, 0.0), "pair": [y.sum(), y]}


def test_a_decision_of_a_script_on_the_batch_limits_it(tmp_path):
    graph = ravnest.load(ravnest.capture(torch.jit.script(Decides()), (torch.rand(4, 3),), path=tmp_path / "m.pt2"))
    graph(torch.rand(8, 3))
    with pytest.raises(RuntimeError, match="takes at most 8"):
        graph(torch.rand(9, 3))


@pytest.mark.parametrize("options", [{"mask": 1}, {"scale": 3}, {"scale": 0.5, "more": 2}], ids=",".join)
def test_options_and_structures_of_a_script(options, tmp_path):
    model = Decides().eval()
    x = torch.rand(4, 3)
    given = {"mask": x > 0.5, "more": {"a": x, "b": x * 2}}
    kwargs = {name: given.get(name, value) for name, value in options.items()}
    graph = ravnest.load(ravnest.capture(torch.jit.script(model), (x,), kwargs, tmp_path / "m.pt2"))
    close(graph(x, train=False, **kwargs), model(x, **kwargs))


def test_a_part_of_a_script_that_stands_in_eval_mode_stays_so(tmp_path):
    script = torch.jit.script(Decides())
    script.norm.eval()
    graph = ravnest.load(ravnest.capture(script, (torch.rand(4, 3),), path=tmp_path / "m.pt2"))
    graph(torch.rand(4, 3))
    assert dict(graph.named_buffers())["norm.num_batches_tracked"] == 0
    assert not script.norm.training and script.linear.training


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ((), {"mask": torch.ones(3)}, "missing a required argument: 'x'"),
        ((torch.rand(4, 3),), {"y": 1}, "unexpected keyword argument 'y'"),
        (("text",), {}, "does not take this as x"),
        ((torch.rand(4, 5),), {}, r"aten::batch_norm \(.*functional\.py, line \d+\): .*5"),
    ],
)
def test_an_example_that_a_script_does_not_take_is_refused(args, kwargs, reason, tmp_path):
    with pytest.raises(ravnest.CaptureError, match=reason):
        ravnest.capture(torch.jit.script(Decides()), args, kwargs, tmp_path / "m.pt2")
