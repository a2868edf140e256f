"""What is wrong on a command line or in train.toml is said as people write it, all of it at once."""

import shutil

import pytest
from support import command, npy_run
from support.nodes import NAMES, outcomes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plam"], "there is no command plam; did you mean plan? The commands are benchmark, plan, "),
        (["quantum"], "there is no command quantum. The commands are benchmark, plan, "),
        (["ping", "node_1", "--count", "0"], "--count: has to be from 1 to 10000, not 0"),
        (["plan", "m.pt2", "--min-cluster-size", "0"], "--min-cluster-size: has to be at least 1, not 0"),
        (["benchmark", "--bandwidth", "-3"], "--bandwidth: has to be more than 0, not -3"),
        (["plan", "m.pt2", "--min-cluster-size", "1.5"], "--min-cluster-size: has to be a whole number, not 1.5"),
        (["plan", "m.pt2", "--average-every", "99999999999"], "--average-every: has to be from 1 to "),
        (["plan", "m.pt2", "--min-cluster-size", "1e2"], "--min-cluster-size: has to be a whole number, not 1e2"),
        (["plan", "m.pt2", "--seed", "-1"], "--seed: has to be at least 0, not -1"),
        (["benchmark", "--threads", "2.5"], "--threads: has to be a whole number, not 2.5"),
        (["benchmark", "--serve", "70000"], "--serve: has to be from 1 to 65535, not 70000"),
        (["simulate", "--protocol", "pipeline", "--seeds", "many"], "--seeds: has to be a number, not many"),
    ],
)
def test_what_the_command_does_not_take_is_said_as_people_write_it(tmp_path, arguments, words):
    result = command.run(*arguments, cwd=tmp_path)
    assert result.returncode != 0 and words in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("lr = 0.01", "lr = -1"), "[optimizer]: Adam: lr has to be at least 0, not -1"),
        (("lr = 0.01", "lr = 0.01\nbetas = [0.9, 1.5]"), "[optimizer]: Adam: betas has to be from 0 to below 1"),
        (("rows = [0, 140]", "rows = [0, 14000]"), "[data]: rows [0, 14000] were asked for"),
        (("rows = [140, 200]", "rows = [140, 200]\nshape = [7]"), "[validation]: shape [7] does not fit"),
        (("rows = [140, 200]", "rows = [140, 200]\none_hot = 2"), "[validation]: one_hot: target "),
        (
            ("[validation]", '[lr_schedule]\nname = "StepLR"\nstep_size = 0\n[validation]'),
            "[lr_schedule]: StepLR: ",
        ),
    ],
)
def test_a_wrong_number_in_train_toml_names_its_line(alone_folder, change, words):
    npy_run.write_files(alone_folder)
    toml = (alone_folder / "train.toml").read_text().replace(*change)
    (alone_folder / "train.toml").write_text(toml)
    wrong = {"lr = -1", "rows = [0, 14000]", "step_size = 0", change[1].splitlines()[-1]} & set(change[1].splitlines())
    line = next(i for i, each in enumerate(toml.splitlines(), 1) if each in wrong)
    result = command.run("node", "node_0", cwd=alone_folder)
    assert result.returncode == 1 and f"train.toml, line {line}: {words}" in result.stderr, result.stderr


def test_all_wrong_numbers_of_train_toml_are_named_at_once(alone_folder):
    npy_run.write_files(alone_folder)
    config = alone_folder / "train.toml"
    toml = config.read_text().replace("lr = 0.01", "lr = -1\nbetas = [0.9, 1.5]").replace("[0, 140]", "[0, 14000]")
    toml = toml.replace("[validation]", '[lr_schedule]\nname = "StepLR"\nstep_size = 0\n[validation]')
    config.write_text(toml.replace("[140, 200]", "[140, 20000]"))
    result = command.run("node", "node_0", cwd=alone_folder)
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result.stderr
    wrong = ("rows = [0, ", "rows = [140, ", "betas", "lr = ", "step_size")
    lines = [next(i for i, each in enumerate(toml.splitlines(), 1) if each.startswith(key)) for key in wrong]
    assert [f"line {line}: " in result.stderr for line in lines] == [True] * 5, result.stderr


WRONG_TWICE = [("epochs = 3", "epochs = -1"), ("lr = 0.01", "lr = -1")]
TWO_LINES = [
    "train.toml, line 2: epochs has to be a whole number, at least 1, not -1",
    "train.toml, line 12: [optimizer]: Adam: lr has to be at least 0, not -1",
]


def write_wrong(folder) -> None:
    npy_run.write_files(folder)
    config = folder / "train.toml"
    for change in WRONG_TWICE:
        config.write_text(config.read_text().replace(*change))


def test_all_that_is_wrong_in_train_toml_has_a_line_each_on_the_node_itself(alone_folder):
    write_wrong(alone_folder)
    result = command.run("node", "node_0", cwd=alone_folder)
    assert result.returncode == 1 and result.stderr == f"ravnest: {TWO_LINES[0]}\n         {TWO_LINES[1]}\n"


def test_all_that_is_wrong_in_train_toml_is_told_to_others_in_one_sentence(folder, processes, tmp_path):
    npy_run.write_files(folder)
    other = tmp_path / "other"
    shutil.copytree(folder / "node_data", other / "node_data")
    write_wrong(other)
    for name in NAMES:
        processes[name] = command.start("node", name, cwd=other if name == "node_1" else folder)
    ended = outcomes(processes)
    for name in ("node_0", "node_2"):
        last = ended[name][1].strip().splitlines()[-1]
        assert last == f"ravnest: node_1 (stage 1) failed: {'; '.join(TWO_LINES)}", ended


def test_all_that_is_wrong_in_train_toml_is_said_once_under_up(folder):
    write_wrong(folder)
    result = command.run("up", cwd=folder)
    assert result.returncode == 1
    assert result.stderr == f"ravnest: {'; '.join(TWO_LINES)}\n"
    assert "train.toml" not in result.stdout, result.stdout
