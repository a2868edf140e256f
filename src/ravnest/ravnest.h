// What a C++ program uses of ravnest. Each header says what it is for; this one only names them, in the order of use.
#pragma once

// A model: from torch::nn or TorchScript to a graph that runs and can be cut.
#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/frontend/torchscript.h"
#include "ravnest/graph/frontend/trace.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/ir/weights.h"
#include "ravnest/graph/run/engine.h"

// A plan for the machines at hand, as `ravnest plan` makes it.
#include "ravnest/plan/clusterize/clusterize.h"

// A node of the plan that trains, as `ravnest node` does.
#include "ravnest/optim/optimizer.h"
#include "ravnest/train/config/config.h"
#include "ravnest/train/loop/evaluate.h"
#include "ravnest/train/loop/trainer.h"
#include "ravnest/train/node/node.h"

// A rank of a data-parallel run that trains, as `ravnest train` does; and where a process learns which rank it is.
#include "ravnest/strategy/place/place.h"
#include "ravnest/train/rank/rank_trainer.h"

// All stages of a pipeline in this process.
#include "ravnest/cluster/local_cluster.h"

// What was trained, as one state dict.
#include "ravnest/checkpoint/fuse.h"
