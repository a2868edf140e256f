"""The errors that ravnest raises."""

from ._core import Error

__all__ = ["CallbackError", "CaptureError", "Error", "Interrupted"]

Error.__module__ = "ravnest"  # where people find it
Error.__doc__ = """What could not be done, in a sentence that says what to do about it.

Attributes:
    of_another: Whether another process of the run failed, which the sentence names; this one only heard of it.
"""


class CaptureError(RuntimeError):
    """The model could not be captured as a graph that trains with the model's own numbers.

    The message is one or two sentences: what was found, where in the model's code if that is known, and what would
    help. Nothing has been written when it is raised.
    """


class CallbackError(RuntimeError):
    """A function of the user's has raised; the message is one line, for all nodes."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP has come to a node's process."""
