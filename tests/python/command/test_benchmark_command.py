"""`ravnest benchmark` as a process: measures, serves, writes the pool file, and refuses with a sentence."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sysconfig
import time

import pytest
from support.ports import free_ports

pytestmark = pytest.mark.slow

DEADLINE_S = 60
COMMAND = shutil.which("ravnest", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]))
IP = "10.0.0.2:8080"


def benchmark(*options, folder):
    assert COMMAND, "the command ravnest is not installed"
    command = [COMMAND, "benchmark", "--threads", "1", "--seconds", "0.3", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S)


def first_line(process):
    ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
    assert ready, "the server says nothing"
    return process.stdout.readline()


@pytest.fixture
def server():
    """(process, address) of a serving side on loopback."""
    port = free_ports(1)[0]
    command = [COMMAND, "benchmark", "--serve", str(port), "--bind", "127.0.0.1", "--for", str(DEADLINE_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert f"port {port}" in first_line(process)
            yield process, f"127.0.0.1:{port}"
        finally:
            process.kill()


def test_the_machine_and_its_link_are_measured_and_written_as_an_entry(server, tmp_path):
    """To node_data, where no file is named; a peer may have a name, and garbage before does its server no harm."""
    pool_file = tmp_path / "node_data" / "node_configs.json"
    pool_file.parent.mkdir()
    pool_file.write_text(json.dumps({"0": {"IP": IP, "benchmarks": {"ram": 1, "bandwidth": 100}}}))
    host, _, port = server[1].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as stranger:
        stranger.sendall(b"\xff" * 4096)
    result = benchmark("--peer", f"localhost:{port}", "--write", "--ip", IP, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert 'replaced entry "0"' in result.stdout
    pool = json.loads(pool_file.read_text())
    assert list(pool) == ["0"] and pool["0"]["IP"] == IP
    numbers = pool["0"]["benchmarks"]
    assert set(numbers) == {"ram", "process", "bandwidth", "compute", "latency"}
    assert all(number > 0 for number in numbers.values())
    for name in ("memory", "process", "matmul", "convolution", "compute", "bandwidth", "latency"):
        assert f"\n{name}" in f"\n{result.stdout}"
    assert 0.15 < numbers["process"] < 0.5, "Python with torch and ravnest"
    shown = result.stdout[result.stdout.index("{") : result.stdout.rindex("}") + 1]
    assert json.loads(shown) == pool["0"]


def test_a_named_pool_file_is_begun_and_a_bandwidth_that_is_known_is_not_measured(tmp_path):
    result = benchmark("--bandwidth", "200", "--write", "pool.json", "--ip", IP, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert 'added entry "0" in pool.json' in result.stdout
    entry = json.loads((tmp_path / "pool.json").read_text())["0"]
    assert entry["IP"] == IP
    assert entry["benchmarks"]["bandwidth"] == 200 and "latency" not in entry["benchmarks"]


def test_a_broken_pool_file_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "pool.json").write_text('{"1": {}}')
    result = benchmark("--bandwidth", "100", "--write", "pool.json", "--ip", IP, folder=tmp_path)
    assert result.returncode == 1
    assert 'pool.json: no key "0"; the 1 node must have the key "0"' in result.stderr
    assert (tmp_path / "pool.json").read_text() == '{"1": {}}'
    assert os.listdir(tmp_path) == ["pool.json"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--write", "--ip", IP], "--bandwidth"),
        (["--write", "--bandwidth", "5"], "--ip HOST:PORT"),
        (["--write", "--bandwidth", "5", "--ip", "nowhere"], "--ip: "),
        (["--peer", "nowhere"], "--peer: "),
        (["--device", "abacus"], "abacus"),
        (["--bandwidth", "0"], "--bandwidth"),
        (["--serve", "70000"], "--serve"),
        (["--bind", "127.0.0.1"], "--serve"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(options, sentence, tmp_path):
    result = benchmark(*options, folder=tmp_path)
    assert result.returncode != 0
    assert sentence in result.stderr
    assert os.listdir(tmp_path) == []


def test_a_peer_that_is_not_there_is_named(tmp_path):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    result = benchmark("--peer", address, folder=tmp_path)
    assert result.returncode == 1
    assert f"cannot connect to {address}" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_ends_at_a_signal(server, number):
    process, _ = server
    process.send_signal(number)
    assert process.wait(timeout=DEADLINE_S) == 0


def test_a_measurement_that_waits_ends_at_a_signal(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(DEADLINE_S)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen([COMMAND, "benchmark", "--peer", address], stderr=subprocess.DEVNULL) as process:
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) != 0
            connection.close()


def test_the_server_ends_by_itself(tmp_path):
    start = time.monotonic()
    result = benchmark("--serve", str(free_ports(1)[0]), "--bind", "127.0.0.1", "--for", "0.5", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - start >= 0.5


def test_help_says_what_the_numbers_are_and_has_examples():
    result = subprocess.run([COMMAND, "benchmark", "--help"], capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 0
    for part in ("geometric mean", "10^9 bytes", "--serve 9000", "--peer 10.0.0.1:9000"):
        assert part in result.stdout
