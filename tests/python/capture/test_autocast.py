"""torch.autocast in a model's forward, or around its capture: the numbers of PyTorch, whole and in stages."""

import pytest
import torch
from support.chain import one_name_each, run_chain
from support.nodes import Cluster, plan
from support.passes import assert_equal, assert_same, assert_same_outputs, loss_of, named
from support.small_net import criterion, loaders
from torch import nn

import ravnest
from ravnest import Trainer

LOW = {"device_type": "cpu", "dtype": torch.bfloat16}


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)


class Block(Base):
    """One weight used twice, one value read three times, an operator that stays in float32, a product of composites."""

    def forward(self, x):
        x = self.a(x)
        with torch.autocast(**LOW):
            y = self.b(x) + self.a(x).relu() * self.b(x)
            y = self.norm(torch.einsum("bi,ij->bj", y, self.a.weight))
            y = torch.softmax(y, -1) + self.b(y.tanh())
        return self.b(y.float())


class Nested(Base):
    def forward(self, x):
        with torch.autocast(**LOW):
            y = self.a(x)
            with torch.autocast("cpu", enabled=False):
                y = self.b(y.float())
                with torch.autocast("cpu", dtype=torch.float16):
                    y = self.c(y)
            return self.a(y), self.b(x)


class WithoutGradient(Base):
    """A no_grad block inside of autocast, and autocast inside of a no_grad block inside of that."""

    def forward(self, x):
        with torch.autocast(**LOW):
            y = self.a(x)
            with torch.no_grad():
                fixed = self.b(y)
                with torch.autocast("cpu", enabled=False):
                    fixed = fixed.float() + self.b(x)
            return self.a(y * fixed)


class Decorated(Base):
    @torch.autocast(**LOW)
    def forward(self, x):
        x = x[:, None, :].expand(-1, 3, -1)
        return self.attention(x, x, x)[0].mean(1) + self.b(x[:, 0])


class ForAnotherDevice(Base):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False), torch.autocast("xpu", dtype=torch.bfloat16):
            return self.a(x)


class Lasting(Base):
    """A recurrent layer, whose operator casts inside of itself, and dropout."""

    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(6, 6, batch_first=True)

    def forward(self, x):
        with torch.autocast(**LOW):
            out, _ = self.recurrent(self.a(x)[:, None].expand(-1, 4, -1))
        return nn.functional.dropout(self.b(out[:, -1].float()), 0.5, self.training)


class Scripted(Base):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.a(x)


MODELS = [Block, Nested, WithoutGradient, Decorated, ForAnotherDevice, Lasting]


def example(batch=4):
    return torch.randn(batch, 6, generator=torch.Generator().manual_seed(batch))


def made(kind):
    torch.manual_seed(3)
    return kind()


def eager_pass(model, x, around=None):
    torch.manual_seed(5)
    with around or torch.enable_grad():
        outputs = model(x)
    parameters, buffers = named(model)
    grads = torch.autograd.grad(loss_of(outputs), list(parameters.values()), allow_unused=True)
    return outputs, dict(zip(parameters, grads, strict=True)), buffers


def assert_as_eager(path, model, x):
    graph = ravnest.load(path)
    graph.random = "plain"
    outputs, grads, buffers = eager_pass(model, x)
    torch.manual_seed(5)
    ours = graph(x)
    assert_same_outputs(ours, outputs)
    parameters = named(graph)[0]
    our_grads = torch.autograd.grad(loss_of(ours), list(parameters.values()), allow_unused=True)
    assert_same(dict(zip(parameters, our_grads, strict=True)), grads, "gradient of")
    assert_same(named(graph)[1], buffers, "buffer")
    model.eval()
    with torch.no_grad():
        assert_same_outputs(graph(x, train=False), model(x))
    assert not torch.is_autocast_enabled("cpu")


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    folder, paths = tmp_path_factory.mktemp("autocast"), {}

    def capture(kind):
        if kind not in paths:
            path = folder / f"{kind.__name__}.pt2"
            paths[kind] = ravnest.capture(made(kind), (example(),), path=path)
        return paths[kind]

    return capture


@pytest.mark.parametrize("kind", MODELS)
def test_the_numbers_are_those_of_pytorch(captured, kind):
    for batch in (4, 7):
        assert_as_eager(captured(kind), made(kind), example(batch))


