"""A data-parallel run has the numbers of one process that trains on all ranks' batches, and of PyTorch's own DDP."""

from pathlib import Path

import pytest
import torch
from support.places import SCRIPTS
from support.rank_cases import CASES, OneProcess, RankCase, assert_parameters_of, losses_of_updates, numbers_of
from support.ranks import launch
from support.soaked import soaked

import ravnest
from ravnest import _core

pytestmark = pytest.mark.slow

CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
FEW = [case for case in CASES if case.name in ("digits", "tied", "unreached")]
OTHERS = [case for case in CASES if case not in FEW]
OF_FOUR = pytest.mark.parametrize("case", [*FEW, *soaked(*OTHERS)], ids=lambda case: case.name)


@pytest.fixture(scope="module")
def ran(tmp_path_factory, archive):
    """(world, cases) -> the folder of a run of all those cases, which is made once."""
    folders: dict[tuple[int, str], Path] = {}

    def run(world: int, cases: list[RankCase]):
        key = (world, cases[0].name)
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp(f"world_{world}")
            paths = {archive(case.model) for case in cases}
            archives = next(iter(paths)).rpartition("/")[0]
            names = [case.name for case in cases]
            launch(SCRIPTS / "rank_numbers.py", world, folders[key], world, archives, *names)
        return folders[key]

    return run


def expected(case: RankCase, archive, world: int) -> tuple[OneProcess, list[float]]:
    one = OneProcess(case, ravnest.load(archive(case.model)), world)
    return one, one.run()


@CASE
def test_two_ranks_have_the_parameters_of_one_process_to_the_bit(ran, archive, case):
    folder = ran(2, CASES) / case.name
    one, losses = expected(case, archive, 2)
    states = [torch.load(folder / f"rank_{rank}.pt") for rank in range(2)]
    for name, parameter in one.module.named_parameters():
        assert torch.equal(states[0][name], parameter), name
        assert torch.equal(states[1][name], parameter), name
    written = [float(line) for line in (folder / "losses.txt").read_text().splitlines()]
    assert written == pytest.approx(losses, abs=6e-5)  # four digits, one line for each update
    assert len(written) == case.steps // case.update_frequency


@CASE
def test_losses_are_those_of_torchs_ddp(ran, case):
    for rank, numbers in enumerate(numbers_of(ran(2, CASES) / case.name, 2)):
        assert numbers["losses"][: case.steps - 1] == pytest.approx(numbers["torch"], rel=1e-6), rank


@OF_FOUR
def test_four_ranks_have_the_numbers_of_one_process_within_rounding(ran, archive, case):
    folder = ran(4, FEW if case in FEW else OTHERS) / case.name
    one, losses = expected(case, archive, 4)
    assert losses_of_updates(folder, case, 4) == pytest.approx(losses[:-1], rel=1e-6)
    states = [torch.load(folder / f"rank_{rank}.pt") for rank in range(4)]
    assert_parameters_of(one, states[0])
    for name, tensor in states[0].items():
        assert all(torch.equal(state[name], tensor) for state in states), name
    digests = [numbers["digests"] for numbers in numbers_of(folder, 4)]
    for before_step in zip(*digests, strict=False):
        assert len(set(before_step)) == 1
    assert len(set(digests[0])) == case.steps // case.update_frequency


@pytest.mark.parametrize("case", [case for case in CASES if "units" in case.node], ids=lambda case: case.name)
def test_a_case_in_blocks_sends_several_units(archive, case):
    assert len(_core.unit_cuts(_core.load(archive(case.model)), blocks=True)) >= 2


@CASE
def test_what_rank_0_saves_is_what_all_ranks_have(ran, case):
    folder = ran(2, CASES) / case.name
    saved = torch.load(folder / "trained/trained_state_dict.pt", weights_only=True)
    for rank in range(2):
        state = torch.load(folder / f"rank_{rank}.pt")
        assert all(torch.equal(tensor, state[name]) for name, tensor in saved.items())
    case.model.model().load_state_dict(saved, strict=True)
