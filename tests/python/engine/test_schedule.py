"""Learning-rate schedules against torch.optim.lr_scheduler: the same doubles, over hundreds of steps."""

import math

import pytest
import torch
from torch.optim import lr_scheduler

from ravnest import _core

pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
STEPS = 400
GROUPS = [{"params": [0], "lr": 0.3}, {"params": [1]}]

PLAIN = [
    ("StepLR", {"step_size": 7}),
    ("StepLR", {"step_size": 1, "gamma": 0.97}),
    ("MultiStepLR", {"milestones": [5, 5, 30, 200], "gamma": 0.3}),
    ("CosineAnnealingLR", {"T_max": 50}),
    ("CosineAnnealingLR", {"T_max": 37, "eta_min": 0.001}),
    ("CosineAnnealingLR", {"T_max": 1}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.001, "total_iters": 150}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 90}),
    ("OneCycleLR", {"max_lr": 0.1, "total_steps": STEPS, "cycle_momentum": False}),
    ("OneCycleLR", {"max_lr": [0.1, 0.7], "epochs": 40, "steps_per_epoch": 10, "three_phase": True}),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": STEPS, "anneal_strategy": "linear", "pct_start": 0.13}),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": STEPS, "div_factor": 3.0, "base_momentum": [0.5, 0.6]}),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": STEPS, "pct_start": 0.0}),
]


def described(variant):
    return "-".join([variant[0], *(f"{key}={value}" for key, value in variant[1].items())])


def optimizers(name="Adam", **options):
    """torch's and ours, with the same groups."""
    parameters = [torch.nn.Parameter(torch.ones(1)) for _ in GROUPS]
    groups = [{**group, "params": [parameters[i] for i in group["params"]]} for group in GROUPS]
    options = {"lr": 0.05, **options}
    theirs = getattr(torch.optim, name)(groups, **options)
    return theirs, _core.Optimizer(name, options, GROUPS)


def check(theirs, ours):
    for one, other in zip(theirs.param_groups, ours.groups(), strict=True):
        assert all(one[key] == value for key, value in other.items() if key not in ("params", "fused"))
        assert one.keys() - other.keys() <= {"foreach", "capturable", "differentiable", "fused"}


def check_steps(theirs, ours, schedule, own):
    check(theirs, ours)
    for _ in range(STEPS):
        schedule.step()
        own.step()
        check(theirs, ours)
        assert own.last_lr() == schedule.get_last_lr()


@pytest.mark.parametrize("optimizer", ["Adam", "RMSprop"])
@pytest.mark.parametrize("variant", PLAIN, ids=described)
def test_values_are_torchs(variant, optimizer):
    name, options = variant
    theirs, ours = optimizers(optimizer)
    schedule = getattr(lr_scheduler, name)(theirs, **options)
    own = _core.LrSchedule(name.lower(), options, ours)
    check_steps(theirs, ours, schedule, own)


@pytest.mark.parametrize("variant", PLAIN[:9], ids=described)
def test_a_change_by_hand_in_between_is_carried_on_as_torch_does(variant):
    name, options = variant
    theirs, ours = optimizers()
    schedule, own = getattr(lr_scheduler, name)(theirs, **options), _core.LrSchedule(name, options, ours)
    for step in range(120):
        if step == 40:
            theirs.param_groups[1]["lr"] = 0.123
            ours.set_option(1, "lr", 0.123)
        schedule.step()
        own.step()
        check(theirs, ours)


def test_two_schedules_chain():
    theirs, ours = optimizers()
    both = [("CosineAnnealingLR", {"T_max": 30}), ("StepLR", {"step_size": 5, "gamma": 0.9})]
    schedules = [getattr(lr_scheduler, name)(theirs, **options) for name, options in both]
    own = [_core.LrSchedule(name, options, ours) for name, options in both]
    for _ in range(STEPS):
        for schedule in (*schedules, *own):
            schedule.step()
        check(theirs, ours)


