"""What `ravnest checkpoint export` writes goes into PyTorch's own load functions, and training goes on to the bit."""

import json
import subprocess

import pytest
import torch
from support.checkpoints import write_checkpoint
from support.command import COMMAND, run
from support.quoted_messages import ROOT
from torch import nn


class Small(nn.Module):
    """Parameters before and behind submodules, a buffer, a tied weight, one that is frozen."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4, bias=False))
        self.scale = nn.Parameter(torch.ones(4))
        self.head = nn.Linear(4, 7)
        self.head.weight = self.embedding.weight
        self.body[2].weight.requires_grad_(False)

    def forward(self, numbers):
        return self.head(self.body(self.embedding(numbers)) * self.scale)


def two_groups(model):
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    others = [p for name, p in model.named_parameters() if not name.endswith("bias") and p.requires_grad]
    return torch.optim.AdamW([{"params": others, "weight_decay": 0.1}, {"params": biases, "lr": 0.02}], lr=0.01)


OPTIMIZERS = {
    "Adam": (lambda model: torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True), ["--with-frozen"]),
    "Adam of what is trained": (
        lambda model: torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01),
        [],
    ),
    "SGD": (lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True), ["--with-frozen"]),
    "AdamW with two groups": (two_groups, []),
    "RMSprop": (lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5), ["--with-frozen"]),
    "Adagrad": (lambda model: torch.optim.Adagrad(model.parameters(), lr=0.01), ["--with-frozen"]),
    "NAdam": (lambda model: torch.optim.NAdam(model.parameters(), lr=0.01), ["--with-frozen"]),
}


def train(model, optimizer, steps, seed):
    torch.manual_seed(seed)
    for _ in range(steps):
        numbers = torch.randint(0, 7, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(numbers), numbers).backward()
        optimizer.step()


def trained(make):
    torch.manual_seed(0)
    model = Small()
    optimizer = make(model)
    train(model, optimizer, 3, seed=1)
    return model, optimizer


def parts_of(model):
    keys = list(model.state_dict())
    last = [key for key in keys if key.startswith("head") or key == "embedding.weight"]
    return [[key for key in keys if not key.startswith("head")], last]


def exported(tmp_path, *flags):
    done = run("checkpoint", "export", "-o", "out/model", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_training_goes_on_to_the_bit_from_what_was_exported(tmp_path, case):
    make, flags = OPTIMIZERS[case]
    model, optimizer = trained(make)
    write_checkpoint(tmp_path / "checkpoints", model, optimizer, parts_of(model))
    said = exported(tmp_path, "--optimizer", *flags)
    assert "model.load_state_dict(torch.load('out/model.pt', weights_only=True))" in said

    fresh = Small()
    fresh_optimizer = make(fresh)
    fresh.load_state_dict(torch.load(tmp_path / "out/model.pt", weights_only=True), strict=True)
    fresh_optimizer.load_state_dict(torch.load(tmp_path / "out/model_optimizer.pt", weights_only=True))
    assert fresh.head.weight is fresh.embedding.weight
    for each, its_optimizer in ((model, optimizer), (fresh, fresh_optimizer)):
        train(each, its_optimizer, 3, seed=2)
    for (name, left), right in zip(model.state_dict().items(), fresh.state_dict().values(), strict=True):
        assert torch.equal(left, right), name


def test_the_state_dict_has_the_models_keys_in_their_order_and_what_is_tied_stays_tied(tmp_path):
    model, optimizer = trained(OPTIMIZERS["Adam"][0])
    write_checkpoint(tmp_path / "checkpoints", model, optimizer, parts_of(model))
    exported(tmp_path)
    state = torch.load(tmp_path / "out/model.pt", weights_only=True)
    assert list(state) == list(model.state_dict())
    assert state["head.weight"].data_ptr() == state["embedding.weight"].data_ptr()


def test_the_safetensors_file_loads_strictly(tmp_path):
    from safetensors.torch import load_file

    model, optimizer = trained(OPTIMIZERS["SGD"][0])
    write_checkpoint(tmp_path / "checkpoints", model, optimizer, parts_of(model))
    exported(tmp_path, "--safetensors")
    fresh = Small()
    fresh.load_state_dict(load_file(tmp_path / "out/model.safetensors"), strict=True)
    for (name, left), right in zip(model.state_dict().items(), fresh.state_dict().values(), strict=True):
        assert torch.equal(left, right), name


def test_frozen_parameters_of_several_groups_are_refused_with_what_to_do(tmp_path):
    model, optimizer = trained(two_groups)
    write_checkpoint(tmp_path / "checkpoints", model, optimizer, parts_of(model))
    done = run("checkpoint", "export", "--optimizer", "--with-frozen", cwd=tmp_path)
    assert done.returncode == 1
    assert "nobody knows which group they are in" in done.stderr
    assert not (tmp_path / "model_optimizer.pt").exists()


def test_readers_of_sharded_safetensors_find_the_model_by_its_index(tmp_path):
    from safetensors import safe_open

    model, optimizer = trained(OPTIMIZERS["Adam"][0])
    folder = write_checkpoint(tmp_path / "checkpoints", model, optimizer, parts_of(model))
    weight_map = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    state = model.state_dict()
    assert set(weight_map) == set(state) - {"head.weight"}
    for name, file in weight_map.items():
        with safe_open(folder / file, "pt") as shard:
            assert torch.equal(shard.get_tensor(name), state[name])


def test_transformers_loads_the_folder_as_a_sharded_checkpoint(tmp_path):
    from transformers.trainer_utils import load_sharded_checkpoint

    model, optimizer = trained(OPTIMIZERS["Adam"][0])
    folder = write_checkpoint(tmp_path / "checkpoints", model, optimizer, parts_of(model))
    fresh = Small()
    load_sharded_checkpoint(fresh, str(folder), strict=False)  # the optimizer's tensors are not the model's
    for (name, left), right in zip(model.state_dict().items(), fresh.state_dict().values(), strict=True):
        assert torch.equal(left, right), name


def test_what_ravnest_itself_has_written_is_found_by_its_index():
    from safetensors import safe_open

    folder = ROOT / "tests/golden/checkpoint/update_000000120"
    weight_map = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    found = {}
    for name, file in weight_map.items():
        with safe_open(folder / file, "pt") as shard:
            found[name] = shard.get_tensor(name).tolist()
    assert found == {
        "embedding.weight": [[120, 2], [3, 4]],
        "body.weight": [9, 10, 120],
        "body.frozen": [11],
        "body.running_mean": [12, 13],
    }


def test_a_torn_part_is_not_exported(tmp_path):
    model, optimizer = trained(OPTIMIZERS["SGD"][0])
    folder = write_checkpoint(tmp_path / "checkpoints", model, optimizer, parts_of(model))
    torn = folder / "stage_1.safetensors"
    torn.write_bytes(torn.read_bytes()[:-1])
    done = run("checkpoint", "export", cwd=tmp_path)
    assert done.returncode == 1
    assert "stage_1.safetensors is torn" in done.stderr
    assert not (tmp_path / "model.pt").exists()


def test_a_full_disk_leaves_the_earlier_export(tmp_path):
    model, optimizer = trained(OPTIMIZERS["SGD"][0])
    write_checkpoint(tmp_path / "checkpoints", model, optimizer, parts_of(model))
    exported(tmp_path)
    before = (tmp_path / "out/model.pt").read_bytes()
    # A file that may not grow is met in the same place.
    limited = ["bash", "-c", f"ulimit -f 1; exec {COMMAND} checkpoint export -o out/model"]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert (tmp_path / "out/model.pt").read_bytes() == before
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.pt"]
