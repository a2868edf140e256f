"""TorchScript modules as nn.Modules that torch.export can trace.

torch.export refuses a ScriptModule, and a ScriptModule called inside a traced forward runs in TorchScript's own
interpreter, where every size is a plain number: the batch size would be baked in, and weights would turn into constants
without a name. So the TorchScript graph is run here, operator by operator, in Python: sizes stay symbols, weights keep
their names, and every operator knows the module that it comes from.
"""

import inspect
import re
from typing import Any

import torch

from ..errors import CaptureError
from .script_operators import OPERATORS, call_operator


def mirror(script: torch.jit.ScriptModule) -> torch.nn.Module:
    """An nn.Module over the same parameters and buffers that does what `script` does in the mode it is set to.

    A traced module has its mode baked in: its mirror does in both modes what it did when it was traced.
    """
    module = Mirror(script, {})
    schema = script._c._get_method("forward").schema
    parameters = []
    for argument in schema.arguments[1:]:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        parameters.append(inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    signature = inspect.Signature(parameters)

    def forward(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return module.call("forward", *bound.args)

    # torch.export names the graph's inputs after the signature that it finds here.
    forward.__signature__ = signature
    module.forward = forward
    return module


class Mirror(torch.nn.Module):
    """One ScriptModule of the tree.

    `owners` is shared by the whole tree: for each weight seen, by its id, the tensor itself (an id is good only as long
    as its object lives) and the mirror and name under which it was first registered.
    """

    def __init__(self, script, owners: dict):
        super().__init__()
        # In a tuple, so that neither becomes a submodule.
        self._script, self._owners = (script,), owners
        for name, parameter in script._parameters.items():
            self.register_parameter(name, self._parameter(name, parameter))
        for name, buffer in script._buffers.items():
            self.register_buffer(name, buffer)
            owners.setdefault(id(buffer), (buffer, (self,), name))
        for name, child in script._modules.items():
            self.add_module(name, Mirror(child, owners))
        self.training = script.training

    def _parameter(self, name, tensor):
        if id(tensor) in self._owners:
            _, (owner,), known_as = self._owners[id(tensor)]
            return getattr(owner, known_as)
        self._owners[id(tensor)] = (tensor, (self,), name)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        return tensor if is_parameter else torch.nn.Parameter(tensor, tensor.requires_grad)

    def forward(self, method, *args):
        return self.call(method, *args)

    def call(self, method: str, *args):
        graph = self._script[0]._c._get_method(method).graph
        return run_graph(graph, (self, *args))

    def attribute(self, name: str):
        """What `self.name` is in the script: a submodule's mirror, a weight, a list of weights, or a plain value."""
        if name in self._modules or name in self._parameters or name in self._buffers or name in self.__dict__:
            return getattr(self, name)
        value = getattr(self._script[0], name)
        return [self._weight(item) for item in value] if isinstance(value, list) else self._weight(value)

    def _weight(self, value):
        """The tensor that the export knows for a weight that the script holds a second time (nn.LSTM does)."""
        _, (owner,), name = self._owners.get(id(value), (None, (None,), None))
        return value if owner is None else getattr(owner, name)


def run_graph(graph, inputs: tuple):
    """Run a TorchScript graph on Python values and return what it returns."""
    values = {}
    for value, given in zip(graph.inputs(), inputs, strict=True):
        values[value.debugName()] = given
    results = _run_block(graph, values)
    return results[0] if len(results) == 1 else tuple(results)


def _run_block(block, values: dict) -> list:
    for node in block.nodes():
        try:
            results = _run_node(node, values)
        except CaptureError:
            raise
        except Exception as error:
            if not hasattr(error, "script_location"):
                vars(error)["script_location"] = _location(node)
            raise
        for value, result in zip(node.outputs(), results, strict=True):
            values[value.debugName()] = result
    return [values[value.debugName()] for value in block.outputs()]


def _run_node(node, values: dict) -> list:
    kind = node.kind()
    if kind == "prim::Constant":
        return [_constant(node)]
    if kind == "prim::CallFunction":
        return _run_function(node, values)
    inputs = [values[value.debugName()] for value in node.inputs()]
    if kind == "prim::GetAttr":
        return [inputs[0].attribute(node.s("name"))]
    if kind == "prim::SetAttr":
        setattr(inputs[0], node.s("name"), inputs[1])
        return []
    if kind == "prim::CreateObject":
        return [_grad_mode(node)]
    if kind == "prim::CallMethod":
        return _run_method(node.s("name"), *inputs)
    if kind == "prim::If":
        then, otherwise = node.blocks()
        return _run_block(then if inputs[0] else otherwise, values)
    if kind == "prim::Loop":
        return _run_loop(node, values, *inputs)
    if kind in OPERATORS:
        result = OPERATORS[kind](*inputs)
    elif kind.startswith("prim::"):
        raise CaptureError(f"the TorchScript module uses {kind}, which capture does not know ({_location(node)})")
    else:
        result = call_operator(node, inputs)
    count = len(list(node.outputs()))
    if count == 0:
        return []
    return [result] if count == 1 else list(result)


def _constant(node):
    if node.output().type().kind() == "FunctionType":
        return None  # Its caller takes it from the graph.
    return node.output().toIValue()


def _grad_mode(node):
    """A `with` block's object. Gradient mode is all that TorchScript's `with` is used for."""
    mode = node.output().type().str().rpartition(".")[2]
    if mode not in ("no_grad", "enable_grad"):
        instead = ": capture the nn.Module that it was made of" if mode == "autocast" else ""
        raise CaptureError(f"the TorchScript module makes an object of type {mode} ({_location(node)}){instead}")
    return getattr(torch, mode)()


def _run_method(name, module, *args):
    if not isinstance(module, Mirror):
        return [None]  # the __init__ of a gradient mode
    # By the module's own call, so that the export sees whose operators these are; the root's has another signature.
    return [module.call(name, *args) if "forward" in module.__dict__ else module(name, *args)]


def _run_loop(node, values, count, condition, *carried):
    (body,) = node.blocks()
    names = [value.debugName() for value in body.inputs()]
    iteration = 0
    while condition and iteration < count:
        values.update(zip(names, (iteration, *carried), strict=True))
        condition, *carried = _run_block(body, values)
        iteration += 1
    return list(carried)


def _run_function(node, values):
    """Run a call of a free function. Its body cannot be asked for: it is had by inlining the call in a graph apart."""
    function, *arguments = node.inputs()
    graph: Any = torch._C.Graph()
    renamed = {}
    for argument in arguments:
        if argument.debugName() not in renamed:
            renamed[argument.debugName()] = graph.addInput()
            renamed[argument.debugName()].setType(argument.type())
    for original in (function.node(), node):
        clone = graph.createClone(original, lambda value: renamed[value.debugName()])
        graph.insertNode(clone)
        renamed[original.output().debugName()] = clone.output()
    graph.registerOutput(clone.output())
    torch._C._jit_pass_inline(graph)
    inputs = {argument.debugName(): values[argument.debugName()] for argument in arguments}
    return [run_graph(graph, tuple(inputs.values()))]


def _location(node) -> str:
    """File and line of the code that the node was made from, as TorchScript remembers it."""
    text = node.sourceRange().strip()
    scripted = re.search(r'File "([^"]*)", line (\d+)', text)
    traced = re.match(r"([^\n]*)\((\d+)\): ", text)
    found = scripted or traced
    return f"{found[1]}, line {found[2]}" if found else "place unknown"
