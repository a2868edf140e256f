"""Step 3: put the trained stages together, and fill in masks with plain PyTorch.

python fuse.py [--small]
"""

import argparse

import torch
from bert import IGNORED, make_loaders, make_model, masked_loss

import ravnest

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--small", action="store_true", help="the smaller model")
options = parser.parse_args()

model = make_model(options.small)
model.load_state_dict(torch.load(ravnest.model_fusion(cluster_id=0), weights_only=True), strict=True)
model.eval()

losses, right, masked = [], 0, 0
with torch.no_grad():
    for batch in make_loaders(options.small)[1]:
        outputs = model(batch["input_ids"], batch["attention_mask"])
        losses.append(masked_loss(outputs, batch).item())
        asked = batch["labels"] != IGNORED
        right += (outputs["logits"].argmax(-1) == batch["labels"])[asked].sum().item()
        masked += asked.sum().item()
loss = sum(losses) / len(losses)
print(f"plain PyTorch, with the fused weights: loss {loss:.3f}, {right / masked:.1%} of {masked} masked bytes right")
