"""The native optimizers and gradient clipping against torch's own, bit for bit."""

import copy
import math

import pytest
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from ravnest import _core

STEPS = 25
DTYPES = [torch.float32, torch.float64, torch.bfloat16]
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")

# name, options; each also with what CHANGES says.
VARIANTS = [
    ("SGD", {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.85, 0.98), "eps": 1e-5, "weight_decay": 0.02}),
    ("Adam", {"amsgrad": True}),
    ("Adam", {"betas": (0.3, 0.9), "weight_decay": 0.02, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "amsgrad": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.05, "betas": (0.4, 0.99), "weight_decay": 0.02, "momentum_decay": 0.01}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RMSprop", {}),
    ("RMSprop", {"centered": True, "alpha": 0.9}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.01, "alpha": 0.3}),
    ("RMSprop", {"momentum": 0.5, "centered": True, "eps": 1e-4}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "weight_decay": 0.01}),
]
CHANGES = [{}, {"maximize": True}]


def described(variant):
    name, options = variant
    return "-".join([name, *(f"{key}={value}" for key, value in options.items())])


def tensors(seed, dtype, gaps=True):
    """Parameters of all kinds: scalar, empty, odd sizes, transposed, channels last and, if asked for, with gaps."""
    torch.manual_seed(seed)
    made = [
        torch.randn(()),
        torch.randn(0, 3),
        torch.randn(1),
        torch.randn(37),
        torch.randn(8, 5, 3),
        torch.randn(19, 33).t(),
        torch.randn(4, 6, 5, 5).to(memory_format=torch.channels_last),
        torch.randn(130, 129),
    ]
    made = [tensor.to(dtype) for tensor in made]
    return [*made, torch.randn(21, 14).to(dtype)[:, ::2]] if gaps else made


class Pair:
    """torch.optim on one copy of the parameters, ours on another, always with the same gradients."""

    def __init__(self, name, options, start, groups=None):
        self.theirs = [torch.nn.Parameter(tensor.detach()) for tensor in map(copied, start)]
        self.ours = [copied(tensor).requires_grad_() for tensor in start]
        listed = self.theirs
        if groups:
            listed = [{**group, "params": [self.theirs[i] for i in group["params"]]} for group in groups]
        self.torch = getattr(torch.optim, name)(listed, **options)
        self.core = _core.Optimizer(name, options, groups or [])

    def step(self, missing=()):
        gradients = [None if i in missing else torch.randn_like(p) for i, p in enumerate(self.theirs)]
        for parameter, gradient in zip(self.theirs, gradients, strict=True):
            parameter.grad = gradient
        kept = [gradient if gradient is None else gradient.clone() for gradient in gradients]
        self.torch.step()
        self.core.step(self.ours, gradients)
        assert all(before is None or torch.equal(before, after) for before, after in zip(kept, gradients, strict=True))

    def check(self):
        for i, (theirs, ours) in enumerate(zip(self.theirs, self.ours, strict=True)):
            assert same(theirs, ours), f"parameter {i} of sizes {tuple(theirs.shape)}"
        for i, kept in self.core.state()["state"].items():
            theirs = {name: tensor for name, tensor in self.torch.state[self.theirs[i]].items() if tensor is not None}
            assert theirs.keys() == kept.keys()
            assert all(same(theirs[name], kept[name]) for name in kept), f"what is kept for parameter {i}"


def copied(tensor):
    """A copy with the same strides, gaps included."""
    if tensor.untyped_storage().nbytes() == 0:
        return tensor.detach().clone()
    whole = tensor.detach().as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0).clone()
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def same(one, other):
    """Equal to the bit, with NaN equal to itself."""
    assert one.dtype == other.dtype and one.shape == other.shape
    return torch.equal(one.detach().nan_to_num(nan=1e30), other.detach().nan_to_num(nan=1e30))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS, ids=described)
def test_every_step_is_torchs(variant, dtype):
    name, options = variant
    for seed, change in enumerate(CHANGES):
        pair = Pair(name, options | change, tensors(seed, dtype))
        for _ in range(STEPS):
            pair.step()
            pair.check()


def fused_cases():
    for variant in VARIANTS:
        for dtype in DTYPES if variant[0] in FUSED else ():
            if variant[0] != "SGD" or dtype != torch.bfloat16:  # see the next test
                yield pytest.param(variant, dtype, id=f"{described(variant)}-{dtype}")


@pytest.mark.parametrize(("variant", "dtype"), list(fused_cases()))
def test_every_fused_step_is_torchs_fused(variant, dtype):
    name, options = variant
    for seed, change in enumerate(CHANGES):
        # Torch's fused operators misread parameters with gaps.
        pair = Pair(name, options | change | {"fused": True}, tensors(seed, dtype, gaps=False))
        for _ in range(STEPS):
            pair.step()
            pair.check()


def test_fused_sgd_in_bfloat16_is_torchs_unfused():
    """torch 2.13's fused one does nothing to whole vectors of elements (pytorch issue 191763)."""
    pair = Pair("SGD", {"momentum": 0.9}, tensors(2, torch.bfloat16))
    pair.core = _core.Optimizer("SGD", {"momentum": 0.9, "fused": True})
    for _ in range(STEPS):
        pair.step()
        pair.check()


