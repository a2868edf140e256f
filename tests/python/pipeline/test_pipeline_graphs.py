"""Models that are no chains, weights that do not train, batches of all sizes, and passes that do not train."""

import pytest
import torch
from support import models
from support.cuts import legal_cuts, spread_cuts
from support.eager import Eager
from support.models.branching import Crossing, DenseSkips, Layers
from support.passes import assert_equal, assert_same, assert_same_outputs, named
from support.pipelines import (
    ADAM,
    BERT,
    DIGITS,
    GPT,
    MOMENTUM,
    PATIENCE_S,
    SEED,
    Task,
    assert_same_outcome,
    case_of,
    labels,
    open_cluster,
    trained,
    trained_by_torch,
)
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import ravnest


def crossing_inputs(batch):
    return (torch.randint(0, 20, (batch, 6)), torch.randn(batch, 16)), {"scale": torch.rand(batch, 1) + 0.5}


def crossing_loss(outputs, targets):
    return F.cross_entropy(outputs["logits"], targets) + outputs["parts"][0].square().mean()


CROSSING = Task(models.Case("crossing", Crossing, crossing_inputs), crossing_loss, labels(5))
FROZEN_FIRST = Task(models.Case("frozen_first", lambda: Layers(frozen=[0]), models.rows(8)), F.cross_entropy, labels(8))
FROZEN_INSIDE = Task(
    models.Case("frozen_inside", lambda: Layers(frozen=[1, 2]), models.rows(8)), F.cross_entropy, labels(8)
)
FROZEN_LAST = Task(models.Case("frozen_last", lambda: Layers(frozen=[3]), models.rows(8)), F.cross_entropy, labels(8))
PARTLY_FROZEN = Task(case_of("frozen"), F.cross_entropy, labels(3))
TIED_TWICE = Task(case_of("tied_twice"), F.cross_entropy, labels(6))


def frozen_ties():
    model = case_of("tied_twice").model()
    model.a.weight.requires_grad_(False)
    return model


FROZEN_TIES = Task(models.Case("frozen_ties", frozen_ties, case_of("tied_twice").inputs), F.cross_entropy, labels(6))
MIXED = Task(case_of("mixed"), lambda y, t: F.cross_entropy(y["logits"], t) + y["both"][0].square().mean(), labels(5))


def check(task, archive, cuts, batches, optimizer=ADAM, **options):
    """As PyTorch in steps and, one pass at a time, without them; returns the statistics of the former."""
    path = archive(task.case)
    theirs = trained_by_torch(path, task, batches, optimizer, microbatches=options.get("microbatches", 1))
    ours = trained(path, task, cuts, batches, optimizer, **options)
    assert_same_outcome(ours, theirs, f"{task.case.name} cut at {cuts}")
    alone = trained(path, task, cuts, batches, optimizer, schedule="async", window=1, **options)
    assert_same_outcome(alone, theirs, f"{task.case.name} cut at {cuts}, async")
    return ours


@pytest.mark.parametrize("task", [CROSSING, MIXED, TIED_TWICE, PARTLY_FROZEN], ids=lambda task: task.case.name)
def test_every_cut_of_an_odd_model_trains_as_the_module(task, archive):
    path = archive(task.case)
    graph = ravnest.load(path)
    batches = task.batches([6] * 3)
    theirs = trained_by_torch(path, task, batches)
    for cut in legal_cuts(graph):
        # Its one weight must not be used twice by the stage that keeps it: see test_pipeline.py.
        if task is TIED_TWICE and {"a.weight", "b.weight"} <= named(graph.slice([cut])[0])[0].keys():
            continue
        assert_same_outcome(trained(path, task, [cut], batches), theirs, f"cut at {cut}")


