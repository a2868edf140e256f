"""What asynchrony costs in convergence: the real pipeline beside one process of PyTorch, at equal samples.

    python benchmarks/convergence.py digits [--epochs 100] [--seeds 3]
    python benchmarks/convergence.py gpt [--updates 1500] [CASE ...]

A case of the GPT is STAGES,SCHEDULE,OPTIMIZER with SCHEDULE one of async, microbatched (8 parts, one update per batch)
and sync: 8,async,NAdam. Prints lines of: name value unit ratio-to-one-process target. The character GPT has 8 blocks of
width 64 and reads Python's own standard library, so its figures hold for one version of Python only.
"""

import argparse
import glob
import math
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples/digits"))

import torch  # noqa: E402
from digits import load_data, make_model  # noqa: E402
from torch import nn  # noqa: E402

import ravnest  # noqa: E402
from ravnest import LocalCluster  # noqa: E402

TOKENS, WIDTH, BLOCKS, HEADS, BATCH, RATE, LETTERS = 64, 64, 8, 4, 16, 3e-3, 128
GPT_CASES = [
    f"{stages},{schedule},{optimizer}"
    for optimizer in ("AdamW", "NAdam")
    for stages, schedule in ((2, "async"), (4, "async"), (8, "async"), (4, "microbatched"), (8, "microbatched"))
]
DIGITS_CUTS = {
    2: ["dense_1"],
    3: ["dense_1", "bn_3"],
    4: ["bn_1", "dense_1", "bn_3"],
    5: ["bn_1", "conv2d_2", "dense_1", "bn_3"],
    6: ["bn_1", "conv2d_2", "bn_2", "dense_1", "bn_3"],
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_mixing, self.before_thinking = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.mixed = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        parts = self.qkv(self.before_mixing(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.mixed(attended.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.before_thinking(x))))


class CharacterGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, WIDTH)
        self.position = nn.Parameter(torch.randn(TOKENS, WIDTH) * 0.02)
        self.blocks = nn.ModuleList([Block() for _ in range(BLOCKS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, letters):
        x = self.embedding(letters) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Corpus:
    """The first two million letters of the standard library; the last hundred thousand are kept for validation."""

    def __init__(self):
        files = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "[a-m]*.py")))
        text = "".join(Path(file).read_text(errors="ignore") for file in files)[:2_000_000]
        letters = torch.tensor([min(ord(letter), LETTERS - 1) for letter in text])
        self.train, self.validation = letters[:-100_000], letters[-100_000:]

    @staticmethod
    def batches(letters, seed: int, count: int):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(count):
            starts = torch.randint(0, len(letters) - TOKENS - 1, (BATCH,), generator=generator)
            rows = torch.stack([letters[start : start + TOKENS + 1] for start in starts])
            yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def letter_loss(scores, targets):
    return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def rate_at(update: int, updates: int) -> float:
    """Warm-up over 100 updates, then a cosine down to a tenth."""
    return min(1, (update + 1) / 100) * (0.9 * 0.5 * (1 + math.cos(math.pi * update / updates)) + 0.1)


def make_optimizer(name: str, parameters):
    decoupled = {"decoupled_weight_decay": True} if name == "NAdam" else {}
    return getattr(torch.optim, name)(parameters, lr=RATE, weight_decay=0.01, **decoupled)


class Scheduled:
    """One stage's optimizer, PyTorch's own, with its schedule: what a pipeline takes as a function."""

    def __init__(self, name: str, updates: int):
        self.name, self.updates, self.optimizer = name, updates, None

    def __call__(self, parameters, gradients):
        if self.optimizer is None and parameters:
            self.optimizer = make_optimizer(self.name, parameters)
            self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda u: rate_at(u, self.updates))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        self.schedule.step()


def validation_loss(model, corpus: Corpus) -> float:
    with torch.no_grad():
        losses = [letter_loss(model(x), y).item() for x, y in corpus.batches(corpus.validation, 99, 40)]
    return sum(losses) / len(losses)


def gpt_in_one_process(optimizer_name: str, corpus: Corpus, updates: int) -> float:
    torch.manual_seed(0)
    model = CharacterGPT()
    step = Scheduled(optimizer_name, updates)
    for x, y in corpus.batches(corpus.train, 0, updates):
        loss = letter_loss(model(x), y)
        parameters = list(model.parameters())
        step(parameters, torch.autograd.grad(loss, parameters))
    return validation_loss(model, corpus)


