"""Kill -9 of all nodes at ten random moments; tests/soak/checkpoint_kills.py has hundreds, of more ways."""

import pytest
from support.kills import Way, compare, moments, run

pytestmark = pytest.mark.slow

# Without Python nodes start soon; a loop of the user's takes as long as the interpreter does.
WAYS = {
    "pipeline": (3, Way("train.toml", loop="toml", epochs=25)),
    "clusters": (3, Way("two clusters of two", nodes=4, clusters=2, loop="toml", epochs=25)),
    "storage": (3, Way("two clusters in object storage", 4, 2, "toml", epochs=15, place="s3://lab/run")),
    "own loop": (1, Way("a loop of the user's", nodes=2, loop="own", epochs=3, delay_s=0.02)),
}


@pytest.mark.parametrize("case", WAYS)
def test_what_is_gone_on_from_is_what_would_have_been_whenever_all_are_killed(tmp_path, case):
    times, way = WAYS[case]
    expected = run(way, tmp_path / "whole", [])
    kills = moments(expected, times)
    print("killed after", *kills)
    compare(way, run(way, tmp_path / "killed", kills), expected)
