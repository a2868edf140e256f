"""Optimizers, schedulers, rates and clipping of Nodes: what a cluster makes of them is what one process would."""

import pytest
import torch
from support.plain_run import assert_same, plain, script
from support.small_net import criterion, loaders
from torch import nn

from ravnest import Trainer


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
        (torch.optim.Adam, {}),
        (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    ],
)
def test_a_synchronous_run_is_that_of_plain_pytorch(cluster, optimizer, options):
    cluster.run(script(optimizer=optimizer, optimizer_params=options))
    assert_same(cluster, plain(optimizer=optimizer, options=options))


class Rule(torch.optim.Optimizer):
    """An optimizer that nobody knows."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.state[parameter]["seen"] = self.state[parameter].get("seen", 0) + 1
                    parameter.sub_(parameter.grad.sign(), alpha=group["lr"])


@pytest.mark.parametrize("optimizer", [Rule, lambda params, lr: Rule(params, lr)])
def test_any_optimizer_works(cluster, optimizer):
    results = cluster.run(script(optimizer=optimizer, optimizer_params={"lr": 0.01}))
    assert_same(cluster, plain(optimizer=Rule, options={"lr": 0.01}))
    assert all(state["seen"] == 21 for state in results["node_1"]["state"].values())


def test_a_subclass_of_a_stock_optimizer_is_its_own_optimizer(cluster):
    class Doubled(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            super().step(closure)

    cluster.run(script(optimizer=Doubled, optimizer_params={"lr": 0.02}))
    assert_same(cluster, plain(optimizer=Doubled, options={"lr": 0.02}))


@pytest.mark.parametrize("by_epoch", [True, False])
@pytest.mark.parametrize(
    "scheduler",
    [
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    ],
)
def test_schedulers_step_as_in_one_process(cluster, scheduler, by_epoch):
    results = cluster.run(script(lr_scheduler=scheduler, lr_step_on_epoch_change=by_epoch))
    expected = plain(scheduler=scheduler, by_epoch=by_epoch)
    assert_same(cluster, expected)
    for result in results.values():
        assert result["lr"] == [group["lr"] for group in expected[3].param_groups]


def test_a_native_optimizer_shows_its_state(cluster):
    results = cluster.run(script(optimizer=torch.optim.Adam, optimizer_params={}))
    *_, own = plain(optimizer=torch.optim.Adam, options={})
    expected = list(own.state_dict()["state"].values())
    shown = [state for name in cluster.names for state in results[name]["state"].values()]
    assert len(shown) == len(expected)
    for one, other in zip(shown, expected, strict=True):
        assert torch.equal(one["exp_avg"], other["exp_avg"])
        assert one["step"] == other["step"]


def test_rates_that_are_set_by_hand_hold_from_the_next_call_on(cluster):
    def play(make):
        train, _ = loaders(shuffle=False)
        with make(
            optimizer=torch.optim.SGD, optimizer_params={"lr": 0.1}, criterion=criterion, labels=train, schedule="sync"
        ) as node:
            trainer = Trainer(node=node, train_loader=train)
            trainer.train()
            before = {name: tensor.clone() for name, tensor in node.named_parameters()}
            node.optimizer.param_groups[0]["lr"] = 0
            trainer.train()
            return all(torch.equal(before[name], tensor) for name, tensor in node.named_parameters())

    assert all(cluster.run(play).values())


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adamax, "LAMB"])
def test_a_script_that_steps_the_optimizer_itself_is_told(alone, optimizer):
    def play(make):
        train, _ = loaders(shuffle=False)
        with make(optimizer=optimizer, optimizer_params={"lr": 0.1}, criterion=criterion, labels=train) as node:
            Trainer(node=node, train_loader=train).train()  # the node itself can
            node.optimizer.step()

    with pytest.raises(RuntimeError, match="the node steps its optimizer by itself"):
        alone.run(play)


def test_hooks_and_state_that_an_optimizer_is_made_with_are_its_own(alone):
    calls = []

    def made(params, state, **options):
        optimizer = torch.optim.SGD(params, **options)
        if state:
            index = {"state": {i: {"momentum_buffer": torch.ones_like(p)} for i, p in enumerate(params)}}
            optimizer.load_state_dict(optimizer.state_dict() | index)
        else:
            optimizer.register_step_post_hook(lambda *_: calls.append(1))
        return optimizer

    def weights(optimizer):
        alone.run(script(optimizer=optimizer, optimizer_params={"lr": 0.01, "momentum": 0.9}))
        return alone.fused()

    plainly = weights(torch.optim.SGD)
    hooked = weights(lambda params, **options: made(params, False, **options))
    assert len(calls) == len(alone.losses())
    assert all(torch.equal(plainly[name], hooked[name]) for name in plainly)
    loaded = weights(lambda params, **options: made(params, True, **options))
    assert not any(torch.equal(plainly[name], loaded[name]) for name in plainly if name.endswith("weight"))


def test_hooks_and_state_that_come_too_late_are_refused(alone):
    def play(make):
        train, _ = loaders(shuffle=False)
        with make(optimizer=torch.optim.Adam, criterion=criterion, labels=train) as node:
            trainer = Trainer(node=node, train_loader=train)
            trainer.train()
            node.optimizer.load_state_dict({**node.optimizer.state_dict(), "state": {}})  # options alone
            for late in (
                lambda: node.optimizer.load_state_dict(node.optimizer.state_dict()),
                lambda: node.optimizer.register_step_pre_hook(print),
                lambda: node.optimizer.register_step_post_hook(print),
            ):
                with pytest.raises(RuntimeError, match=r"the function that is given as Node\(optimizer=\)"):
                    late()

    alone.run(play)


def test_an_optimizer_of_ours_by_its_name(cluster):
    cluster.run(script(optimizer="LAMB", optimizer_params={"lr": 0.01}, schedule="async"))
    assert cluster.losses()[-1] < cluster.losses()[0]


def test_gradients_are_clipped_by_value(cluster):
    cluster.run(script(clip_value=0.01))
    assert_same(cluster, plain(clip=lambda parameters: nn.utils.clip_grad_value_(parameters, 0.01)))


def test_a_stages_gradients_are_clipped_by_their_norm(alone):
    alone.run(script(clip_norm=0.1))
    assert_same(alone, plain(clip=lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1)))


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [(torch.optim.LBFGS, "needs a closure .*take an optimizer"), (torch.optim.SparseAdam, "sparse gradients only")],
)
def test_an_optimizer_that_no_stage_can_step_is_refused_at_start(alone, optimizer, words):
    with pytest.raises(TypeError, match=words):
        alone.run(script(optimizer=optimizer, optimizer_params={}))
