"""How a node's process ends: with one sentence, last and once, and an exit status that tells."""

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from .. import _core
from ..errors import Error, Interrupted

# A process whose whole group or container is sent a signal may get it from its parent, too: that is not a second one.
_SAME_SIGNAL_S = 2.0

INTERRUPTED_STATUS = 130  # what shells say of a command that Ctrl-C has ended

_names = set()  # of this process's nodes
_held: list[int] | None = None  # signals that wait; None: they act at once
_ended_early = False
_heeded = {}  # signal -> the pid that heeds it: a process that is forked off does not


def end_in_words(name: str) -> None:
    """From now on, what ends this process, which is the node `name`, is said in a sentence where a script lets it pass.

    Ctrl-C, SIGTERM and SIGHUP raise Interrupted, unless the script or the shell has other plans for them, and end with
    the status 130. The failure of another node, of which this one only heard, is one line; its traceback is over there.
    """
    if not _names:
        before = sys.excepthook
        sys.excepthook = lambda kind, error, trace: _show(before, kind, error, trace)
        atexit.register(_end, os.getpid())
    _names.add(name)
    if threading.current_thread() is not threading.main_thread():
        return  # Python allows it nowhere else
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is usual or number in _heeded:
            _heeded[number] = os.getpid()
            signal.signal(number, _interrupt)


def ended_early() -> None:
    """The run has ended with a checkpoint, as some process of it was told to: what tells this one so comes too late."""
    global _ended_early
    _ended_early = True


@contextlib.contextmanager
def ending_by(want_end: Callable[[str], bool]) -> Iterator[None]:
    """Meanwhile SIGTERM and SIGUSR1, which machines send that are about to go, end the run with a checkpoint.

    `want_end(why)` asks for that, and says whether it will be. Otherwise, and the second time, signals act as ever; and
    so does one for which the run was over before it could end early. Where it has ended early they come too late.
    """
    usual = {signal.SIGTERM: _interrupt, signal.SIGUSR1: signal.SIG_DFL}
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number, handler in usual.items() if signal.getsignal(number) is handler]
    own, asked = os.getpid(), {}

    def ask(number, frame):
        if os.getpid() == own:
            if _ended_early:
                return
            if asked and time.monotonic() - max(asked.values()) < _SAME_SIGNAL_S:
                return
            if not asked and want_end(f"got {signal.Signals(number).name}"):
                asked[number] = time.monotonic()
                return
        signal.signal(number, usual[number])
        signal.raise_signal(number)

    for number in taken:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) is ask:
                signal.signal(number, signal.SIG_IGN if _ended_early else usual[number])
    for number in asked:
        signal.raise_signal(number)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """What would raise Interrupted meanwhile does so at the end: for what must not get lost before it has its name."""
    global _held
    if threading.current_thread() is not threading.main_thread():
        yield  # nothing is raised here
        return
    _held = []
    try:
        yield
    except BaseException:
        if _held:
            _core.hurry()  # what failed is what all are told, and nobody waits for those who are not there
        raise
    finally:
        held, _held = _held, None
    if held:
        raise _interruption()


def _interruption() -> Interrupted:
    return Interrupted(f"{', '.join(sorted(_names))} was interrupted")


def _interrupt(number, frame):
    if _heeded.get(number) == os.getpid():
        if _held is None:
            raise _interruption()
        _held.append(number)
        return
    if number == signal.SIGINT:
        signal.default_int_handler(number, frame)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _end(process: int) -> None:
    """All is done but to tell others of a failure: a signal cuts that short, and comes too late to end it otherwise."""
    if process != os.getpid():
        return  # it was forked off, and is no node
    _only_hurry()
    _core.finish_telling()
    for number in _heeded:
        if signal.getsignal(number) is _hurry:
            signal.signal(number, signal.SIG_IGN)


def _only_hurry() -> None:
    """What the process ends with is settled: a signal does not end it otherwise any more."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number, pid in _heeded.items():
        if pid == os.getpid() and signal.getsignal(number) is _interrupt:
            signal.signal(number, _hurry)


def _hurry(number, frame):
    _core.hurry()


def _show(before, kind, error, trace):
    if not sys.flags.interactive and not hasattr(sys, "ps1"):  # there it is not the end
        _only_hurry()
    if issubclass(kind, Interrupted):
        print(f"ravnest: {error}", file=sys.stderr, flush=True)
        raise SystemExit(INTERRUPTED_STATUS)
    if issubclass(kind, Error) and error.of_another:
        print(f"ravnest: {error}", file=sys.stderr, flush=True)
    else:
        before(kind, error, trace)
