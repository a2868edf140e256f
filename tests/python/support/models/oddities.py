"""Small models that each do one thing a capture could get wrong."""

import torch
from torch import nn


class InPlace(nn.Module):
    """Writes in place into activations, also through views."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.act = nn.Linear(6, 8), nn.Linear(8, 8), nn.LeakyReLU(inplace=True)

    def forward(self, x):
        x = self.act(self.first(x))
        y = self.second(x).clone()
        y[:, :4] *= 2
        left, right = y.chunk(2, 1)
        z = left + right
        z += 1
        z.tanh_()
        return torch.cat([z, y[:, ::2]], 1)


class BufferWrites(nn.Module):
    """Keeps a moving average, a counter and the last mean in buffers, written in place and by assignment."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("average", torch.zeros(6))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("last", torch.zeros(6), persistent=False)

    def forward(self, x):
        x = self.linear(x)
        if self.training:
            with torch.no_grad():
                self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.calls += 1
            self.last = x.detach().mean(0)
        return x - self.average


class Frozen(nn.Module):
    """Part of the weights does not train; one is never used."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.body.weight.requires_grad_(False)
        self.head.bias.requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(3))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.head(torch.relu(self.body(x))) * self.scale


class StochasticDepth(nn.Module):
    """Drops whole branches per sample in training, with noise on the input: the eval graph is another graph."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

    def forward(self, x):
        if self.training:
            x = x + 0.1 * torch.randn_like(x)
        for layer in self.layers:
            branch = torch.tanh(layer(x))
            if self.training:
                keep = torch.empty(x.shape[0], 1, device=x.device).bernoulli_(0.7)
                branch = branch * keep / 0.7
            x = x + branch
        return x


class ManyKinds(nn.Module):
    """Returns floats, bools, integers and a size, in a tuple with a nested dict; adds a constant that is no buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.offset = torch.linspace(0, 1, 4)

    def forward(self, x):
        y = self.linear(x) + self.offset
        return y, {"positive": y > 0, "best": [y.argmax(1), y.max(1).values]}, x.shape[0]


class NoGrad(nn.Module):
    """A teacher without gradient beside the student, and a target written in place under no_grad."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("centre", torch.zeros(6))

    def forward(self, x):
        student = self.student(x)
        with torch.no_grad():
            target = torch.softmax(self.teacher(student) - self.centre, -1)
            self.centre.mul_(0.5).add_(target.mean(0) * 0.5)
        return student * target, target


class SpectralNorm(nn.Module):
    """A parametrised weight whose power iteration writes buffers by `out=`."""

    def __init__(self):
        super().__init__()
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6))
        self.norm = nn.utils.parametrizations.weight_norm(nn.Linear(6, 3))

    def forward(self, x):
        return self.norm(torch.relu(self.linear(x)))


class Pair(nn.Module):
    """Nested inputs: a tuple and a dict."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, pair, options):
        left, right = pair
        return [self.linear(left * options["scale"]), self.linear(right).sigmoid() + options["shift"]]


class TiedTwice(nn.Module):
    """One weight under three names, used at both ends and in the middle."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.b.weight = self.a.weight
        self.c.weight = self.a.weight

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))
