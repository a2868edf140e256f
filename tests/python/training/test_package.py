"""The C++ package as `make install` leaves it: an example builds against it, as a project of its own, and trains."""

import os
import subprocess

import pytest
from support.places import ROOT
from support.ports import free_ports

BUILD = ROOT / "build/release"


@pytest.mark.slow
@pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="there is no build to install from")
def test_an_example_builds_against_the_installed_package_and_trains(tmp_path, monkeypatch):
    prefix, build = tmp_path / "prefix", tmp_path / "build"

    def run(*command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=os.environ)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "cpp")
    run("cmake", "-G", "Ninja", "-S", ROOT / "examples/cpp", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    assert "loss" in run(build / "spirals")
    monkeypatch.setenv("MASTER_PORT", str(free_ports(1)[0]))
    assert "loss" in run(build / "spirals", "ranks")
    assert run(prefix / "bin/ravnest", "--version").strip() == (ROOT / "VERSION").read_text().strip()
