"""Checkpoints as docs/checkpoints.md describes them, written without ravnest: of a torch model and its optimizer."""

import hashlib
import json
import struct
from pathlib import Path

import torch

_TYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}


def safetensors_bytes(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> bytes:
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file by name."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, data = json.loads(data[8 : 8 + size]), data[8 + size :]
    types = {name: dtype for dtype, name in _TYPES.items()}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            raw = torch.frombuffer(bytearray(data[begin:end]) or bytearray(1), dtype=torch.uint8)[: end - begin]
            tensors[name] = raw.view(types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def optimizer_facts(model: torch.nn.Module, optimizer: torch.optim.Optimizer, keys: list[str]):
    """What stands in ravnest.optimizer, and the tensors, of the parameters among these keys."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups, tensors, kinds = [], {}, {}
    for group in optimizer.param_groups:
        options = {key: value for key, value in group.items() if key != "params" and value is not None}
        parameters = [names[p] for p in group["params"] if names[p] in keys and p.requires_grad]
        groups.append({"options": options, "parameters": parameters})
    for parameter, state in optimizer.state.items():
        if (name := names[parameter]) not in keys:
            continue
        for key, value in state.items():
            if value is not None:
                tensors[f"optimizer.{name}.{key}"] = value
                kinds[f"optimizer.{name}.{key}"] = [name, key]
    return {"name": type(optimizer).__name__, "groups": groups, "values": {}}, tensors, kinds


def write_checkpoint(root: Path, model, optimizer, parts: list[list[str]], updates: int = 12) -> Path:
    """One part for each of these lists of the state dict's keys."""
    folder = root / f"update_{updates:09}"
    folder.mkdir(parents=True)
    state = model.state_dict()
    parameters = dict(model.named_parameters(remove_duplicate=False))
    entries, files = [], {}
    for number, keys in enumerate(parts):
        own, aliases = {}, {}
        for key in keys:
            same = [name for name in own if state[name].data_ptr() == state[key].data_ptr()]
            if same:
                aliases[key] = same[0]
            else:
                own[key] = state[key]
        optimizer_text, tensors, kinds = optimizer_facts(model, optimizer, keys)
        name = f"stage_{number}"
        facts = {"version": 1, "name": name, "copy": 0, "holder": f"node_{number}", "run": "a run", "plan": "a plan"}
        metadata = {
            "ravnest.part": facts | {"updates": updates},
            "ravnest.order": list(state),
            "ravnest.aliases": aliases,
            "ravnest.parameters": {key: parameters[key].requires_grad for key in keys if key in parameters},
            "ravnest.tensors": {"buffer": {}, "optimizer": kinds, "record": {}},
            "ravnest.optimizer": optimizer_text,
            "ravnest.pieces": {},
            "ravnest.records": {},
        }
        content = safetensors_bytes(
            own | tensors, {"format": "pt"} | {key: json.dumps(value) for key, value in metadata.items()}
        )
        (folder / f"{name}.safetensors").write_bytes(content)
        entries.append(
            {
                "name": name,
                "file": f"{name}.safetensors",
                "holder": f"node_{number}",
                "copy": 0,
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "tensors": list(own),
                "tensor_bytes": sum(tensor.nbytes for tensor in own.values()),
            }
        )
        files |= {key: f"{name}.safetensors" for key in own if key not in files}
    index = {"metadata": {"total_size": sum(entry["tensor_bytes"] for entry in entries)}, "weight_map": files}
    # To the byte what ravnest writes: `verify` compares it.
    index_text = json.dumps(index, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    (folder / "model.safetensors.index.json").write_text(index_text)
    position = ["epoch", "index", "samples", "trained", "passes", "sweep", "validations"]
    manifest = {
        "version": 1,
        "run": "a run",
        "written": "2026-11-19T12:00:00Z",
        "strategy": "pipeline",
        "plan": "a plan",
        "updates": updates,
        "world": 1,
        "position": dict.fromkeys(position, 0),
        "settings": {},
        "order": list(state),
        "parts": entries,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