@pytest.mark.parametrize("second", [v for v in PLAIN if v[0] != "OneCycleLR"], ids=described)
def test_warming_up_and_then_another(second):
    theirs, ours = optimizers()
    parts = [("LinearLR", {"start_factor": 0.01, "total_iters": 20}), second]
    schedule = lr_scheduler.SequentialLR(
        theirs, [getattr(lr_scheduler, name)(theirs, **options) for name, options in parts], [20]
    )
    own = _core.LrSchedule.sequence(parts, [20], ours)
    check_steps(theirs, ours, schedule, own)


def test_one_cycle_within_a_sequence_of_three():
    theirs, ours = optimizers("SGD", momentum=0.9)
    one_cycle = {"max_lr": 0.4, "total_steps": 100}
    factor = lambda epoch: 0.95**epoch  # noqa: E731
    schedule = lr_scheduler.SequentialLR(
        theirs,
        [
            lr_scheduler.LambdaLR(theirs, factor),
            lr_scheduler.OneCycleLR(theirs, **one_cycle),
            lr_scheduler.CosineAnnealingLR(theirs, 25),
        ],
        [10, 110],
    )
    own = _core.LrSchedule.sequence(
        [factor, ("OneCycleLR", one_cycle), ("CosineAnnealingLR", {"T_max": 25})], [10, 110], ours
    )
    for _ in range(STEPS):
        schedule.step()
        own.step()
        check(theirs, ours)


def test_functions_by_group():
    theirs, ours = optimizers()
    factors = [lambda epoch: 1 / (1 + epoch), lambda epoch: 0.9**epoch]
    schedule, own = lr_scheduler.LambdaLR(theirs, factors), _core.LrSchedule.from_functions(factors, ours)
    for _ in range(STEPS):
        schedule.step()
        own.step()
        check(theirs, ours)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"factor": 0.5, "patience": 2, "cooldown": 3},
        {"factor": 0.5, "patience": 0, "min_lr": [0.01, 0.002]},
        {"mode": "max", "threshold": 0.05, "patience": 1, "factor": 0.7},
        {"threshold_mode": "abs", "threshold": 0.1, "patience": 1, "factor": 0.3, "eps": 1e-4},
        {"mode": "max", "threshold_mode": "abs", "patience": 3},
    ],
    ids=str,
)
def test_plateaus_are_torchs(options):
    theirs, ours = optimizers()
    schedule, own = (
        lr_scheduler.ReduceLROnPlateau(theirs, **options),
        _core.LrSchedule("ReduceLROnPlateau", options, ours),
    )
    torch.manual_seed(0)
    for step in range(STEPS):
        metric = math.nan if step == 50 else math.exp(-step / 60) + 0.2 * torch.rand(()).item()
        schedule.step(metric)
        own.step(metric)
        check(theirs, ours)
        assert own.last_lr() == schedule._last_lr


def steps_with(optimizer, name, options, steps):
    """The optimizer's own parameters after training under a schedule."""
    torch.manual_seed(1)
    start = [torch.randn(40) for _ in GROUPS]
    theirs = [torch.nn.Parameter(tensor.clone()) for tensor in start]
    torch_optimizer = getattr(torch.optim, optimizer)(
        [{**group, "params": [theirs[i] for i in group["params"]]} for group in GROUPS], lr=0.05
    )
    own = _core.Optimizer(optimizer, {"lr": 0.05}, GROUPS)
    schedule, own_schedule = (
        getattr(lr_scheduler, name)(torch_optimizer, **options),
        _core.LrSchedule(name, options, own),
    )
    for _ in range(steps):
        for parameter in theirs:
            parameter.grad = torch.randn(40)
        torch_optimizer.step()
        own.step(start, [parameter.grad for parameter in theirs])
        schedule.step()
        own_schedule.step()
    return theirs, start


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "NAdam", "RMSprop"])
def test_a_cycle_of_rates_and_momenta_trains_as_torchs(optimizer):
    theirs, ours = steps_with(optimizer, "OneCycleLR", {"max_lr": 0.1, "total_steps": 120}, 120)
    assert all(torch.equal(one, other) for one, other in zip(theirs, ours, strict=True))


