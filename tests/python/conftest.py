"""Archives of the test models, each captured once per run."""

import models
import pytest
import torch

import ravnest

# The models are small: with more threads they only wait for each other, and on a busy machine for minutes.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """case -> path of its archive, captured with the case's own seed and example."""
    folder = tmp_path_factory.mktemp("archives")
    written = {}

    def path_of(case: models.Case) -> str:
        if case.name not in written:
            args, kwargs = case.example()
            written[case.name] = ravnest.capture(case.model(), args, kwargs, folder / f"{case.name}.pt2")
        return written[case.name]

    return path_of
