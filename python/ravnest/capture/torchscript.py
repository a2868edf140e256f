"""TorchScript modules as nn.Modules that torch.export can trace.

torch.export refuses a ScriptModule, and a ScriptModule called inside a traced forward runs in TorchScript's own
interpreter, where every size is a plain number: the batch size would be baked in, and weights would turn into constants
without a name. So the C++ front end walks the script and records its operator calls, with sizes as values, and
torch.export traces a module that makes the same calls.
"""

import importlib
import inspect
import operator

import torch
from torch.fx import traceback
from torch.utils import _pytree as pytree

from .. import _core
from ..engine.tree_spec import read_spec
from ..errors import CaptureError


def replay(script: torch.jit.ScriptModule, args: tuple, kwargs: dict) -> torch.nn.Module:
    """An nn.Module over the same parameters and buffers that makes the calls that `script` makes with this example.

    They are those of the modes that the script's parts stand in. A traced module has its mode baked in. CaptureError,
    with the place in the script, where the calls cannot be recorded.
    """
    signature = _signature(script)
    try:
        recording = _core.record_script(script._c, _positional(signature, args, kwargs))
    except (_core.Error, TypeError) as error:
        raise CaptureError(f"the model cannot be captured: {error}") from error
    return _Replay(script, signature, recording)


def _signature(script) -> inspect.Signature:
    parameters = []
    for argument in script._c._get_method("forward").schema.arguments[1:]:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        parameters.append(inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(parameters)


def _positional(signature, args, kwargs) -> list:
    """The arguments by position, up to the last that is given."""
    bound = signature.bind(*args, **kwargs)
    names = list(signature.parameters)
    count = max((names.index(name) + 1 for name in bound.arguments), default=0)
    bound.apply_defaults()
    return list(bound.args[:count])


class _Replay(torch.nn.Module):
    def __init__(self, script, signature, recording):
        super().__init__()
        _adopt(self, script, {})
        own = {
            name for pairs in (self.named_parameters, self.named_buffers) for name, _ in pairs(remove_duplicate=False)
        }
        self._held = [name for name, _ in recording["inputs"] if name]
        # Tensors in other attributes of the script are constants to torch.export, as those in its code are.
        self._constants = recording["constants"]
        for name in {*self._held} - own - self._constants.keys():
            self._constants[name] = operator.attrgetter(name)(script)
        self._run = _Guarded(recording).run
        self._out_spec = read_spec(recording["out_spec"])

        def forward(*args, **kwargs):
            return self._replay(_positional(signature, args, kwargs))

        # torch.export names the graph's inputs after the signature that it finds here.
        forward.__signature__ = signature
        self.forward = forward

    def _replay(self, args):
        # Looked up at every call: torch.export puts tensors of its own in the weights' place.
        held = [self._tensor(name) for name in self._held]
        given = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        with traceback.preserve_node_meta():
            results = self._run(*held, *given)
        return pytree.tree_unflatten(results, self._out_spec)

    def _tensor(self, name):
        return self._constants[name] if name in self._constants else operator.attrgetter(name)(self)


def _adopt(module, script, known: dict):
    """Register the script's parameters and buffers in `module`, under their names; names of one tensor share it.

    `known` holds every parameter by the id of the script's tensor, with that tensor: an id is good while it lives.
    """
    for name, tensor in script._parameters.items():
        if id(tensor) not in known:
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            own = tensor if is_parameter else torch.nn.Parameter(tensor, tensor.requires_grad)
            known[id(tensor)] = (own, tensor)
        module.register_parameter(name, known[id(tensor)][0])
    for name, buffer in script._buffers.items():
        module.register_buffer(name, buffer)
    for name, child in script._modules.items():
        module.add_module(name, torch.nn.Module())
        _adopt(getattr(module, name), child, known)
    module.training = script.training


class _Guarded(torch.fx.Interpreter):
    """Makes the recorded calls. Where the script took a decision by a size, it asks for that size again, so that
    torch.export knows for which sizes the recording holds."""

    def __init__(self, recording):
        self._expected = {}
        super().__init__(torch.fx.GraphModule(torch.nn.Module(), self._graph(recording)))

    def _graph(self, recording):
        graph = torch.fx.Graph()
        values = {id: graph.placeholder(f"input_{id}") for _, id in recording["inputs"]}

        def resolved(arguments):
            return pytree.tree_map_only(_core.Value, lambda value: values[value.id], arguments)

        for target, args, kwargs, results, stack in recording["operators"]:
            node = graph.call_function(_function(target), tuple(resolved(args)), resolved(kwargs))
            node.meta["nn_module_stack"] = dict(_parts(stack))
            if len(results) == 1:
                _bind(graph, values, results[0], node)
            else:
                _bind(graph, values, results, node)
        for value, expected in recording["guards"]:
            self._expected.setdefault(values[value].name, []).append(expected)
        graph.output(resolved(recording["outputs"]))
        return graph

    def run_node(self, n):
        result = super().run_node(n)
        for expected in self._expected.get(n.name, ()):
            bool(result if isinstance(expected, bool) else result == expected)
        return result


def _bind(graph, values, result, node):
    """Give the values of `result`, of a value or a list of results, the places in what `node` returns."""
    if isinstance(result, _core.Value):
        values[result.id] = node
    elif isinstance(result, list):
        for position, each in enumerate(result):
            if each is not None:
                _bind(graph, values, each, graph.call_function(operator.getitem, (node, position)))


def _function(target: str):
    """What "torch.ops.aten.add.Tensor" or "_operator.mul" names. The name is the front end's own."""
    module, _, rest = target.partition(".")
    return operator.attrgetter(rest)(importlib.import_module(module))


def _parts(stack: str):
    """A module stack from its text, "key,path,class;key,path,class", as torch.fx has it."""
    for part in filter(None, stack.split(";")):
        key, path, kind = part.split(",", 2)
        yield key, (path, kind)
