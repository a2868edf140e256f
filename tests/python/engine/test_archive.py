"""What is written is an archive that torch.export opens and runs with the same outputs."""

import zipfile

import pytest
import torch
from support import models
from support.cuts import legal_cuts, spread
from support.passes import assert_same_outputs, flat_inputs
from support.soaked import soaked
from torch.utils import _pytree as pytree

import ravnest

pytestmark = pytest.mark.filterwarnings("ignore")


def runs_alike(program, graph, args, kwargs):
    """The program that torch.export loaded and our executor, from the same seed."""
    graph.random = "plain"
    state = {name: tensor.clone() for name, tensor in graph.state_dict().items()}
    torch.manual_seed(9)
    expected = graph(*args, **kwargs)
    for name, tensor in graph.state_dict().items():
        tensor.copy_(state[name])
    torch.manual_seed(9)
    found = program.module()(*args, **kwargs)
    assert_same_outputs(found, expected)


@pytest.mark.parametrize("case", [*models.ALL, *soaked(*models.DEEP)], ids=lambda case: case.name)
def test_torch_export_loads_the_whole_and_gives_the_same_outputs(case, archive):
    path = archive(case)
    runs_alike(torch.export.load(path), ravnest.load(path), *case.example(case.batch + 3))


@pytest.mark.parametrize("case", [*models.ODDITIES, *soaked(*models.ARCHITECTURES)], ids=lambda case: case.name)
def test_torch_export_loads_a_graph_that_was_saved_again(case, archive, tmp_path):
    path = ravnest.load(archive(case)).save(tmp_path / "again.pt2")
    runs_alike(torch.export.load(path), ravnest.load(path), *case.example(case.batch + 1))


@pytest.mark.parametrize("case", models.ALL, ids=lambda case: case.name)
def test_torch_export_loads_every_stage_and_gives_the_same_outputs(case, archive, tmp_path):
    graph = ravnest.load(archive(case))
    cuts = spread(legal_cuts(graph), 5)[1:4] or legal_cuts(graph)[:1]
    stages = graph.slice(cuts)
    inputs = flat_inputs(*case.example(case.batch + 1))
    produced = []
    for stage in stages:
        path = stage.save(tmp_path / f"stage_{stage.index}.pt2")
        given = [inputs[i] if producer < 0 else produced[producer][i] for producer, i in stage.inputs()]
        runs_alike(torch.export.load(path), ravnest.load(path), given, {})
        stage.random = "plain"
        with torch.no_grad():
            produced.append(pytree.tree_leaves(stage(*given)))


def test_the_weights_are_stored_once(archive):
    case = next(case for case in models.ALL if case.name == "gpt_tied")
    with zipfile.ZipFile(archive(case)) as file:
        weights = [entry for entry in file.infolist() if "/data/weights/weight_" in entry.filename]
    model = case.model()
    assert sum(entry.file_size for entry in weights) == sum(4 * p.numel() for p in model.parameters())


def test_nothing_in_the_archive_tells_where_it_was_made(archive):
    with zipfile.ZipFile(archive(models.ARCHITECTURES[0])) as file:
        for name in file.namelist():
            assert b"stack_trace" not in file.read(name)
            assert __file__.encode() not in file.read(name)


def test_the_entries_are_stored_and_aligned(archive):
    with zipfile.ZipFile(archive(models.ARCHITECTURES[0])) as file:
        for entry in file.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED
            if "/data/weights/weight_" in entry.filename:
                with file.open(entry) as opened:
                    opened.read(0)
                    assert opened._orig_compress_start % 64 == 0


def test_a_plain_archive_of_torch_export_is_loaded(tmp_path):
    case = models.ARCHITECTURES[0]
    args, kwargs = case.example()
    path = tmp_path / "plain.pt2"
    dynamic = ({0: torch.export.Dim.AUTO},)
    torch.export.save(torch.export.export(case.model(), args, kwargs, dynamic_shapes=dynamic), path)
    runs_alike(torch.export.load(path), ravnest.load(path), *case.example(5))
