"""An example input for a model that came without one."""

import inspect
from itertools import islice

import torch
from torch.export import ExportedProgram

from .first_layers import FirstLayer, first_layers
from .trial import Trial

_BATCH = 64
_SMALLEST_BATCH = 2  # of one sample batch norm has no variance, and torch.export would take the size for a constant
_ACTIVATION_BYTES = 1_000_000_000
_LAYERS_TRIED = 4


def infer_example(model) -> tuple[tuple, dict]:
    """Arguments and keyword arguments with which `model` runs: `model(*args, **kwargs)`.

    They are guessed from the first layer that fixes the size of its input (in_features, in_channels, num_embeddings
    and their like), in the order of registration; where no size suits that layer, from the next few. Sizes grow from
    small to large, and the first with which a forward pass in training mode succeeds is taken; one at which a
    convolution is left with a single pixel, as ResNet-50 is at 8 x 8, only where no larger one does. So the example
    fits the model, but need not have the size of the user's data: memory estimated from it is that of the example.

    The batch is 64. It is halved, down to 2, as long as the tensors that its forward pass makes take more than 1 GB.
    An ExportedProgram gives its own example. The model, its modes, gradients and buffers, and torch's random state are
    left as they were; the example lies on the model's device.

    ValueError, which asks for `example_args`, where no try succeeds or the forward needs more than one argument.
    """
    if isinstance(model, ExportedProgram):
        if model.example_inputs is None:
            raise ValueError(f"the ExportedProgram carries no example inputs. {_advice()}")
        return model.example_inputs
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"ravnest infers an example for an nn.Module or an ExportedProgram, not for {type(model)}")
    model = getattr(model, "_orig_mod", model)
    keyword = _only_argument(model)
    trial, failures = Trial(model), []
    for layer in islice(first_layers(model), _LAYERS_TRIED):
        example = _try_layer(trial, layer, keyword, failures)
        if example is not None:
            return _placed(model, *example)
    raise ValueError(_sentence(model, failures))


def _only_argument(model) -> str | None:
    """The keyword for the one argument of the forward; None where it goes by position."""
    if isinstance(model, torch.jit.ScriptModule):
        arguments = model._c._get_method("forward").schema.arguments[1:]
        names = [argument.name for argument in arguments]
        required = [argument.name for argument in arguments if not argument.has_default_value()]
        by_keyword = [argument.name for argument in arguments if argument.kwarg_only]
    else:
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = inspect.signature(model.forward).parameters.values()
        names = [str(parameter) for parameter in parameters]
        required = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in variable]
        by_keyword = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if len(required) > 1:
        given = ", ".join(f"{name}=..." for name in required)
        raise ValueError(
            f"the forward of {_class_name(model)} takes ({', '.join(names)}), and inputs can be inferred for one "
            f"argument only. Give them: clusterize(model, example_kwargs=dict({given})), or by position as example_args"
        )
    if not names:
        raise ValueError(f"the forward of {_class_name(model)} takes no input, so there is nothing to train it on")
    return required[0] if required and required[0] in by_keyword else None


def _try_layer(trial, layer, keyword, failures):
    starved = None
    for shape in layer.shapes:
        outcome = trial.run(*_arguments(layer, shape, _SMALLEST_BATCH, keyword))
        if outcome.failure is not None:
            failures.append((layer, shape, outcome.failure))
            continue
        example = _arguments(layer, shape, _batch(outcome.activation_bytes), keyword)
        if not outcome.starved:
            return example
        starved = starved or example
    return starved


def _batch(activation_bytes_of_smallest):
    batch = _BATCH
    while batch > _SMALLEST_BATCH and activation_bytes_of_smallest * batch / _SMALLEST_BATCH > _ACTIVATION_BYTES:
        batch //= 2
    return batch


def _arguments(layer: FirstLayer, shape, batch, keyword):
    random = torch.Generator().manual_seed(0)
    if layer.tokens:
        tensor = torch.randint(0, layer.tokens, shape.sizes(batch), generator=random)
    else:
        tensor = torch.rand(shape.sizes(batch), generator=random).to(layer.dtype)
    return ((), {keyword: tensor}) if keyword else ((tensor,), {})


def _placed(model, args, kwargs):
    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    return tuple(tensor.to(device) for tensor in args), {name: tensor.to(device) for name, tensor in kwargs.items()}


def _class_name(model):
    return getattr(model, "original_name", type(model).__name__)


def _advice(shape=(64, 3, 224, 224)):
    sizes = ", ".join(str(size) for size in shape)
    return f"Give an example: clusterize(model, example_args=(torch.rand({sizes}),))"


def _sentence(model, failures):
    if not failures:
        return (
            f"no example input can be inferred for {_class_name(model)}: it has no layer that says what it takes "
            f"(Linear, Conv, Embedding, LSTM and their like). {_advice()}"
        )
    tried = {}
    for layer, shape, failure in failures:
        tried.setdefault(layer, []).append((shape.sizes(_SMALLEST_BATCH), failure))
    parts = [f"{layer}: {tries[0][0]} to {tries[-1][0]}" for layer, tries in tried.items()]
    reason = str(failures[0][2]).strip().partition("\n")[0][:300]
    return (
        f"no example input could be inferred for {_class_name(model)}. Tried without success for {'; '.join(parts)}; "
        f"the first failure was: {reason}. {_advice()}"
    )
