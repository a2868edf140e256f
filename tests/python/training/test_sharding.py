"""Trainer(shard=True): what each of several clusters trains on, and that its root and its leaf agree on it."""

import warnings
from types import SimpleNamespace

import pytest
import torch
from support.nodes import Cluster, plan_net
from support.small_net import criterion, make_data
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import ravnest
from ravnest import Node, Trainer, _core
from ravnest.errors import Error
from ravnest.training.labels import Items, items_of, leaf_labels
from ravnest.training.run import Run
from ravnest.training.sharding import Share, check_shares, share_of

SEED = 5


class Rows(Dataset):
    """Numbers as a data set that nobody knows."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, row):
        return torch.tensor([float(row)]), row


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


def numbers(samples=25):
    return TensorDataset(torch.arange(float(samples)).reshape(-1, 1), torch.arange(samples))


def batches(source, epoch=0, seed=SEED) -> list[list[int]]:
    """The labels of one epoch, batch by batch."""
    return [item[1].tolist() for item in items_of(source, seed, epoch, 4)]


def samples(source, epoch=0, seed=SEED) -> list[int]:
    return [row for batch in batches(source, epoch, seed) for row in batch]


def shares(loader, parts):
    return [share_of(loader, Share(part, parts)) for part in range(parts)]


class FakeNode(Node):
    """A node without a core, in some cluster of a plan."""

    def __init__(self, cluster=0, clusters=2, labels=None, root=True):
        self.name, self.cluster_id, self.clusters, self.strategy = "node_0", cluster, clusters, None
        self.labels, self.test_labels, self.is_root, self.is_leaf = labels, None, root, True
        self.seed, self.update_frequency, self.label_digest = SEED, 1, None
        self._shard, self._configured = None, False
        self._call = "train"
        self.fed = []
        core = SimpleNamespace(train_on=lambda inputs, digest: self.fed.append((inputs, digest)))
        calls = {True: SimpleNamespace(flatten_batch=lambda batch, kwargs: [batch])}
        self.run = Run(lambda: core, _core.Position(), calls)


@pytest.mark.parametrize("kind", [numbers, Rows])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("size", "parts"), [(24, 2), (25, 2), (25, 3), (7, 7), (50, 1)])
def test_clusters_take_every_sample_once_between_them(kind, shuffle, size, parts):
    loader = DataLoader(kind(size), batch_size=4, shuffle=shuffle)
    for epoch in range(3):
        taken = [samples(share, epoch) for share in shares(loader, parts)]
        assert sorted(row for rows in taken for row in rows) == list(range(size))
        assert max(map(len, taken)) - min(map(len, taken)) <= 1


def test_a_share_is_every_nth_place_of_one_order():
    in_order = shares(DataLoader(numbers(7), batch_size=2), 3)
    assert [batches(share) for share in in_order] == [[[0, 3], [6]], [[1, 4]], [[2, 5]]]
    assert batches(in_order[0], epoch=3) == batches(in_order[0])


def test_a_shuffled_share_has_other_samples_in_each_epoch():
    share = share_of(DataLoader(numbers(100), batch_size=4, shuffle=True), Share(1, 2))
    members = [set(samples(share, epoch)) for epoch in range(3)]
    assert members[0] != members[1] != members[2] != members[0]
    assert samples(share, 1) != sorted(samples(share, 1))


def test_the_order_depends_on_seed_and_epoch_alone():
    share, other = (share_of(DataLoader(numbers(), 4, shuffle=True), Share(1, 2)) for _ in range(2))
    first = batches(share)
    torch.rand(100)
    assert batches(share) == first
    assert batches(other) == first
    assert batches(share, seed=SEED + 1) != first


def test_a_loaders_own_generator_does_not_part_the_clusters():
    loaders = [
        DataLoader(numbers(), 4, shuffle=True, generator=torch.Generator().manual_seed(cluster)) for cluster in range(2)
    ]
    taken = [samples(share_of(loader, Share(part, 2))) for part, loader in enumerate(loaders)]
    assert sorted(row for rows in taken for row in rows) == list(range(25))


def test_one_cluster_trains_on_what_it_would_without():
    for source in (DataLoader(numbers(), 4, sampler=WeightedRandomSampler([1.0] * 25, 9)), [1, 2], torch.rand(3), None):
        assert share_of(source, Share()) is source


def test_a_loader_keeps_all_but_its_sampling():
    def collate(rows):
        return [row[0] for row in rows], torch.tensor([row[1] for row in rows])

    loader = DataLoader(Rows(25), 4, shuffle=True, collate_fn=collate, drop_last=True, num_workers=1, prefetch_factor=3)
    share = share_of(loader, Share(0, 2))
    assert [len(batch) for batch in batches(share)] == [4, 4, 4]
    assert len(share) == 3
    assert (share.collate_fn, share.num_workers, share.prefetch_factor) == (collate, 1, 3)
    assert isinstance(next(items_of(share, SEED, 0))[0], list)
    assert len(samples(loader)) == 24, "the loader itself is as before"


def test_kept_workers_give_the_order_of_a_loader_without():
    kept = share_of(DataLoader(Rows(25), 4, shuffle=True, num_workers=1, persistent_workers=True), Share(1, 2))
    plain = share_of(DataLoader(numbers(), 4, shuffle=True), Share(1, 2))
    for epoch in range(3):
        assert batches(kept, epoch) == batches(plain, epoch)


def test_a_loader_of_single_samples_is_cut_too():
    share = share_of(DataLoader(Rows(7), batch_size=None), Share(1, 3))
    assert [item[1] for item in items_of(share, SEED, 0)] == [1, 4]


def test_a_tensor_is_cut_as_a_loader_that_does_not_shuffle():
    whole = torch.arange(7)
    cut = [share_of(whole, Share(part, 3)) for part in range(3)]
    assert [each.tolist() for each in cut] == [[0, 3, 6], [1, 4], [2, 5]]
    assert all(each.is_contiguous() for each in cut)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (DataLoader(numbers(), sampler=WeightedRandomSampler([1.0] * 25, 25)), "its own .WeightedRandomSampler."),
        (DataLoader(numbers(), batch_sampler=BatchSampler(SequentialSampler(numbers()), 4, False)), "batch_sampler"),
        (DataLoader(numbers(), sampler=RandomSampler(numbers(), replacement=True)), "does not take each sample once"),
        (DataLoader(numbers(), sampler=RandomSampler(numbers(), num_samples=5)), "does not take each sample once"),
        (DataLoader(numbers(), sampler=SequentialSampler(range(5))), "does not take each sample once"),
        (DataLoader(Stream()), "an IterableDataset"),
        (Stream(), "an IterableDataset"),
        ([torch.rand(4)], "the type list"),
        (torch.tensor(3), "one number"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_what_to_do(source, reason):
    with pytest.raises(ValueError, match=rf"shard=True cannot cut .*{reason}.* yourself .* leave shard=False"):
        Trainer(node=FakeNode(), train_loader=source, shard=True)
    with pytest.raises(ValueError, match="shard=True cannot cut"):
        Trainer(node=FakeNode(labels=source, root=False), shard=True)
    Trainer(node=FakeNode(clusters=1, labels=source), train_loader=source, shard=True)
    Trainer(node=FakeNode(labels=source), train_loader=source, shard=False)


def test_ranks_are_not_told_of_a_shard_that_nobody_asked_for():
    share = Share(0, 3, "ranks")
    with pytest.raises(ValueError, match=r"^there are 2 samples for 3 ranks, .* one sample for each: take fewer ranks"):
        check_shares(DataLoader(numbers(2)), share)
    with pytest.raises(ValueError, match=r"^ranks cannot share out an object of the type Str.* Trainer\(shard=False\)"):
        check_shares(Stream(), share)


def test_too_few_samples_are_refused_on_all_clusters_alike():
    for cluster in range(3):
        with pytest.raises(ValueError, match="2 samples for 3 clusters, which is less than one sample for each"):
            Trainer(node=FakeNode(cluster, 3), train_loader=DataLoader(numbers(2)), shard=True)
        with pytest.raises(ValueError, match="11 samples for 3 clusters, which is less than one batch of 4"):
            Trainer(node=FakeNode(cluster, 3), train_loader=DataLoader(numbers(11), 4, drop_last=True), shard=True)


@pytest.mark.parametrize("labels", [lambda: DataLoader(numbers(), 4, shuffle=True), lambda: numbers().tensors[1]])
@pytest.mark.parametrize("cluster", [0, 1])
def test_root_and_leaf_of_a_cluster_have_the_same_batches(labels, cluster):
    root, leaf = FakeNode(cluster), FakeNode(cluster, labels=labels(), root=False)
    shuffle = isinstance(leaf.labels, DataLoader)
    trainers = [
        Trainer(node=node, train_loader=DataLoader(numbers(), 4, shuffle=shuffle), batch_size=4, shard=True)
        for node in (root, leaf)
    ]
    own = leaf_labels(share_of(leaf.labels, leaf.share), SEED, 4, "node_1", "node_0")
    for root.run.position.epoch in range(3):
        for index, item in enumerate(trainers[0].train_loader):
            theirs = own.item(root.epoch, index, root.label_digest)
            assert torch.equal(theirs[1] if shuffle else theirs, item[1])
        assert index + 1 == len(trainers[0].train_loader)
    whole = leaf_labels(leaf.labels, SEED, 4, "node_1", "node_0")
    with pytest.raises(Error, match="are not those of node_0"):
        whole.item(root.epoch, index, root.label_digest)


def test_a_dataset_is_cut_in_batches_of_the_trainers_size():
    trainer = Trainer(node=FakeNode(1), train_loader=numbers(), batch_size=4, shard=True)
    assert [item[1].tolist() for item in trainer.train_loader] == [[1, 3, 5, 7], [9, 11, 13, 15], [17, 19, 21, 23]]
    again = Trainer(node=trainer.node, train_loader=trainer.train_loader, shard=True)
    assert len(list(again.train_loader)) == 3


def test_validation_data_stay_whole():
    node = FakeNode()
    node.test_labels = val = DataLoader(numbers(), 4)
    trainer = Trainer(node=node, train_loader=numbers(), val_loader=val, shard=True)
    assert trainer.val_loader is val
    assert node.test_labels is val


def test_several_clusters_on_the_same_data_are_a_warning_on_the_root():
    with pytest.warns(UserWarning, match=r"all 2 clusters train on the same data.*Trainer\(shard=True\)") as seen:
        Trainer(node=FakeNode(), train_loader=DataLoader(numbers(), shuffle=True))
    assert [each.filename for each in seen] == [__file__]


@pytest.mark.parametrize(
    ("node", "source", "shard"),
    [
        ({"clusters": 1}, numbers(), None),
        ({}, numbers(), False),
        ({}, numbers(), True),
        ({}, DataLoader(numbers(), sampler=WeightedRandomSampler([1.0] * 25, 25)), None),
        ({}, None, None),
        ({"root": False}, numbers(), None),
    ],
)
def test_no_warning_where_there_is_nothing_to_warn_of(node, source, shard):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Trainer(node=FakeNode(**node), train_loader=source, shard=shard)


def test_trainers_of_a_node_that_has_begun_keep_to_its_shard():
    node = FakeNode()
    first = Trainer(node=node, train_loader=numbers(), batch_size=4, shard=True)
    node._configured = True
    with pytest.raises(ValueError, match=r"node_0 has begun with shard=True.*give all Trainers of a node the same"):
        Trainer(node=node, train_loader=numbers(), shard=False)
    Trainer(node=node, val_loader=numbers())
    assert len(first.train_loader) == 4


def test_batches_from_elsewhere_are_refused_where_labels_are_cut():
    node = FakeNode()
    trainer = Trainer(node=node, train_loader=numbers(), batch_size=4, shard=True)
    for item in trainer.train_loader:
        node.forward_compute(item[0])
    assert len(node.fed) == 4
    with pytest.raises(Error, match=r"takes its batches from trainer\.train_loader"):
        node.forward_compute(torch.rand(4, 1))
    node._shard = False
    node.forward_compute(torch.rand(4, 1))


def test_items_follow_what_the_node_is_told():
    node = FakeNode()
    items = Items(DataLoader(numbers(), 4), node, 4)
    assert len(items) == 7
    node._shard = True
    assert len(items) == 4
    assert items.batch_size == 4


def play(seen, shard):
    """The script of a node, which writes down what its leaf is given."""

    def script(make):
        x, y = make_data()
        train = DataLoader(TensorDataset(x[:70], torch.arange(70)), batch_size=10, shuffle=True)

        def loss(outputs, item):
            seen.setdefault(node.cluster_id, []).extend(item[1].tolist())
            return criterion(outputs, (None, y[item[1]]))

        with make(criterion=loss, labels=train, optimizer="SGD", optimizer_params={"lr": 0.01}) as node:
            Trainer(node=node, train_loader=train, epochs=2, shard=shard(node)).train()

    return script


@pytest.fixture
def two_clusters(tmp_path):
    made = plan_net(tmp_path, nodes=4)
    assert len(made.clusters) == 2
    return Cluster(tmp_path, 4)


def test_two_clusters_train_on_all_samples_of_an_epoch_once(two_clusters):
    seen = {}
    two_clusters.run(play(seen, lambda node: True))
    assert [len(taken) for taken in seen.values()] == [70, 70]
    for epoch in range(2):
        taken = [row for rows in seen.values() for row in rows[35 * epoch : 35 * (epoch + 1)]]
        assert sorted(taken) == list(range(70))
    assert set(seen[0][:35]) != set(seen[0][35:])


def test_a_node_without_shard_is_told(two_clusters):
    _, errors = two_clusters.run_to_the_end(play({}, lambda node: node.is_root))
    assert len(errors) == 4
    for error in errors.values():
        assert isinstance(error, ravnest.Error)
        assert "shard is true on node_" in str(error)
        assert "start the same script on every node" in str(error)
