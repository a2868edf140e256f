"""What a plan says of a model before anybody trains it: sizes that capture fixed, what keeps it from being cut."""

import subprocess
import sys

import pytest
import torch
from support.nodes import plan
from torch import nn

import ravnest


class Steps(nn.Module):
    """Unrolled over time, so that the length is the example's."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        for step in range(x.shape[1]):
            state = torch.tanh(self.inner(x[:, step]) + state)
        return self.out(state)


class FifthSample(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = self.first(x)
        return self.second(x + x[4])


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        pairs = self.first(x).view(-1, 2, 8)
        return self.second(pairs.flip(1).reshape(-1, 8))


class Written(nn.Module):
    """Its layers write into one tensor."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        found = x.new_zeros(x.shape[0], 32)
        for place, layer in enumerate(self.layers):
            found[:, 8 * place : 8 * place + 8] = layer(x)
        return self.head(found)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(8, 8, num_layers=3, batch_first=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Masked(nn.Module):
    """Takes a square of weights beside the batch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(4, 2)

    def forward(self, x, weights):
        return self.second(self.first(x) @ weights)


class Rows(nn.Module):
    """Goes through an image row by row."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        state = torch.zeros_like(x[:, :, 0, 0])
        for row in range(x.shape[2]):
            state = torch.tanh(self.inner(x[:, :, row].mean(-1)) + state)
        return self.out(state)


LIMITS = [
    (Rows, (6, 3, 5, 8), 'dimension 2 of "x" must be 5'),
    (Steps, (6, 5, 8), 'dimension 1 of "x" must be 5'),
    (FifthSample, (6, 8), 'every batch must have at least 5 samples in dimension 0 of "x"'),
]


def test_an_input_beside_the_batch_is_not_taken_for_it(tmp_path):
    made = plan(tmp_path, Masked(), (torch.rand(6, 8), torch.rand(4, 4)), nodes=2)
    assert [note for note in made.notes if "must" in note] == []


@pytest.mark.parametrize(("model", "sizes", "words"), LIMITS, ids=lambda each: getattr(each, "__name__", ""))
def test_what_capture_fixed_is_said_when_planning(model, sizes, words, tmp_path, capsys):
    made = plan(tmp_path, model(), (torch.rand(*sizes),), nodes=2)
    assert [note for note in made.notes if words in note], made.notes
    assert words in capsys.readouterr().out


def test_a_program_that_was_exported_for_batches_in_pairs_says_so(tmp_path):
    half = torch.export.Dim("half", min=3)
    program = torch.export.export(Pairs(), (torch.rand(6, 8),), dynamic_shapes={"x": {0: 2 * half}})
    made = plan(tmp_path, program, (torch.rand(6, 8),), nodes=2)
    words = 'every batch must have a multiple of 2 and at least 6 samples in dimension 0 of "x"'
    assert [note for note in made.notes if words in note], made.notes


def test_nothing_is_said_of_a_model_that_takes_any_batch(tmp_path):
    made = plan(tmp_path, nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)), (torch.rand(6, 8),), nodes=2)
    assert [note for note in made.notes if "must" in note] == []


def test_a_node_that_finds_no_stage_hears_what_stands_in_the_way(tmp_path):
    made = plan(tmp_path, Recurrent(), (torch.rand(6, 5, 8),), nodes=3)
    (note,) = [note for note in made.notes if "is not used" in note]
    assert "at most 2 stages (one operator, " in note and "(rnn), holds " in note


def test_writing_into_one_tensor_is_named_as_what_keeps_a_model_whole(tmp_path):
    with pytest.raises(ValueError, match="at most") as raised:
        plan(tmp_path, Written(), (torch.rand(6, 8),), nodes=3, min_cluster_size=3)
    text = str(raised.value)
    assert 'no cut is possible from "new_zeros" to "copy__3"' in text and "(of layers.0 to layers.3)" in text
    assert 'not between the making of "new_zeros" and its last change in place, by "copy__3"' in text


def test_operators_of_a_library_are_named_with_what_to_do(tmp_path):
    """As transformers has one for experts: a process that has not imported the library does not know them."""
    defined = torch.library.Library("ravnest_test_plan_notes", "DEF")
    defined.define("double(Tensor x) -> Tensor")
    defined.impl("double", lambda x: x * 2, "CPU")
    defined.impl("double", lambda x: x * 2, "Meta")
    torch.library.register_autograd("ravnest_test_plan_notes::double", lambda _, gradient: gradient * 2, lib=defined)

    class Doubled(nn.Sequential):
        def forward(self, x):
            return super().forward(torch.ops.ravnest_test_plan_notes.double(x))

    model = Doubled(nn.Linear(8, 8), nn.Linear(8, 2))
    made = plan(tmp_path, model, (torch.rand(6, 8),), nodes=2)
    assert [note for note in made.notes if 'operators of "ravnest_test_plan_notes"' in note], made.notes
    path = ravnest.capture(model, (torch.rand(6, 8),), path=tmp_path / "model.pt2")
    elsewhere = subprocess.run(
        [sys.executable, "-c", f"import ravnest; ravnest.load({path!r})"], capture_output=True, text=True, timeout=120
    )
    assert "operator torch.ops.ravnest_test_plan_notes.double.default belongs to the library" in elsewhere.stderr
