"""The user's optimizer: stock ones run natively, all others as they are."""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import torch

from .. import _core
from .criterion import guarded

# What the core makes updates with: name, options and groups of one of its own; or of another the name, what makes one
# step, what gives its state, and what takes it.
OptimizerForm: TypeAlias = (
    tuple[str, dict[str, Any], list[dict[str, Any]]]
    | tuple[str, Callable[..., None], Callable[[], dict[str, Any]], Callable[[dict[str, Any]], None]]
)

_NATIVE = {
    torch.optim.SGD: "SGD",
    torch.optim.Adam: "Adam",
    torch.optim.AdamW: "AdamW",
    torch.optim.NAdam: "NAdam",
    torch.optim.RMSprop: "RMSprop",
    torch.optim.Adagrad: "Adagrad",
}


class StageOptimizer:
    """The optimizer of one stage: stepped by the core where it can be, by itself otherwise.

    One that the core steps is made in torch, as `own`, only when somebody looks at it. The core is not kept: a node
    that leaves its cluster lets go of it.
    """

    def __init__(self, core, optimizer, options: dict):
        self._made = (optimizer, options)
        unique = {id(p): (name, p) for name, p in reversed(core.parameters().items()) if p.requires_grad}
        self._names = [name for name, _ in reversed(unique.values())]
        self._parameters = [parameter for _, parameter in reversed(unique.values())]
        self._native = form_without_torch(optimizer, options, len(self._parameters))
        self.own = self._step = None
        if self._native is None:
            self.make(core)

    def make(self, core) -> None:
        """Make it in torch, unless it is made; a stage without parameters has none."""
        if self.own is not None:
            return
        self.own = make_optimizer(*self._made, self._parameters)
        if self.own is None:
            return
        left_out = _left_out(self.own, self._parameters)
        if left_out:
            core.warn(_warning_of(self.own, [self._names[i] for i in left_out], len(self._parameters)))
        self._native = self._native or native_form(self.own, self._parameters)
        if self._native is not None:
            watch(self.own, core.set_option)
        self._step = getattr(self.own, "step", None)
        if isinstance(self.own, torch.optim.Optimizer):
            self.own.step = types.MethodType(_refuse_to_step, self.own)

    def take_state(self, core) -> None:
        """Have the one in torch show the state of the one that the core steps."""
        if self.own is not None and self._native is not None:
            for index, state in core.optimizer_state()["state"].items():
                self.own.state[self._parameters[index]] = state

    def for_core(self) -> OptimizerForm | None:
        """What the core makes its updates with; None where there is nothing to update."""
        if self._native is not None:
            name, groups = self._native
            return name, {}, groups
        if self.own is None:
            return None
        step, state = step_function(self._step, self._parameters), ForeignState(self.own, self._parameters)
        what = "the optimizer"
        return type(self.own).__name__, guarded(what, step), guarded(what, state.get), guarded(what, state.set)


class NamedOptimizer(torch.optim.Optimizer):
    """An optimizer of ravnest's own, by its name, as torch's schedulers know optimizers."""

    def __init__(self, params, name: str, options: dict):
        self.name = name
        defaults = _core.Optimizer(name, dict(options), []).groups()[0]
        defaults.pop("params")
        super().__init__(params, defaults)

    def step(self, closure=None) -> NoReturn:
        """The core steps it."""
        _refuse_to_step(self)


def _refuse_to_step(optimizer, closure=None) -> NoReturn:
    """What `step` of a node's optimizer does when a script calls it: a step without gradients would change nothing."""
    raise RuntimeError("the node steps its optimizer by itself: leave optimizer.step() out of your script")


def make_optimizer(optimizer, options: dict, parameters: list[torch.Tensor]):
    """What `optimizer` (a class, a function or a name) makes for `parameters`; None where there are none."""
    if optimizer is None or not parameters:
        return None
    if isinstance(optimizer, str):
        return NamedOptimizer(parameters, optimizer, options)
    if isinstance(optimizer, torch.optim.Optimizer):
        name = type(optimizer).__name__
        raise TypeError(
            f"optimizer= is a {name} that is made already, over parameters of its own: give the class "
            f"(optimizer={name}) and optimizer_params={{...}}, and each node makes one over its own stage"
        )
    made = optimizer(parameters, **options)
    _require_one_pass(made)
    return made


