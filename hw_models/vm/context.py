"""Modules that are linked together, and calls of their functions from outside."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fitzroy.formats.bytecode_module import (
    BytecodeModule,
    FunctionSignatureDef,
    ImportFunctionDef,
)
from fitzroy.hw_models.vm.functions import (
    STEP_BUDGET,
    Body,
    Call,
    Instance,
    NativeFunction,
    Target,
    Thread,
    Trace,
    references,
)
from fitzroy.hw_models.vm.interpreter import invoke_native
from fitzroy.hw_models.vm.objects import (
    BYTE_BUFFER,
    MUTABLE_BYTE_BUFFER,
    Object,
    Value,
    clear,
    take,
    wrap,
)
from fitzroy.hw_models.vm.opcodes import Dialect
from fitzroy.hw_models.vm.status import Status, VmError, VmTrap

INITIALIZER = "__init"
DEINITIALIZER = "__deinit"

REF_TYPES = frozenset({BYTE_BUFFER, MUTABLE_BYTE_BUFFER})
"""Types of references that the VM itself has."""


@dataclass(frozen=True, slots=True)
class NativeModule:
    """Functions of the host that modules may import.

    Attributes:
        name: name of the module.
        functions: functions by name.
    """

    name: str
    functions: Mapping[str, NativeFunction]


def check_types(module: BytecodeModule, registered: Collection[str] = REF_TYPES) -> None:
    """Check that all types of a module are known.

    Raises:
        VmError: one is not.
    """
    for name in module.type_names:
        if name != "i32" and not (name.startswith("!") and name[1:] in registered):
            raise VmError(
                Status.INVALID_ARGUMENT,
                f"the type {name!r} is not registered",
                where=module.name or "",
                hint=f"known are i32, {', '.join('!' + item for item in sorted(registered))}",
            )


class Context:
    """Modules in order: each may import from those before it.

    Args:
        modules: modules of the host, and modules with their dialect.
        trace: collects what is executed, if given.
        budget: most instructions of a call.

    Raises:
        VmError: an import that nothing provides.
    """

    def __init__(
        self,
        modules: Sequence[NativeModule | BytecodeModule | tuple[BytecodeModule, Dialect]],
        *,
        trace: Trace | None = None,
        budget: int = STEP_BUDGET,
    ) -> None:
        self._modules: list[NativeModule | Instance] = []
        self._trace = trace
        self._budget = budget
        self.steps = 0
        for item in modules:
            if isinstance(item, NativeModule):
                self._modules.append(item)
                continue
            module, dialect = item if isinstance(item, tuple) else (item, Dialect.B)
            instance = Instance(module, dialect)
            for imported in module.imported_functions or ():
                found = self._resolved(imported.full_name or "")
                _check_import(module, imported, found)
                instance.imports.append(found)
            self._modules.append(instance)
            self._run_if_present(instance, INITIALIZER)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Run the ends of all modules, the last first, and release their states."""
        while self._modules:
            item = self._modules[-1]
            if isinstance(item, Instance):
                self._run_if_present(item, DEINITIALIZER)
                item.released()
            self._modules.pop()

    def _run_if_present(self, instance: Instance, name: str) -> None:
        ordinal = instance.export(name)
        if ordinal is None:
            return
        try:
            # The VM hands nothing over, whatever the function takes: its registers are zero.
            self._invoke(Target(instance.body(ordinal)), None)
        except VmError as error:
            # The VM drops the outcome; what it would not have survived is none.
            if isinstance(error, VmTrap):
                raise

    def _find(self, module: str, function: str) -> Target | None:
        """A function of a module; of several modules with that name the last."""
        for item in reversed(self._modules):
            if item.name != module:
                continue
            full = f"{module}.{function}"
            if isinstance(item, NativeModule):
                native = item.functions.get(function)
                return None if native is None else Target(native=native, name=full)
            ordinal = item.export(function)
            return None if ordinal is None else Target(item.body(ordinal), name=full)
        return None

    def _resolved(self, name: str) -> Target:
        module, dot, function = name.partition(".")
        if not dot:
            raise VmError(Status.INVALID_ARGUMENT, f"the import {name!r} names no module")
        found = self._find(module, function)
        if found is None:
            raise VmError(
                Status.NOT_FOUND,
                f"nothing provides the import {name!r}",
                hint="register the module that exports it before",
            )
        return found

    def invoke(self, name: str, arguments: Sequence[Value] = ()) -> list[Value]:
        """Call an exported function.

        Args:
            name: ``module.function``, or a function of the last module.
            arguments: its arguments, of which the caller keeps its references.

        Returns:
            Its results; their references are the caller's.

        Raises:
            VmError: with the status of the call.
        """
        target = self._find(*name.split(".", 1)) if "." in name else None
        if target is None and self._modules:
            target = self._find(self._modules[-1].name, name)
        if target is None:
            raise VmError(Status.NOT_FOUND, f"no module exports {name!r}")
        return self._invoke(target, arguments)

    def _invoke(self, target: Target, arguments: Sequence[Value] | None) -> list[Value]:
        """Call a function; None for no arguments, whatever it takes."""
        ticks = iter(range(self._budget))
        thread = Thread(ticks, trace=self._trace)
        try:
            if target.body is None:
                call = Call(list(arguments or ()))
                for value in call.arguments:
                    if isinstance(value, Object):
                        value.retain()
                try:
                    return list(invoke_native(thread, target, call))
                finally:
                    call.release()
            if arguments is not None:
                _check(target.body, arguments)
            return _run(target.body, thread, arguments or ())
        finally:
            self.steps = self._budget - operator.length_hint(ticks)