@pytest.mark.parametrize("name", [name for name in _core.optimizer_names() if name != "LAMB"])
def test_a_missing_gradient_leaves_parameter_and_state_alone(name):
    pair = Pair(name, {"lr": 0.01}, tensors(3, torch.float32))
    for step in range(12):
        pair.step(missing={step % 5, 6, 3 if step < 4 else 7})
        pair.check()
    if name == "SGD":  # keeps nothing without momentum
        return
    updated = {i for i, p in enumerate(pair.theirs) if pair.torch.state.get(p, {}).get("step", 0) > 0}
    assert pair.core.state()["state"].keys() == updated


@pytest.mark.parametrize("fused", [False, True])
def test_momentum_begins_where_a_parameter_gets_its_first_gradient_late(fused):
    start = tensors(4, torch.float32, gaps=False)
    options = {"lr": 0.1, "momentum": 0.9}
    late = _core.Optimizer("SGD", options | {"fused": fused})
    own = [copied(tensor) for tensor in start]
    alone = Pair("SGD", options | {"fused": fused}, start[4:])
    torch.manual_seed(5)
    late.step(own, [torch.randn_like(t) if i < 4 else None for i, t in enumerate(own)])
    for _ in range(3):
        alone.step()
        late.step(own, [*map(torch.randn_like, own[:4]), *(p.grad for p in alone.theirs)])
    assert all(map(same, alone.theirs, own[4:]))


@pytest.mark.parametrize("name", [name for name in _core.optimizer_names() if name != "LAMB"])
def test_groups_have_their_own_options(name):
    groups = [{"params": [0, 3, 5], "lr": 0.3}, {"params": [7, 1], "weight_decay": 0.1}]
    pair = Pair(name, {"lr": 0.02}, tensors(6, torch.float32), groups)
    for _ in range(10):
        pair.step()
        pair.check()
    for theirs, ours in zip(pair.torch.param_groups, pair.core.groups(), strict=True):
        assert {key: theirs[key] for key in ours if key not in ("params", "fused")} == {
            key: value for key, value in ours.items() if key not in ("params", "fused")
        }


def test_counters_are_doubles_where_torchs_are(request):
    request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
    torch.set_default_dtype(torch.float64)
    for name, options in [("NAdam", {}), ("Adam", {}), ("Adam", {"fused": True})]:
        pair = Pair(name, options, tensors(12, torch.float32, gaps=False))
        for _ in range(5):
            pair.step()
            pair.check()


def test_defaults_are_torchs():
    parameter = torch.nn.Parameter(torch.ones(1))
    for name in _core.optimizer_names():
        if name == "LAMB":
            continue
        theirs = getattr(torch.optim, name)([parameter]).param_groups[0]
        (ours,) = _core.Optimizer(name).groups()
        foreign = theirs.keys() - ours.keys() - {"foreach", "capturable", "differentiable"}
        assert not foreign
        assert all(theirs[key] == value or theirs[key] is None for key, value in ours.items() if key != "params")


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_options_changed_between_steps_count_from_the_next(name, fused):
    pair = Pair(name, {"fused": fused}, tensors(7, torch.float32, gaps=False))
    for step in range(20):
        lr = 0.1 / (step + 1)
        pair.torch.param_groups[0]["lr"] = lr
        pair.core.set_option(0, "lr", lr)
        pair.step()
        pair.check()


@pytest.mark.parametrize("variant", VARIANTS, ids=described)
def test_torchs_state_dict_loads_and_goes_on(variant):
    name, options = variant
    pair = Pair(name, options, tensors(8, torch.float32))
    for _ in range(3):
        pair.step()
    state = copy.deepcopy(pair.torch.state_dict())
    pair.core = _core.Optimizer(name)
    pair.core.load(pair.ours, state)
    for _ in range(5):
        pair.step()
        pair.check()


@pytest.mark.parametrize("variant", VARIANTS, ids=described)
def test_torch_goes_on_from_our_state(variant):
    name, options = variant
    pair = Pair(name, options, tensors(9, torch.float32))
    for _ in range(3):
        pair.step()
    ours = copy.deepcopy(pair.core.state())
    groups = [
        theirs | own for theirs, own in zip(pair.torch.state_dict()["param_groups"], ours["param_groups"], strict=True)
    ]
    pair.torch = getattr(torch.optim, name)(pair.theirs)
    pair.torch.load_state_dict({"state": ours["state"], "param_groups": groups})
    for _ in range(5):
        pair.step()
        pair.check()


