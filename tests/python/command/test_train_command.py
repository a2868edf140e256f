"""`ravnest train`: what its flags say goes before what its config says."""

import pytest
from support import command
from support.nodes import end, outcomes
from support.ports import free_ports
from support.ranks import command_rank, environment_of, start_process, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, data and a config of one epoch."""
    made = tmp_path_factory.mktemp("train")
    write_run(made, epochs=1)
    return made


def train(folder, *flags):
    return command.run("train", "model.pt2", *flags, cwd=folder)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--backend", "gloo"), "gloo"),
        (("--units", "layers"), "layers"),
        (("--compression", "int9"), "--compression: 'int9' is not a codec"),
        (
            ("--backend", "nccl", "--compression", "int8"),
            'compression = "int8" does not go with backend = "nccl"',
        ),
        (("--precision", "fp16", "--compression", "int8"), 'compression "int8" does not go with precision "fp16"'),
    ],
)
def test_flags_that_cannot_be_are_refused(folder, flags, words):
    refused = train(folder, *flags)
    assert refused.returncode != 0 and words in refused.stderr, refused.stderr


@pytest.mark.parametrize(
    ("flags", "variable", "who"),
    [((), "1", "RAVNEST_RESUME"), (("--resume",), "0", "--resume"), (("--resume=false",), "best", None)],
)
def test_who_wants_to_go_on_without_checkpoints_is_named(folder, monkeypatch, flags, variable, who):
    monkeypatch.setenv("RAVNEST_RESUME", variable)
    begun = train(folder, *flags)
    if who is None:
        assert begun.returncode == 0, begun.stderr
    else:
        assert begun.returncode == 1 and f"ravnest: {who} needs checkpoints to go on from" in begun.stderr, begun.stderr


def test_flags_go_before_the_config(folder):
    trained = train(folder, "--units", "blocks", "--backend", "ring", "--compression", "fp16", "--trusted-network")
    assert trained.returncode == 0, trained.stderr
    assert "compression" not in trained.stderr, "one process alone sends nothing"


def test_ranks_with_other_flags_say_so(folder):
    (port,) = free_ports(1)
    flags = [(), ("--units", "blocks", "--compression", "fp16")]
    processes = {
        rank: start_process(command_rank(*flags[rank]), folder, environment_of(rank, 2, port)) for rank in range(2)
    }
    try:
        ended = outcomes(processes, 20)
    finally:
        end(processes.values())
    sentence = (
        "ravnest: rank 1 (127.0.0.1) was started with units blocks, and rank 0 with size: start all ranks with the same"
    )
    for status, output in ended.values():
        assert status == 1 and output.splitlines()[-1] == sentence, output
