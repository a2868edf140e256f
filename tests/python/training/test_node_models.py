"""Models as people write them: keyword inputs, tuple and dict outputs, tied weights, batches that are dicts."""

import pytest
import torch
from support.nodes import Cluster, plan
from torch import nn

from ravnest import Trainer

WORDS, LENGTH, BATCH = 23, 6, 8


class Reader(nn.Module):
    """A small language model: keyword inputs, a mask, a head that is tied to the embedding, outputs by name."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16)
        self.blocks = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])
        self.head = nn.Linear(16, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids, attention_mask=None):
        hidden = self.embed(input_ids)
        for block in self.blocks:
            hidden = torch.tanh(block(hidden)) * attention_mask.unsqueeze(-1)
        return {"logits": self.head(hidden), "hidden": hidden}


class Twofold(nn.Module):
    """Two inputs by position, two outputs in a tuple."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(6, 8), nn.Linear(4, 8)
        self.middle, self.main, self.side = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, left, right):
        hidden = torch.relu(self.middle(torch.relu(self.left(left) + self.right(right))))
        return self.main(hidden), self.side(hidden)


def batches(count=6):
    generator = torch.Generator().manual_seed(3)
    return [
        {
            "input_ids": torch.randint(WORDS, (BATCH, LENGTH), generator=generator),
            "attention_mask": torch.ones(BATCH, LENGTH),
            "labels": torch.randint(WORDS, (BATCH, LENGTH), generator=generator),
        }
        for _ in range(count)
    ]


def reading_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs["logits"].flatten(0, 1), targets["labels"].flatten())


def plain(model, forward, criterion, items) -> list[float]:
    """Losses of plain PyTorch over the items, with SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for item in items:
        optimizer.zero_grad()
        loss = criterion(forward(model, item), item)
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses


def make(kind):
    torch.manual_seed(0)
    return kind()


@pytest.fixture
def readers(tmp_path):
    item = batches(1)[0]
    kwargs = {"input_ids": item["input_ids"], "attention_mask": item["attention_mask"]}
    plan(tmp_path, make(Reader), (), kwargs=kwargs)
    return Cluster(tmp_path)


OPTIONS = {"optimizer": torch.optim.SGD, "optimizer_params": {"lr": 0.1}, "schedule": "sync"}


def expected_reading(items):
    model = make(Reader)
    return model, plain(
        model, lambda own, item: own(item["input_ids"], attention_mask=item["attention_mask"]), reading_loss, items
    )


def test_batches_that_are_dicts(readers):
    def play(make):
        items = batches()
        with make(criterion=reading_loss, labels=items, test_labels=items, **OPTIONS) as node:
            trainer = Trainer(node=node, train_loader=items, val_loader=items, save=True)
            trainer.train()
            return trainer.pred(items[0])

    predicted = readers.run(play)["node_0"]
    model, losses = expected_reading(batches())
    assert readers.losses() == losses
    fused = readers.fused()
    assert torch.equal(fused["head.weight"], fused["embed.weight"])
    for name, tensor in model.state_dict().items():
        assert torch.equal(fused[name], tensor), name
    make(Reader).load_state_dict(fused, strict=True)
    with torch.no_grad():
        item = batches(1)[0]
        expected = model.eval()(item["input_ids"], attention_mask=item["attention_mask"])
    assert predicted.keys() == expected.keys()
    torch.testing.assert_close(predicted["logits"], expected["logits"])


@pytest.mark.parametrize(("ids", "mask"), [("input_ids", "attention_mask"), ("l_input_ids_", "l_attention_mask_")])
def test_keyword_inputs_in_both_spellings(readers, ids, mask):
    class Own(Trainer):
        def train(self):
            self.prelim_checks()
            for item in self.train_loader:
                self.node.forward_compute(**{ids: item["input_ids"], mask: item["attention_mask"]})
            self.node.wait_for_backwards()

    def play(make):
        items = batches()
        with make(criterion=reading_loss, labels=items, **OPTIONS) as node:
            Own(node=node, train_loader=items).train()

    readers.run(play)
    assert readers.losses() == expected_reading(batches())[1]


def test_a_keyword_that_the_model_does_not_have(readers):
    def play(make):
        items = batches()
        with make(criterion=reading_loss, labels=items, **OPTIONS) as node:
            if node.is_root:
                node.forward_compute(tokens=items[0]["input_ids"])

    _, errors = readers.run_to_the_end(play)
    assert "tokens" in str(errors["node_0"])
    assert "input_ids" in str(errors["node_0"])


def test_several_inputs_and_a_tuple_of_outputs(tmp_path):
    torch.manual_seed(5)
    items = [(torch.randn(10, 6), torch.randn(10, 4), torch.randint(3, (10,)), torch.randn(10, 2)) for _ in range(5)]

    def both(outputs, targets):
        main, side = outputs
        return nn.functional.cross_entropy(main, targets[2]) + 0.4 * nn.functional.mse_loss(side, targets[3])

    plan(tmp_path, make(Twofold), (items[0][0], items[0][1]))
    cluster = Cluster(tmp_path)

    def play(make):
        with make(criterion=both, labels=items, **OPTIONS) as node:
            trainer = Trainer(node=node, train_loader=items)
            trainer.train()
            return trainer.pred(items[0])

    outputs = cluster.run(play)["node_0"]
    assert cluster.losses() == plain(make(Twofold), lambda own, item: own(item[0], item[1]), both, items)
    assert [tuple(output.shape) for output in outputs] == [(10, 3), (10, 2)]


def test_inputs_are_cast(tmp_path):
    plan(
        tmp_path,
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)),
        (torch.rand(5, 4),),
    )
    cluster = Cluster(tmp_path)
    items = [(torch.randint(9, (5, 4)), torch.rand(5, 2))]

    def play(make):
        with make(criterion=lambda out, item: nn.functional.mse_loss(out, item[1]), labels=items, **OPTIONS) as node:
            Trainer(node=node, train_loader=items, inputs_dtype=torch.float32).train()

    cluster.run(play)
    assert len(cluster.losses()) == 1


@pytest.mark.parametrize("compression", [True, "bf16", "int8"])
def test_compressed_runs_learn_the_same(readers, compression):
    def play(make):
        items = batches()
        with make(criterion=reading_loss, labels=items, compression=compression, **OPTIONS) as node:
            Trainer(node=node, train_loader=items).train()

    readers.run(play)
    for own, other in zip(readers.losses(), expected_reading(batches())[1], strict=True):
        assert own == pytest.approx(other, rel=0.02)
