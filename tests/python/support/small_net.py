"""A small network with data that it can learn, for tests of whole clusters."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Nested names, batch norm, a buffer that is no parameter; no dropout, so that plain PyTorch gives the same."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh())
        self.head = nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 5))
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        return self.head(self.body(x) * self.scale)


def make_net() -> Net:
    torch.manual_seed(0)
    return Net()


def make_dropping() -> nn.Module:
    """The same with dropout."""
    net = make_net()
    net.body.insert(3, nn.Dropout(0.25))
    return net


class Phases(nn.Module):
    """Turns what it is given by angles that it learns, as complex numbers, and so is not for stages or ranks."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.phases = nn.Parameter(torch.ones(outputs, dtype=torch.complex64))

    def forward(self, x):
        return (self.linear(x) * self.phases).real.contiguous()


class In16Bits(nn.Module):
    """A network with weights of 16 bits, between numbers of 32."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net.to(torch.bfloat16)

    def forward(self, x):
        return self.net(x.to(torch.bfloat16)).float()


def make_dropping_in_16_bits() -> nn.Module:
    return In16Bits(make_dropping())


def make_plain() -> nn.Module:
    """One whose numbers do not depend on how a batch is shared out."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 24), nn.Linear(24, 5)
    )


def make_data(samples=200):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 12, generator=generator)
    return x, (x[:, :5] + x[:, 5:10]).argmax(1)


def loaders(shuffle=True, batch=20):
    x, y = make_data()
    train = DataLoader(TensorDataset(x[:140], y[:140]), batch_size=batch, shuffle=shuffle)
    return train, DataLoader(TensorDataset(x[140:], y[140:]), batch_size=25)


def criterion(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets[1])


def slow_criterion(delay_s: float):
    """The same of a model that takes its time, and says when it trains."""

    def slow(outputs, targets):
        print("training", flush=True)
        time.sleep(delay_s)
        return criterion(outputs, targets)

    return slow
