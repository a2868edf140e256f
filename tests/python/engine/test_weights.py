"""Files of weights, as torch itself writes them, put into captured models: `ravnest.load(..., weights=)`."""

import collections
import io
import os
import pickle
import zipfile

import pytest
import torch
from support import models
from torch import nn

import ravnest


def trained(case):
    """The same model with other weights, as after a training; buffers too."""
    model = case.model(seed=7)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(torch.rand_like(tensor))
    return model


def assert_has(graph, state: dict):
    own = graph.state_dict()
    for name, tensor in state.items():
        assert own[name].dtype == tensor.dtype and torch.equal(own[name], tensor), name


@pytest.mark.parametrize("case", models.ALL, ids=lambda case: case.name)
def test_a_state_dict_of_torch_is_the_models(case, archive, tmp_path):
    model = trained(case)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    graph = ravnest.load(archive(case), weights=tmp_path / "weights.pt")
    assert_has(graph, model.state_dict())
    names = dict(model.named_parameters(remove_duplicate=False))
    assert len({graph.state_dict()[name].data_ptr() for name in names}) == len(list(model.parameters()))


@pytest.fixture(scope="module")
def digits(archive):
    """The archive of the digits model, and a state dict with other values."""
    case = models.ARCHITECTURES[0]
    return archive(case), trained(case).state_dict()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_is_read(digits, tmp_path, protocol):
    path, state = digits
    torch.save(state, tmp_path / "weights.bin", pickle_protocol=protocol)
    assert_has(ravnest.load(path, weights=tmp_path / "weights.bin"), state)


def as_parameters(state):
    return {name: nn.Parameter(tensor, tensor.is_floating_point()) for name, tensor in state.items()}


def in_other_memory(state):
    """Each tensor a window on a larger storage, and in another order where it has several dimensions."""
    windows = {}
    for name, tensor in state.items():
        turned = tensor.t().contiguous() if tensor.dim() == 2 else tensor
        larger = torch.cat([turned.flatten(), turned.flatten()])
        window = larger[turned.numel() :].view(turned.shape)
        windows[name] = window.t() if tensor.dim() == 2 else window
    return windows


def on_one_storage(state):
    """All float tensors in one flat buffer, as some trainers keep them."""
    floats = {name: tensor for name, tensor in state.items() if tensor.dtype == torch.float32}
    flat = torch.cat([tensor.flatten() for tensor in floats.values()])
    parts = flat.split([tensor.numel() for tensor in floats.values()])
    views = {name: part.view(floats[name].shape) for name, part in zip(floats, parts, strict=True)}
    return {name: views.get(name, tensor) for name, tensor in state.items()}


@pytest.mark.parametrize(
    "changed", [dict, collections.OrderedDict, as_parameters, in_other_memory, on_one_storage], ids=lambda f: f.__name__
)
def test_however_a_dict_holds_its_tensors(digits, tmp_path, changed):
    path, state = digits
    torch.save(changed(state), tmp_path / "weights.pth")
    assert_has(ravnest.load(path, weights=tmp_path / "weights.pth"), state)


def test_a_checkpoint_has_one_state_dict_or_says_which(digits, tmp_path):
    path, state = digits
    other = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    parameters = [nn.Parameter(torch.ones(2))]
    parameters[0].grad = torch.ones(2)
    adam = torch.optim.Adam(parameters)
    adam.step()
    checkpoint = {"epoch": 3, "loss": 0.5, "model_state_dict": state, "optimizer_state_dict": adam.state_dict()}
    torch.save(checkpoint, tmp_path / "one.pt")
    assert_has(ravnest.load(path, weights=tmp_path / "one.pt"), state)
    torch.save({**checkpoint, "ema": other}, tmp_path / "two.pt")
    with pytest.raises(ravnest.Error, match='has the state dicts "model_state_dict", "ema"; say which one is meant'):
        ravnest.load(path, weights=tmp_path / "two.pt")
    assert_has(ravnest.load(path, weights=tmp_path / "two.pt", entry="ema"), other)
    torch.save(adam.state_dict(), tmp_path / "adam.pt")
    with pytest.raises(ravnest.Error, match="is an optimizer's state, not a model's; save the weights alone"):
        ravnest.load(path, weights=tmp_path / "adam.pt")
    with pytest.raises(ValueError, match="give both"):
        ravnest.load(path, entry="ema")


