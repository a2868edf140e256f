"""`model_fusion` and `ravnest fuse`: from saved stages to a state dict that torch loads."""

import collections
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import ravnest
from ravnest.operations.utils import model_fusion

COMMAND = shutil.which("ravnest", path=str(Path(sys.executable).parent)) or shutil.which("ravnest")
NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}


class Model(nn.Module):
    """Tied weights, buffers, a scalar, an empty tensor and every dtype that a file can hold."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight
        for dtype, name in NAMES.items():
            self.register_buffer(name, torch.randint(0, 2, (2, 3)).to(dtype))
        self.register_buffer("empty", torch.zeros(3, 0))


def raw(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.detach().contiguous().flatten().view(torch.uint8).tolist())


def write_safetensors(path: Path, tensors: dict, metadata: dict):
    """The format as its description has it, on its own: nothing here is shared with what is tested."""
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        elements = raw(tensor)
        offsets = [len(data), len(data) + len(elements)]
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += elements
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path: Path) -> dict:
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    assert header.pop("__metadata__") == {"format": "pt"} and (8 + size) % 8 == 0
    types = {name: dtype for dtype, name in NAMES.items()}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        elements = torch.tensor(list(content[8 + size + begin : 8 + size + end]), dtype=torch.uint8)
        tensors[name] = elements.view(types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def save_stages(model: nn.Module, trained: Path, stages: int = 3, *, run: str = "run 1"):
    """The model's state dict in so many parts; `head.weight` is saved as another name of `embedding.weight`."""
    state = model.state_dict()
    names = [name for name in state if name != "head.weight"]
    for stage in range(stages):
        part = names[stage * len(names) // stages : (stage + 1) * len(names) // stages]
        facts = {
            "version": 1,
            "plan": "plan a",
            "run": run,
            "node": f"node_{stage}",
            "cluster": 0,
            "stage": stage,
            "stages": stages,
            "updates": 7,
            "nodes": [f"node_{i}" for i in range(stages)],
        }
        tied = {"head.weight": "embedding.weight"} if "embedding.weight" in part and "head.weight" in state else {}
        metadata = {
            "ravnest.stage": json.dumps(facts),
            "ravnest.order": json.dumps(list(state)),
            "ravnest.aliases": json.dumps(tied),
        }
        path = trained / "cluster_0" / f"node_{stage}.safetensors"
        write_safetensors(path, {name: state[name] for name in part}, metadata)


def same(a: dict, b: dict) -> bool:
    return all(
        a[key].dtype == b[key].dtype and a[key].shape == b[key].shape and raw(a[key]) == raw(b[key]) for key in b
    )


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A working directory with the saved stages of a model, and the model."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    model = Model()
    save_stages(model, tmp_path / "trained")
    return tmp_path, model


def check_loads(path: Path, model: nn.Module):
    state = torch.load(path, weights_only=True)
    expected = model.state_dict()
    assert type(state) is collections.OrderedDict and list(state) == list(expected)
    assert same(state, expected)
    assert not any(tensor.requires_grad for tensor in state.values())
    assert state["head.weight"].data_ptr() == state["embedding.weight"].data_ptr()
    other = Model()
    assert str(other.load_state_dict(state, strict=True)) == "<All keys matched successfully>"
    assert same(other.state_dict(), expected)
    mapped = torch.load(path, weights_only=True, mmap=True)
    assert same(mapped, expected)


def test_the_state_dict_is_the_models_own(saved, capsys):
    folder, model = saved
    assert ravnest.model_fusion() == "trained/trained_state_dict.pt"
    size = (folder / "trained" / "trained_state_dict.pt").stat().st_size
    keys = len(model.state_dict())
    assert capsys.readouterr().out == f"wrote trained/trained_state_dict.pt ({keys} tensors, {size} bytes)\n"
    check_loads(folder / "trained" / "trained_state_dict.pt", model)
    assert not (folder / "trained" / "trained_state_dict.safetensors").exists()


def test_safetensors_are_written_on_request(saved, capsys):
    folder, model = saved
    path = model_fusion(0, trained=folder / "trained", safetensors=True)
    assert path == str(folder / "trained" / "trained_state_dict.pt")
    assert capsys.readouterr().out.endswith("and " + str(folder / "trained" / "trained_state_dict.safetensors") + "\n")
    state = read_safetensors(folder / "trained" / "trained_state_dict.safetensors")
    assert state.keys() == model.state_dict().keys() and same(state, model.state_dict())


def test_a_missing_stage_is_named(saved):
    folder, _ = saved
    (folder / "trained" / "cluster_0" / "node_1.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"stage 1 \(node_1.safetensors\); copy them .* trained/cluster_0/"):
        ravnest.model_fusion()
    assert not (folder / "trained" / "trained_state_dict.pt").exists()
    with pytest.raises(FileNotFoundError, match="cluster 3"):
        ravnest.model_fusion(3)


def test_stages_of_two_runs_are_named(saved):
    folder, model = saved
    kept = (folder / "trained" / "cluster_0" / "node_2.safetensors").read_bytes()
    save_stages(model, folder / "trained", run="run 2")
    (folder / "trained" / "cluster_0" / "node_2.safetensors").write_bytes(kept)
    with pytest.raises(ValueError, match=r"node_2.safetensors is of run run 1.*node_1.safetensors are of run run 2"):
        ravnest.model_fusion()


def test_a_damaged_stage_is_named(saved):
    folder, _ = saved
    path = folder / "trained" / "cluster_0" / "node_0.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ravnest.Error, match=r"trained/cluster_0/node_0.safetensors: "):
        ravnest.model_fusion()


def test_the_command_does_the_same(saved):
    folder, model = saved
    result = subprocess.run([COMMAND, "fuse", "--safetensors"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("wrote trained/trained_state_dict.pt (")
    check_loads(folder / "trained" / "trained_state_dict.pt", model)
    (folder / "trained" / "cluster_0" / "node_1.safetensors").unlink()
    result = subprocess.run([COMMAND, "fuse"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "stage 1 (node_1.safetensors)" in result.stderr
