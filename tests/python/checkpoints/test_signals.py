"""What asks a process to end while it trains, and before and after that."""

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, signal
from ravnest.training import endings

said = []
def want_end(why):
    said.append(why)
    return {answer}

def send(number):
    signal.raise_signal(number)

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have what they start in the background ignore it
endings.end_in_words("node_0")
with endings.ending_by(want_end):
{inside}
{after}
"""


def play(inside: str, after: str = "", answer: bool = True) -> tuple[int, str]:
    """Status and output of a process that does so while it trains, and after that."""
    text = SCRIPT.format(inside="\n".join(f"    {line}" for line in inside.splitlines()), after=after, answer=answer)
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout + ended.stderr


INTERRUPTED = "ravnest: node_0 was interrupted\n"


def test_the_first_signal_asks_and_the_same_once_more_changes_nothing():
    status, said = play("send(signal.SIGTERM)\nsend(signal.SIGTERM)\nprint(said)\nraise SystemExit(0)")
    assert (status, said) == (0, "['got SIGTERM']\n")


def test_a_second_signal_later_ends_at_once():
    later = "send(signal.SIGUSR1)\nendings._SAME_SIGNAL_S = 0\nsend(signal.SIGTERM)\nprint('not reached')"
    assert play(later) == (130, INTERRUPTED)


def test_ctrl_c_ends_at_once():
    assert play("send(signal.SIGTERM)\nsend(signal.SIGINT)\nprint('not reached')") == (130, INTERRUPTED)


def test_where_nothing_can_be_kept_a_signal_ends_at_once():
    assert play("send(signal.SIGTERM)\nprint('not reached')", answer=False) == (130, INTERRUPTED)
    assert play("send(signal.SIGUSR1)\nprint('not reached')", answer=False) == (-signal.SIGUSR1, "")


def test_one_that_comes_when_the_run_is_over_ends_the_process_all_the_same():
    assert play("send(signal.SIGTERM)", "print('not reached')") == (130, INTERRUPTED)


@pytest.mark.parametrize(("number", "ends"), [("SIGTERM", (130, INTERRUPTED)), ("SIGUSR1", (-signal.SIGUSR1, ""))])
def test_after_training_signals_act_as_before(number, ends):
    assert play("pass", f"send(signal.{number})\nprint('not reached')") == ends


def test_a_process_that_is_forked_off_is_not_the_node():
    inside = """if (child := os.fork()) == 0:
    send(signal.SIGTERM)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said)"""
    assert play(inside) == (0, "-15 []\n")
