"""The digits network and its data, for the scripts of this folder."""

from collections import OrderedDict

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 64


def make_model() -> nn.Module:
    """A convolutional network for images of 1x8x8."""
    return nn.Sequential(
        OrderedDict(
            conv2d_1=nn.Conv2d(1, 16, 3, padding="same"),
            act_1=nn.ReLU(),
            maxpool2d_1=nn.MaxPool2d(2, 2),
            drp_1=nn.Dropout(0.25),
            bn_1=nn.BatchNorm2d(16),
            maxpool2d_2=nn.MaxPool2d(2, 2),
            conv2d_2=nn.Conv2d(16, 32, 3, padding="same"),
            act_2=nn.ReLU(),
            maxpool2d_3=nn.MaxPool2d(2, 2),
            drp_2=nn.Dropout(0.25),
            bn_2=nn.BatchNorm2d(32),
            flatten=nn.Flatten(),
            dense_1=nn.Linear(32, 256),
            act_3=nn.ReLU(),
            drp_3=nn.Dropout(0.4),
            bn_3=nn.BatchNorm1d(256),
            dense_2=nn.Linear(256, 10),
            act_4=nn.Softmax(dim=-1),
        )
    )


def load_data() -> tuple[tuple, tuple]:
    """Images of 1x8x8 and one-hot targets, 60 % to train and 40 % to validate."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1)
    targets = nn.functional.one_hot(torch.tensor(digits.target), 10).float()
    x_train, x_val, y_train, y_val = train_test_split(images, targets, test_size=0.4, random_state=1)
    return (x_train, y_train), (x_val, y_val)


def make_loaders() -> tuple[DataLoader, DataLoader]:
    """Batches to train on and to validate with."""
    train_data, val_data = load_data()
    train = DataLoader(TensorDataset(*train_data), batch_size=BATCH, shuffle=True)
    return train, DataLoader(TensorDataset(*val_data), batch_size=256)