def test_bools_integers_and_inputs_reach_late_stages(archive):
    graph = ravnest.load(archive(CROSSING.case))
    cuts = ["drop", "second", "head"]
    first, second, _, last = graph.slice(cuts)
    assert any(consumers[-1] == 3 for consumers in first.consumers())
    assert (-1, 1) in second.inputs() and (-1, 2) in last.inputs()
    check(CROSSING, archive, cuts, CROSSING.batches([6] * 5), microbatches=2)


def test_gradients_from_many_stages_are_summed_as_in_one_process(archive):
    task = Task(models.Case("dense_skips", DenseSkips, models.rows(8)), F.cross_entropy, labels(8))
    graph = ravnest.load(archive(task.case))
    cuts = [f"layers.{number}" for number in range(1, 5)]
    assert any(consumers == [1, 2, 3, 4] for consumers in graph.slice(cuts)[0].consumers())
    check(task, archive, cuts, task.batches([6] * 5), microbatches=2)


def test_a_stage_without_weights_passes_on_what_it_gets(archive):
    targets = [operator["target"] for operator in ravnest.load(archive(CROSSING.case)).operators()]
    first, last = targets.index("torch.ops.aten.tanh.default"), targets.index("torch.ops.aten.sigmoid.default")
    stage = ravnest.load(archive(CROSSING.case)).slice([first, last])[1]
    assert not named(stage)[0] and not named(stage)[1]
    ours = check(CROSSING, archive, [first, last], CROSSING.batches([6] * 5), MOMENTUM)
    assert [each["updates"] for each in ours.statistics] == [5, 5, 5]


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize(
    "task", [FROZEN_FIRST, FROZEN_INSIDE, FROZEN_LAST, PARTLY_FROZEN], ids=lambda task: task.case.name
)
def test_what_is_frozen_stays_and_the_rest_trains(task, recompute, archive):
    cuts = ["head"] if task is PARTLY_FROZEN else ["layers.1", "layers.2", "layers.3"]
    before = task.case.model().state_dict()
    ours = check(task, archive, cuts, task.batches([6] * 5), recompute=recompute)
    frozen = {name for name, parameter in task.case.model().named_parameters() if not parameter.requires_grad}
    same = {name for name in before if torch.equal(ours.state[name], before[name])}
    assert same == frozen | ({"unused"} & before.keys())


def test_a_frozen_weight_that_stages_share_keeps_nobody_waiting(archive):
    check(FROZEN_TIES, archive, ["b", "c"], FROZEN_TIES.batches([6] * 5))


@pytest.mark.parametrize("task", [DIGITS, GPT, BERT], ids=lambda task: task.case.name)
@pytest.mark.parametrize("stages", [1, 8])
def test_one_stage_and_eight(task, stages, archive):
    path = archive(task.case)
    cuts = spread_cuts(ravnest.load(path), stages)
    check(task, archive, cuts, task.batches([8] * 3))


def test_short_batches_are_cut_into_as_many_parts_as_they_can(archive):
    """Nine, three and one sample for four parts: each part counts by its samples, and no part is empty."""
    cuts = spread_cuts(ravnest.load(archive(BERT.case)), 3)
    ours = check(BERT, archive, cuts, BERT.batches([9, 3, 1, 8]), microbatches=4)
    assert len(ours.losses) == 4 + 3 + 1 + 4


# -- passes that do not train


