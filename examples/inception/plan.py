"""Step 1, once: plan who trains which part of the model.

python plan.py [--nodes 3] [--small]
"""

import argparse
import sys
from pathlib import Path

import torch
from inception import SIDE, make_model

import ravnest

sys.path.append(str(Path(__file__).parents[1]))
from local_pool import write_local_pool

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--nodes", type=int, default=3, help="local nodes, where there is no pool file yet")
parser.add_argument("--batch", type=int, default=16, help="images per batch; memory and speed are reckoned with it")
parser.add_argument("--small", action="store_true", help="a smaller model, to try it out")
options = parser.parse_args()

write_local_pool(options.nodes)
ravnest.set_seed(42)
images = torch.rand(2 if options.small else options.batch, 3, SIDE, SIDE)
# The work is in the early layers, the parameters in the late ones: cut by time, for nodes that are alike.
ravnest.clusterize(make_model(options.small), example_args=(images,), balance="time")