def gpt_in_stages(stages: int, schedule: str, optimizer_name: str, corpus: Corpus, updates: int) -> float:
    torch.manual_seed(0)
    model = CharacterGPT()
    cuts = [f"blocks.{stage * BLOCKS // stages}" for stage in range(1, stages)]
    with tempfile.TemporaryDirectory() as folder:
        example = next(corpus.batches(corpus.train, 0, 1))[0]
        graph = ravnest.load(ravnest.capture(model, (example,), {}, Path(folder) / "gpt.pt2"))
    cluster = LocalCluster(
        graph.slice(cuts),
        letter_loss,
        lambda _: Scheduled(optimizer_name, updates),
        schedule="sync" if schedule == "sync" else "async",
        microbatches=8 if schedule == "microbatched" else 1,
    )
    with cluster:
        for x, y in corpus.batches(corpus.train, 0, updates):
            cluster.train(x, y)
        cluster.drain()
        weights = {name: tensor.clone() for name, tensor in cluster.state_dict().items()}
    model.load_state_dict(weights)
    return validation_loss(model, corpus)


def compare_gpt(cases: list[str], updates: int) -> None:
    corpus = Corpus()
    base = gpt_in_one_process("AdamW", corpus, updates)
    print(f"gpt_one_process_AdamW {base:.4f} loss 1.00 -", flush=True)
    if any(case.endswith("NAdam") for case in cases):
        loss = gpt_in_one_process("NAdam", corpus, updates)
        print(f"gpt_one_process_NAdam {loss:.4f} loss {loss / base:.3f} -", flush=True)
    for case in cases:
        stages, schedule, optimizer = case.split(",")
        loss = gpt_in_stages(int(stages), schedule, optimizer, corpus, updates)
        print(f"gpt_{stages}_stages_{schedule}_{optimizer} {loss:.4f} loss {loss / base:.3f} <=1.02", flush=True)


def accuracy(model, data) -> float:
    model.eval()
    with torch.no_grad():
        return 100 * (model(data[0]).argmax(1) == data[1].argmax(1)).float().mean().item()


def digits_batches(data, epochs: int):
    images, targets = data
    for _ in range(epochs):
        for start in range(0, len(images), 64):
            yield images[start : start + 64], targets[start : start + 64]


def digits_in_one_process(seed: int, data, epochs: int) -> float:
    torch.manual_seed(seed)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for x, y in digits_batches(data[0], epochs):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return accuracy(model, data[1])


def digits_in_stages(stages: int, seed: int, data, epochs: int) -> float:
    torch.manual_seed(seed)
    model = make_model()
    with tempfile.TemporaryDirectory() as folder:
        graph = ravnest.load(ravnest.capture(model, (data[0][0][:64],), {}, Path(folder) / "digits.pt2"))
    cut = graph.slice(DIGITS_CUTS[stages])
    with LocalCluster(cut, nn.functional.mse_loss, "Adam", {"fused": True}, seed=seed) as cluster:
        for x, y in digits_batches(data[0], epochs):
            cluster.train(x, y)
        cluster.drain()
        weights = {name: tensor.clone() for name, tensor in cluster.state_dict().items()}
    model.load_state_dict(weights)
    return accuracy(model, data[1])


def compare_digits(seeds: int, epochs: int) -> None:
    data = load_data()
    base = sum(digits_in_one_process(seed, data, epochs) for seed in range(seeds)) / seeds
    print(f"digits_one_process {base:.2f} % 1.00 -", flush=True)
    for stages in DIGITS_CUTS:
        mean = sum(digits_in_stages(stages, seed, data, epochs) for seed in range(seeds)) / seeds
        print(f"digits_{stages}_stages {mean:.2f} % {mean - base:+.2f} >=-0.5", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["digits", "gpt"])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=1500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.time()
    if options.what == "digits":
        compare_digits(options.seeds, options.epochs)
    else:
        compare_gpt(options.cases or GPT_CASES, options.updates)
    print(f"convergence_{options.what} {time.time() - began:.0f} s - -")
