"""FitzRoy's errors as programs for TFLite catch them: as ``ValueError`` and ``RuntimeError``, too.

TFLite raises the first for models, arguments and delegates, the second for what fails while a model
runs. Errors keep their kind, text and attributes: a `DeviceError` is one whoever catches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fitzroy.base.errors import DeviceError, FitzroyError, UsageError


class ArgumentError(UsageError, ValueError):
    """A call that makes no sense, or arguments that do not fit the model."""


class ArgumentTypeError(UsageError, TypeError):
    """An argument of a type that the call does not take."""


class NotReadyError(UsageError, RuntimeError):
    """A call that comes too early, or while arrays of the caller show what it would change."""


class ResizeError(UsageError, ValueError, RuntimeError):
    """An input cannot have another shape. TFLite documents the one error and raises the other."""


class DelegateError(DeviceError, ValueError):
    """A delegate cannot be loaded."""


@contextmanager
def raising(builtin: type[Exception]) -> Iterator[None]:
    """Let errors from inside be of a built-in kind, too.

    Args:
        builtin: the kind, such as ValueError.

    Raises:
        FitzroyError: as raised inside, of a class that is `builtin` as well.
    """
    try:
        yield
    except FitzroyError as error:
        if isinstance(error, builtin):
            raise
        raise _as(error, builtin).with_traceback(error.__traceback__) from None


def _as(error: FitzroyError, builtin: type[Exception]) -> FitzroyError:
    """An error with the same text and attributes."""
    pair = (type(error), builtin)
    if pair not in _both:
        _both[pair] = type(pair[0].__name__, pair, {"__doc__": pair[0].__doc__})
    kind = _both[pair]
    same = kind.__new__(kind, *error.args)
    same.__dict__.update(error.__dict__)
    return same


_both: dict[tuple[type[FitzroyError], type[Exception]], type[FitzroyError]] = {}
"""Classes of errors that are of two kinds."""
