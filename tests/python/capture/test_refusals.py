"""What would train with other numbers than the model is refused, with the reason, and nothing is written."""

import os
import random
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy
import pytest
import torch
from support.passes import named
from torch import nn
from torch.nn import functional as F

import ravnest


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)


class CustomFunction(Base):
    def forward(self, x):
        return Twice.apply(self.linear(x))


class DataDependentIf(Base):
    def forward(self, x):
        x = self.linear(x)
        if x.sum() > 0:
            return x
        return -x


class DataDependentLoop(Base):
    def forward(self, x):
        for _ in range(int(x.abs().max().item()) + 1):
            x = x * 2
        return self.linear(x)


class PythonRandom(Base):
    def forward(self, x):
        return self.linear(x) * random.random()


class PythonCounter(Base):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * self.calls


class NumpyRandom(Base):
    def forward(self, x):
        return self.linear(x) * float(numpy.random.rand())


class PythonCache(Base):
    def forward(self, x):
        self.linear.cache = (*getattr(self.linear, "cache", ()), len(x.shape))
        return self.linear(x) * (3 if len(self.linear.cache) > 1 else 2)


class StateElsewhere(Base):
    calls: ClassVar = []

    def forward(self, x):
        self.calls.append(1)
        return self.linear(x) * len(self.calls)


class OtherWhenTraced(Base):
    def forward(self, x):
        x = self.linear(x)
        return -x if torch.compiler.is_exporting() else x


class OtherNumberWhenTraced(Base):
    def forward(self, x):
        return self.linear(x) * (2 if torch.compiler.is_exporting() else 3)


class BranchOnSize(Base):
    def forward(self, x):
        x = self.linear(x)
        return x * 2 if x.shape[0] == 5 else x


class WrongShapes(Base):
    def forward(self, x):
        return self.linear(self.linear(x))


class Conditional(Base):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (self.linear(x),))


@dataclass
class Unknown:
    value: torch.Tensor


class UnknownOutput(Base):
    def forward(self, x):
        return Unknown(self.linear(x))


class Mapped(Base):
    def forward(self, x):
        return torch.vmap(self.linear)(x)


class Jacobian(Base):
    def forward(self, x):
        return torch.func.vmap(torch.func.jacrev(self.linear))(x)


class FunctionalGradient(Base):
    def forward(self, x):
        return torch.func.grad(lambda y: self.linear(y).square().sum())(x)


class Gradient(Base):
    def forward(self, x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(self.linear(x).square().sum(), x, create_graph=True)[0]


class Reentrant(Base):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(nn.functional.relu, self.linear(x), use_reentrant=True)


class Packed(Base):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.GRU(4, 4, batch_first=True)

    def forward(self, x):
        x = self.linear(x)[:, None].expand(-1, 5, -1)
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.full((x.shape[0],), 5), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)[0]


