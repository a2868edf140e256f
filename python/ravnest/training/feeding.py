"""What the root feeds, a batch at a time, in a training loop of the user's own."""

from collections.abc import Mapping
from typing import Any

from ..errors import Error
from .calls import Calls
from .sharding import Share


class Feeding(Calls):
    """Feeds batches to train on, to validate with and to predict for. On other nodes than the root these do nothing.

    Attributes:
        label_digest: Of the batch that is fed next; 0: it has none; None: not known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.label_digest: int | None = None

    @property
    def share(self) -> Share:
        """What this node's cluster trains on."""
        raise NotImplementedError

    def forward_compute(self, tensors: Any = None, **kwargs: Any) -> None:
        """Train on a batch. Returns as soon as there is room for the next one; `wait_for_backwards` waits for all.

        Args:
            tensors: The model's inputs by position: a tensor, a sequence of them, or a dict by name.
            **kwargs: The model's inputs by keyword (`attention_mask` or `l_attention_mask_`).
        """
        self.train_on(tensors, kwargs)

    def train_on(self, tensors: Any, kwargs: Mapping[str, Any]) -> None:
        """`forward_compute` with the keywords in a dict: their names may be any.

        Args:
            tensors: The model's inputs by position.
            kwargs: The model's inputs by keyword.
        """
        if not self.is_root:
            return
        self._direct_call()
        digest, self.label_digest = self.label_digest, None
        if digest is None and self.share.parts > 1:
            why = "with shard=True" if self.strategy is None else "since ranks share the data out,"
            raise Error(f"{why} a training loop takes its batches from trainer.train_loader, cut as the labels are")
        self.run.train(tensors, kwargs, digest or 0)

    def no_grad_forward_compute(self, tensors: Any = None, output_type: str | None = None, **kwargs: Any) -> Any:
        """Run a batch through the model in eval mode.

        Args:
            tensors: The model's inputs by position, as for `forward_compute`.
            output_type: "val_accuracy" or "accuracy" counts the batch in the present sweep, against `test_labels`: the
                sweep ends when something else is done, and of "val_accuracy" leaves a line in val_accuracies.txt.
                "prediction", or None, gives the model's outputs.
            **kwargs: The model's inputs by keyword.

        Returns:
            The model's outputs, where they are asked for, on the root.
        """
        if not self.is_root:
            return None
        self._direct_call()
        if output_type in (None, "prediction"):
            return self.run.predict(tensors, kwargs)
        if output_type not in ("val_accuracy", "accuracy"):
            raise ValueError(f"output_type must be 'val_accuracy', 'accuracy' or 'prediction', not {output_type!r}")
        self.run.validate(tensors, kwargs, 0, output_type == "val_accuracy")
        return None

    def wait_for_backwards(self) -> None:
        """Wait until all batches are trained on everywhere: the end of an epoch."""
        if not self.is_root or self._call is None:
            return
        self.run.wait_for_epoch()

    def trigger_save_submodel(self) -> None:
        """Save the stages: on all nodes when the root calls it while it trains, otherwise this node's."""
        if self._call is None:
            self._member.save()
        elif self.is_root:
            self._finish(save=True, goes_on=True)
            self._begin(self._member, self._call)

    def reset(self) -> None:
        """Forget how many batches there were: the next one is the first of a new epoch."""
        self.run.end_epoch()
        self.n_forwards = 0
