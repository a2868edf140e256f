"""A pipeline of processes: a folder with the stages, the data and the settings, and one stage_node for each stage."""

import json
import subprocess
from pathlib import Path

import torch

from support.places import ROOT
from support.ports import free_addresses

PROGRAM = ROOT / "build/release/tests/pipeline/stage_node"


def write_run(folder: Path, stages: list, inputs: torch.Tensor, targets: torch.Tensor, **settings) -> Path:
    """Lay out what the processes need; `settings` are those of run.json."""
    folder.mkdir(parents=True, exist_ok=True)
    for stage in stages:
        stage.save(folder / f"stage_{stage.index}.pt2")
    (folder / "inputs.bin").write_bytes(inputs.contiguous().numpy().tobytes())
    (folder / "targets.bin").write_bytes(targets.contiguous().numpy().tobytes())
    settings.setdefault("addresses", free_addresses(len(stages)))
    settings |= {"input_shape": list(inputs.shape), "target_shape": list(targets.shape)}
    settings["classes"] = targets.dtype == torch.int64
    (folder / "run.json").write_text(json.dumps(settings))
    subprocess.run([PROGRAM, "identities", folder], check=True, timeout=60)
    return folder


def start(folder: Path, stage: int) -> subprocess.Popen:
    return subprocess.Popen(
        [PROGRAM, "run", folder, str(stage)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result_of(process: subprocess.Popen, timeout_s: float) -> dict:
    """The line that the process ends with; its standard error is in the failure if there is none."""
    out, errors = process.communicate(timeout=timeout_s)
    lines = out.strip().splitlines()
    result = json.loads(lines[-1]) if lines else {"failure": errors}
    return result | {"status": process.returncode}


def run(folder: Path, count: int, timeout_s: float = 600) -> list[dict]:
    """Run all stages to the end."""
    processes = [start(folder, stage) for stage in range(count)]
    try:
        return [result_of(process, timeout_s) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
