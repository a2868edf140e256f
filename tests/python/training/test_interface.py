"""Where users find things, as the contract says."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

import ravnest


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("ravnest.node", "Node"),
        ("ravnest.trainer", "Trainer"),
        ("ravnest.operations.utils", "clusterize"),
        ("ravnest.operations.utils", "model_fusion"),
    ],
)
def test_what_earlier_scripts_import_is_there(module, name):
    assert getattr(importlib.import_module(module), name) is getattr(ravnest, name)


def test_what_traces_models_is_not_loaded_before_one_is_traced():
    """Each process of a run imports the package, and hardly one of them traces a model."""
    loaded = "import sys, ravnest; print([name for name in ('sympy', 'torch._dynamo') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_trainer_uses_what_any_training_loop_may_use():
    """So that users can write their own Trainer: no attribute of a node that begins with an underscore."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(ravnest.Trainer)))
    nodes = ("node", "self.node", "node.run", "self.node.run", "run")
    private = [
        ast.unparse(each)
        for each in ast.walk(tree)
        if isinstance(each, ast.Attribute) and each.attr.startswith("_") and ast.unparse(each.value) in nodes
    ]
    assert private == []


def public_functions():
    """(name, function, what documents its arguments) of all that `from ravnest import *` gives."""
    for name in ravnest.__all__:
        each = getattr(ravnest, name)
        if inspect.isfunction(each):
            yield name, each, each.__doc__
        elif inspect.isclass(each) and each.__module__.startswith("ravnest."):
            yield f"{name}.__init__", each.__init__, each.__doc__
            for method, function in inspect.getmembers(each, inspect.isfunction):
                if not method.startswith("_") and function.__module__.startswith("ravnest."):
                    yield f"{name}.{method}", function, function.__doc__


def test_every_public_function_has_types_and_says_what_its_arguments_are():
    missing = []
    for name, function, text in public_functions():
        if function.__qualname__.startswith(("RuntimeError", "object")):
            continue
        signature = inspect.signature(function)
        if signature.return_annotation is signature.empty:
            missing.append(f"{name} has no type of its result")
        described = section(text, "Args")
        own = [each for each in signature.parameters.values() if each.name not in ("self", "core", "whole")]
        for argument in own:
            if argument.annotation is argument.empty:
                missing.append(f"{name}: {argument.name} has no type")
            if len(own) > 1 and argument.name not in described:  # a single one may be in the sentence
                missing.append(f"{name}: {argument.name} is not described")
    assert missing == []


def section(text: str | None, title: str) -> list[str]:
    """The names that a section of a docstring describes, in Google's style."""
    found = re.search(rf"^( *){title}:\n((?:\1    .*\n|\n)*)", (text or "") + "\n", re.MULTILINE)
    if not found:
        return []
    return [name.lstrip("*") for name in re.findall(rf"^{found[1]}    ([\w*]+): ", found[2], re.MULTILINE)]


def test_the_stub_of_the_core_is_what_the_tool_makes_of_it(tmp_path):
    subprocess.run([sys.executable, ROOT / "scripts/stub.py", tmp_path / "_core.pyi"], check=True, timeout=300)
    made, kept = (tmp_path / "_core.pyi").read_text(), (ROOT / "python/ravnest/_core.pyi").read_text()
    assert made == kept, "the bindings have changed: run .venv/bin/python scripts/stub.py"


def test_type_checkers_find_the_types():
    assert (Path(ravnest.__file__).parent / "py.typed").exists()
    assert (Path(ravnest.__file__).parent / "_core.pyi").exists()


def test_rooms_of_the_package_use_those_above_them_only():
    """As docs/architecture.md says."""
    package = Path(ravnest.__file__).parent
    rooms = ["engine", "capture", "training"]
    for place, room in enumerate(rooms):
        for file in (package / room).glob("*.py"):
            for line in re.findall(r"^\s*from \.\.(\w*)", file.read_text(), re.MULTILINE):
                assert line not in rooms[place + 1 :], f"{room}/{file.name} uses {line}"