@pytest.mark.parametrize("variant", [*PLAIN, ("sequence", {})], ids=described)
def test_a_saved_schedule_goes_on(variant):
    name, options = variant
    parts = [("LinearLR", {"total_iters": 60}), ("CosineAnnealingLR", {"T_max": 50})]

    def made(optimizer):
        if name == "sequence":
            return _core.LrSchedule.sequence(parts, [60], optimizer)
        return _core.LrSchedule(name, options, optimizer)

    (_, first), (_, second) = optimizers(), optimizers()
    schedule = made(first)
    for _ in range(55):
        schedule.step()
    other = made(second)
    second.load([torch.ones(1), torch.ones(1)], first.state())
    other.load(schedule.state())
    assert second.groups() == first.groups()
    for _ in range(100):
        schedule.step()
        other.step()
        assert second.groups() == first.groups() and schedule.state() == other.state()


def test_a_saved_plateau_goes_on():
    (_, first), (_, second) = optimizers(), optimizers()
    schedules = [_core.LrSchedule("ReduceLROnPlateau", {"patience": 3}, each) for each in (first, second)]
    schedules[0].step(1.0)
    schedules[0].step(2.0)
    schedules[1].load(schedules[0].state())
    for metric in (1.0, 1.0, 1.0, 1.0, 0.5):
        schedules[0].step(metric)
        schedules[1].step(metric)
        assert second.groups() == first.groups() and schedules[0].state() == schedules[1].state()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Step", {}, "there is no schedule Step; there are StepLR, MultiStepLR, CosineAnnealingLR"),
        ("StepLR", {}, "StepLR needs step_size"),
        ("StepLR", {"step_size": 0}, "step_size has to be at least 1, not 0"),
        ("StepLR", {"step_size": 2.5}, "step_size has to be a whole number, not 2.5"),
        ("MultiStepLR", {"milestones": [2.5]}, "a milestone must be a whole number, not 2.5"),
        ("CosineAnnealingLR", {"T_max": 5, "eta": 1}, "has no option eta; it has T_max and eta_min"),
        ("OneCycleLR", {"max_lr": 0.1}, "needs total_steps, or epochs and steps_per_epoch"),
        ("OneCycleLR", {"max_lr": [1, 2, 3], "total_steps": 5}, "max_lr has 3 numbers for 2 groups"),
        ("OneCycleLR", {"max_lr": 0.1, "total_steps": 5, "anneal_strategy": "x"}, "must be cos or linear, not x"),
        ("LinearLR", {"start_factor": 0.0}, "start_factor has to be above 0"),
        ("ReduceLROnPlateau", {"mode": "up"}, "mode must be min or max, not up"),
    ],
)
def test_what_makes_no_sense_is_a_value_error_and_changes_nothing(name, options, message):
    _, ours = optimizers()
    before = ours.groups()
    with pytest.raises(ValueError, match=message):
        _core.LrSchedule(name, options, ours)
    assert ours.groups() == before


def test_momentum_cannot_be_cycled_where_there_is_none():
    ours = _core.Optimizer("Adagrad")
    with pytest.raises(ValueError, match="no momentum to cycle"):
        _core.LrSchedule("OneCycleLR", {"max_lr": 0.1, "total_steps": 5}, ours)


def test_one_cycle_ends_with_its_last_step():
    _, ours = optimizers()
    schedule = _core.LrSchedule("OneCycleLR", {"max_lr": 0.1, "total_steps": 5}, ours)
    for _ in range(5):
        schedule.step()
    before = ours.groups()
    with pytest.raises(ValueError, match="made for 5 steps"):
        schedule.step()
    assert ours.groups() == before


def test_a_plateau_needs_a_metric_and_no_other_schedule_takes_one():
    _, ours = optimizers()
    with pytest.raises(ValueError, match="goes by a metric"):
        _core.LrSchedule("ReduceLROnPlateau", {}, ours).step()
    with pytest.raises(ValueError, match="StepLR takes no metric"):
        _core.LrSchedule("StepLR", {"step_size": 1}, ours).step(1.0)
    with pytest.raises(ValueError, match="cannot be a part of SequentialLR"):
        _core.LrSchedule.sequence([("ReduceLROnPlateau", {})], [], ours)
