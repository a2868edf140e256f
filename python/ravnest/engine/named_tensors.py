"""Tensors with their names, given out as torch.nn.Module gives them."""

from collections.abc import Iterator, Mapping

import torch


class NamedTensors:
    """What has the parameters and buffers of a model, or of a part of it, under the model's own names."""

    def _tensors(self) -> tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]:
        """Parameters and buffers by all their names; those of a tied weight give one and the same tensor."""
        raise NotImplementedError

    def parameters(self, recurse: bool = True) -> Iterator[torch.Tensor]:
        """The parameters, each once, as torch.nn.Module gives them.

        Args:
            recurse: Has no effect; it is there because torch has it.
        """
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """The parameters with the model's own names, as torch.nn.Module gives them.

        Args:
            prefix: What all names begin with, before a dot.
            recurse: Has no effect; it is there because torch has it.
            remove_duplicate: Whether a tied weight comes once, under its first name, or under each of its names.
        """
        check_recurse(recurse)
        return named(self._tensors()[0], prefix, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[torch.Tensor]:
        """The buffers, each once; those that the model's state_dict leaves out too.

        Args:
            recurse: Has no effect; it is there because torch has it.
        """
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """The buffers with the model's own names, in the way of `named_parameters`.

        Args:
            prefix: What all names begin with, before a dot.
            recurse: Has no effect; it is there because torch has it.
            remove_duplicate: Whether a buffer with several names comes once or under each of them.
        """
        check_recurse(recurse)
        return named(self._tensors()[1], prefix, remove_duplicate)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name, detached, in the memory of the tensors themselves."""
        parameters, buffers = self._tensors()
        return {name: tensor.detach() for name, tensor in (*parameters.items(), *buffers.items())}


def check_recurse(recurse: bool, instead: str = "") -> None:
    """TypeError for what was meant for something else, such as a stage's number; `instead` says how that is written."""
    if not isinstance(recurse, bool):
        raise TypeError(f"recurse must be True or False, not {recurse!r}{instead}")


def named(
    tensors: Mapping[str, torch.Tensor], prefix: str, remove_duplicate: bool
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors with their names behind `prefix`; those with several names once, where `remove_duplicate` says so."""
    seen = set()
    for name, tensor in tensors.items():
        if remove_duplicate and id(tensor) in seen:
            continue
        seen.add(id(tensor))
        yield f"{prefix}.{name}" if prefix else name, tensor
