"""Against servers of others, and beside AWS's own client."""

import os
import shutil
import subprocess

import pytest
from support.s3_command import S3Command
from support.s3_peers import has_ceph, radosgw, rclone, s3rver

MIB = 1 << 20
ODD = "ä b+c%20=;/d"  # s3rver lists a & as &amp;, to AWS's own client as well


CEPH = pytest.param(
    radosgw,
    id="radosgw",
    marks=[
        pytest.mark.soak,
        pytest.mark.skipif(not has_ceph(), reason="radosgw, ceph-mon and ceph-osd are not installed"),
    ],
)


@pytest.fixture(params=[pytest.param(rclone, id="rclone"), pytest.param(s3rver, id="s3rver"), CEPH])
def peer(request, tmp_path):
    with request.param(tmp_path / "served") as environment:
        yield S3Command(tmp_path, environment)


def test_what_is_put_is_got_listed_and_refused_to_strangers(peer, tmp_path, some_bytes):
    for key, size in [("small", 1000), ("large", 33 * MIB + 5), ("empty", 0), (ODD, 10)]:
        (tmp_path / "a").write_bytes(some_bytes(size))
        peer.ok("cp", "a", f"s3://lab/x/{key}")
        peer.ok("cp", f"s3://lab/x/{key}", "b")
        assert (tmp_path / "b").read_bytes() == some_bytes(size)
    listed = peer.ok("ls", "-r", "s3://lab/x/")
    assert "34.6 MB" in listed and ODD in listed and "4 objects" in listed
    peer.ok("cp", "s3://lab/x/", "back")
    assert (tmp_path / "back" / ODD).read_bytes() == some_bytes(10)
    for command in (["ls", "s3://lab"], ["cp", "a", "s3://lab/a"], ["cp", "s3://lab/x/small", "c"]):
        assert "the server says 403" in peer.fails(*command, AWS_SECRET_ACCESS_KEY="wrong")
    assert "cannot get s3://lab/none: there is no such object" in peer.fails("cp", "s3://lab/none", "c")
    assert "there is no bucket other at" in peer.fails("ls", "s3://other")


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("aws") is None, reason="AWS's own client is not installed")
def test_awss_client_reads_what_we_wrote_and_writes_what_we_read(peer, tmp_path, some_bytes):
    def aws(*arguments):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment = {**kept, **peer.variables, "AWS_DEFAULT_REGION": "us-east-1"}
        subprocess.run(["aws", "s3", *arguments], env=environment, cwd=tmp_path, check=True, capture_output=True)

    for size in (0, 1000, 33 * MIB + 5):
        data = some_bytes(size)
        (tmp_path / "a").write_bytes(data)
        peer.ok("cp", "a", f"s3://lab/{ODD}")
        aws("cp", f"s3://lab/{ODD}", "b")
        assert (tmp_path / "b").read_bytes() == data
        aws("cp", "a", f"s3://lab/theirs/{ODD}")
        peer.ok("cp", f"s3://lab/theirs/{ODD}", "c")
        assert (tmp_path / "c").read_bytes() == data
