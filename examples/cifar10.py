"""CIFAR-10 from its usual files, or images of the same shape where there are none."""

import pickle
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
STD = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)
NAMES = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]
RECORD = 1 + 3 * 32 * 32  # of the binary files: a class, and an image


def read_file(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of N x 3 x 32 x 32 in bytes, and their classes, from a `.bin` or a Python batch."""
    if path.suffix == ".bin":
        records = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).view(-1, RECORD)
        return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()
    # A pickle can run code: take these files only from those that you trust, or use the binary ones.
    batch = pickle.loads(path.read_bytes(), encoding="bytes")
    return torch.from_numpy(batch[b"data"]).view(-1, 3, 32, 32), torch.tensor(batch[b"labels"])


def read_split(folder: Path, names: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """All files of a split, as .bin or as Python batches."""
    parts = []
    for name in names:
        path = next((path for path in (folder / f"{name}.bin", folder / name) if path.exists()), None)
        if path is None:
            raise SystemExit(f"neither {name}.bin nor {name} is in {folder}: give --data the folder with CIFAR-10")
        parts.append(read_file(path))
    images, classes = (torch.cat(column) for column in zip(*parts, strict=True))
    return images, classes


def make_images(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise with one bright band for each class: something that a network can learn."""
    random = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 160, (count, 3, 32, 32), generator=random, dtype=torch.uint8)
    classes = torch.randint(10, (count,), generator=random)
    rows = torch.arange(32) // 3 == classes[:, None]
    images += (rows[:, None, :, None] * 90).to(torch.uint8)
    return images, classes


def make_loaders(
    data: str | None, batch: int, rows: int | None = None, size: int = 32
) -> tuple[DataLoader, DataLoader]:
    """Batches to train on and to validate with: from the folder `data`, or made up where it is None.

    At most `rows` images of each split, enlarged to `size` x `size`.
    """
    if data is None:
        print("no --data: training on images made up here, of CIFAR-10's shape", flush=True)
        splits = [make_images(rows or 5000, 1), make_images(min(rows or 1000, 1000), 2)]
    else:
        splits = [read_split(Path(data), names) for names in NAMES]

    def loader(images, classes, shuffle):
        images = ((images[:rows].float() / 255) - MEAN) / STD
        if size != 32:
            images = torch.nn.functional.interpolate(images, size=size, mode="bilinear")
        return DataLoader(TensorDataset(images, classes[:rows]), batch_size=batch, shuffle=shuffle, drop_last=shuffle)

    return loader(*splits[0], True), loader(*splits[1], False)


@torch.no_grad()
def accuracy(model: torch.nn.Module, loader: DataLoader) -> tuple[float, int]:
    """The share of images that the model, in its eval mode, gets right, and of how many."""
    right = count = 0
    for images, classes in loader:
        right += (model(images).argmax(1) == classes).sum().item()
        count += len(classes)
    return right / count, count