@pytest.mark.parametrize("kind", [Block, Nested, WithoutGradient, Decorated])
def test_a_cut_may_go_through_a_block(captured, kind, tmp_path):
    """Every legal cut, and stages from their files. Weights that two stages use are the one thing that differs: their
    casts, and so the sums of their gradients, are each stage's own."""
    path, x = captured(kind), example()
    whole = ravnest.load(path)
    whole.random = "plain"
    outputs, grads, _ = eager_pass(made(kind), x)
    cuts = [cut["position"] for cut in whole.cuts() if cut["legal"]]
    assert len(cuts) > 3
    for cut in cuts:
        graph = ravnest.load(path)
        graph.random = "plain"
        stages = graph.slice([cut])
        files = [stage.save(tmp_path / f"{stage.index}.pt2") for stage in stages]
        stages = [ravnest.load(file) for file in files]
        chain_outputs, _, chain_grads = run_chain(stages, [x])
        assert_same_outputs(chain_outputs, outputs, f"cut {cut}")
        tied = {name for stage in stages for name in stage.tied()}
        ours = one_name_each(chain_grads, named(whole)[0])
        for name, grad in grads.items():
            if grad is not None and name not in tied:
                assert_equal(ours[name], grad, f"cut {cut}: gradient of {name}")
            elif grad is not None:
                torch.testing.assert_close(ours[name], grad, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("kind", [Block, Nested, WithoutGradient])
def test_torch_opens_a_stage_and_computes_the_same(captured, kind, tmp_path):
    graph, x = ravnest.load(captured(kind)), example()
    cuts = [cut["position"] for cut in graph.cuts() if cut["legal"]]
    inputs = {}
    for stage in graph.slice([cuts[len(cuts) // 3], cuts[2 * len(cuts) // 3]]):
        given = [x if source < 0 else inputs[source, index] for source, index in stage.inputs()]
        program = torch.export.load(stage.save(tmp_path / f"{stage.index}.pt2"))
        kept = {name: buffer.clone() for name, buffer in stage.named_buffers(remove_duplicate=False)}
        theirs = program.module()(*given)
        for name, buffer in stage.named_buffers(remove_duplicate=False):
            buffer.copy_(kept[name])
        ours = stage(*given)
        assert_same_outputs(ours, theirs, f"stage {stage.index}")
        if isinstance(ours, tuple):
            inputs |= {(stage.index, i): value.detach() for i, value in enumerate(ours)}


def test_an_exported_program_with_blocks_is_captured(tmp_path):
    model = made(Nested)
    program = torch.export.export(model, (example(),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    graph = ravnest.load(ravnest.capture(program, path=tmp_path / "m.pt2"))
    assert_same_outputs(graph(example()), model(example()))


def test_autocast_around_the_capture_is_part_of_the_model(tmp_path):
    model, x = made(Block), example()
    with torch.autocast(**LOW):
        path = ravnest.capture(model, (x,), path=tmp_path / "m.pt2")
        assert torch.is_autocast_enabled("cpu")
    assert "forward" not in vars(model)
    outputs, grads, _ = eager_pass(made(Block), x, around=torch.autocast(**LOW))
    graph = ravnest.load(path)
    ours = graph(x)
    assert_same_outputs(ours, outputs)
    parameters = named(graph)[0]
    our_grads = torch.autograd.grad(loss_of(ours), list(parameters.values()), allow_unused=True)
    assert_same(dict(zip(parameters, our_grads, strict=True)), grads, "gradient of")


def test_autocast_around_the_capture_of_a_script_is_refused(tmp_path):
    script = torch.jit.script(nn.Linear(3, 2))
    with torch.autocast(**LOW), pytest.raises(ravnest.CaptureError, match="leave the block, or capture the"):
        ravnest.capture(script, (torch.rand(4, 3),), path=tmp_path / "m.pt2")


def test_autocast_inside_of_a_script_is_refused(tmp_path):
    with pytest.raises(ravnest.CaptureError, match=r"of type autocast .*capture the nn\.Module"):
        ravnest.capture(torch.jit.script(Scripted()), (example(),), path=tmp_path / "m.pt2")


def test_a_graph_may_be_called_inside_of_autocast(captured):
    graph, x = ravnest.load(captured(Block)), example()
    model = made(Block)
    with torch.autocast(**LOW):
        assert_same_outputs(graph(x), model(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_of_another_type_throughout(tmp_path, dtype):
    model = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3)).to(dtype)
    x = example().to(dtype)
    graph = ravnest.load(ravnest.capture(model, (x,), path=tmp_path / "m.pt2"))
    _, grads, _ = eager_pass(model, x)
    _, _, ours = run_chain(graph.slice([1, 2]), [x])
    assert_same(ours, grads, "gradient of")


class Mixed(nn.Module):
    """No weight is used twice, so that stages give one process's numbers wherever they are cut."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))

    @torch.autocast(**LOW)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu() + x
        return x


def test_a_cluster_trains_as_one_process_does(tmp_path):
    torch.manual_seed(0)
    model, batches = Mixed(), [(example(batch), example(batch + 1)[:batch]) for batch in (4, 6, 5)]
    plan(tmp_path, model, (example(),))

    def loss_of(outputs, item):
        return (outputs - item[1]).square().mean()

    def script(make):
        options = {"optimizer": torch.optim.Adam, "schedule": "sync", "criterion": loss_of, "labels": batches}
        with make(**options) as node:
            Trainer(node=node, train_loader=batches, epochs=2, save=True).train()

    Cluster(tmp_path).run(script)
    optimizer = torch.optim.Adam(model.parameters())
    for item in batches * 2:
        loss_of(model(item[0]), item).backward()
        optimizer.step()
        optimizer.zero_grad()
    trained = torch.load(ravnest.model_fusion(trained=tmp_path / "trained"), weights_only=True)
    assert_same(trained, model.state_dict(), "weight")


def test_autocast_around_training_is_an_error(alone):
    def script(make):
        train, _ = loaders()
        with make(optimizer=torch.optim.SGD, criterion=criterion, labels=train) as node, torch.autocast(**LOW):
            Trainer(node=node, train_loader=train, epochs=1).train()

    with pytest.raises(RuntimeError, match="Put the block around clusterize"):
        alone.run(script)


def test_what_casts_keep_is_part_of_a_steps_memory(tmp_path):
    class Wide(Mixed):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(4))

    x = torch.randn(64, 128)
    graph = ravnest.load(ravnest.capture(Wide(), (x,), path=tmp_path / "m.pt2"))
    estimated, measured = graph.profile()["saved_bytes"], graph.profile(x)["saved_bytes"]
    assert abs(estimated - measured) < 0.1 * measured, (estimated, measured)
