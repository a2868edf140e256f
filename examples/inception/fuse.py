"""Step 3: put the trained stages together, and use the model with plain PyTorch.

python fuse.py [--data FOLDER] [--small]
"""

import argparse
import sys
from pathlib import Path

import torch
from inception import SIDE, make_model

import ravnest

sys.path.append(str(Path(__file__).parents[1]))
from cifar10 import accuracy, make_loaders

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--data", help="the folder with CIFAR-10's batches")
parser.add_argument("--small", action="store_true", help="the smaller model")
options = parser.parse_args()

model = make_model(options.small)
model.load_state_dict(torch.load(ravnest.model_fusion(cluster_id=0), weights_only=True), strict=True)
model.eval()

_, loader = make_loaders(options.data, batch=16, rows=6 if options.small else 1000, size=SIDE)
share, count = accuracy(model, loader)
print(f"plain PyTorch, with the fused weights: {share:.2%} of {count} images right")