def test_what_does_not_fit_is_named(digits, tmp_path):
    path, state = digits
    names = list(state)
    wrong = {"extra.weight": torch.ones(1), **state, names[1]: torch.ones(3, 5)}
    del wrong[names[0]]
    torch.save(wrong, tmp_path / "weights.pt")
    with pytest.raises(ravnest.Error) as failure:
        ravnest.load(path, weights=tmp_path / "weights.pt")
    words = str(failure.value)
    assert f"weights.pt is not of this model; it lacks: {names[0]}; the model does not know: extra.weight" in words
    assert f"of other types or sizes: {names[1]} (float32 [3, 5] in place of float32 " in words
    torch.save({f"module.{name}": tensor for name, tensor in state.items()}, tmp_path / "ddp.pt")
    with pytest.raises(ravnest.Error, match=r'ddp\.pt all begin with "module\."'):
        ravnest.load(path, weights=tmp_path / "ddp.pt")


class Net(nn.Linear):
    pass


class Runs:
    """Unpickled, it runs a command that leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_whole_model_is_refused_by_its_class(digits, tmp_path):
    torch.save(Net(2, 2), tmp_path / "net.pt")
    words = r"names \w+\.Net, which is not among .*; save the weights alone: torch.save\(model.state_dict\(\), PATH\)"
    with pytest.raises(ravnest.Error, match=words):
        ravnest.load(digits[0], weights=tmp_path / "net.pt")


@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_in_a_file_is_ever_run(digits, tmp_path, protocol):
    path, state = digits
    torch.save({**state, "x": Runs(tmp_path / "ran")}, tmp_path / "weights.pt", pickle_protocol=protocol)
    with pytest.raises(ravnest.Error, match=f"names {os.system.__module__}.system, which is not among the plain data"):
        ravnest.load(path, weights=tmp_path / "weights.pt")
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Runs(tmp_path / "ran")))
    assert (tmp_path / "ran").exists(), "it would have"


def test_files_of_something_else_are_named(digits, tmp_path):
    path, state = digits
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    script = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    torch.jit.save(script, tmp_path / "script.pt")
    torch.save([torch.ones(2)], tmp_path / "list.pt")
    torch.save({**state, "x": torch.ones(2).to_sparse()}, tmp_path / "sparse.pt")
    (tmp_path / "notes.txt").write_text("no weights")
    for file, words in {
        "old.pt": "is a pickle as torch before 1.6 wrote it",
        "script.pt": "compresses nothing, but TorchScript models are",
        "list.pt": "holds a list, not a state dict",
        "sparse.pt": "names torch._utils._rebuild_sparse_tensor",
        "notes.txt": "is no file of weights",
        "none.pt": "No such file",
    }.items():
        with pytest.raises(ravnest.Error, match=f"{file}.*{words}"):
            ravnest.load(path, weights=tmp_path / file)
    with pytest.raises(ravnest.Error, match="is a captured model, not weights"):
        ravnest.load(path, weights=path)


def with_device(source: bytes, device: str) -> bytes:
    """The same file, saved from another device: its pickle says where each storage was."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(result, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("data.pkl"):
                old_name, new_name = (b"X" + len(n).to_bytes(4, "little") + n.encode() for n in ("cpu", device))
                assert old_name in data
                data = data.replace(old_name, new_name)
            new.writestr(entry.filename, data)
    return result.getvalue()


def test_weights_from_a_gpu_are_read_where_there_is_none(digits, tmp_path):
    path, state = digits
    torch.save(state, tmp_path / "weights.pt")
    (tmp_path / "gpu.pt").write_bytes(with_device((tmp_path / "weights.pt").read_bytes(), "cuda:0"))
    assert_has(ravnest.load(path, weights=tmp_path / "gpu.pt"), state)
