"""Kinds of gradients and parameters: sparse embeddings, complex weights."""

import pytest
import torch
from support.chain import run_chain
from support.nodes import plan
from support.passes import assert_equal, loss_of, named
from torch import nn

import ravnest


class Words(nn.Module):
    """Sparse gradients by module, by function and out of a bag."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4, sparse=True)
        self.bag = nn.EmbeddingBag(10, 4, sparse=True)
        self.head = nn.Linear(4, 3)

    def forward(self, ids):
        both = self.words(ids).mean(1) + self.bag(ids)
        return self.head(both + nn.functional.embedding(ids[:, 0], self.words.weight, sparse=True))


def test_embeddings_with_sparse_gradients_are_captured_with_dense_ones(tmp_path):
    model, ids = Words(), torch.randint(0, 10, (4, 5))
    with pytest.warns(UserWarning, match="captures it with dense ones"):
        graph = ravnest.load(ravnest.capture(model, (ids,), path=tmp_path / "m.pt2"))
    assert model.words.sparse
    outputs = model(ids)
    parameters, _ = named(model)
    grads = torch.autograd.grad(loss_of(outputs), list(parameters.values()))
    cuts = [cut["position"] for cut in graph.cuts() if cut["legal"]]
    ours, _, our_grads = run_chain(graph.slice([cuts[-1]]), [ids])
    assert_equal(ours, outputs, "output")
    for name, grad in zip(parameters, grads, strict=True):  # a sparse gradient adds up in another order
        torch.testing.assert_close(our_grads[name], grad.to_dense())


@pytest.mark.filterwarnings("ignore:.*LeafSpec")
def test_a_program_with_sparse_gradients_is_not_changed_itself(tmp_path):
    program = torch.export.export(Words(), (torch.randint(0, 10, (4, 5)),))
    before = program.graph_module.code
    with pytest.warns(UserWarning, match="captures it with dense ones"):
        ravnest.capture(program, path=tmp_path / "m.pt2")
    assert program.graph_module.code == before


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.turn = nn.Parameter(torch.randn(6, 6, dtype=torch.complex64))

    def forward(self, x):
        waves = torch.fft.fft(self.first(x).to(torch.complex64)) @ self.turn
        return self.last(torch.fft.ifft(waves * waves.conj()).abs())


def test_complex_parameters_are_refused_when_a_plan_is_made(tmp_path):
    with pytest.raises(ravnest.Error, match=r'parameter "turn" is complex64.*torch\.view_as_complex') as raised:
        plan(tmp_path, Waves(), (torch.randn(4, 6),), nodes=2)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "node_data" / "cluster_0").exists()
