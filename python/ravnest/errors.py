"""The error that capture raises."""


class CaptureError(RuntimeError):
    """The model could not be captured as a graph that trains with the model's own numbers.

    The message is one or two sentences: what was found, where in the model's code if that is known, and what would
    help. Nothing has been written when it is raised.
    """
