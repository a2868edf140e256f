"""Items of loaders: the same on every node, and the same as the loaders' own."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from ravnest.training.labels import digest_of, items_of, label_part, part_of


class Rows(Dataset):
    """Tensors as a data set that nobody knows."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, row):
        return tuple(tensor[row] for tensor in self.tensors)


def tensors():
    return torch.arange(50.0).reshape(25, 2), torch.arange(25)


def same(one, other) -> bool:
    return len(one) == len(other) and all(
        len(a) == len(b) and all(torch.equal(x, y) and x.dtype == y.dtype for x, y in zip(a, b, strict=True))
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": True, "drop_last": True}, {"batch_size": 7}])
def test_a_loader_over_tensors_gives_what_it_would_give_sample_by_sample(options):
    options = {"batch_size": 4, **options}
    at_once, one_by_one = (DataLoader(kind(*tensors()), **options) for kind in (TensorDataset, Rows))
    for epoch in range(3):
        assert same(list(items_of(at_once, 5, epoch)), list(items_of(one_by_one, 5, epoch)))


def test_the_order_depends_on_seed_and_epoch_alone():
    loader = DataLoader(TensorDataset(*tensors()), batch_size=4, shuffle=True)
    first = list(items_of(loader, 5, 0))
    torch.rand(100)
    assert same(first, list(items_of(loader, 5, 0)))
    assert not same(first, list(items_of(loader, 5, 1)))
    assert not same(first, list(items_of(loader, 6, 0)))


@pytest.mark.parametrize("kind", [TensorDataset, Rows])
def test_torchs_generator_is_left_alone(kind):
    loader = DataLoader(kind(*tensors()), shuffle=True)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    list(items_of(loader, 5, 0))
    assert torch.equal(torch.rand(3), expected)
    assert loader.generator is None
    assert loader.sampler.generator is None


def test_a_loader_with_a_generator_gives_the_same_order_however_far_it_was_read():
    def loader():
        return DataLoader(TensorDataset(*tensors()), shuffle=True, generator=torch.Generator().manual_seed(7))

    root, leaf = loader(), loader()
    list(items_of(root, 5, 0))
    items = items_of(leaf, 5, 0)
    for _ in range(25):
        next(items)
    assert same(list(items_of(root, 5, 1)), list(items_of(leaf, 5, 1)))
    other = DataLoader(TensorDataset(*tensors()), shuffle=True, generator=torch.Generator().manual_seed(8))
    assert not same(list(items_of(root, 5, 1)), list(items_of(other, 5, 1)))


def test_a_tensor_is_cut_into_batches():
    assert [len(item) for item in items_of(torch.rand(25, 2), 0, 0, 10)] == [10, 10, 5]


def test_an_empty_source_has_no_items():
    assert list(items_of([], 0, 0)) == []


def test_labels_are_found_in_what_loaders_give():
    x, y = tensors()
    assert torch.equal(label_part((x, y)), y)
    assert torch.equal(label_part({"input": x, "labels": y}), y)
    assert torch.equal(label_part(y), y)
    assert label_part((x, y, 3)) == (y, 3)


def test_a_digest_tells_values_types_and_shapes_apart():
    y = torch.arange(6)
    digests = {digest_of(each) for each in (y, y + 1, y.float(), y.reshape(2, 3), [y, y], {"a": y, "b": y + 1})}
    assert len(digests) == 6
    assert digest_of((y, "text")) == digest_of(y)
    assert digest_of("text") == 0


def test_items_are_split_member_by_member():
    x, y = tensors()
    parts = [part_of({"x": x, "pair": (y, [y])}, part, 3) for part in range(3)]
    assert [len(part["x"]) for part in parts] == [9, 8, 8]
    assert torch.equal(torch.cat([part["pair"][1][0] for part in parts]), y)
    with pytest.raises(TypeError, match="microbatches"):
        part_of("text", 0, 2)


def test_parts_are_those_of_torch_and_cost_nothing_for_the_others():
    x, _ = tensors()
    for parts in (1, 2, 7, 25, 40):
        assert all(torch.equal(part_of(x, i, parts), each) for i, each in enumerate(x.tensor_split(parts)))
    assert len(part_of(x, 2**32 - 2, 2**32 - 1)) == 0
