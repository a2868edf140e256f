"""Where users find things, as the contract says."""

import ast
import importlib
import inspect

import pytest

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
