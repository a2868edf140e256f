"""From the stages that nodes saved to the state dict of the whole model."""

import os

from . import _core


def model_fusion(cluster_id: int = 0, *, trained: str | os.PathLike[str] = "trained", safetensors: bool = False) -> str:
    """Merge the saved stages of one cluster into `trained/trained_state_dict.pt`; print and return its path.

    The file has the keys, shapes and dtypes of your own `model.state_dict()`:

        model.load_state_dict(torch.load(ravnest.model_fusion(), weights_only=True))

    Each node saves its stage as `trained/cluster_{c}/node_{i}.safetensors` in its working directory; copy those of
    the cluster here first. Nothing is written unless all is in order.

    Args:
        cluster_id: The cluster whose stages are merged.
        trained: The folder with the saved stages, and of the file that is written.
        safetensors: Whether to write `trained_state_dict.safetensors` too.

    Returns:
        The path of the state dict.

    Raises:
        FileNotFoundError: Stages are missing; the message names them.
        ValueError: Stages were not saved together.
        ravnest.Error: A file is damaged.
    """
    written = _core.fuse(os.fspath(trained), cluster=cluster_id, safetensors=safetensors)
    also = f" and {written['safetensors']}" if written["safetensors"] else ""
    print(f"wrote {written['state_dict']} ({written['tensors']} tensors, {written['bytes']} bytes){also}")
    return written["state_dict"]
