"""Named tuples and dataclasses as outputs: the criterion gets them at the leaf, the root gets them as predictions."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from support.nodes import Cluster, plan
from support.passes import assert_equal
from support.plain_run import SEED
from support.small_net import Net, loaders
from torch import nn
from torch.utils import _pytree as pytree

import ravnest
from ravnest import Trainer
from ravnest.engine.tree_spec import read_spec
from ravnest.training.labels import items_of


class Scores(NamedTuple):
    logits: torch.Tensor
    hidden: torch.Tensor


@dataclass
class Answer:
    logits: torch.Tensor
    hidden: torch.Tensor | None = None
    nothing: torch.Tensor | None = None


torch.export.register_dataclass(Answer)


@dataclass
class Unregistered:
    logits: torch.Tensor


class Structured(Net):
    kind = Scores

    def forward(self, x):
        hidden = self.body(x) * self.scale
        return self.kind(self.head(hidden), hidden)


def make(kind) -> Structured:
    torch.manual_seed(0)
    net = Structured()
    net.kind = kind
    return net


def loss_of(outputs, targets):
    assert type(outputs) in (Scores, Answer)
    return nn.functional.cross_entropy(outputs.logits, targets[1]) + outputs.hidden.square().mean()


@pytest.mark.parametrize("kind", [Scores, Answer])
def test_the_criterion_and_the_root_get_the_models_own_type(tmp_path, kind):
    plan(tmp_path, make(kind), (torch.randn(20, 12),))
    question = torch.randn(3, 12, generator=torch.Generator().manual_seed(9))

    def script(make_node):
        train, val = loaders()
        options = {"optimizer": torch.optim.SGD, "optimizer_params": {"lr": 0.05}, "schedule": "sync"}
        with make_node(criterion=loss_of, labels=train, test_labels=val, **options) as node:
            trainer = Trainer(node=node, train_loader=train, val_loader=val, epochs=1)
            trainer.train()
            accuracy = trainer.evaluate()
            return accuracy, trainer.pred(question)

    results = Cluster(tmp_path).run(script)
    model = make(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for item in items_of(loaders()[0], SEED, 0):
        loss_of(model(item[0]), item).backward()
        optimizer.step()
        optimizer.zero_grad()
    expected = model.eval()(question)
    accuracy, predicted = results["node_0"]
    assert type(predicted) is kind
    assert_equal(predicted.logits, expected.logits.detach(), "prediction")
    assert_equal(predicted.hidden, expected.hidden.detach(), "prediction")
    assert accuracy > 0


def described(kind: str, context: str, leaves: int) -> str:
    """A structure as archives have it."""
    plain = pytree.treespec_dumps(pytree.tree_structure(tuple(range(leaves))))
    return plain.replace("builtins.tuple", kind).replace('"null"', f'"{context}"')


@pytest.mark.parametrize("fields", [(), ("logits", "hidden")])
def test_a_process_without_the_named_tuple_gets_one_like_it(fields):
    text = described("collections.namedtuple", f"no.such.module.Scores({', '.join(fields)})", len(fields))
    made = pytree.tree_unflatten(list(fields), read_spec(text))
    assert type(made).__name__ == "Scores" and made._fields == fields and tuple(made) == fields


@pytest.mark.parametrize(
    ("kind", "context", "words"),
    [
        ("collections.namedtuple", "os.system", "which this process has not registered"),
        ("collections.namedtuple", "zoo.Scores(import)", "cannot be read"),
        ("inspect.FrameInfo", "[[], []]", "import the module that defines it"),
        ("test_node_structures.Unregistered", "[[], []]", "import the module that defines it"),
    ],
)
def test_a_type_that_the_process_does_not_offer_is_refused(kind, context, words):
    with pytest.raises(ravnest.Error, match=words):
        read_spec(described(kind, context, 2))
