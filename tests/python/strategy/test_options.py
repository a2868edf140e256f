"""What options of a data-parallel run change, and what they leave as it is."""

import pytest
import torch
from support.places import SCRIPTS
from support.ranks import launch
from support.small_net import criterion, loaders, make_net

pytestmark = pytest.mark.slow
STATISTICS = ("body.1.running_mean", "body.1.running_var")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """name -> what each of two ranks had in the end: its state and its losses."""
    folder = tmp_path_factory.mktemp("options")
    launch(SCRIPTS / "rank_options.py", 2, folder)
    return lambda name: [torch.load(folder / name / f"rank_{rank}.pt") for rank in range(2)]


def parameters_of(run) -> dict[str, torch.Tensor]:
    return {name: run["state"][name] for name, _ in make_net().named_parameters()}


@pytest.mark.parametrize("name", ["plain", "int8", "own_buffers", "whole_loader"])
def test_parameters_are_alike_on_all_ranks_to_the_bit(ran, name):
    first, second = map(parameters_of, ran(name))
    assert all(torch.equal(tensor, second[key]) for key, tensor in first.items())


def test_compressed_gradients_train_nearly_as_whole_ones_do(ran):
    plain, int8 = ran("plain")[0], ran("int8")[0]
    weights = [key for key in parameters_of(plain) if key.endswith("weight")]
    assert not any(torch.equal(plain["state"][key], int8["state"][key]) for key in weights), "nothing was compressed"
    assert int8["losses"][-4:] == pytest.approx(plain["losses"][-4:], rel=0.05)


def test_statistics_are_rank_0s_unless_they_are_left_to_each(ran):
    first, second = ran("plain")
    assert all(torch.equal(first["state"][name], second["state"][name]) for name in STATISTICS)
    first, second = ran("own_buffers")
    assert not any(torch.equal(first["state"][name], second["state"][name]) for name in STATISTICS)


def test_ranks_with_whole_loaders_train_as_one_process_does(ran):
    """Two halves of one gradient are that gradient, to the bit."""
    torch.set_num_threads(1)
    net, (loader, _) = make_net(), loaders(shuffle=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        for batch in loader:
            optimizer.zero_grad()
            criterion(net(batch[0]), batch).backward()
            optimizer.step()
    trained = parameters_of(ran("whole_loader")[0])
    assert all(torch.equal(trained[name], own) for name, own in net.named_parameters())
