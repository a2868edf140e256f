"""Damaged and lying archives: an error with a sentence, never a crash, never a huge allocation.

Each test writes a folder of damaged copies and opens them all in one other process with a limit on its memory: it must
end by itself, and every file must either load or give ravnest.Error.
"""

import copy
import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import models
from support.soaked import soaked

import ravnest

pytestmark = pytest.mark.slow

HEADROOM = 600 << 20  # bytes that the process may take beyond what importing ravnest and one good load took

READER = """
import os, resource, sys, torch, ravnest
folder, headroom = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
x = torch.rand(3, 1, 8, 8)
ravnest.load(sys.argv[3])(x).sum().backward()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + headroom, used + headroom))
for name in sorted(os.listdir(folder)):
    print(name, end=" ", flush=True)
    try:
        graph = ravnest.load(os.path.join(folder, name))
    except ravnest.Error as error:
        print("refused:", str(error).replace("\\n", " "), flush=True)
        continue
    try:
        graph(x)
        graph(x, train=False)
        print("runs", flush=True)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        print("loads, fails to run:", type(error).__name__, flush=True)
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    case = models.ARCHITECTURES[0]
    path = tmp_path_factory.mktemp("good") / "digits.pt2"
    return ravnest.capture(case.model(), *case.example(), path)


def read_all(folder, good) -> dict[str, str]:
    """name -> what became of it."""
    command = [sys.executable, "-c", READER, str(folder), str(HEADROOM), str(good)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"the reader ended with {done.returncode} at {lines[-1:]}: {done.stderr[-2000:]}"
    return dict(line.split(" ", 1) for line in lines)


def rewritten(source, target, change) -> None:
    """A copy with right checksums in which `change(name, data)` gives every entry's data, or None to leave it out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            data = change(entry.filename, old.read(entry))
            if data is not None:
                new.writestr(entry.filename, data)


def json_entries(path) -> dict[str, object]:
    with zipfile.ZipFile(path) as file:
        return {name: json.loads(file.read(name)) for name in file.namelist() if name.endswith(".json")}


