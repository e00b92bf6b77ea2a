"""TFLite's interpreter on FitzRoy, which ``tflite_runtime`` and ``ai_edge_litert`` have.

Models with Edge TPU operators run on a device of FitzRoy's driver, and their other operators on
LiteRT where it is installed, else by reference semantics, and so do models that list objects.
Others run on LiteRT alone, in this process; where it is not installed, by reference semantics, with
a warning.

Facts: the published interface of LiteRT's Python package, and what it raises for wrong calls.
"""

from __future__ import annotations

import itertools
import os
import warnings
import weakref
from collections.abc import Callable, Sequence
from enum import Enum, unique
from typing import Any

from fitzroy.base.errors import FitzroyError
from fitzroy.base.files import read_file
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array
from fitzroy.compiler.ops.detections import Detections
from fitzroy.driver.runtime import litert
from fitzroy.formats.custom_op import CUSTOM_CODE
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.tflite_runtime.compiled import CompiledModel
from fitzroy.tflite_runtime.delegates import Delegate, load_delegate
from fitzroy.tflite_runtime.errors import ArgumentError, ArgumentTypeError, raising
from fitzroy.tflite_runtime.signatures import SignatureRunner

__all__ = ["Delegate", "Interpreter", "OpResolverType", "SignatureRunner", "load_delegate"]


