"""Autocast on a GPU: captured there or on the CPU, the numbers are those of PyTorch on the GPU."""

import pytest
import torch
from support.passes import assert_same, assert_same_outputs, named
from torch import nn

import ravnest

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(64, 64), nn.Linear(64, 64), nn.LayerNorm(64)

    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            y = self.norm(self.a(x)) + self.a(self.b(x))
            with torch.autocast(x.device.type, enabled=False):
                y = self.b(y.float())
            return torch.softmax(self.b(y), -1)


def gradients(outputs, parameters: dict) -> dict:
    loss = outputs.float().square().sum()
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))


@pytest.mark.parametrize("captured_on", ["cpu", "cuda"])
def test_the_numbers_are_those_of_pytorch_on_the_gpu(tmp_path, captured_on):
    torch.manual_seed(0)
    model, x = Mixed().to(captured_on), torch.randn(8, 64)
    graph = ravnest.load(ravnest.capture(model, (x.to(captured_on),), path=tmp_path / "m.pt2")).to("cuda")
    model, x = model.to("cuda"), x.to("cuda")
    for train in (True, False):
        model.train(train)
        theirs, ours = model(x), graph(x, train=train)
        assert_same_outputs(ours, theirs)
        assert_same(gradients(ours, named(graph)[0]), gradients(theirs, dict(model.named_parameters())), "gradient of")
