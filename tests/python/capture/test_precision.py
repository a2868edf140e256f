"""A capture for 16 bits refuses graphs that compute in other types than the model does there."""

import itertools

import pytest
import torch
from support import models
from support.soaked import soaked_all
from torch import nn

import ravnest

PRECISION = pytest.mark.parametrize("precision", ["bf16", "fp16"])
FIT = ["digits", "frozen", "in_place", "gpt"]
LARGE = ["gpt_tied", "vit_b32", "unet"]


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.last = nn.Linear(3, 4), nn.Linear(4, 2)


class Zeros(Base):
    def forward(self, x):
        return self.last(self.linear(x) + torch.zeros(4, dtype=x.dtype))


class Cast(Base):
    def forward(self, x):
        y = self.linear(x)
        return self.last(torch.softmax(y.float(), -1).to(y.dtype))


class Merged(Base):
    """In float32 y and y.float() are one tensor, and so one value of the graph; in 16 bits they are two."""

    def forward(self, x):
        y = self.linear(x)
        return self.last(torch.softmax(y.float(), -1).type_as(y))


class Smallest(Base):
    def forward(self, x):
        y = self.linear(x)
        return self.last(y.masked_fill(y > 1, torch.finfo(y.dtype).min).sigmoid())


class OtherPath(Base):
    def forward(self, x):
        y = self.linear(x)
        return self.last(torch.relu(y) if y.dtype == torch.float32 else torch.tanh(y))


class Table(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(4))

    def forward(self, x):
        return self.last(self.linear(x) + self.table)


class OnlyInEval(Base):
    def forward(self, x):
        y = self.linear(x)
        return self.last(y if self.training else y + torch.zeros(4, dtype=y.dtype))


class Following(Base):
    """Does all that the others do, by a tensor and not by its type; and computes in float32 on purpose."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.norm(self.linear(x)) + x.new_zeros(4) + self.table.type_as(x)
        y = torch.softmax(y.to(torch.float32, copy=True), -1).type_as(y)
        return self.last(y.masked_fill(y > 1, -1e4))


def capture(model, path, precision):
    return ravnest.capture(model, torch.rand(5, 3), path=path, precision=precision)


@pytest.mark.parametrize(
    ("precision", "name"),
    [
        *itertools.product(["bf16", "fp16"], FIT),
        *soaked_all(*itertools.product(["bf16", "fp16"], LARGE)),
    ],
)
def test_models_whose_types_follow_their_inputs_are_captured(tmp_path, name, precision):
    case = next(case for case in models.ALL if case.name == name)
    args, kwargs = case.example()
    model = case.model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ravnest.capture(model, args, kwargs, tmp_path / "m.pt2", precision=precision)
    assert all(tensor.dtype == before[name].dtype for name, tensor in model.state_dict().items())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@PRECISION
def test_what_follows_a_tensor_may_do_all_of_it(tmp_path, precision):
    capture(Following(), tmp_path / "m.pt2", precision)


@PRECISION
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Zeros, ["training mode", 'operator "zeros" (torch.ops.aten.zeros.default)', "gives float32", "torch.zeros(4"]),
        (Cast, ["(torch.ops.aten.to.dtype)", "gives float32", "x.type_as(y)", "test_precision.py"]),
        (Merged, ["(torch.ops.aten.type_as.default)", "gives float32"]),
        (Smallest, ["masked_fill", "-3.4028234663852886e+38", "torch.finfo"]),
        (OtherPath, ["another path", "has torch.ops.aten.relu.default", "has aten.tanh.default", "torch.tanh(y)"]),
        (Table, ["the model itself does not run", "buffers stay in float32", "test_precision.py"]),
        (OnlyInEval, ["eval mode", "zeros"]),
    ],
)
def test_what_has_fixed_a_type_is_refused_by_name(tmp_path, model, words, precision):
    with pytest.raises(ravnest.CaptureError) as refused:
        capture(model(), tmp_path / "m.pt2", precision)
    for word in [f"in {precision}", *words]:
        assert word in str(refused.value)
    assert not (tmp_path / "m.pt2").exists()
    capture(model(), tmp_path / "m.pt2", "float32")


def test_an_lstm_makes_its_first_state_in_a_fixed_type(tmp_path):
    case = next(case for case in models.ALL if case.name == "lstm")
    args, kwargs = case.example()
    with pytest.raises(ravnest.CaptureError, match=r"torch\.ops\.aten\.zeros\.default"):
        ravnest.capture(case.model(), args, kwargs, tmp_path / "m.pt2", precision="bf16")


def test_models_without_python_code_and_autocast_blocks_are_refused(tmp_path):
    example = torch.rand(5, 3)
    program = torch.export.export(Zeros(), (example,))
    with pytest.raises(ravnest.CaptureError, match=r"needs the nn\.Module"):
        ravnest.capture(program, path=tmp_path / "m.pt2", precision="bf16")
    with torch.autocast("cpu"), pytest.raises(ravnest.CaptureError, match="two ways to compute in 16 bits"):
        capture(Following(), tmp_path / "m.pt2", "bf16")


def test_an_unknown_precision_is_told_the_choices(tmp_path):
    with pytest.raises(ValueError, match="'float32', 'bf16', 'fp16'"):
        capture(Zeros(), tmp_path / "m.pt2", "half")