def test_truncated_files_are_refused(good, tmp_path):
    data = Path(good).read_bytes()
    lengths = {0, 1, 21, 22, 100, len(data) - 1, len(data) - 22} | {len(data) * i // 24 for i in range(24)}
    for length in lengths:
        (tmp_path / f"{length}.pt2").write_bytes(data[:length])
    results = read_all(tmp_path, good)
    assert len(results) == len(lengths)
    assert all(result.startswith("refused") for result in results.values()), results


def test_flipped_bits_never_crash_the_reader(good, tmp_path):
    data = bytearray(Path(good).read_bytes())
    draw = random.Random(1)
    for number in range(400):
        # Half of them at the end, where the zip's directory is.
        low = 0 if number % 2 else max(0, len(data) - 8000)
        position, bit = draw.randrange(low, len(data)), 1 << draw.randrange(8)
        data[position] ^= bit
        (tmp_path / f"{number:03}.pt2").write_bytes(data)
        data[position] ^= bit
    assert len(read_all(tmp_path, good)) == 400


LIES = [-1, 0, 1, 2**31, 2**40, 2**63 - 1, -(2**63), "", "x", "../../escape", None, True, [], {}, 1.5, [[]] * 3]


def places(value, found, path=()):
    """Every place in a JSON value, as a path of keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found.append((*path, key))
        places(item, found, (*path, key))
    return found


def with_lie(value, path, draw):
    changed = copy.deepcopy(value)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    kind = draw.randrange(4)
    if kind == 0 and isinstance(holder, list | dict):
        del holder[path[-1]]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(path[-1], holder[path[-1]])
    else:
        holder[path[-1]] = draw.choice(LIES)
    return changed


@pytest.mark.parametrize("seed", [0, *soaked(1, 2)])
def test_lying_json_never_crashes_the_reader(seed, good, tmp_path):
    draw = random.Random(seed)
    entries = json_entries(good)
    places_of = {name: places(value, []) for name, value in entries.items()}
    names = [name for name, found in places_of.items() if found]
    for number in range(150):
        name = draw.choice(names)
        lie = json.dumps(with_lie(entries[name], draw.choice(places_of[name]), draw)).encode()
        rewritten(good, tmp_path / f"{number:03}.pt2", lambda n, d, name=name, lie=lie: lie if n == name else d)
    assert len(read_all(tmp_path, good)) == 150


def weight_entry(config):
    """Where the first weight's entry is in the weights config."""
    return next(iter(config["config"].values())) if "config" in config else next(iter(config.values()))


def test_weights_that_lie_about_their_size_are_refused(good, tmp_path):
    entries = json_entries(good)
    name = next(name for name in entries if name.endswith("model_weights_config.json"))

    def sizes(meta, *values):
        meta["sizes"] = [{"as_int": value} for value in values]

    def offset(meta, value):
        meta["storage_offset"] = {"as_int": value}

    def strides(meta, *values):
        meta["strides"] = [{"as_int": value} for value in values]

    lies = {
        "huge": lambda entry: sizes(entry["tensor_meta"], 2**20, 2**20, 3, 3),
        "overflow": lambda entry: sizes(entry["tensor_meta"], 2**62, 2**62, 2**62, 4),
        "negative": lambda entry: sizes(entry["tensor_meta"], -16, 1, 3, 3),
        "longer": lambda entry: sizes(entry["tensor_meta"], 17, 1, 3, 3),
        "offset": lambda entry: offset(entry["tensor_meta"], 1),
        "far_offset": lambda entry: offset(entry["tensor_meta"], 2**61),
        "negative_offset": lambda entry: offset(entry["tensor_meta"], -1),
        "strides": lambda entry: strides(entry["tensor_meta"], 2**60, 9, 3, 1),
        "negative_strides": lambda entry: strides(entry["tensor_meta"], -9, 9, 3, 1),
        "fewer_strides": lambda entry: strides(entry["tensor_meta"], 9, 9),
        "dtype": lambda entry: entry["tensor_meta"].update(dtype=99),
        "path": lambda entry: entry.update(path_name="../../../../etc/passwd"),
        "missing": lambda entry: entry.update(path_name="weight_99"),
        "pickled": lambda entry: entry.update(use_pickle=True),
    }
    for lie, change in lies.items():
        config = copy.deepcopy(entries[name])
        change(weight_entry(config))
        data = json.dumps(config).encode()
        rewritten(good, tmp_path / f"{lie}.pt2", lambda n, d, data=data: data if n == name else d)
    results = read_all(tmp_path, good)
    assert len(results) == len(lies)
    assert all(result.startswith("refused") for result in results.values()), results


@pytest.mark.soak
def test_a_weight_shorter_than_it_says_is_refused(good, tmp_path):
    rewritten(good, tmp_path / "short.pt2", lambda n, d: d[: len(d) // 2] if "/weights/weight_" in n else d)
    rewritten(good, tmp_path / "empty.pt2", lambda n, d: b"" if "/weights/weight_" in n else d)
    results = read_all(tmp_path, good)
    assert all(result.startswith("refused") for result in results.values()), results


@pytest.mark.soak
def test_every_missing_entry_is_noticed_or_not_needed(good, tmp_path):
    with zipfile.ZipFile(good) as file:
        names = file.namelist()
    for number, missing in enumerate(names):
        rewritten(good, tmp_path / f"{number:02}.pt2", lambda n, d, missing=missing: None if n == missing else d)
    results = read_all(tmp_path, good)
    for number, missing in enumerate(names):
        if missing.endswith("models/model.json") or "/weights/" in missing:
            assert results[f"{number:02}.pt2"].startswith("refused"), missing


@pytest.mark.soak
def test_json_nested_without_end_is_refused(good, tmp_path):
    deep = b"[" * 2_000_000
    rewritten(good, tmp_path / "deep.pt2", lambda n, d: deep if n.endswith("models/model.json") else d)
    rewritten(good, tmp_path / "deep_weights.pt2", lambda n, d: deep if n.endswith("weights_config.json") else d)
    results = read_all(tmp_path, good)
    assert all(result.startswith("refused") for result in results.values()), results


def test_a_newer_schema_is_refused_by_its_number(good, tmp_path):
    entries = json_entries(good)
    name = next(name for name in entries if name.endswith("models/model.json"))
    model = copy.deepcopy(entries[name])
    model["schema_version"]["major"] = 99
    data = json.dumps(model).encode()
    rewritten(good, tmp_path / "new.pt2", lambda n, d: data if n == name else d)
    assert "99" in read_all(tmp_path, good)["new.pt2"]


def test_other_files_are_refused(good, tmp_path):
    (tmp_path / "text.pt2").write_text("hello")
    (tmp_path / "zeros.pt2").write_bytes(bytes(100_000))
    with zipfile.ZipFile(tmp_path / "zip.pt2", "w") as file:
        file.writestr("a/b", "c")
    with zipfile.ZipFile(tmp_path / "empty.pt2", "w"):
        pass
    with zipfile.ZipFile(tmp_path / "deflated.pt2", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("deflated/models/model.json", b" " * 50_000_000)
    results = read_all(tmp_path, good)
    assert all(result.startswith("refused") for result in results.values()), results


def test_a_structure_that_names_code_to_import_is_refused(good, tmp_path):
    """torch's reader of structures imports the module that a defaultdict or an enum names."""
    entries = json_entries(good)
    name = next(name for name in entries if name.endswith("models/model.json"))
    described = {
        "defaultdict": [
            "collections.defaultdict",
            {"default_factory_module": "this", "default_factory_name": "s", "dict_context": []},
        ],
        "enum": ["builtins.dict", '[{"__enum__": true, "fqn": "this:s", "name": "x"}]'],
        "unknown": ["somewhere.Else", "null"],
    }
    for lie, (kind, context) in described.items():
        model = copy.deepcopy(entries[name])
        signature = model["graph_module"]["module_call_graph"][0]["signature"]
        leaf = {"type": None, "context": None, "children_spec": []}
        signature["out_spec"] = json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf]}])
        data = json.dumps(model).encode()
        rewritten(good, tmp_path / f"{lie}.pt2", lambda n, d, data=data: data if n == name else d)
    results = read_all(tmp_path, good)
    assert all(result.startswith("refused") for result in results.values()), results
    assert len(results) == len(described)