def _require_one_pass(optimizer) -> None:
    """TypeError for what a node cannot step: a batch is computed once, and gradients are dense."""
    name = type(optimizer).__name__
    step = getattr(optimizer, "step", None)
    closure = inspect.signature(step).parameters.get("closure") if step else None
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise TypeError(
            f"{name}.step() needs a closure that computes the loss again, and each batch is computed once: "
            "take an optimizer that needs a batch's gradients once, as SGD and Adam do"
        )
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise TypeError("SparseAdam takes sparse gradients only, and here they are dense: take Adam or Adagrad")


def _left_out(optimizer, parameters: list[torch.Tensor]) -> list[int]:
    """Which of `parameters` are in none of its groups: they never move. ValueError where that is so of all.

    What has no groups is taken at its word.
    """
    groups = getattr(optimizer, "param_groups", None)
    if not isinstance(groups, list | tuple):
        return []
    held = {id(parameter) for group in groups for parameter in group["params"]}
    left_out = [i for i, parameter in enumerate(parameters) if id(parameter) not in held]
    if len(left_out) == len(parameters):
        name = type(optimizer).__name__
        raise ValueError(
            f"optimizer= made {'an' if name[0] in 'AEIO' else 'a'} {name} of other parameters than it was given, so "
            f"nothing would be trained: hand on what it gets, as in lambda params: {name}(params). A node trains a "
            "copy of its own, not the tensors of a model that the script has"
        )
    return left_out


def _warning_of(optimizer, names: list[str], count: int) -> str:
    others = "" if len(names) == 1 else f" and {len(names) - 1} more"
    return (
        f"{type(optimizer).__name__} has {count - len(names)} of the {count} parameters that want gradients: "
        f"{names[0]}{others} will not be trained. Freeze what is meant to stay (requires_grad_(False))"
    )


def form_without_torch(optimizer, options: dict, count: int):
    """(name, groups) of what `optimizer` would make for so many parameters, where that is known beforehand, else None.

    Making one of torch's optimizers loads its compiler first, which takes a second; most scripts never look at it.
    """
    name = optimizer if isinstance(optimizer, str) else _NATIVE.get(optimizer)
    if name is None or count == 0 or not all(_plain(value) for value in options.values()):
        return None
    group = _known(name, options)
    try:
        _core.Optimizer(name, group, [])
    except (ValueError, TypeError):
        return None
    return name, [{**group, "params": list(range(count))}]


def native_form(optimizer, parameters: list[torch.Tensor]):
    """(name, groups) for the core to step it, or None where only the optimizer itself can."""
    name = optimizer.name if isinstance(optimizer, NamedOptimizer) else _NATIVE.get(type(optimizer))
    if name is None or "step" in vars(optimizer) or optimizer.state or _has_step_hooks(optimizer):
        return None
    index = {id(parameter): i for i, parameter in enumerate(parameters)}
    groups = []
    for group in optimizer.param_groups:
        if any(id(parameter) not in index for parameter in group["params"]):
            return None
        options = {key: value for key, value in group.items() if key != "params" and _plain(value)}
        if any(value for key, value in group.items() if key not in options and key != "params"):
            return None
        groups.append({**options, "params": [index[id(parameter)] for parameter in group["params"]]})
    try:
        _core.Optimizer(name, {}, [_known(name, group) for group in groups])
    except (ValueError, TypeError):
        return None
    return name, [_known(name, group) for group in groups]


def _has_step_hooks(optimizer) -> bool:
    return bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)


def _plain(value) -> bool:
    return isinstance(value, bool | int | float | str) or (
        isinstance(value, tuple | list) and all(isinstance(each, int | float) for each in value)
    )


def _known(name: str, group: dict) -> dict:
    """Without torch's switches for how, not what, is computed; those that change the result stay and may be refused."""
    return {
        key: value
        for key, value in group.items()
        if not (key in ("foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay") and not value)
        and not (key == "decoupled_weight_decay" and name == "AdamW")
    }


class Group(dict):
    """A param group whose changes are told to the optimizer that runs."""

    def __init__(self, values: dict, tell):
        super().__init__(values)
        self._tell = tell

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if key != "params" and _plain(value):
            self._tell(key, value)

    def __reduce__(self):
        return dict, (dict(self),)

    def update(self, *args, **kwargs):
        for key, value in dict(*args, **kwargs).items():
            self[key] = value


