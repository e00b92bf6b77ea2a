"""What a target is: something that runs nodes of graphs, with its rules and its lowerings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, get_args, get_type_hints

from fitzroy.base.errors import FitzroyError, UsageError
from fitzroy.base.registry import Registry
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.opaque import Opaque, opaque_reject
from fitzroy.compiler.partition import Placement, partition
from fitzroy.compiler.passes.base import Pass


def _takes_all(call: Call) -> Iterator[Reject]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Lowering:
    """How a target runs the calls of an operator.

    Attributes:
        emit: lowers a call that is not rejected; each target defines the other arguments.
        rejects: yields every reason why a call cannot be run, before anything is lowered.
    """

    emit: Callable[..., Any]
    rejects: Callable[[Call], Iterator[Reject]] = _takes_all


class Product(Enum):
    """What `Target.lower` makes of a model, which says how the linker makes a file of it."""

    FILE = "the file itself"
    METHOD = "a method of an ExecuTorch program"
    FUNCTION = "a function of a bytecode module"
    PROGRAMS = "programs of Edge TPU operators, which replace operators of the model"

    @property
    def joins(self) -> bool:
        """Whether several models go to one file."""
        return self in (Product.METHOD, Product.FUNCTION)


@dataclass(frozen=True)
class NoOptions:
    """Options of a target that has none."""


class Target(ABC):
    """A platform that runs nodes of graphs.

    Class attributes:
        name: name in the registry, in reports and on the command line.
        title: name for people.
        summary: what compiling for it makes, as a phrase.
        support: what `docs/operators.md` says of an operator that the target runs.
        suffix: the extension of its files.
        entry: the name that a single model's function gets in its files.
        fallbacks: names of the targets that are offered what it rejects, in this order.
        rest: what runs nodes that no target takes; empty if such a model is refused.
        options: a frozen dataclass of its options, with a default for each.
        product: what `lower` makes of a model.
        together: what to do with several models if a file has one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str] = ""
    support: ClassVar[str] = "lowering"
    suffix: ClassVar[str] = ".bin"
    entry: ClassVar[str] = "forward"
    fallbacks: ClassVar[tuple[str, ...]] = ()
    rest: ClassVar[str] = ""
    options: ClassVar[type[Any]] = NoOptions
    product: ClassVar[Product] = Product.FILE
    together: ClassVar[str] = "compile them one after the other"

    # --- what it runs ----------------------------------------------------------------------------

    @abstractmethod
    def lowerings(self) -> Mapping[str, Lowering]:
        """The lowerings of the operators that it runs, by operator name."""

    def rewrites(self) -> Collection[str]:
        """Operators that its passes rewrite as other operators."""
        return ()

    def rejects(self, call: Call) -> Iterator[Reject]:
        """Yield every reason why it cannot run a call, before anything is lowered."""
        lowering = self.lowerings().get(call.node.op)
        if lowering is None:
            opaque = call.node.op == Opaque.name
            yield opaque_reject(call) if opaque else self.missing(call)
        else:
            yield from lowering.rejects(call)

    def missing(self, call: Call) -> Reject:
        """The reason for a call whose operator has no lowering."""
        return Reject(f"{self.name}-operator", f"{self.title} has no {call.node.spelled}")

    def supports(self, op: str) -> str:
        """One word for how the target supports an operator; empty if it does not."""
        if op in self.lowerings():
            return self.support
        return "rewritten" if op in self.rewrites() else ""

    # --- how a model becomes a program -----------------------------------------------------------

    def chosen(self, settings: Mapping[str, object]) -> Any:
        """Its options.

        Args:
            settings: values of options by their names; members of enumerations may be strings.

        Raises:
            UsageError: there is no such option, or no such value.
        """
        kinds = get_type_hints(self.options)
        known = [item.name for item in fields(self.options)]
        found: dict[str, object] = {}
        for name, value in settings.items():
            if name not in known:
                raise UsageError(
                    f"the target {self.name} has no option {name!r}",
                    hint=f"options: {', '.join(known) or 'none'}",
                )
            if isinstance(value, str):
                value = _value(kinds[name], name, value)
            found[name] = value
        return self.options(**found)

    def preparations(self, graph: Graph, options: Any) -> tuple[Pass, ...]:
        """Passes that change the model itself, not only what is lowered of it.

        Args:
            graph: the model.
            options: the target's options.
        """
        return ()

    def corrections(self, graph: Graph, placements: Sequence[Placement]) -> tuple[Pass, ...]:
        """Passes that the model needs because some nodes do not run where they were meant to.

        Args:
            graph: the model.
            placements: groups of its nodes, after programs were made.
        """
        return ()

    def passes(self, options: Any) -> tuple[Pass, ...]:
        """What runs before nodes are placed.

        Args:
            options: an instance of `options`.
        """
        return ()

    def place(self, graph: Graph, options: Any) -> list[Placement]:
        """Groups of nodes in an order in which they can run, with what runs each.

        Args:
            graph: the graph after the passes.
            options: an instance of `options`.
        """
        return partition(graph, (self, *map(TARGETS.get, self.fallbacks)))

    def parts(self, graph: Graph, placements: Sequence[Placement]) -> dict[str, list[str]]:
        """What nodes become, by their names, where that is not a node of the same name.

        Args:
            graph: the graph after the passes.
            placements: where its nodes run.
        """
        return {}

    def lower(self, graph: Graph, placements: Sequence[Placement], name: str, options: Any) -> Any:
        """What a placed graph becomes: what `product` says.

        Args:
            graph: the graph after the passes.
            placements: all of its nodes, each with the target that runs it.
            name: name of the function or method.
            options: an instance of `options`.

        Raises:
            UnsupportedError: some node cannot be lowered.
            CapacityError: the program does not fit.
        """
        raise NotImplementedError

    def keeps_model(self, options: Any) -> bool:
        """Whether files hold the TFLite model itself, with other operators in places.

        Args:
            options: an instance of `options`.
        """
        return False

    def proven(
        self, graph: Graph, placements: Sequence[Placement], options: Any
    ) -> Sequence[Placement]:
        """Where nodes run, as far as only making programs shows that.

        Args:
            graph: the graph after the passes.
            placements: where they run by the target's rules.
            options: an instance of `options`.
        """
        return placements

    def settled(self, placements: Sequence[Placement], lowered: Any) -> Sequence[Placement]:
        """Where nodes run after lowering, which may find out that some have to run elsewhere.

        Args:
            placements: where they were to run.
            lowered: what `lower` made of them.
        """
        return placements

    def second_choice(self, options: Any, error: FitzroyError) -> Any | None:
        """Options with which a model compiles that did not with others; None if it will not.

        Args:
            options: an instance of `options`.
            error: why it did not.
        """
        return None


