"""Step 3, on the requester's machine: put the trained stages together, and use the model with plain PyTorch.

python fuse.py
"""

import torch
from digits import load_data, make_model

import ravnest

path = ravnest.model_fusion(cluster_id=0)

model = make_model()
model.load_state_dict(torch.load(path, weights_only=True), strict=True)
model.eval()
_, (images, targets) = load_data()
with torch.no_grad():
    accuracy = (model(images).argmax(1) == targets.argmax(1)).float().mean().item()
print(f"plain PyTorch, with the fused weights: {accuracy:.2%} of the validation set correct")