@pytest.mark.parametrize("schedule", ["sync", "gpipe", "async"])
@pytest.mark.parametrize("task", [DIGITS, GPT, BERT, CROSSING], ids=lambda task: task.case.name)
def test_validation_and_prediction_see_all_updates_before_them(task, schedule, archive):
    path = archive(task.case)
    graph = ravnest.load(path)
    batches = task.batches([6] * 6)
    inputs, targets = task.batches([4])[0]
    eager = Eager(task.case, graph, task.criterion, lambda p: torch.optim.Adam(p, lr=1e-2), seed=SEED)
    expected = []
    for first, second in zip(batches[::2], batches[1::2], strict=True):
        expected += [(eager.train(*first)[0], []), (eager.train(*second)[0], [])]
        outputs = eager.evaluate(inputs)
        expected += [(task.criterion(outputs, targets).item(), []), (0.0, pytree.tree_leaves(outputs))]
    window = {"window": 1} if schedule == "async" else {}
    with open_cluster(path, task, spread_cuts(graph, 3), ADAM, schedule=schedule, **window) as cluster:
        for first, second in zip(batches[::2], batches[1::2], strict=True):
            cluster.train(*first, timeout_s=PATIENCE_S)
            cluster.train(*second, timeout_s=PATIENCE_S)
            cluster.validate(inputs, targets, timeout_s=PATIENCE_S)
            cluster.predict(inputs, timeout_s=PATIENCE_S)
        reports = cluster.drain(PATIENCE_S)
    assert [report["loss"] for report in reports] == [loss for loss, _ in expected]
    for report, (_, outputs) in zip(reports, expected, strict=True):
        assert_same_outputs(report["outputs"], outputs, f"pass {report['pass']}")


def test_overlapping_passes_are_over_before_a_validation_begins(archive):
    """Many passes in flight, and no knowing which weights each saw: but validation sees those that are there after."""
    path = archive(DIGITS.case)
    inputs, targets = DIGITS.batches([8])[0]
    with open_cluster(path, DIGITS, spread_cuts(ravnest.load(path), 4), schedule="async") as cluster:
        for _ in range(3):
            for batch in DIGITS.batches([8] * 5):
                cluster.train(*batch, timeout_s=PATIENCE_S)
            cluster.validate(inputs, targets, timeout_s=PATIENCE_S)
            loss = cluster.drain(PATIENCE_S)[-1]["loss"]
            module = DIGITS.case.model().eval()
            module.load_state_dict(cluster.state_dict())
            with torch.no_grad():
                assert_equal(
                    torch.tensor(loss), torch.tensor(DIGITS.criterion(module(*inputs), targets).item()), "loss"
                )


def test_reports_count_samples_and_right_answers(archive):
    path = archive(DIGITS.case)
    inputs, targets = DIGITS.batches([7])[0]
    with open_cluster(path, DIGITS, spread_cuts(ravnest.load(path), 2), microbatches=2) as cluster:
        cluster.train(inputs, targets)
        cluster.validate(inputs, targets)
        cluster.predict(inputs)
        first, second, validated, predicted = cluster.drain(PATIENCE_S)
    assert [first["samples"], second["samples"], validated["samples"]] == [4, 3, 7]
    assert validated["correct"] == int((predicted["outputs"][0].argmax(1) == targets).sum())


def test_a_kind_of_pass_that_there_is_not_is_refused(archive):
    with open_cluster(archive(DIGITS.case), DIGITS, []) as cluster, pytest.raises(ValueError, match='"trian"'):
        cluster._core.offer("trian", DIGITS.batches([4])[0][0], batch=0, update=False, timeout_s=PATIENCE_S)


def test_parameters_come_as_a_module_gives_them_and_by_stage(archive):
    for task, cuts in ((DIGITS, ["bn_1", "dense_1"]), (GPT, spread_cuts(ravnest.load(archive(GPT.case)), 3))):
        graph = ravnest.load(archive(task.case))
        with open_cluster(archive(task.case), task, cuts) as cluster:
            for kind in ("named_parameters", "named_buffers"):
                ours, theirs = (dict(getattr(each, kind)("m", remove_duplicate=False)) for each in (cluster, graph))
                assert_same(dict(sorted(ours.items())), dict(sorted(theirs.items())), kind)
            stages = [dict(cluster.named_parameters(stage=stage)) for stage in range(3)]
            assert [list(stage) for stage in stages] == [
                [name for name, _ in stage.named_parameters()] for stage in graph.slice(cuts)
            ]
            assert all(one is other for one, other in zip(cluster.parameters(stage=1), stages[1].values(), strict=True))
            assert set(cluster.state_dict()) == set(graph.state_dict())
