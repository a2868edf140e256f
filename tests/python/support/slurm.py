"""A real Slurm on this machine, for tests: a controller and two nodes, all of them processes of this one.

Each daemon has a namespace of process ids for itself: it ends with all that it has started when we end it, or when we
are killed. Nodes have one of mounts too, since their names, n1 and n2, are to be resolved, and the /etc/hosts that says
so is not this machine's.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.nodes import end, wait_for
from support.ports import free_ports

NODES = ("n1", "n2")
CONFIG = """
ClusterName=ravnest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES
"""
DEADLINE_S = 30
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
PR_SET_PDEATHSIG = 1


def _die_with_us() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _start(folder: Path, name: str, command: list, hosts: Path | None = None) -> subprocess.Popen:
    mount = f"mount --bind {hosts} /etc/hosts && " if hosts else ""
    with open(folder / f"{name}.out", "w") as output:
        return subprocess.Popen(
            [*NAMESPACES, "sh", "-c", f'{mount}exec "$@"', "sh", *map(str, command)],
            env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_us,
        )


def _write_files(folder: Path) -> None:
    folder.chmod(0o755)  # munged refuses a socket that others could not reach
    (folder / "state").mkdir()
    for node in NODES:
        (folder / node).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    controller, first, second = free_ports(3)
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(
        CONFIG.format(folder=folder, host=host, controller=controller, first=first, second=second)
    )
    names = "".join(f"127.0.0.1 {node}\n" for node in NODES)
    (folder / "hosts").write_text(Path("/etc/hosts").read_text() + "\n" + names)


def _skip_where_it_can_not_be() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root starts a Slurm whose nodes are namespaces")
    probe = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if probe.returncode != 0:
        pytest.skip(f"this machine has no namespaces for us: {probe.stderr.strip()}")


def _states(environment: dict[str, str]) -> list[str]:
    words = ["sinfo", "--noheader", "--Node", "--format=%T"]
    environment = {**os.environ, **environment}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=DEADLINE_S).stdout.split()


@contextlib.contextmanager
def slurm() -> Iterator[dict[str, str]]:
    """The variables with which srun and sbatch find it. Its nodes have two processors each, whatever is here."""
    _skip_where_it_can_not_be()
    folder = Path(tempfile.mkdtemp(prefix="ravnest-slurm-"))
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    daemons = []

    def is_ready() -> bool:
        assert all(daemon.poll() is None for daemon in daemons), _logs(folder)
        return _states(environment) == ["idle"] * len(NODES)

    try:
        _write_files(folder)
        secret = ["--key-file", folder / "munge.key", "--socket", folder / "munge.sock"]
        files = ["--pid-file", folder / "munged.pid", "--seed-file", folder / "munge.seed"]
        daemons.append(_start(folder, "munged", ["munged", "--foreground", *secret, *files]))
        wait_for((folder / "munge.sock").exists, "munged does not begin", DEADLINE_S)
        daemons.append(_start(folder, "slurmctld", ["slurmctld", "-D", "-c"]))
        for node in NODES:
            daemons.append(_start(folder, node, ["slurmd", "-D", "-N", node], folder / "hosts"))
        wait_for(is_ready, "the nodes are not ready", DEADLINE_S)
        yield environment
    finally:
        end(reversed(daemons))
        # What they had started goes a moment later, and may still write.
        wait_for(lambda: shutil.rmtree(folder, ignore_errors=True) or not folder.exists(), f"{folder} stays")


def _logs(folder: Path) -> str:
    return "".join(
        f"== {file.name}\n{file.read_text()}" for file in sorted([*folder.glob("*.log"), *folder.glob("*.out")])
    )