class PackedByInput(Packed):
    def forward(self, x):
        lengths = x[:, 0].long() + 1
        x = self.linear(x)[:, None].expand(-1, 5, -1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.recurrent(packed)[1]


class UntraceableOperator(Base):
    def forward(self, x):
        lengths = torch.full((x.shape[0],), 1)
        return F.ctc_loss(self.linear(x).log_softmax(-1)[None], torch.ones_like(lengths)[:, None], lengths, lengths)


REFUSALS = [
    (CustomFunction, r"gradient of .* of its largest value\. .*custom autograd\.Function Twice"),
    (
        DataDependentIf,
        r"decides by the value of a tensor .*test_refusals\.py, line \d+, in forward: `if x\.sum\(\) > 0:`",
    ),
    (DataDependentLoop, r"decides by the value of a tensor .*test_refusals\.py, line \d+, in forward: `for _ in range"),
    (PythonRandom, r"differs .* Two runs of the model from one seed differ too.*draws numbers from random, which"),
    (
        NumpyRandom,
        r"differs .* Two runs of the model from one seed differ too.*draws numbers from numpy\.random, which",
    ),
    (PythonCounter, r"differs .* changes the Python attribute calls, which"),
    (PythonCache, r"differs .* changes the Python attribute linear\.cache, which"),
    (StateElsewhere, r"differs .* too, by .*, though neither .*: it keeps state elsewhere"),
    (OtherWhenTraced, r"another path when torch\.export traces it: the graph runs neg, which it does not"),
    (OtherNumberWhenTraced, r"Both run the same operators.*a number in its forward that was another one"),
    (BranchOnSize, r"at another batch size than the example's 4.*another path at that size: it runs mul, which"),
    (WrongShapes, r"test_refusals\.py, line \d+, in forward: `return self\.linear\(self\.linear\(x\)\)`"),
    (UnknownOutput, r"returns test_refusals\.Unknown, .*torch\.export\.register_dataclass"),
    (Mapped, r"uses torch\.vmap or a transform of torch\.func.*operators on the whole batch"),
    (Jacobian, r"torch\.vmap or a transform of torch\.func.*test_refusals\.py, line \d+, in forward"),
    (FunctionalGradient, r"computes a gradient in its forward.*ordinary operators"),
    (Gradient, r"computes a gradient in its forward.*ordinary operators"),
    (Reentrant, r"use_reentrant=True.*Give use_reentrant=False"),
    (Packed, r"packed sequences .*the padded batch.*test_refusals\.py, line \d+, in forward"),
    (PackedByInput, r"packed sequences .*the padded batch"),
    (UntraceableOperator, r"uses aten\._ctc_loss.*test_refusals\.py, line \d+, in forward"),
    (Conditional, r"higher-order operator cond"),
]


@pytest.mark.parametrize(("model", "words"), REFUSALS, ids=lambda value: getattr(value, "__name__", ""))
def test_refused_with_the_reason(model, words, tmp_path, capfd):
    with pytest.raises(ravnest.CaptureError, match=words) as raised:
        ravnest.capture(model(), (torch.rand(4, 3),), path=tmp_path / "m.pt2")
    assert "\n" not in str(raised.value)
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr().err == ""


def test_a_refusal_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "m.pt2"
    path.write_text("mine")
    with pytest.raises(ravnest.CaptureError):
        ravnest.capture(CustomFunction(), (torch.rand(4, 3),), path=path)
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["m.pt2"]


def test_a_batch_size_that_only_the_graph_fixes_is_refused(tmp_path):
    class Counts(Base):
        def forward(self, x):
            return self.linear(x) / len([row for row in x])  # noqa: C416 - unrolls the batch

    with pytest.raises(ravnest.CaptureError, match="x with size 4 in dimension 0 only, while the model itself"):
        ravnest.capture(Counts(), (torch.rand(4, 3),), path=tmp_path / "m.pt2")


def test_an_example_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ravnest.CaptureError):
        ravnest.capture(nn.Linear(3, 2), (torch.rand(4, 5),), path=tmp_path / "m.pt2")
    with pytest.raises((ravnest.CaptureError, TypeError)):
        ravnest.capture(nn.Linear(3, 2), (), path=tmp_path / "m.pt2")


@pytest.mark.filterwarnings("ignore:.*LeafSpec")
def test_a_decomposed_program_is_refused(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    program = torch.export.export(model, (torch.rand(4, 3),)).run_decompositions()
    with pytest.raises(ravnest.CaptureError, match="run_decompositions"):
        ravnest.capture(program, path=tmp_path / "m.pt2")


def test_batch_norm_over_one_value_per_channel_is_refused_in_training(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    graph = ravnest.load(ravnest.capture(model, (torch.rand(4, 3),), path=tmp_path / "m.pt2"))
    with pytest.raises((RuntimeError, ValueError), match="more than one value per channel"):
        graph(torch.rand(1, 3))
    assert torch.isfinite(named(graph)[1]["1.running_var"]).all()
    assert graph(torch.rand(1, 3), train=False).shape == (1, 4)


def test_an_unknown_operator_is_named(tmp_path):
    path = tmp_path / "m.pt2"
    write = f"""
import torch
@torch.library.custom_op("zoo::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
twice.register_fake(lambda x: torch.empty_like(x))
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ops.zoo.twice(x)
torch.export.save(torch.export.export(Model(), (torch.rand(4, 3),)), {str(path)!r})
"""
    subprocess.run([sys.executable, "-c", write], check=True)
    with pytest.raises(ravnest.Error, match=r"zoo.*twice"):
        ravnest.load(path)


def test_a_pickled_weight_is_refused(tmp_path):
    """A tensor subclass is stored as a pickle, which is never opened."""
    import zipfile

    from support import models

    source, path = tmp_path / "plain.pt2", tmp_path / "pickled.pt2"
    case = models.ARCHITECTURES[0]
    args, kwargs = case.example()
    torch.export.save(torch.export.export(case.model(), args, kwargs), source)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("model_weights_config.json"):
                data = data.replace(b'"use_pickle": false', b'"use_pickle": true')
                data = data.replace(b'"use_pickle":false', b'"use_pickle":true')
            new.writestr(entry.filename, data)
    with pytest.raises(ravnest.Error, match="pickle"):
        ravnest.load(path)
