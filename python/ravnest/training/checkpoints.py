"""Which checkpoints a run makes, and which one it goes on from."""

import os
from typing import Any

from .. import _core
from ..settings import whole_number


class Checkpoints:
    """What a Trainer was told of checkpoints, checked.

    Attributes:
        folder: Where they are: a folder, or s3://BUCKET/FOLDER.
        resume: What to go on from: "" for nothing, "newest", "best", an update's number, a path or an s3:// URL.
    """

    def __init__(self, folder, every: str, keep: int, keep_every: int, best: str | None, resume):
        self.folder = os.fspath(folder)
        if self.folder.startswith("s3:/") and not self.folder.startswith("s3://"):
            raise ValueError(f"checkpoint={self.folder!r} is a path: give s3://BUCKET/FOLDER as a str")
        if "://" in self.folder and not self.folder.startswith("s3://"):
            raise ValueError(f"checkpoint={self.folder!r}: checkpoints go into a folder, or to s3://BUCKET/FOLDER")
        if not self.folder:
            raise ValueError("checkpoint= is empty: give the folder that checkpoints go into")
        if best not in (None, "val_accuracy"):
            raise ValueError(f"checkpoint_best must be 'val_accuracy' or None, not {best!r}")
        if not isinstance(every, str):
            raise ValueError(f"checkpoint_every must be 'epoch', '500 updates' or '10 min', not {every!r}")
        _core.check_every(every)
        self._every, self._best = every, best is not None
        self._keep = whole_number("checkpoint_keep", keep, least=0)
        self._keep_every = whole_number("checkpoint_keep_every", keep_every, least=0)
        self.resume = resume_of(resume)

    def tell(self, options: _core.TrainingOptions) -> None:
        """Hand it to the core."""
        options.checkpoint, options.resume = self.folder, self.resume
        options.checkpoint_every, options.checkpoint_best = self._every, self._best
        options.checkpoint_keep, options.checkpoint_keep_every = self._keep, self._keep_every
        options.environment = dict(os.environ)


def resume_of(resume: Any) -> str:
    """`resume=` as the core has it; RAVNEST_RESUME says it where the script does not."""
    if resume is None:
        return _core.resume_word(os.environ.get("RAVNEST_RESUME", ""))
    if isinstance(resume, bool):
        return "newest" if resume else ""
    if isinstance(resume, int):
        return str(resume)
    if isinstance(resume, str | os.PathLike) and os.fspath(resume):
        return _core.resume_word(os.fspath(resume))
    raise ValueError(f"resume must be True, 'best', the number of an update or a path, not {resume!r}")


def checkpoints_of(folder, every, keep, keep_every, best, resume) -> Checkpoints | None:
    """None where there are none; ValueError for what does not go together."""
    if folder is not None:
        return Checkpoints(folder, every, keep, keep_every, best, resume)
    if resume_of(resume):
        who = "RAVNEST_RESUME" if resume is None else "resume="
        raise ValueError(f"{who} needs checkpoint=, the folder in which the checkpoints are")
    if best is not None or keep_every:
        raise ValueError("checkpoint_best= and checkpoint_keep_every= need checkpoint=, the folder for checkpoints")
    return None
