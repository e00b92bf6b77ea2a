"""Shapes of inputs that a file leaves open, as the user gives them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TypeVar

from fitzroy.base.errors import UnsupportedError, UsageError

Shape = tuple[int, ...]

T = TypeVar("T")


def by_input(given: Mapping[str, T], names: Sequence[str], path: str) -> dict[str, T]:
    """What is given of inputs by the name of the input, which may be given by its number.

    Raises:
        UsageError: there is no such input.
    """
    found = {}
    for key, one in given.items():
        name = key
        if key not in names and key.isdecimal() and int(key) < len(names):
            name = names[int(key)]
        if name not in names:
            raise UsageError(f"no input {key!r}", where=path, hint=f"inputs: {', '.join(names)}")
        found[name] = one
    return found


def of_arrays(arrays: Mapping[str, T], names: Sequence[str]) -> dict[str, T]:
    """What there is of arrays by the name of the input that they are for.

    Arrays may also be for no input; what reads them judges that.

    Args:
        arrays: by name or number of the input; slashes in names may be underscores.
        names: names of the inputs.
    """
    keys = {name: key_of(arrays, name, number) for number, name in enumerate(names)}
    return {name: arrays[key] for name, key in keys.items() if key is not None}


def key_of(arrays: Container[str], name: str, number: int) -> str | None:
    """The name of the array that is for an input; None if there is none.

    Args:
        arrays: names of arrays.
        name: the input's name, in which numpy's archives have underscores for slashes.
        number: the input's number, which may be in the place of its name.
    """
    keys = (name, name.replace("/", "_"), str(number))
    return next((key for key in keys if key in arrays), None)


def fits(shape: Shape, extents: Sequence[int | None]) -> bool:
    """Whether a shape has the extents that a file says; None stands for any."""
    return len(shape) == len(extents) and all(
        extent in (None, chosen) for extent, chosen in zip(extents, shape, strict=True)
    )


def closed_shape(name: str, extents: Sequence[int | None], given: Shape | None, path: str) -> Shape:
    """The shape of an input.

    The first dimension, where it is open, counts 1.

    Args:
        name: the input.
        extents: what the file says; None is open.
        given: what the user says, None if nothing.
        path: name of the file, for errors.

    Raises:
        UsageError: the given shape does not fit.
        UnsupportedError: extents are open and no shape is given.
    """
    text = _spelled(extents)
    if given is not None:
        if not fits(given, extents):
            shown = "x".join(map(str, given))
            hint = f"a value of it is --input {name}=[{shown}]" if len(given) == 1 else ""
            raise UsageError(
                f"input {name!r} has shape {text or 'scalar'}, not {shown or 'scalar'}",
                where=path,
                hint=hint,
            )
        return given
    known = tuple(
        1 if extent is None and not axis else extent for axis, extent in enumerate(extents)
    )
    closed = tuple(extent for extent in known if extent is not None)
    if len(closed) < len(known):
        raise open_shape(name, f"shape {text}", f"{name}={_spelled(known)}", path)
    return closed


def _spelled(extents: Sequence[int | None]) -> str:
    return "x".join("?" if extent is None else str(extent) for extent in extents)


def open_shape(name: str, what: str, example: str, path: str) -> UnsupportedError:
    """The error of an input with open extents.

    Args:
        name: the input.
        what: what the file says of its shape.
        example: how to give the shape.
        path: name of the file.
    """
    return UnsupportedError(
        f"input {name!r} has {what}; compiling takes fixed extents",
        where=path,
        hint=f"give them: --input {example}, with a number for each ?",
    )
