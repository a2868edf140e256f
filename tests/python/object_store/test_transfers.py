"""Files to object storage and back, through all kinds of trouble: equal by every byte, sent no more than needed."""

import contextlib
import os
import pty
import re
import resource
import shutil
import signal
import threading

import pytest
from support.s3_command import kill, wait_until
from support.s3_server import Fault, S3Server

MIB = 1 << 20
PART = 8 * MIB
LARGE = 41 * MIB + 12345  # six parts, the last one short


def is_part(seen, number: int) -> bool:
    return seen.method == "PUT" and seen.query.get("partNumber") == str(number)


def once(matches, fault):
    """A fault of the first request that matches."""
    left = [fault]
    return lambda seen: left.pop() if left and matches(seen) else None


@pytest.fixture
def large(tmp_path, some_bytes):
    data = some_bytes(LARGE)
    (tmp_path / "large").write_bytes(data)
    return data


@pytest.mark.parametrize("size", [0, 1, 1000, 16 * MIB - 1, 16 * MIB, LARGE])
def test_what_is_put_is_got(s3, server, tmp_path, some_bytes, size):
    data = some_bytes(size)
    (tmp_path / "a").write_bytes(data)
    s3.ok("cp", "a", "s3://lab/x/a")
    assert server.get("lab", "x/a") == data
    assert ("uploads" in {name for seen in server.seen for name in seen.query}) == (size >= 16 * MIB)
    s3.ok("cp", "s3://lab/x/a", "b")
    assert (tmp_path / "b").read_bytes() == data
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "home", "server"}


def test_what_is_there_already_is_neither_sent_nor_fetched(s3, server, large):
    s3.ok("cp", "large", "s3://lab/large")
    received = server.received()
    s3.ok("cp", "large", "s3://lab/large")
    assert server.received() == received
    s3.ok("cp", "s3://lab/large", "again")
    sent = server.sent()
    s3.ok("cp", "s3://lab/large", "again")
    assert server.sent() < sent + 1000


def test_a_connection_that_is_cut_in_part_5_costs_that_part(s3, server, large):
    server.fault = once(lambda seen: is_part(seen, 5), Fault(cut_received=3 * MIB))
    s3.ok("cp", "large", "s3://lab/large")
    assert server.get("lab", "large") == large
    assert LARGE <= server.received() <= LARGE + 3 * MIB + 10_000
    assert [seen.query["partNumber"] for seen in server.seen if is_part(seen, 5)] == ["5", "5"]


@pytest.mark.parametrize(
    "fault",
    [Fault(status=500), Fault(status=503, code="SlowDown", headers={"Retry-After": "1"}), Fault(lose_answer=True)],
    ids=["500", "503", "lost"],
)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_server_that_stumbles_is_asked_again(s3, server, large, fault, method):
    server.fault = once(lambda seen: seen.method == method and "uploadId" in seen.query, fault)
    s3.ok("cp", "large", "s3://lab/large")
    assert server.get("lab", "large") == large
    assert server.uploads() == []


def test_a_server_that_always_fails_is_told_with_its_words_and_what_goes_on(s3, server, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    server.fault = lambda seen: Fault(status=503, code="SlowDown")
    said = s3.fails("cp", "a", "s3://lab/a", "--attempts", "2")
    assert "cannot look at s3://lab/a: the server says 503" in said
    assert "(2 attempts); the same command goes on where it was" in said


@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(hang_sent=MIB)], ids=["silent", "stops"])
def test_a_server_that_hangs_is_given_up_and_asked_again(s3, server, tmp_path, some_bytes, fault):
    data = some_bytes(2 * PART)
    server.put("lab", "a", data)
    server.fault = once(lambda seen: seen.method == "GET", fault)
    s3.ok("cp", "s3://lab/a", "a", "--stall", "0.5")
    assert (tmp_path / "a").read_bytes() == data
    assert server.sent() < len(data) + MIB + 10_000


