"""Kinds of gradients: sparse embeddings."""

import pytest
import torch
from chain import run_chain
from passes import assert_equal, loss_of, named
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
    with pytest.warns(UserWarning, match="captured with dense ones"):
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
    with pytest.warns(UserWarning, match="captured with dense ones"):
        ravnest.capture(program, path=tmp_path / "m.pt2")
    assert program.graph_module.code == before
