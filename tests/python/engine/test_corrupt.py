"""Archives that lie to Python's part of the reader: what C++ reads of them is tested there (graph/run, graph/ir)."""

import json
import zipfile
from pathlib import Path

import pytest

import ravnest

GOOD = Path(__file__).parents[2] / "golden/normalised.pt2"


def rewritten(target, change) -> None:
    """A copy with right checksums in which `change` gets the model's JSON."""
    with zipfile.ZipFile(GOOD) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("models/model.json"):
                model = json.loads(data)
                change(model)
                data = json.dumps(model).encode()
            new.writestr(entry.filename, data)


def test_an_archive_that_is_cut_short_is_an_error_of_ours(tmp_path):
    (tmp_path / "short.pt2").write_bytes(GOOD.read_bytes()[:-100])
    with pytest.raises(ravnest.Error, match=r"short\.pt2"):
        ravnest.load(tmp_path / "short.pt2")


@pytest.mark.parametrize(
    ("kind", "context"),
    [
        (
            "collections.defaultdict",
            {"default_factory_module": "this", "default_factory_name": "s", "dict_context": []},
        ),
        ("builtins.dict", '[{"__enum__": true, "fqn": "this:s", "name": "x"}]'),
        ("somewhere.Else", "null"),
    ],
    ids=["defaultdict", "enum", "unknown"],
)
def test_a_structure_that_names_code_to_import_is_refused(kind, context, tmp_path):
    """torch's reader of structures imports the module that a defaultdict or an enum names."""

    def lie(model):
        signature = model["graph_module"]["module_call_graph"][0]["signature"]
        leaf = {"type": None, "context": None, "children_spec": []}
        signature["out_spec"] = json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf]}])

    rewritten(tmp_path / "lie.pt2", lie)
    with pytest.raises(ravnest.Error):
        ravnest.load(tmp_path / "lie.pt2")
