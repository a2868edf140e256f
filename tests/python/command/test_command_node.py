"""`ravnest node`: a run without Python is the run of Python's nodes, bit for bit, and so is a mixed one."""

import shutil
import signal

import numpy
import pytest
import torch
from support import command, npy_run
from support.nodes import Cluster, outcomes, plan_net, wait_for, wait_for_line
from support.small_net import make_net
from support.soaked import soaked

import ravnest

NAMES = ["node_0", "node_1", "node_2"]


def start(folder, names, processes) -> None:
    for name in names:
        processes[name] = command.start("node", name, cwd=folder)


def by_command(folder, processes) -> Cluster:
    start(folder, NAMES, processes)
    ended = outcomes(processes)
    assert [status for status, _ in ended.values()] == [0, 0, 0], ended
    return Cluster(folder)


def by_python(folder, nodes=3, **options) -> Cluster:
    """The same plan and data in a folder of its own."""
    other = folder / "python"
    other.mkdir()
    shutil.copytree(folder / "node_data", other / "node_data")
    cluster = Cluster(other, nodes)
    cluster.run(npy_run.script(**options))
    return cluster


def assert_same(one: Cluster, other: Cluster) -> None:
    for name in ("losses.txt", "val_accuracies.txt"):
        assert (one.folder / name).read_text() == (other.folder / name).read_text()
    ours, theirs = one.fused(), other.fused()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


EVERY_KEY = {
    "more": "update_frequency = 2\nval_freq = 4\nmicrobatches = 3",
    "tables": '[lr_schedule]\nname = "StepLR"\nstep_size = 1\ngamma = 0.5\nevery = "epoch"\n',
}
BY_UPDATE = {"tables": '[lr_schedule]\nname = "StepLR"\nstep_size = 4\ngamma = 0.5\nevery = "update"\n'}


def step_lr(optimizer, step_size):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size, 0.5)


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({}, {}),
        (
            EVERY_KEY,
            {
                "update_frequency": 2,
                "microbatches": 3,
                "lr_scheduler": step_lr,
                "lr_scheduler_params": {"step_size": 1},
                "trainer_options": {"val_freq": 4},
            },
        ),
        (
            BY_UPDATE,
            {"lr_scheduler": step_lr, "lr_scheduler_params": {"step_size": 4}, "lr_step_on_epoch_change": False},
        ),
        ({"optimizer": "SGD", "lr": 0.1}, {"optimizer": torch.optim.SGD, "optimizer_params": {"lr": 0.1}}),
    ],
)
def test_a_run_without_python_is_that_of_python(folder, processes, files, options):
    npy_run.write_files(folder, **files)
    own = by_command(folder, processes)
    assert_same(own, by_python(folder, **options))
    assert len(own.losses()) == 18 // options.get("update_frequency", 1)


@pytest.mark.parametrize("commands", [["node_1"], *soaked(["node_0"], ["node_2"], ["node_0", "node_1"])])
def test_nodes_with_and_without_python_train_together(folder, processes, commands):
    npy_run.write_files(folder)
    start(folder, commands, processes)
    mixed = Cluster(folder)
    mixed.names = [name for name in NAMES if name not in commands]
    mixed.run(npy_run.script())
    ended = outcomes(processes)
    assert all(status == 0 for status, _ in ended.values()), ended
    assert_same(mixed, by_python(folder))


def test_clusters_without_python_average_as_those_of_python(tmp_path, processes):
    plan_net(tmp_path, nodes=4)
    averaging = 'reduce_factor = 2\naverage = "drain"\naverage_optim = true'
    npy_run.write_files(tmp_path, more=averaging, shard="shard = true")
    names = [f"node_{i}" for i in range(4)]
    start(tmp_path, names, processes)
    ended = outcomes(processes)
    assert all(status == 0 for status, _ in ended.values()), ended
    own = Cluster(tmp_path, 4)
    theirs = by_python(
        tmp_path, 4, reduce_factor=2, average="drain", average_optim=True, trainer_options={"shard": True}
    )
    assert_same(own, theirs)
    assert len(own.losses()) == 3 * 3  # 70 samples of 140 in batches of 25
    for one in (own, theirs):
        models = [ravnest.model_fusion(cluster_id=i, trained=one.folder / "trained") for i in range(2)]
        first, second = (torch.load(path, weights_only=True) for path in models)
        assert all(torch.equal(first[name], second[name]) for name in first if first[name].is_floating_point())


def test_the_root_of_each_cluster_warns_of_the_same_data(tmp_path, processes):
    plan_net(tmp_path, nodes=2, min_cluster_size=1)
    npy_run.write_files(tmp_path, epochs=1)
    start(tmp_path, ["node_0", "node_1"], processes)
    ended = outcomes(processes)
    assert all(status == 0 and "all 2 clusters train on the same data" in output for status, output in ended.values())


