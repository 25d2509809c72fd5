"""A network from its Python file, filled without a second copy of the weights in memory."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import torch

from makemar.handlers.errors import LoadError
from makemar.handlers.initialization import RandomInitPutOff
from makemar.handlers.weights import load_state

__all__ = ["load_eager"]


def load_eager(model_file: str, weights: Path | None) -> torch.nn.Module:
    """Build the network class of `model_file` and give it the state dict in `weights`.

    The class is the only `torch.nn.Module` that the file defines, or the only one that it lists
    in `__all__`. Without weights it keeps the values it was built with. Parameters keep the
    precision that the network was built in, whatever the file's. Raises `LoadError` that names
    the file and the reason.
    """
    kind = _network_class(model_file)
    if weights is None:
        return kind()
    state = load_state(weights)
    with RandomInitPutOff() as put_off:
        network = kind()
    built = dict(network.named_parameters(remove_duplicate=False))
    put_off.make_up(but=[parameter for name, parameter in built.items() if name in state])
    try:
        # The parameters become the file's own tensors: nothing is copied.
        network.load_state_dict(_in_precision_of(network, state), assign=True)
    except RuntimeError as error:
        raise LoadError(f"{weights.name} does not fit {kind.__name__}: {error}") from error
    _follow(built, network, put_off)
    return network


def _follow(
    built: Mapping[str, torch.nn.Parameter], network: torch.nn.Module, put_off: RandomInitPutOff
) -> None:
    """Give the file's values to those who keep a parameter that it has replaced.

    A list beside the modules may hold it, and would show memory never written to; a view of it
    shows what it was built with.
    """
    for name, parameter in network.named_parameters(remove_duplicate=False):
        replaced = built.get(name)
        if replaced is None or replaced is parameter:
            continue
        if put_off.was_read(replaced) and replaced.shape == parameter.shape:
            with torch.no_grad():
                replaced.copy_(parameter)
        replaced.data = parameter.data


def _network_class(model_file: str) -> type[torch.nn.Module]:
    module = _module(model_file)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, torch.nn.Module)
        and value.__module__ == module.__name__
    ]
    public = [kind for kind in classes if kind.__name__ in getattr(module, "__all__", ())]
    for candidates in (public, classes):
        if len(candidates) == 1:
            _check_arguments(candidates[0], model_file)
            return candidates[0]
    names = ", ".join(kind.__name__ for kind in classes) or "none"
    raise LoadError(
        f"{model_file}: expected one torch.nn.Module class, found {names}; "
        "name the network in __all__"
    )


def _module(model_file: str) -> ModuleType:
    name = Path(model_file).stem
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            raise LoadError(
                f"{model_file}: the model file named in the manifest is not in the archive"
            ) from error
        raise LoadError(
            f"{model_file} imports {error.name}, which is not there; pack its file, or add its "
            "package to requirements.txt"
        ) from error
    except SyntaxError as error:
        raise LoadError(f"{model_file} cannot be read: {error}") from error


def _check_arguments(kind: type[torch.nn.Module], model_file: str) -> None:
    """Insist on a network that is built without arguments: nobody here knows any."""
    needed = [
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if needed:
        raise LoadError(
            f"{model_file}: {kind.__name__} needs {', '.join(needed)} to be built; give them "
            "defaults, or pack a subclass that passes them"
        )


def _in_precision_of(
    network: torch.nn.Module, state: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Cast tensors that the file holds in another floating point precision than the network."""
    built = network.state_dict()
    return {
        name: tensor.to(built[name].dtype)
        if name in built and tensor.is_floating_point() and built[name].is_floating_point()
        else tensor
        for name, tensor in state.items()
    }