@unique
class OpResolverType(Enum):
    """Which kernels compute operators on the host; numbers are those of TFLite."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


_OPTIMIZED = (OpResolverType.AUTO, OpResolverType.BUILTIN)

_interpreters: weakref.WeakValueDictionary[int, Interpreter] = weakref.WeakValueDictionary()
_handles = itertools.count(1)


class Interpreter:
    """A TFLite model as it runs.

    Args:
        model_path: its file.
        model_content: its bytes, instead of a file.
        experimental_delegates: what `load_delegate` gave. Models with Edge TPU operators take the
            first of FitzRoy's, others give LiteRT those that are not FitzRoy's.
        num_threads: threads of LiteRT; None for one.
        experimental_op_resolver_type: kernels of the host's operators; without default delegates,
            they round as TFLite's reference kernels do.
        experimental_preserve_all_tensors: keep values between operators, which models with Edge TPU
            operators cannot.
        options: further options of LiteRT, for models that run on it alone; for others they change
            nothing.

    Raises:
        ArgumentError: no model or two, no such file, or options that make no sense. This and the
            following are ValueErrors.
        FormatError: the model is malformed.
        UnsupportedError: operators exchange tensors of types that have no counterpart here.
        DeviceError: LiteRT has no kernel for an operator.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        **options: Any,
    ) -> None:
        resolver = _resolver(experimental_op_resolver_type)
        _check_threads(num_threads)
        _check_options(options)
        data, path = _content(model_path, model_content)
        self._delegates = list(experimental_delegates or ())
        # LiteRT has kernels for neither.
        compiled = CUSTOM_CODE.encode() in data
        ours = compiled or Detections.custom.encode() in data
        if ours or not litert.available():
            if experimental_preserve_all_tensors:
                raise ArgumentError(
                    "experimental_preserve_all_tensors cannot be kept",
                    reason="an Edge TPU does not give values between operators",
                    where=path,
                )
            self._runtime: Any = self._compiled(data, path, resolver, num_threads or 1)
            if not ours:
                _warn(path)
        else:
            options["experimental_preserve_all_tensors"] = experimental_preserve_all_tensors
            self._runtime = self._litert(data, num_threads, resolver, options)
        self._handle = next(_handles)
        _interpreters[self._handle] = self

    def _compiled(
        self, data: bytes, path: str, resolver: OpResolverType, threads: int
    ) -> CompiledModel:
        for delegate in self._delegates:
            if not isinstance(delegate, Delegate):
                raise ArgumentError(
                    f"{type(delegate).__name__} is no delegate for a model with Edge TPU operators",
                    where=path,
                    hint="load_delegate('libedgetpu.so.1') gives one",
                )
        device = self._delegates[0].device if self._delegates else None
        arithmetic = Arithmetic.XNNPACK if resolver in _OPTIMIZED else Arithmetic.TFLITE
        with raising(ValueError):
            return CompiledModel(data, path, device, arithmetic, threads)

    def _litert(
        self, data: bytes, threads: int | None, resolver: OpResolverType, options: dict[str, Any]
    ) -> Any:
        """The model on LiteRT."""
        from ai_edge_litert import interpreter as theirs

        foreign = [item for item in self._delegates if not isinstance(item, Delegate)]
        return theirs.Interpreter(
            model_content=data,
            experimental_delegates=foreign,
            num_threads=threads,
            experimental_op_resolver_type=theirs.OpResolverType[resolver.name],
            **options,
        )

    # --- running ---------------------------------------------------------------------------------

    def allocate_tensors(self) -> None:
        """Make tensors usable.

        Raises:
            RuntimeError: arrays of `tensor` are still there, or there is no delegate for Edge TPU
                operators.
        """
        self._runtime.allocate_tensors()

    def invoke(self) -> None:
        """Compute the outputs.

        Raises:
            RuntimeError: tensors are not allocated, arrays of `tensor` are still there, or a device
                or an operator fails.
        """
        self._runtime.invoke()

    def reset_all_variables(self) -> None:
        """Begin the next inference with states of zero."""
        self._runtime.reset_all_variables()

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Give an input another shape; then tensors have to be allocated again.

        Inputs of models with Edge TPU operators keep the shape that they were compiled for.

        Args:
            input_index: number of the tensor.
            tensor_size: the shape.
            strict: whether only extents may change that the model leaves open.

        Raises:
            ValueError: there is no such tensor, or it cannot have this shape.
            RuntimeError: arrays of `tensor` are still there, or LiteRT refuses the shape.
        """
        self._runtime.resize_tensor_input(input_index, tensor_size, strict)

    # --- tensors ---------------------------------------------------------------------------------

    def get_input_details(self) -> list[dict[str, Any]]:
        """Name, index, shape, element type and quantization of every input."""
        found: list[dict[str, Any]] = self._runtime.get_input_details()
        return found

    def get_output_details(self) -> list[dict[str, Any]]:
        """Name, index, shape, element type and quantization of every output."""
        found: list[dict[str, Any]] = self._runtime.get_output_details()
        return found

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """Name, index, shape, element type and quantization of all tensors of a subgraph.

        Raises:
            ValueError: there is no such subgraph.
        """
        found: list[dict[str, Any]] = self._runtime.get_tensor_details(subgraph_index)
        return found

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy elements into a tensor.

        Args:
            tensor_index: its number.
            value: an array of its shape and element type.

        Raises:
            ValueError: there is no such tensor, it is not allocated, or it is of another type.
        """
        self._runtime.set_tensor(tensor_index, value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """A copy of a tensor.

        Raises:
            ValueError: there is no such tensor, or it holds nothing.
        """
        found: Array = self._runtime.get_tensor(tensor_index, subgraph_index)
        return found

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that gives a tensor itself, to read and to write; see `invoke`."""
        found: Callable[[], Array] = self._runtime.tensor(tensor_index)
        return found

    # --- the model -------------------------------------------------------------------------------

    def num_subgraphs(self) -> int:
        """How many subgraphs the model has."""
        return int(self._runtime.num_subgraphs())

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of the inputs and outputs of every signature."""
        found: dict[str, dict[str, list[str]]] = self._runtime.get_signature_list()
        return found

    def get_signature_runner(self, signature_key: str | None = None) -> Any:
        """A signature to call with arrays by name.

        Args:
            signature_key: its name; None for the only one.

        Raises:
            ValueError: there is no such signature, or several to choose from.
        """
        return self._runtime.get_signature_runner(signature_key)

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        """Numbers of the tensors behind the names of every signature."""
        if isinstance(self._runtime, CompiledModel):
            return self._runtime.signatures
        found: dict[str, dict[str, dict[str, int]]] = self._runtime._get_full_signature_list()
        return found

    def _get_ops_details(self) -> list[dict[str, Any]]:
        """Index, name, and tensors of every operator."""
        found: list[dict[str, Any]] = self._runtime._get_ops_details()
        return found

    def _native_handle(self) -> int:
        """A number by which `interpreter_of` finds this; TFLite's is an address."""
        return self._handle

    def _invoke_anyway(self) -> None:
        """Compute the outputs, whatever arrays of `tensor` are there, if LiteRT does not mind."""
        if isinstance(self._runtime, CompiledModel):
            self._runtime.invoke_anyway()
        else:
            self._runtime.invoke()


def interpreter_of(handle: int) -> Interpreter:
    """The interpreter of a handle.

    Raises:
        ArgumentError: there is none, or not any more.
    """
    found = _interpreters.get(handle)
    if found is None:
        raise ArgumentError(f"there is no interpreter with handle {handle!r}")
    return found


_OPTIONS = (
    "experimental_disable_delegate_clustering",
    "experimental_default_delegate_latest_features",
    "experimental_compress_quantization_zero_points",
    "experimental_disable_delegate_node_fusion",
    "experimental_force_delegate_node_profiling",
)


def _check_options(options: dict[str, Any]) -> None:
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise ArgumentTypeError(
            f"Interpreter.__init__() got an unexpected keyword argument {unknown[0]!r}",
            reason=f"there are {', '.join(_OPTIONS)}",
        )


def _check_threads(count: int | None) -> None:
    if count is None:
        return
    if not isinstance(count, int):
        raise ArgumentError("type of num_threads should be int", reason=f"it is {count!r}")
    if count < 1:
        raise ArgumentError("num_threads should >= 1", reason=f"it is {count}")


def _resolver(given: Any) -> OpResolverType:
    """The kernels that are meant; LiteRT's own enumeration is taken, too."""
    name = given.name if isinstance(given, Enum) else ""
    if name not in OpResolverType.__members__:
        raise ArgumentError(f"Unrecognized passed in op resolver type: {given}")
    return OpResolverType[name]


def _content(path: str | os.PathLike[str] | None, content: bytes | None) -> tuple[bytes, str]:
    """The bytes of the model, and the name of its file."""
    if not path and not content:
        raise ArgumentError("`model_path` or `model_content` must be specified.")
    if path and content:
        raise ArgumentError("Can't both provide `model_path` and `model_content`")
    if path:
        name = os.fspath(path)
        try:
            return read_file(name), name
        except FitzroyError as error:
            raise ArgumentError(
                f"Could not open '{name}'.", reason=error.what, hint=error.hint
            ) from error
    if not isinstance(content, bytes):
        raise ArgumentTypeError("model_content takes bytes", reason=f"{type(content)} is given")
    return content, ""


def _warn(path: str) -> None:
    warnings.warn(
        f"{path or 'the model'} has no Edge TPU operators, and LiteRT is not installed: numpy "
        "computes it by reference semantics, slowly; " + install_extra("litert"),
        RuntimeWarning,
        stacklevel=3,
    )