def test_a_stem_needs_no_data_and_the_root_says_how_it_went(folder, processes, tmp_path):
    npy_run.write_files(folder)
    stem = tmp_path / "stem"
    stem.mkdir()
    shutil.copy(folder / "train.toml", stem)
    shutil.copytree(folder / "node_data", stem / "node_data")
    processes["node_1"] = command.start("node", "node_1", cwd=stem)
    start(folder, ["node_0", "node_2"], processes)
    ended = outcomes(processes)
    assert [status for status, _ in ended.values()] == [0, 0, 0], ended
    assert "epoch 3/3: loss" in ended["node_0"][1]
    assert "Trained 3 epochs in" in ended["node_0"][1]
    assert (stem / "trained" / "cluster_0" / "node_1.safetensors").exists()
    assert not (stem / "losses.txt").exists()


def test_a_shuffled_run_is_the_same_run_each_time(folder, processes):
    npy_run.write_files(folder, more="")
    toml = (folder / "train.toml").read_text().replace("rows = [0, 140]", "rows = [0, 140]\nshuffle = true")
    (folder / "train.toml").write_text(toml)
    first = by_command(folder, processes).losses()
    processes.clear()
    assert by_command(folder, processes).losses() == first
    assert (folder / "losses.txt.1").exists()


@pytest.mark.parametrize("name", ["node_2", *soaked("node_0", "node_1")])
@pytest.mark.parametrize("number", [signal.SIGINT, *soaked(signal.SIGTERM)])
def test_ctrl_c_on_any_node_ends_all_within_two_seconds(folder, processes, name, number):
    npy_run.write_files(folder, epochs=1_000_000, schedule="async")
    start(folder, NAMES, processes)
    wait_for((folder / "losses.txt").exists, "nothing is trained")
    processes[name].send_signal(number)
    for other, (status, output) in outcomes(processes, 2).items():
        last = output.strip().splitlines()[-1]
        if other == name:
            assert (status, last) == (130, f"ravnest: {name} was interrupted")
        else:
            assert (status, last) == (1, f"ravnest: {name} (stage {name[-1]}) was interrupted")


def test_ctrl_c_while_it_waits_for_others(folder, processes):
    npy_run.write_files(folder)
    start(folder, ["node_1"], processes)
    wait_for_line(processes["node_1"], "waiting for node_0")
    processes["node_1"].send_signal(signal.SIGINT)
    assert outcomes(processes, 2)["node_1"][0] == 130


def reasons(ended) -> set:
    return {output.strip().splitlines()[-1] for _, output in ended.values()}


def test_labels_that_are_not_the_roots_end_the_run(folder, processes, tmp_path):
    npy_run.write_files(folder)
    leaf = tmp_path / "leaf"
    leaf.mkdir()
    shutil.copytree(folder / "node_data", leaf / "node_data")
    npy_run.write_files(leaf)
    numpy.save(leaf / "y.npy", numpy.load(folder / "y.npy")[::-1].copy())
    start(folder, ["node_0", "node_1"], processes)
    processes["node_2"] = command.start("node", "node_2", cwd=leaf)
    ended = outcomes(processes)
    assert all(status == 1 for status, _ in ended.values())
    assert all("the labels of node_2 for batch 0 of epoch 0 are not those of node_0" in each for each in reasons(ended))
    assert not (folder / "losses.txt").exists(), "nothing was trained on wrong pairs"


def test_data_that_is_missing_on_one_node_is_said_on_all(folder, processes):
    npy_run.write_files(folder)
    start(folder, ["node_1", "node_2"], processes)
    for name in ("node_1", "node_2"):
        wait_for_line(processes[name], "waiting for")
    (folder / "x.npy").unlink()
    start(folder, ["node_0"], processes)
    ended = outcomes(processes)
    assert all(status == 1 for status, _ in ended.values()), ended
    assert all("x.npy" in each for each in reasons(ended)), ended


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("cross_entropy", "hinge"), "hinge"),
        (('"Adam"', '"Atom"'), "Atom"),
        (("lr = 0.01", "learning_rate = 0.01"), "learning_rate"),
        (("epochs = 3", "epochs = 0"), "epochs"),
        (("save = true", 'save = true\ndevice = "cuda:99"'), "there is no device cuda:99 on this machine"),
    ],
)
def test_a_bad_config_is_one_line(alone, change, part):
    npy_run.write_files(alone.folder)
    config = alone.folder / "train.toml"
    config.write_text(config.read_text().replace(*change))
    result = command.run("node", "node_0", cwd=alone.folder)
    assert result.returncode == 1
    assert result.stderr.startswith("ravnest: ") and result.stderr.count("\n") == 1, result.stderr
    assert part in result.stderr


def test_the_variable_counts_where_neither_the_flag_nor_the_config_says_anything(alone, monkeypatch):
    npy_run.write_files(alone.folder)
    monkeypatch.setenv("RAVNEST_RESUME", "true")
    result = command.run("node", "node_0", cwd=alone.folder)
    assert result.returncode == 1
    assert result.stderr.startswith("ravnest: RAVNEST_RESUME needs checkpoints to go on from"), result.stderr


