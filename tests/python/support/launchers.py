"""The same run of two machines with two ranks each, as people start it by each launcher.

A launcher is a function from what every rank runs and the port where ranks meet to the commands that are typed, one for
each machine or one in all, with the variables that stand in front of them.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from support import command
from support.machines import HOSTS, within
from support.places import ROOT
from support.ranks import environment_of

MACHINES, DEVICES = 2, 2
WORLD = MACHINES * DEVICES
Commands = list[tuple[list, dict[str, str]]]


def need(*programs: str) -> None:
    """Skips the test where one is missing. On Debian it fails: there scripts/bootstrap --tests has installed them."""
    for program in programs:
        if shutil.which(program) is None:
            sentence = f"there is no {program} here; on Debian scripts/bootstrap --tests installs it"
            (pytest.fail if Path("/etc/debian_version").exists() else pytest.skip)(sentence)


def documented(language: str) -> str:
    """The block of that language in docs/data_parallel.md."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs/data_parallel.md").read_text(), re.M | re.S)
    return block


def launch(runs: list, port: int) -> Commands:
    flags = ["--devices", DEVICES, "--nodes", MACHINES, "--master", f"127.0.0.1:{port}"]
    return [([command.COMMAND, "launch", *flags, "--node-rank", node, "--", *runs], {}) for node in range(MACHINES)]


def _on_each_machine(words: list, port: int, number: str, **more: str) -> Commands:
    """The same words on both; `number` is the variable with the machine's."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **more}
    return [(words, {**shared, number: str(node)}) for node in range(MACHINES)]


def variables_of_machines(runs: list, port: int) -> Commands:
    words = [command.COMMAND, "launch", "--devices", DEVICES, "--nodes", MACHINES, "--", *runs]
    return _on_each_machine(words, port, "NODE_RANK", WORLD_SIZE=str(MACHINES))


def kubernetes(runs: list, port: int) -> Commands:
    """What the documented job does in its pods, on machines with two GPUs instead of four."""
    (job,) = (each["spec"] for each in yaml.safe_load_all(documented("yaml")) if each["kind"] == "Job")
    (container,) = job["template"]["spec"]["containers"]
    assert {each["name"] for each in container["env"]} == {"MASTER_ADDR", "MASTER_PORT", "RAVNEST_TOKEN"}
    assert job["completionMode"] == "Indexed" and job["completions"] == job["parallelism"] == MACHINES
    first, *flags = container["command"][: container["command"].index("--")]
    assert first == "ravnest"
    flags[flags.index("--devices") + 1] = DEVICES
    return _on_each_machine([command.COMMAND, *flags, "--", *runs], port, "JOB_COMPLETION_INDEX")


def variables_of_ranks(runs: list, port: int) -> Commands:
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    told = [environment_of(rank, WORLD, port) for rank in range(WORLD)]
    return [(runs, {name: variables[name] for name in names}) for variables in told]


def _torchrun(runs: list, *place) -> Commands:
    words = [Path(sys.executable).parent / "torchrun", "--nnodes", MACHINES, "--nproc-per-node", DEVICES, *place]
    return [([*words, "--node-rank", node, "--no-python", *runs], {}) for node in range(MACHINES)]


def torchrun(runs: list, port: int) -> Commands:
    return _torchrun(runs, "--master-addr", "127.0.0.1", "--master-port", port)


def torchrun_with_c10d(runs: list, port: int) -> Commands:
    where = ["--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1"]
    return _torchrun(runs, "--rdzv-backend", "c10d", "--rdzv-id", "a-run", *where)


def _mpirun(runs: list, port: int, host: str, *place) -> Commands:
    """Of Open MPI, which passes no variables on to other machines but those that are named."""
    need("mpirun")
    names = ("RAVNEST_TOKEN", "PYTHONPATH", "OMP_NUM_THREADS", f"MASTER_ADDR={host}", f"MASTER_PORT={port}")
    exported = [word for name in names for word in ("-x", name)]
    return [(["mpirun", "--allow-run-as-root", *place, *exported, *runs], {})]


def mpirun(runs: list, port: int) -> Commands:
    return _mpirun(runs, port, "127.0.0.1", "--oversubscribe", "-n", WORLD)


def mpirun_between(machines: list[str], folder: Path):
    """From the first of two machines (support.machines), which reaches the second without ssh."""
    agent = folder / "agent"
    agent.write_text(f'#!/bin/sh\nshift\nexec {shlex.join(within(machines[1]))} sh -c "$*"\n')
    agent.chmod(0o755)

    def on_machines(runs: list, port: int) -> Commands:
        hosts = ",".join(f"{host}:{DEVICES}" for host in HOSTS)
        ways = ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent]
        ((words, more),) = _mpirun(runs, port, HOSTS[0], *ways, "--host", hosts)
        return [([*within(machines[0]), *words], more)]

    return on_machines


def srun(runs: list, port: int) -> Commands:
    """Within `slurm()`. Where rank 0 is, ranks find in the list of hosts."""
    return [(["srun", "--nodes", MACHINES, "--ntasks", WORLD, *runs], {"MASTER_PORT": str(port)})]


def sbatch(runs: list, port: int) -> Commands:
    """The documented script, on machines with two processors instead of four GPUs; it makes a token of its own."""
    script = documented("bash").replace("#SBATCH --gpus-per-node 4\n", "")
    for written, meant in (("node 4\n", f"node {DEVICES}\n"), ("python train.py", shlex.join(map(str, runs)))):
        assert written in script
        script = script.replace(written, meant)
    # Not --wait, which asks for the job now and then, at last once in half a minute.
    to_the_end = """
        echo "$1" > job; id=$(sbatch --parsable --output=said job)
        while squeue --noheader --states=PENDING,RUNNING,COMPLETING --jobs $id | grep -q .; do sleep 0.1; done
        cat said; scontrol show job $id | grep -q ExitCode=0:0
    """
    path = f"{Path(command.COMMAND).parent}:{os.environ['PATH']}"
    return [(["sh", "-c", to_the_end, "sh", script], {"MASTER_PORT": str(port), "PATH": path})]
