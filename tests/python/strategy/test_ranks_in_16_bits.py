"""A run in 16 bits has the numbers of FSDP2's policy for mixed precision, written by hand in PyTorch."""

import numpy
import pytest
import torch
from support import command
from support.places import SCRIPTS
from support.rank_cases import IN_16_BITS, In16Bits, RankCase, numbers_of
from support.ranks import launch
from support.small_net import criterion, make_data, make_net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ravnest
from ravnest import Node, Trainer

CASE = pytest.mark.parametrize("case", IN_16_BITS, ids=lambda case: case.name)
WORLD = pytest.mark.parametrize("world", [1, 2])


@pytest.fixture(scope="module")
def ran(tmp_path_factory, archive):
    """world -> the folder of a run of all cases, which is made once."""
    folders = {}

    def run(world: int):
        if world not in folders:
            folders[world] = tmp_path_factory.mktemp(f"world_{world}")
            archives = {archive(case.model) for case in IN_16_BITS}
            names = [case.name for case in IN_16_BITS]
            folder = next(iter(archives)).rpartition("/")[0]
            launch(SCRIPTS / "rank_numbers.py", world, folders[world], world, folder, *names, within_s=300)
        return folders[world]

    return run


@pytest.mark.slow
@WORLD
@CASE
def test_ranks_have_the_parameters_of_the_policy_by_hand_to_the_bit(ran, archive, case: RankCase, world):
    folder = ran(world) / case.name
    one = In16Bits(case, ravnest.load(archive(case.model)), world)
    losses = one.run()
    states = [torch.load(folder / f"rank_{rank}.pt") for rank in range(world)]
    for name, parameter in one.module.named_parameters():
        for rank, state in enumerate(states):
            assert state[name].dtype == torch.float32
            assert torch.equal(state[name], parameter), f"{name} of rank {rank}"
    written = [float(line) for line in (folder / "losses.txt").read_text().splitlines()]
    assert written == pytest.approx(losses, abs=6e-5)  # four digits, one line for each update
    assert len(written) == case.steps // case.update_frequency
    for rank, numbers in enumerate(numbers_of(folder, world)):
        assert len(numbers["losses"]) == (case.steps if rank == 0 or case.most_in_last > 1 else case.steps - 1)


@pytest.mark.slow
@CASE
def test_what_is_saved_are_the_32_bit_weights(ran, case: RankCase):
    saved = torch.load(ran(2) / case.name / "trained/trained_state_dict.pt", weights_only=True)
    assert {tensor.dtype for tensor in saved.values() if tensor.is_floating_point()} == {torch.float32}
    case.model.model().load_state_dict(saved, strict=True)


class Shifted(nn.Module):
    """Makes a shift in the type that its input has."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x + torch.ones(4, dtype=x.dtype))


def make_node(folder, **options) -> Node:
    x, y = make_data()
    loader = DataLoader(TensorDataset(x, y), batch_size=20)
    given = {"model": make_net(), "example_args": (x[:20],), "optimizer": torch.optim.SGD, **options}
    node = Node(
        strategy="ddp",
        optimizer_params={"lr": 0.05},
        criterion=criterion,
        labels=loader,
        trained=folder / "trained",
        loss_filename=str(folder / "losses.txt"),
        progress=False,
        **given,
    )
    node.trainer = Trainer(node=node, train_loader=loader, epochs=3)
    return node


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_module_trains_and_predicts_in_16_bits(tmp_path, precision):
    with make_node(tmp_path, precision=precision) as node:
        node.trainer.train()
        x, _ = make_data()
        prediction = node.no_grad_forward_compute(x[:5])
        assert prediction.dtype == torch.float32
        assert torch.equal(
            prediction, prediction.to({"bf16": torch.bfloat16, "fp16": torch.float16}[precision]).float()
        )
        assert {parameter.dtype for parameter in node.parameters()} == {torch.float32}
    losses = [float(line) for line in (tmp_path / "losses.txt").read_text().splitlines()]
    assert losses[-1] < losses[0]


def test_the_first_step_does_not_come_where_a_graph_has_fixed_a_type(tmp_path):
    with pytest.raises(ravnest.CaptureError, match=r"torch\.ops\.aten\.ones\.default"):
        make_node(tmp_path, model=Shifted(), example_args=(torch.rand(5, 4),), precision="bf16")


@pytest.mark.parametrize(
    ("option", "choices"), [({"precision": "half"}, "float32, bf16 and fp16"), ({"float32": "fast"}, "exact and tf32")]
)
def test_unknown_values_are_told_the_choices(tmp_path, option, choices):
    with pytest.raises(ValueError, match=choices):
        make_node(tmp_path, **option)


@pytest.mark.parametrize("option", [{"precision": "bf16"}, {"float32": "tf32"}])
def test_pipelines_know_no_precision(folder, option):
    with pytest.raises(ValueError, match="belongs to a strategy"):
        Node(name="node_0", node_data=folder / "node_data", optimizer=torch.optim.SGD, **option)


TRAIN = """
batch_size = 5
loss = "mse"
[optimizer]
name = "SGD"
lr = 0.01
[data]
format = "npy"
inputs = "x.npy"
targets = "y.npy"
[strategy]
precision = "bf16"
"""


class Widened(nn.Module):
    """Computes in float32 at one place, whatever the rest does."""

    def __init__(self):
        super().__init__()
        self.linear, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        y = self.linear(x)
        return self.last(torch.softmax(y.to(torch.float32), -1).type_as(x))


@pytest.fixture
def command_folder(tmp_path):
    """What `ravnest train` needs beside the model."""
    numpy.save(tmp_path / "x.npy", torch.rand(20, 4).numpy())
    numpy.save(tmp_path / "y.npy", torch.rand(20, 3).numpy())
    (tmp_path / "train.toml").write_text(TRAIN)
    return tmp_path


def test_the_command_trains_in_16_bits_what_was_captured_for_it(command_folder):
    def capture(**precision):
        ravnest.capture(Widened(), torch.rand(5, 4), path=command_folder / "model.pt2", **precision)

    def train(*flags):
        return command.run("train", "model.pt2", *flags, cwd=command_folder)

    capture()
    refused = train()
    assert refused.returncode != 0
    assert 'its operator "to" (torch.ops.aten.to.dtype) names a floating type' in refused.stderr
    assert 'ravnest.capture(model, ..., precision="bf16")' in refused.stderr
    capture(precision="bf16")
    trained = train()
    assert trained.returncode == 0, trained.stderr
    assert "strategy single, 1 rank, bf16" in trained.stderr
    assert "names a floating type" in train("--precision", "fp16").stderr


@pytest.mark.parametrize("flag", [("--precision", "half", "bf16"), ("--float32", "fast", "tf32")])
def test_the_command_names_the_choices(command_folder, flag):
    name, value, choice = flag
    refused = command.run("train", "model.pt2", name, value, cwd=command_folder)
    assert refused.returncode != 0
    assert choice in refused.stderr
