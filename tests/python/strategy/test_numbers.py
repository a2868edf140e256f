"""A data-parallel run has the numbers of one process that trains on all ranks' batches, and of PyTorch's own DDP."""

import pytest
import torch
from support.places import SCRIPTS
from support.rank_cases import CASES, STEPS, OneProcess, RankCase, numbers_of
from support.ranks import launch

import ravnest

pytestmark = pytest.mark.slow

CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
OF_FOUR = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("digits", "tied", "unreached")], ids=lambda case: case.name
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory, archive):
    """(world, cases) -> the folder of a run of all those cases, which is made once."""
    folders = {}

    def run(world: int, cases: list[RankCase]):
        if world not in folders:
            folders[world] = tmp_path_factory.mktemp(f"world_{world}")
            paths = {archive(case.model) for case in cases}
            archives = next(iter(paths)).rpartition("/")[0]
            names = [case.name for case in cases]
            launch(SCRIPTS / "rank_numbers.py", world, folders[world], world, archives, *names)
        return folders[world]

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
    assert len(written) == STEPS // case.update_frequency


@CASE
def test_losses_are_those_of_torchs_ddp(ran, case):
    for rank, numbers in enumerate(numbers_of(ran(2, CASES) / case.name, 2)):
        assert numbers["losses"][: STEPS - 1] == pytest.approx(numbers["torch"], rel=1e-6), rank


@OF_FOUR
def test_four_ranks_have_the_parameters_of_one_process_within_rounding(ran, archive, case):
    folder = ran(4, OF_FOUR.args[1]) / case.name
    one, _ = expected(case, archive, 4)
    states = [torch.load(folder / f"rank_{rank}.pt") for rank in range(4)]
    for name, parameter in one.module.named_parameters():
        torch.testing.assert_close(states[0][name], parameter, rtol=1e-6, atol=1e-6)
    for name, tensor in states[0].items():
        assert all(torch.equal(state[name], tensor) for state in states), name


@CASE
def test_what_rank_0_saves_is_what_all_ranks_have(ran, case):
    folder = ran(2, CASES) / case.name
    saved = torch.load(folder / "trained/trained_state_dict.pt", weights_only=True)
    for rank in range(2):
        state = torch.load(folder / f"rank_{rank}.pt")
        assert all(torch.equal(tensor, state[name]) for name, tensor in saved.items())
    case.model.model().load_state_dict(saved, strict=True)