def test_a_server_that_only_hangs_is_given_up(s3, server, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    server.fault = lambda seen: Fault(hang=True)
    said = s3.fails("cp", "a", "s3://lab/a", "--stall", "1", "--attempts", "2")
    assert f"http://127.0.0.1:{server.port} sent nothing for 1 s (2 attempts)" in said


def held(server, parts):
    """Lets only so many parts through; the others wait. Returns what lets them go on."""
    freed, lock, passed = threading.Event(), threading.Lock(), []

    def fault(seen):
        if "partNumber" not in seen.query or freed.is_set():
            return None
        with lock:
            passed.append(seen)
            return Fault(hang=True) if len(passed) > parts else None

    server.fault = fault
    return freed


def parts_there(server) -> int:
    folder = server.folder / "uploads"
    return sum(1 for path in folder.glob("*/*") if path.name.isdigit())


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_an_upload_that_was_ended_goes_on_with_the_parts_that_are_there(s3, server, large, ending):
    held(server, 3)
    process = s3.start("cp", "large", "s3://lab/large")
    wait_until(lambda: parts_there(server) == 3, "three parts")
    process.send_signal(ending)
    said, _ = process.communicate(timeout=10)
    assert process.returncode == (130 if ending == signal.SIGINT else -signal.SIGKILL)
    if ending == signal.SIGINT:
        assert "copying large was interrupted; the same command goes on where it was" in said
    assert server.keys("lab") == [], "nothing appears before it is whole"
    server.fault = lambda seen: None
    server.seen.clear()
    s3.ok("cp", "large", "s3://lab/large")
    assert server.get("lab", "large") == large
    assert len([seen for seen in server.seen if "partNumber" in seen.query]) == 3
    assert server.uploads() == []


def test_an_upload_of_a_file_that_changed_since_begins_anew_where_it_changed(s3, server, large, tmp_path):
    held(server, 3)
    process = s3.start("cp", "large", "s3://lab/large")
    wait_until(lambda: parts_there(server) == 3, "three parts")
    kill(process)
    server.fault = lambda seen: None
    changed = large[:-1] + bytes([large[-1] ^ 1])
    (tmp_path / "large").write_bytes(changed)
    s3.ok("cp", "large", "s3://lab/large")
    s3.ok("cp", "s3://lab/large", "back")
    assert (tmp_path / "back").read_bytes() == changed


def test_a_server_that_is_killed_and_started_again_is_sent_the_rest(s3, server, large, tmp_path):
    held(server, 3)
    process = s3.start("cp", "large", "s3://lab/large")
    answered = lambda: [seen for seen in server.seen if "partNumber" in seen.query and seen.answered]  # noqa: E731
    wait_until(lambda: len(answered()) == 3, "three parts")
    server.stop()
    with S3Server(tmp_path / "server", server.port) as again:
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert again.get("lab", "large") == large
        assert len([seen for seen in again.seen if "partNumber" in seen.query]) == 3


def test_a_download_that_is_cut_goes_on_at_the_byte(s3, server, tmp_path, some_bytes):
    data = some_bytes(LARGE)
    server.put("lab", "large", data)
    cuts = [1, 100_000, PART - 1, 3 * MIB]
    server.fault = lambda seen: Fault(cut_sent=cuts.pop()) if cuts and seen.method == "GET" else None
    s3.ok("cp", "s3://lab/large", "large")
    assert (tmp_path / "large").read_bytes() == data
    assert server.sent() <= LARGE + MIB, "what was there is not fetched again (a cut loses what lies in buffers)"


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_download_that_was_ended_goes_on_with_the_pieces_that_are_there(s3, server, tmp_path, some_bytes, ending):
    data = some_bytes(LARGE)
    server.put("lab", "large", data)
    pieces = []

    def fault(seen):
        if seen.method != "GET":
            return None
        pieces.append(seen)
        return Fault(hang_sent=MIB) if len(pieces) > 3 else None

    server.fault = fault
    process = s3.start("cp", "s3://lab/large", "large")
    note = tmp_path / "large.ravnest-part.note"
    wait_until(lambda: note.exists() and note.read_text().count("\n") == 4, "three pieces")
    process.send_signal(ending)
    process.communicate(timeout=10)
    assert not (tmp_path / "large").exists()
    server.fault = lambda seen: None
    server.seen.clear()
    s3.ok("cp", "s3://lab/large", "large")
    assert (tmp_path / "large").read_bytes() == data
    assert len([seen for seen in server.seen if seen.method == "GET"]) == 3
    assert not note.exists()


def test_an_object_that_changes_meanwhile_is_an_error_and_leaves_nothing(s3, server, tmp_path, some_bytes):
    server.put("lab", "large", some_bytes(LARGE))

    def fault(seen):
        if seen.method == "GET" and "bytes=8388608-" in seen.headers.get("range", ""):
            server.put("lab", "large", some_bytes(LARGE, seed=2))

    server.fault = fault
    said = s3.fails("cp", "s3://lab/large", "large")
    assert "cannot get s3://lab/large: the object was changed meanwhile; run the same command again" in said
    assert list(tmp_path.glob("large*")) == []


def test_an_object_that_is_not_what_was_put_does_not_appear(s3, server, tmp_path, some_bytes):
    server.put("lab", "a", some_bytes(3 * MIB), {"x-amz-meta-ravnest-sha256": "0" * 64})
    said = s3.fails("cp", "s3://lab/a", "a")
    assert "s3://lab/a was damaged on its way or at the server: its SHA-256 is" in said
    server.put("lab", "b", b"b", etag="0" * 32)
    assert "its MD5 is" in s3.fails("cp", "s3://lab/b", "b")
    assert {path.name for path in tmp_path.iterdir()} == {"home", "server"}


def test_a_file_that_changes_while_it_is_sent_is_an_error(s3, server, large, tmp_path):
    def fault(seen):
        if is_part(seen, 2):
            with open(tmp_path / "large", "r+b") as file:
                file.write(b"x")
            os.utime(tmp_path / "large", (1, 1))

    server.fault = fault
    assert "large was changed while it was put to s3://lab/large" in s3.fails("cp", "large", "s3://lab/large")
    assert server.keys("lab") == [] and server.uploads() == []


def test_a_full_disk_is_named_and_leaves_nothing(s3, server, tmp_path, some_bytes):
    server.put("lab", "large", some_bytes(LARGE))
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))  # noqa: E731
    said = s3.fails("cp", "s3://lab/large", "large", prepare=limit)
    assert "cannot write large.ravnest-part: File too large" in said and f"needs {LARGE} bytes" in said
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("unshare") is None:
        return
    inside = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=10m none {disk} || exit 77; "$@"; ls {disk}', "--"]
    done = s3.run("cp", "s3://lab/large", disk / "large", prefix=inside)
    if done.returncode != 77:
        assert "No space left on device" in done.stderr and f"needs {LARGE} bytes" in done.stderr
        assert done.stdout == ""


def test_two_that_fetch_one_file_do_not_mix(s3, server, tmp_path, some_bytes):
    server.put("lab", "a", some_bytes(PART))
    server.fault = once(lambda seen: seen.method == "GET", Fault(hang_sent=MIB))
    first = s3.start("cp", "s3://lab/a", "a")
    wait_until((tmp_path / "a.ravnest-part").exists, "the first")
    wait_until(lambda: server.sent() >= MIB, "its first bytes")
    assert "a is being fetched by another process" in s3.fails("cp", "s3://lab/a", "a")
    kill(first)


def test_a_terminal_shows_how_far_it_is(s3, server, large):
    ours, theirs = pty.openpty()
    process = s3.start("cp", "large", "s3://lab/large", stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # it has closed its end
        while some := os.read(ours, 4096):
            shown += some
    process.communicate(timeout=30)
    os.close(ours)
    assert process.returncode == 0
    assert re.search(rb"\rcopying large +\d+ % of 43.0 MB, [\d.]+ k?M?B/s", shown), shown