_TRUTHS = {"true": True, "false": False}


def _value(kind: Any, name: str, text: str) -> object:
    """The value of an option from text.

    Raises:
        UsageError: the option cannot have it.
    """
    if kind is bool and text in _TRUTHS:
        return _TRUTHS[text]
    known = ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        known = ", ".join(str(member.value) for member in kind)
    try:
        return kind(text) if kind in (int, float) or known else _text(kind, text)
    except ValueError:
        hint = f"values: {known}" if known else f"it is of type {kind.__name__}"
        raise UsageError(f"{name} cannot be {text!r}", hint=hint) from None


def _text(kind: Any, text: str) -> object:
    """Text for options that hold text or paths.

    Raises:
        ValueError: the option holds something else.
    """
    if kind is bool:
        raise ValueError
    return Path(text) if Path in (kind, *get_args(kind)) else text


TARGETS = Registry(
    "target",
    "targets",
    group="fitzroy.targets",
    base=Target,  # type: ignore[type-abstract]
    own={
        "edgetpu": "fitzroy.compiler.targets.edgetpu.target:EdgeTpu",
        "xnnpack": "fitzroy.compiler.targets.executorch.target:Xnnpack",
        "portable": "fitzroy.compiler.targets.executorch.target:Portable",
        "vm": "fitzroy.compiler.targets.vm.target:Vm",
    },
)
"""All targets by name."""
