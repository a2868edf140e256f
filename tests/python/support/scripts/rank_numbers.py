"""Every case of rank_cases.py by this rank of ravnest, then by PyTorch's DDP where that is a peer.

rank_numbers.py WORLD ARCHIVES [--cuda] CASE...
"""

import os
import sys
import zlib
from pathlib import Path

import torch
import torch.distributed
from support.rank_cases import CASES, CURVES, IN_16_BITS, SEED, RankCase, loss_of, train_with_torch, write_numbers

import ravnest
from ravnest import Node, Trainer


def digest(node: Node) -> int:
    """Of all parameters as they are."""
    value = 0
    for parameter in node.parameters():
        value = zlib.crc32(parameter.detach().cpu().numpy().tobytes(), value)
    return value


def train(case: RankCase, archive: Path, folder: Path, device: str) -> tuple[Node, dict]:
    losses, digests = [], []

    def criterion(outputs, item):
        loss = loss_of(outputs, item[-1])
        losses.append(loss.item())
        digests.append(digest(node))
        return loss

    world = int(sys.argv[1])
    loader = case.loader(world)
    with Node(
        strategy="ddp",
        model=str(archive),
        optimizer=case.optimizer,
        optimizer_params=case.options,
        criterion=criterion,
        labels=loader,
        seed=SEED,
        device=device,
        backend="nccl" if device == "cuda" else "auto",
        trusted_network=device == "cuda",
        trained=folder / "trained",
        loss_filename=str(folder / "losses.txt"),
        **case.node,
    ) as node:
        assert node.world == world
        Trainer(node=node, train_loader=loader, save=True).train()
        named = {name: tensor.detach().cpu().clone() for name, tensor in node.state_dict().items()}
        torch.save(named, folder / f"rank_{node.rank}.pt")
        return node, {"losses": losses, "digests": digests}


def main(archives: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    device = "cuda" if "--cuda" in names else "cpu"
    torch.backends.cudnn.deterministic = True
    for case in [*CASES, *IN_16_BITS, *CURVES]:
        if case.name not in names:
            continue
        folder, archive = Path(case.name).absolute(), archives / f"{case.model.name}.pt2"
        folder.mkdir(exist_ok=True)
        node, numbers = train(case, archive, folder, device)
        if device == "cuda" or case not in CASES:
            write_numbers(folder, node.rank, numbers)
            continue
        if not torch.distributed.is_initialized():
            # By a file: the port of the run is ravnest's.
            torch.distributed.init_process_group(
                "gloo", f"file://{folder.parent}/gloo", rank=node.rank, world_size=node.world
            )
        torchs = train_with_torch(case, ravnest.load(archive), node.rank, node.world)
        write_numbers(folder, node.rank, {**numbers, "torch": torchs})
    if torch.distributed.is_initialized():
        # With Gloo in it a process was seen to die on its way out now and then: "terminate called without an active
        # exception". How a rank of ours ends by itself is for the tests of endings.
        torch.distributed.barrier()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


main(Path(sys.argv[2]), sys.argv[3:])
