"""Which mode a graph was made in, for models that carry one mode only."""

import torch
from torch.export import ExportedProgram

_FLAGS = ("train", "training", "use_input_stats")


def mode_flags(program: ExportedProgram) -> set[bool]:
    """The values of all train-or-eval arguments of the program's operators; empty where no operator has one."""
    found = set()
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        for position, argument in enumerate(node.target._schema.arguments):
            if argument.name in _FLAGS and argument.type.kind() == "BoolType":
                given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
                found.add(bool(argument.default_value if given is None else given))
    return found


def one_mode_warning(train: ExportedProgram, evaluation: ExportedProgram) -> str | None:
    """What to tell a user whose TorchScript module or ExportedProgram does the same in both modes, or None."""
    if True in mode_flags(evaluation):
        return (
            "the model was traced or exported in training mode and has no other: in eval it applies "
            "dropout and the batch's own statistics, too. Capture the nn.Module itself to have both"
        )
    if mode_flags(train) == {False}:
        return (
            "the model was traced or exported in eval mode and has no other: it will train without dropout and with "
            "frozen batch-norm statistics. Capture the nn.Module itself to have both"
        )
    return None