def watch(optimizer, tell) -> None:
    """Have `tell(group, option, value)` called for each option that is set in the optimizer's groups from now on."""

    def renew(*_):
        for i, group in enumerate(optimizer.param_groups):
            watched = Group(group, lambda key, value, i=i: tell(i, key, value))
            optimizer.param_groups[i] = watched
            for key, value in group.items():
                watched[key] = value

    optimizer.register_load_state_dict_pre_hook(_refuse_state)
    optimizer.register_load_state_dict_post_hook(renew)
    optimizer.register_step_pre_hook = optimizer.register_step_post_hook = _refuse_hook
    renew()


_IN_THE_FUNCTION = "in the function that is given as Node(optimizer=), and torch steps it with what it finds there"


def _refuse_state(_, state_dict):
    if state_dict.get("state"):
        raise RuntimeError(
            f"the node's core steps this optimizer and does not see this state: load it {_IN_THE_FUNCTION}"
        )


def _refuse_hook(hook):
    raise RuntimeError(f"the node's core steps this optimizer and calls no hooks: register them {_IN_THE_FUNCTION}")


def step_function(own_step, parameters: list[torch.Tensor]):
    """What makes one step of an optimizer that runs as it is, by its own step(): step(parameters, gradients)."""

    def step(_, gradients):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        own_step()
        for parameter in parameters:
            parameter.grad = None

    return step


def form_of_step(step: Callable[..., None]) -> OptimizerForm:
    """What the core makes its updates with, where there is a step(parameters, gradients) and no checkpoint."""

    def nothing_kept(*_):
        raise TypeError("a step of one's own has no state that a checkpoint could hold")

    return getattr(step, "__name__", "step"), step, nothing_kept, nothing_kept


class ForeignState:
    """What an optimizer that runs as it is keeps, as a checkpoint holds it: tensors, numbers and strings."""

    def __init__(self, optimizer, parameters: list[torch.Tensor]):
        self._optimizer, self._parameters = optimizer, parameters

    def get(self) -> dict[str, Any]:
        """As a state_dict, whose parameters are numbered as the node's."""
        own, name = self._optimizer, type(self._optimizer).__name__
        if not isinstance(getattr(own, "state", None), Mapping) or not isinstance(
            getattr(own, "param_groups", None), list
        ):
            raise TypeError(
                f"a checkpoint cannot find what {name} keeps: it has no `state` and `param_groups` as an optimizer of "
                "torch.optim has"
            )
        index = {id(parameter): i for i, parameter in enumerate(self._parameters)}
        state = {}
        for parameter, kept in own.state.items():
            if id(parameter) in index:
                state[index[id(parameter)]] = {key: _storable(name, key, value) for key, value in kept.items()}
        groups = []
        for group in own.param_groups:
            options = {key: _storable(name, key, value) for key, value in group.items() if key != "params"}
            groups.append(options | {"params": [index[id(p)] for p in group["params"] if id(p) in index]})
        return {"state": state, "param_groups": groups}

    def set(self, state: dict[str, Any]) -> None:
        """Take back what `get` gave."""
        for own, saved in zip(self._optimizer.param_groups, state["param_groups"], strict=True):
            for key, value in saved.items():
                if key != "params":
                    own[key] = tuple(value) if isinstance(own.get(key), tuple) else value
        for index, kept in state["state"].items():
            parameter = self._parameters[index]
            self._optimizer.state[parameter] = {key: _own_copy(value, parameter) for key, value in kept.items()}


def _storable(name: str, key: str, value):
    if value is None or isinstance(value, torch.Tensor) or _plain(value):
        return value
    raise TypeError(
        f"a checkpoint cannot hold what {name} keeps as {key}, a {type(value).__name__}: it holds tensors, numbers and "
        "strings"
    )


def _own_copy(value, parameter: torch.Tensor):
    if not isinstance(value, torch.Tensor):
        return value
    # A counter stays where torch keeps counters; what has the parameter's sizes lives beside it.
    return value.clone() if value.dim() == 0 else value.to(parameter.device, copy=True)
