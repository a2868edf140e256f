"""A rank that cannot be part of its run, on one of two machines with a launcher each: all end, and say why."""

import shutil
import subprocess
import sys

import pytest
from support import command
from support.endings import last_line, left_behind
from support.nodes import on_this_machine, wait_for_line
from support.places import SCRIPTS
from support.ports import free_ports
from support.ranks import TOKEN, clean_environment, end_run, start_process, write_run
from support.soaked import soaked_all

pytestmark = pytest.mark.slow

WAITS = "waiting for rank"
TOLD = "; the run ends with that once all ranks are there to hear it"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The small network, its data and a train.toml, in a folder that tests copy from."""
    folder = tmp_path_factory.mktemp("files")
    write_run(folder, epochs=1)
    return folder


@pytest.fixture
def folders(tmp_path, files):
    """The folders of two machines, each with all that `ravnest train` needs."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        shutil.copytree(files, folder)
    return folders


@pytest.fixture
def launchers():
    """(number, words, folder, port, more) -> the launcher of one rank, on machine `number` of two."""
    started = []

    def start(number, words, folder, port, **more):
        said = {
            "RAVNEST_TOKEN": TOKEN,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "NODE_RANK": str(number),
            "WORLD_SIZE": "2",
        }
        started.append(start_process(words, folder, {**said, **more}))
        return started[-1]

    yield start
    end_run(started)


def trains(*flags) -> list:
    return [command.COMMAND, "train", "model.pt2", "--strategy", "ddp", "--nodes", 2, "--devices", 1, *flags]


def script(*arguments) -> list:
    words = [sys.executable, SCRIPTS / "rank_script.py", *arguments]
    return [command.COMMAND, "launch", "--nodes", 2, "--devices", 1, "--", *words]


def all_end(launchers, sentence, within_s=10) -> list[str]:
    """Every one in time, with a status that is not 0 and that sentence as what its rank says: their outputs."""
    outputs = [process.communicate(timeout=on_this_machine(within_s))[0] for process in launchers]
    for process, output in zip(launchers, outputs, strict=True):
        assert process.returncode == 1, output
        assert sentence in output, output
    assert left_behind(launchers) == []
    return outputs


@pytest.mark.parametrize("failed", [0, 1])
def test_a_model_that_is_missing_on_one_machine_is_said_on_both(folders, launchers, failed):
    (port,) = free_ports(1)
    (folders[failed] / "model.pt2").unlink()
    late = launchers(1 - failed, trains(), folders[1 - failed], port)
    wait_for_line(late, WAITS)
    other = launchers(failed, trains(), folders[failed], port)
    sentence = f"ravnest: rank {failed} (127.0.0.1) failed: cannot open model.pt2: No such file or directory"
    for output in all_end([late, other], sentence):
        assert last_line(output).endswith(sentence), output


@pytest.mark.parametrize("failed", [0, 1])
def test_a_bad_config_on_one_machine_is_said_on_both(folders, launchers, failed):
    (port,) = free_ports(1)
    config = folders[failed] / "train.toml"
    config.write_text(config.read_text().replace("epochs = 1\n", "epochs = 0\n"))
    assert "epochs = 0" in config.read_text()
    late = launchers(1 - failed, trains(), folders[1 - failed], port)
    wait_for_line(late, WAITS)
    other = launchers(failed, trains(), folders[failed], port)
    outputs = all_end([late, other], f"ravnest: rank {failed} (127.0.0.1) failed: train.toml, line 2: epochs has to be")
    assert len({last_line(output).partition("ravnest: ")[2] for output in outputs}) == 1, outputs


def test_the_rank_that_cannot_begin_says_so_while_it_waits_for_the_others(folders, launchers):
    (port,) = free_ports(1)
    (folders[0] / "model.pt2").unlink()
    early = launchers(0, trains(), folders[0], port)
    wait_for_line(early, f"failed: cannot open model.pt2: No such file or directory{TOLD}")
    wait_for_line(early, "waiting for rank 1")
    all_end([early, launchers(1, trains(), folders[1], port)], "rank 0 (127.0.0.1) failed: cannot open model.pt2")


def test_on_one_machine_a_bad_config_ends_the_launcher_at_once(folders):
    (folders[0] / "train.toml").write_text("epochs = 0\n")
    words = [command.COMMAND, "train", "model.pt2", "--strategy", "ddp", "--devices", "2"]
    ended = subprocess.run(
        words, cwd=folders[0], env=clean_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("ravnest: train.toml, line 1: epochs has to be"), ended.stderr


# What goes wrong before the ranks meet: what the other rank says of it, and the last line of where it happened.
IN_PYTHON = {
    "capture fails": ("failed: its script raised CaptureError: ", "ravnest.errors.CaptureError: "),
    "option of pipelines": (
        "failed: its script raised ValueError: window= means something for pipelines only, where each node has a part "
        "of the model: leave it out with strategy='ddp'\n",
        "ValueError: window= means something",
    ),
    "unknown option": ("failed: its script raised TypeError: ", "TypeError: "),
}


@pytest.mark.parametrize(
    ("what", "failed"),
    [
        *zip(IN_PYTHON, (1, 0, 1), strict=True),
        *soaked_all(*zip(IN_PYTHON, (0, 1, 0), strict=True)),
    ],
)
def test_what_a_script_cannot_be_a_rank_for_is_said_on_both_machines(tmp_path, launchers, what, failed):
    of_others, own = IN_PYTHON[what]
    (port,) = free_ports(1)
    both = [launchers(number, script(what, failed), tmp_path, port) for number in (0, 1)]
    outputs = all_end(both, "", within_s=30)  # with the time that Python and torch take to start
    assert f"ravnest: rank {failed} (127.0.0.1) {of_others}" in outputs[1 - failed], outputs
    assert "Traceback" not in outputs[1 - failed], outputs
    assert "Traceback" in outputs[failed] and own in last_line(outputs[failed]), outputs
