"""TorchScript files, loaded by the C++ core alone, against the modules that they were made from."""

import pytest
import torch
import torch.nn.functional as F
from support import models
from support.chain import one_name_each, run_chain
from support.passes import (
    assert_equal,
    assert_same,
    assert_same_outputs,
    check_steps,
    loss_of,
    named,
)
from torch import nn

from ravnest import _core
from ravnest.engine.graph import Graph

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


class Attention(nn.Module):
    """Attention with views and transposes, and an output layer that shares its weight with the embedding."""

    def __init__(self, heads: int = 2, width: int = 8):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(16, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 16, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("mask", torch.triu(torch.full((5, 5), float("-inf")), 1))

    def forward(self, tokens):
        x = self.embed(tokens)
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        weights = torch.softmax(q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5 + self.mask, -1)
        x = x + F.dropout((weights @ v).transpose(1, 2).reshape(batch, length, width), 0.1, self.training)
        return self.out(x)


class Modes(nn.Module):
    """Does something else in training than in eval, as no flag of an operator could say."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.calls += 1
            x = x + torch.rand_like(x)
        return torch.tanh(self.linear(x))


class Shapes(nn.Module):
    """Decides on sizes: on one that is fixed, and on the batch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        if x.size(1) != 6:
            x = x.mean(-1, keepdim=True).expand(-1, 6)
        y = self.linear(x)
        if x.size(0) > 8:
            return y * 2
        return y


class Quiet(nn.Module):
    """A block without gradients, a loop with a fixed count, a list, and an optional argument."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x, scale: float = 2.0):
        parts = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            with torch.no_grad():
                parts.append(x * scale)
        for i in range(2):
            x = x + parts[i] * float(i + 1)
        return x, parts


def encoder():
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


def case_of(build, *shape, high=None, batch=4):
    def inputs(count):
        return ((torch.randint(0, high, (count, *shape)) if high else torch.randn(count, *shape),), {})

    return models.Case(build.__name__.lower(), build, inputs, batch)


def known(*names):
    return [case for case in models.ALL if case.name in names]


SMALL = [
    case_of(Attention, 5, high=16),
    case_of(Modes, 4),
    case_of(Shapes, 6),
    case_of(Quiet, 3),
    case_of(encoder, 5, 8),
]
SCRIPTED = SMALL + known("digits", "unet", "lstm", "in_place", "buffer_writes", "stochastic_depth", "tied_twice")
TRACED = [SMALL[0], *known("digits", "resnet50", "gpt_tied", "vit_b32", "lstm", "frozen")]


def by_name(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def save(script, path):
    script.save(str(path))
    return str(path)


def load_scripted(module, case, tmp_path):
    return Graph(_core.load_script(save(torch.jit.script(module), tmp_path / "m.pt"), list(case.example()[0])))


def load_traced(module, case, tmp_path):
    example = case.example()[0]
    script = torch.jit.trace(module, example, check_trace=False)
    return Graph(_core.load_script(save(script, tmp_path / "m.pt"), list(example)))


def train_three_steps(module, graph, case):
    """At the example's batch size and at others."""
    check_steps(module, graph, case, [case.batch, case.batch + 3, 2], lambda them: torch.optim.SGD(them, lr=0.05))


@by_name(SCRIPTED)
def test_a_scripted_file_trains_and_evaluates_like_the_module(case, tmp_path):
    module = case.model()
    graph = load_scripted(module, case, tmp_path)
    train_three_steps(module, graph, case)
    module.eval()
    for batch in (case.batch, 1, case.batch + 2):
        args, _ = case.example(batch, seed=20)
        # With gradients on: without, torch's own encoder layer takes another path, of other rounding.
        assert_same_outputs(graph(*args, train=False), module(*args), "eval output")


@by_name(TRACED)
def test_a_traced_file_trains_like_the_module(case, tmp_path):
    module = case.model()
    train_three_steps(module, load_traced(module, case, tmp_path), case)


def test_a_traced_file_has_the_mode_that_it_was_traced_in(tmp_path):
    case = models.ARCHITECTURES[0]
    module = case.model().eval()
    graph = load_traced(module, case, tmp_path)
    args, _ = case.example(3)
    for train in (True, False):
        assert_same_outputs(graph(*args, train=train), module(*args))


def test_a_decision_on_the_batch_limits_it(tmp_path):
    module = Shapes()
    graph = Graph(_core.load_script(save(torch.jit.script(module), tmp_path / "m.pt"), [torch.randn(4, 6)]))
    eight, nine = torch.randn(8, 6), torch.randn(9, 6)
    assert torch.equal(graph(eight), module(eight))
    with pytest.raises(RuntimeError, match="takes at most 8"):
        graph(nine)
    graph = Graph(_core.load_script(str(tmp_path / "m.pt"), [nine]))
    twenty = torch.randn(20, 6)
    assert torch.equal(graph(twenty), module(twenty))
    with pytest.raises(RuntimeError, match="takes at least 9"):
        graph(eight)


class Folded(nn.Module):
    """Works at even batch sizes only."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 2)

    def forward(self, x):
        return self.linear(x.reshape(x.size(0) // 2, 6))


class OddOneOut(nn.Module):
    """Works at one batch size only."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(12, 2)

    def forward(self, x):
        return self.linear(x.reshape(12))


def test_a_model_for_even_batches_takes_them(tmp_path):
    module = Folded()
    graph = Graph(_core.load_script(save(torch.jit.script(module), tmp_path / "m.pt"), [torch.randn(4, 3)]))
    for size in (2, 4, 10):
        x = torch.randn(size, 3)
        assert torch.equal(graph(x), module(x))


def test_a_model_for_one_batch_size_has_it_fixed(tmp_path):
    module = OddOneOut()
    graph = Graph(_core.load_script(save(torch.jit.script(module), tmp_path / "m.pt"), [torch.randn(4, 3)]))
    assert graph._core.input_info(True)[0]["sizes"] == [4, 3]
    x = torch.randn(4, 3)
    assert torch.equal(graph(x), module(x))


class Structured(nn.Module):
    """Nested inputs and outputs, an attribute that is set anew, and a tensor that is no buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.offset = torch.arange(3.0)

    def forward(self, x, pair: tuple[torch.Tensor, torch.Tensor], named: dict[str, torch.Tensor], flag: bool = False):
        y = self.linear(x) + self.offset
        if self.training:
            self.mean = self.mean * 0.9 + y.mean(0) * 0.1
        if flag:
            y = -y
        return {"sum": y + pair[0] * pair[1] + named["a"], "both": [y + self.mean, y.sum()]}


def test_structures_attributes_and_fixed_arguments(tmp_path):
    torch.manual_seed(0)
    module = Structured()
    x = torch.randn(4, 3)
    example = [x, (x * 2, x * 3), {"a": x * 4}, True]
    graph = Graph(_core.load_script(save(torch.jit.script(module), tmp_path / "m.pt"), example))
    for _ in range(2):
        ours, theirs = graph(*example), module(*example)
        assert_same_outputs(ours, theirs)
        assert torch.equal(named(graph)[1]["mean"], module.mean)
        module.mean.detach_()
    assert sorted(named(graph)[1]) == ["mean", "offset"]
    with pytest.raises(RuntimeError, match="flag"):
        graph(x, (x, x), {"a": x}, False)


class DataLoop(nn.Module):
    def forward(self, x):
        while bool(x.sum() > 1):
            x = x / 2
        return x


class DataBranch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class DataCount(nn.Module):
    def forward(self, x):
        for _ in range(int(x[0, 0])):
            x = x + 1
        return x


class DataSize(nn.Module):
    def forward(self, x):
        return torch.zeros(int(x.sum()), 2)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x * self.count


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (DataLoop, "prim::Loop"),
        (DataBranch, "prim::If"),
        (DataCount, "prim::Loop"),
        (DataSize, "aten::zeros"),
        (Counter, "prim::SetAttr"),
    ],
)
def test_what_depends_on_data_or_hidden_state_is_refused_with_its_line(make, kind, tmp_path):
    path = save(torch.jit.script(make()), tmp_path / "m.pt")
    with pytest.raises(RuntimeError, match=rf"{kind} \(.*test_script_files.py, line \d+\)"):
        _core.load_script(path, [torch.ones(2, 2)])


def test_files_and_examples_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(RuntimeError, match="no such file"):
        _core.load_script(str(tmp_path / "none.pt"), [])
    (tmp_path / "bad.pt").write_bytes(b"not a zip")
    with pytest.raises(RuntimeError, match="not a TorchScript file"):
        _core.load_script(str(tmp_path / "bad.pt"), [])
    path = save(torch.jit.script(models.ARCHITECTURES[0].model()), tmp_path / "m.pt")
    with pytest.raises(RuntimeError, match="example of its argument x"):
        _core.load_script(path, [])
    with pytest.raises(RuntimeError, match="takes 1 arguments"):
        _core.load_script(path, [torch.rand(2, 1, 8, 8)] * 2)
    with pytest.raises(RuntimeError, match="aten::conv2d"):
        _core.load_script(path, [torch.randn(2, 3)])


@by_name([*SMALL, *known("digits", "lstm", "unet")])
def test_the_archive_opens_with_torch_export(case, tmp_path):
    module = case.model()
    graph = load_scripted(module, case, tmp_path)
    program = torch.export.load(graph.save(tmp_path / "m.pt2"))
    assert program.state_dict.keys() == module.state_dict().keys()
    for batch in (case.batch, case.batch + 2):
        args, _ = case.example(batch)
        torch.manual_seed(3)
        theirs = program.module()(*args)
        torch.manual_seed(3)
        assert_same_outputs(theirs, module(*args))


@by_name([*(case for case in SMALL if case.build in (Attention, Quiet, encoder)), *known("digits", "lstm", "unet")])
def test_stages_of_a_scripted_file_give_its_gradients(case, tmp_path):
    module = case.model()
    whole = load_scripted(module, case, tmp_path)
    args, _ = case.example(case.batch + 1)
    loss = loss_of(whole(*args))
    loss.backward()
    expected = {}
    for name, parameter in whole.named_parameters(remove_duplicate=False):
        expected.setdefault(id(parameter), (name, parameter.grad))
    legal = [cut["position"] for cut in whole.cuts() if cut["legal"]]
    assert len(legal) >= 2
    for position in legal[:: max(1, len(legal) // 10)]:
        stages = load_scripted(module, case, tmp_path).slice([position])
        _, chain_loss, chain_grads = run_chain(stages, list(args))
        assert_equal(chain_loss.detach(), loss.detach(), f"cut {position}: loss")
        assert_same(
            one_name_each(chain_grads, named(whole)[0]), dict(expected.values()), f"cut {position}: gradient of"
        )


def test_module_paths_of_a_script_are_known_to_the_slicer(tmp_path):
    case = models.ARCHITECTURES[0]
    stages = load_scripted(case.model(), case, tmp_path).slice(["dense_1", "bn_3"])
    assert [sum(p.numel() for p in stage.parameters()) for stage in stages] == [4896, 8448, 3082]