@pytest.mark.parametrize("broken", ["epochs = 0", None])
def test_a_config_that_is_wrong_on_one_node_is_said_on_all(folder, processes, tmp_path, broken):
    npy_run.write_files(folder)
    start(folder, ["node_0", "node_2"], processes)
    for name in ("node_0", "node_2"):
        wait_for_line(processes[name], "waiting for")
    other = tmp_path / "other"
    shutil.copytree(folder / "node_data", other / "node_data")
    if broken:
        (other / "train.toml").write_text((folder / "train.toml").read_text().replace("epochs = 3", broken))
    processes["node_1"] = command.start("node", "node_1", cwd=other)
    ended = outcomes(processes)
    assert all(status == 1 for status, _ in ended.values()), ended
    own = ended["node_1"][1].removeprefix("ravnest: ")
    assert "train.toml" in own
    for name in ("node_0", "node_2"):
        assert ended[name][1].endswith(f"ravnest: node_1 (stage 1) failed: {own}"), ended


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["node_7"], "its nodes are node_0, node_1, node_2"),
        (["node_0", "--config", "none.toml"], "none.toml"),
        (["node_0", "--node-data", "nowhere"], "nowhere"),
    ],
)
def test_what_is_not_there_is_named(folder, arguments, part):
    npy_run.write_files(folder)
    result = command.run("node", *arguments, cwd=folder)
    assert result.returncode == 1 and part in result.stderr


@pytest.mark.parametrize("name", ["node", "eval", "up"])
def test_help_has_an_example(name, tmp_path):
    result = command.run(name, "--help", cwd=tmp_path)
    assert result.returncode == 0 and f"Usage: ravnest {name} " in result.stdout
    assert f"\n  ravnest {name}" in result.stdout.split("Examples:")[1]


def test_a_loss_that_is_not_finite_is_said_or_ends_the_run(tmp_path):
    plan_net(tmp_path, nodes=1, min_cluster_size=1)
    npy_run.write_files(tmp_path, optimizer="SGD", lr=1e30)
    result = command.run("node", "node_0", cwd=tmp_path)
    step = (tmp_path / "losses.txt").read_text().split().index("nan") + 1
    line = f"the loss that node_0 computed in step {step} (epoch 1, batch {step}) is nan"
    assert result.returncode == 0 and result.stderr.count(line) == 1, result.stderr
    assert f", but the loss was not finite in {18 - step + 1} steps, first in step {step}: 420 samples" in result.stderr
    npy_run.write_files(tmp_path, optimizer="SGD", lr=1e30, more="stop_at_nan = true")
    result = command.run("node", "node_0", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.endswith(f"{line}, and stop_at_nan ends the run there\n"), result.stderr


def test_eval_gives_the_accuracy_of_the_run(folder, processes):
    npy_run.write_files(folder)
    model = make_net()
    ravnest.capture(model, (torch.randn(20, 12),), path=folder / "model.pt2")
    run = by_command(folder, processes)
    assert command.run("fuse", "--safetensors", cwd=folder).returncode == 0
    weights = "trained/trained_state_dict.pt"
    result = command.run("eval", "model.pt2", "--weights", weights, cwd=folder)
    assert result.returncode == 0, result.stderr
    safetensors = "trained/trained_state_dict.safetensors"
    assert command.run("eval", "model.pt2", "--weights", safetensors, cwd=folder).stdout == result.stdout
    torch.save({"epoch": 3, "ema": model.state_dict(), "model": run.fused()}, folder / "checkpoint.pt")
    chosen = ["--weights", "checkpoint.pt", "--weights-entry", "model"]
    assert command.run("eval", "model.pt2", *chosen, cwd=folder).stdout == result.stdout
    unclear = command.run("eval", "model.pt2", *chosen[:2], cwd=folder)
    assert unclear.returncode == 1 and 'has the state dicts "ema", "model"' in unclear.stderr
    alone = command.run("eval", "model.pt2", *chosen[2:], cwd=folder)
    assert alone.returncode == 1 and "give that file as --weights" in alone.stderr
    assert result.stdout.startswith(f"accuracy {run.accuracies()[-1]:.2f} %, loss ")
    model.load_state_dict(run.fused())
    model.eval()
    x, y = torch.from_numpy(numpy.load(folder / "x.npy"))[140:], torch.from_numpy(numpy.load(folder / "y.npy"))[140:]
    loss = torch.nn.functional.cross_entropy(model(x), y).item()
    assert float(result.stdout.split("loss ")[1].split()[0]) == pytest.approx(loss, abs=1e-4)
    assert result.stdout.endswith("over 60 samples\n")
    before = command.run("eval", "model.pt2", cwd=folder)
    assert before.returncode == 0 and before.stdout != result.stdout


def test_eval_refuses_weights_of_another_model(folder):
    npy_run.write_files(folder)
    ravnest.capture(make_net(), (torch.randn(20, 12),), path=folder / "model.pt2")
    stage = folder / "other.safetensors"
    header = b'{"body.0.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    stage.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    result = command.run("eval", "model.pt2", "--weights", stage, cwd=folder)
    assert result.returncode == 1 and "other.safetensors is not of this model; it lacks: " in result.stderr
    assert "body.0.weight (float32 [1] in place of float32 [32, 12])" in result.stderr
