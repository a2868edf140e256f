"""Weights that are an object: fetched, verified and kept in the cache."""

import os

import pytest
import torch
from support import command, models, npy_run
from support.s3_server import Fault
from support.small_net import make_net

import ravnest


@pytest.fixture
def environment(server, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.environment(RAVNEST_CACHE=str(tmp_path / "cache"), HOME=str(tmp_path)).items():
        monkeypatch.setenv(name, value)


def put_weights(server, tmp_path, **more) -> dict:
    state = models.ARCHITECTURES[0].model(seed=7).state_dict()
    torch.save(state, tmp_path / "weights.pt")
    server.put("lab", "run/weights.pt", (tmp_path / "weights.pt").read_bytes(), **more)
    return state


def test_a_graph_is_loaded_with_weights_from_a_url(server, environment, tmp_path, archive):
    state = put_weights(server, tmp_path)
    for _ in range(2):
        graph = ravnest.load(archive(models.ARCHITECTURES[0]), weights="s3://lab/run/weights.pt")
        assert all(torch.equal(graph.state_dict()[name], tensor) for name, tensor in state.items())
    assert [seen.method for seen in server.seen] == ["HEAD", "HEAD", "GET", "HEAD"], "fetched once"


def test_the_command_evaluates_weights_from_a_url(server, environment, tmp_path):
    npy_run.write_files(tmp_path)
    net = make_net()
    ravnest.capture(net, (torch.randn(20, 12),), path=tmp_path / "model.pt2")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2)
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    server.put("lab", "run/weights.pt", (tmp_path / "weights.pt").read_bytes())
    said = [
        command.run("eval", "model.pt2", "--weights", weights, cwd=tmp_path)
        for weights in ("weights.pt", "s3://lab/run/weights.pt", "s3://lab/run/none.pt")
    ]
    assert said[0].returncode == 0 and said[1].stdout == said[0].stdout, said[1].stderr
    assert "there is no such object" in said[2].stderr


def test_weights_that_cannot_be_had_are_an_error(server, environment, tmp_path, archive):
    path = archive(models.ARCHITECTURES[0])
    with pytest.raises(ravnest.Error, match="cannot get s3://lab/none: there is no such object"):
        ravnest.load(path, weights="s3://lab/none")
    put_weights(server, tmp_path, metadata={"x-amz-meta-ravnest-sha256": "0" * 64})
    with pytest.raises(ravnest.Error, match="was damaged on its way or at the server"):
        ravnest.load(path, weights="s3://lab/run/weights.pt")
    server.fault = lambda seen: Fault(status=403, code="AccessDenied")
    with pytest.raises(ravnest.Error, match="403 AccessDenied"):
        ravnest.load(path, weights="s3://lab/run/weights.pt")
