"""The errors that ravnest raises."""

from ._core import Error

__all__ = ["CallbackError", "CaptureError", "Error", "Interrupted"]

Error.__module__ = "ravnest"  # where people find it


class CaptureError(RuntimeError):
    """The model could not be captured as a graph that trains with the model's own numbers.

    The message is one or two sentences: what was found, where in the model's code if that is known, and what would
    help. Nothing has been written when it is raised.
    """


class CallbackError(RuntimeError):
    """A function of the user's has raised; the message is one line, for all nodes."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP has come to a node's process."""