def _check_import(module: BytecodeModule, imported: ImportFunctionDef, found: Target) -> None:
    """A function of another module has the signature with which it is imported.

    The VM does not look, and confuses integers with references.

    Raises:
        VmError: it has another one.
    """
    if found.body is None:
        return
    exporter = found.body.instance
    wanted = _named(module.type_names, imported.signature)
    there = _named(exporter.type_names, exporter.signature(found.body.ordinal))
    if wanted != there:
        raise VmError(
            Status.INVALID_ARGUMENT,
            f"{found.name} is {_shown(there)}",
            where=f"{module.name} imports it as {_shown(wanted)}",
        )


_Signature = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of the types of arguments, and of results."""


def _named(types: Sequence[str], signature: FunctionSignatureDef | None) -> _Signature:
    found = signature or FunctionSignatureDef()

    def names(ordinals: Sequence[int]) -> tuple[str, ...]:
        return tuple(types[n] if 0 <= n < len(types) else f"type#{n}" for n in ordinals)

    return names(found.arguments), names(found.results)


def _shown(signature: _Signature) -> str:
    arguments, results = (", ".join(names) for names in signature)
    return f"({arguments}) -> ({results})"


def _run(body: Body, thread: Thread, arguments: Sequence[Value]) -> list[Value]:
    """Call a function of a module from outside."""
    integers = [wrap(value) for value in arguments if isinstance(value, int)]
    objects = [value for value in arguments if not isinstance(value, int)]
    if len(objects) > body.refs:
        raise VmTrap(f"{len(objects)} references for {body.refs} registers", where=body.name)
    i, r = thread.enter(), references()
    i[: len(integers)] = integers
    for number, value in enumerate(objects):
        if value is not None:
            value.retain()
        r[number] = value
    try:
        returned = body.run(thread, i, r)
        return [
            take(r, register.number, register.move) if register.is_ref else i[register.number]
            for register in returned
        ]
    finally:
        clear(r, body.refs)


def _check(body: Body, arguments: Sequence[Value]) -> None:
    """Arguments have the number and the banks of the signature.

    Raises:
        VmError: they have not.
    """
    instance = body.instance
    wanted = instance.signature(body.ordinal).arguments
    names = instance.type_names
    banks_wanted = [names[kind] != "i32" if kind < len(names) else True for kind in wanted]
    if [not isinstance(value, int) for value in arguments] != banks_wanted:
        raise VmError(
            Status.INVALID_ARGUMENT,
            f"{len(arguments)} arguments for {body.name}",
            where=f"it takes ({', '.join(names[k] for k in wanted if k < len(names))})",
        )