def lamb(parameter, gradient, state, step, lr, betas, eps, weight_decay):
    """The paper's algorithm 2, in double precision."""
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * gradient
    state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * gradient**2
    direction = state["m"] / (1 - betas[0] ** step) / ((state["v"] / (1 - betas[1] ** step)).sqrt() + eps)
    direction = direction + weight_decay * parameter
    lengths = parameter.norm(), direction.norm()
    ratio = lengths[0] / lengths[1] if min(lengths) > 0 else 1.0
    return parameter - lr * ratio * direction


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)], ids=str)
def test_lamb_follows_the_paper(dtype, tolerance):
    options = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}
    own = [*tensors(10, dtype), torch.zeros(7, dtype=dtype)]
    reference = [tensor.double().clone() for tensor in own]
    states = [{} for _ in own]
    optimizer = _core.Optimizer("lamb", options)
    for step in range(1, STEPS + 1):
        gradients = [torch.randn_like(tensor) for tensor in own]
        optimizer.step(own, gradients)
        for i, gradient in enumerate(gradients):
            reference[i] = lamb(reference[i], gradient.double(), states[i], step, **options)
            torch.testing.assert_close(own[i].double(), reference[i], rtol=tolerance, atol=tolerance)


def test_lamb_moves_by_the_rate_times_the_length_of_the_parameter():
    parameter = torch.randn(50, dtype=torch.float64)
    before = parameter.clone()
    _core.Optimizer("lamb", {"lr": 0.01}).step([parameter], [torch.randn(50, dtype=torch.float64)])
    assert math.isclose((parameter - before).norm(), 0.01 * before.norm(), rel_tol=1e-9)


def test_an_optimizer_from_outside_is_called_with_its_groups():
    parameter, calls = torch.ones(3), []

    def step(groups, parameters, gradients):
        calls.append((groups, gradients))
        parameters[0].sub_(groups[0]["lr"] * gradients[0])

    optimizer = _core.Optimizer.from_functions("mine", [{"lr": 0.5, "params": [0, 1]}], step)
    optimizer.step([parameter, parameter], [torch.ones(3), None])
    assert torch.equal(parameter, torch.full((3,), 0.5))
    assert calls[0][0] == [{"lr": 0.5, "params": [0, 1]}] and calls[0][1][1] is None


def test_what_an_optimizer_from_outside_raises_arrives():
    def step(groups, parameters, gradients):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        _core.Optimizer.from_functions("mine", [], step).step([], [])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Adamm", {}, "there is no optimizer Adamm; there are SGD, Adam, AdamW, NAdam, RMSprop, Adagrad and LAMB"),
        ("SGD", {"momentun": 0.9}, "SGD has no option momentun; it has lr, momentum, dampening"),
        ("SGD", {"nesterov": True}, "nesterov needs a momentum above 0"),
        ("Adam", {"betas": (0.9, 1.5)}, "betas has to be from 0 to below 1"),
        ("Adam", {"amsgrad": 1}, "amsgrad has to be true or false, not 1"),
    ],
)
def test_what_makes_no_sense_is_a_value_error(name, options, message):
    with pytest.raises(ValueError, match=message):
        _core.Optimizer(name, options)


def clipped(clip, dtypes, seed):
    """Gradients after torch's and our clipping."""
    torch.manual_seed(seed)
    sizes = [(7,), (), (33, 65), (5, 3, 2), (0,)]
    parameters = [torch.nn.Parameter(torch.randn(size, dtype=dtypes[i % len(dtypes)])) for i, size in enumerate(sizes)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter) * 3
    parameters.insert(2, torch.nn.Parameter(torch.ones(4)))
    ours = [None if p.grad is None else p.grad.clone() for p in parameters]
    results = clip(parameters, ours)
    for parameter, own in zip(parameters, ours, strict=True):
        assert own is None if parameter.grad is None else same(parameter.grad, own)
    return results


MIXTURES = [*([dtype] for dtype in DTYPES), DTYPES]


@pytest.mark.parametrize("dtypes", MIXTURES, ids=str)
@pytest.mark.parametrize("norm_type", [2.0, math.inf, 1.0])
@pytest.mark.parametrize("max_norm", [0.1, 0.37, 1.0, 3.3, 1e6])
def test_clipping_by_norm_is_torchs(max_norm, norm_type, dtypes):
    def clip(parameters, ours):
        if norm_type == math.inf:  # of which an empty tensor has none
            parameters[-1].grad = ours[-1] = None
        theirs = clip_grad_norm_(parameters, max_norm, norm_type)
        return theirs, _core.clip_grad_norm(ours, max_norm, norm_type)

    for seed in range(5):
        theirs, own = clipped(clip, dtypes, seed)
        assert same(theirs, own)


@pytest.mark.parametrize("dtypes", MIXTURES, ids=str)
def test_clipping_by_value_is_torchs(dtypes):
    clipped(lambda parameters, ours: (clip_grad_value_(parameters, 0.7), _core.clip_grad_value(ours, 0.7)), dtypes, 11)


def test_a_norm_that_is_not_finite_is_an_error_where_asked_for_and_changes_nothing():
    gradients = [torch.ones(3), torch.tensor([1.0, math.inf])]
    with pytest.raises(_core.Error, match="norm is inf"):
        _core.clip_grad_norm(gradients, 1.0, error_if_nonfinite=True)
    assert torch.equal(gradients[0], torch.ones(3))
    _core.clip_grad_norm(gradients, 1.0)
    assert gradients[0].eq(0).all()


def test_clipping_nothing_gives_a_norm_of_zero():
    assert _core.clip_grad_norm([None], 1.0).item() == 0.0
