"""The examples, each as its README says: plan, three nodes as processes, fuse."""

import importlib.util
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from support.nodes import PATIENCE_S, end, start
from support.places import EXAMPLES
from support.pools import write_local_pool
from support.soaked import soaked


def run(script: Path, folder: Path, *arguments: str) -> str:
    """The script to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, script, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("name", soaked("sorting", "bert", "resnet", "vit", "inception"))
def test_an_example_is_planned_trained_on_three_nodes_and_fused_into_the_models_own_state_dict(name, tmp_path):
    write_local_pool(tmp_path / "node_data", 3)
    assert "3 nodes in 1 cluster" in run(EXAMPLES / name / "plan.py", tmp_path, "--small")
    processes = [start(EXAMPLES / name / "train.py", f"node_{i}", tmp_path, "--small") for i in range(3)]
    try:
        for process in processes:
            output, _ = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, output
    finally:
        end(processes)
    losses = [float(line) for line in (tmp_path / "losses.txt").read_text().splitlines()]
    assert losses
    assert all(0 < loss < 10 for loss in losses)
    # It loads the state dict strictly into the plain model, and would fail if a key were missing.
    assert "plain PyTorch, with the fused weights" in run(EXAMPLES / name / "fuse.py", tmp_path, "--small")


@pytest.mark.slow
def test_the_demo_of_digits_ends_with_the_fused_model_in_plain_pytorch_and_a_picture(tmp_path):
    lines = run(EXAMPLES / "digits/demo.py", tmp_path, "--epochs", "2").splitlines()
    said = re.fullmatch(r"plain PyTorch, with the fused weights: (\d+\.\d\d)% of the validation set correct", lines[-2])
    assert said, lines
    by_chance = 10  # percent
    assert float(said[1]) > 2 * by_chance
    assert lines[-1] == "the losses as a picture: demo/losses.svg"
    picture = ElementTree.parse(tmp_path / "demo/losses.svg").getroot()
    points = picture.find("{http://www.w3.org/2000/svg}polyline").get("points").split()
    losses = (tmp_path / "demo/losses.txt").read_text().splitlines()
    assert len(points) == len(losses) == 2 * 17


def cifar10():
    spec = importlib.util.spec_from_file_location("cifar10", EXAMPLES / "cifar10.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_binary_and_the_python_files_of_cifar10_give_the_same_images(tmp_path):
    images = torch.randint(256, (4, 3072), dtype=torch.uint8)
    classes = [3, 9, 0, 7]
    records = torch.cat([torch.tensor(classes, dtype=torch.uint8)[:, None], images], 1)
    (tmp_path / "test_batch.bin").write_bytes(records.numpy().tobytes())
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": images.numpy(), b"labels": classes}))
    for name in ("test_batch.bin", "test_batch"):
        read_images, read_classes = cifar10().read_file(tmp_path / name)
        assert torch.equal(read_images, images.view(4, 3, 32, 32))
        assert read_classes.tolist() == classes


def test_a_folder_without_cifar10_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"neither data_batch_1.bin nor data_batch_1 is in"):
        cifar10().make_loaders(str(tmp_path), batch=2)
