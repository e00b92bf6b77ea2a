"""Two compiled models on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fitzroy.base.errors import UsageError
from fitzroy.base.progress import counted
from fitzroy.driver.runtime.devices import open_device
from fitzroy.execution.arrays import Normalization
from fitzroy.execution.inputs import Port, samples
from fitzroy.execution.interpreter import Interpreter
from fitzroy.testing.comparison import OutputChange
from fitzroy.testing.expected import deviation
from fitzroy.testing.spec import DEVICE


def output_changes(
    models: tuple[str, str],
    inputs: Sequence[str],
    rule: Normalization | None,
    tolerance: float = 0.0,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[int, tuple[OutputChange, ...]]:
    """How many inputs there are, and which outputs of the second model differ from the first's.

    Args:
        models: paths of two compiled models with the same inputs and outputs.
        inputs: files and folders, as ``--input`` takes them.
        rule: what pixels become.
        tolerance: the most that elements may differ by.
        progress: is told how far that is.

    Raises:
        UsageError: a file cannot be read, or the models have other inputs or outputs.
        SimulationError: a program fails.
    """
    with open_device(DEVICE) as first, open_device(DEVICE) as second:
        pair = (Interpreter(models[0], device=first), Interpreter(models[1], device=second))
        sides = [[Port(name, one.graph.type(name)) for name in one.graph.inputs] for one in pair]
        if [(port.type.shape, port.type.dtype) for port in sides[0]] != [
            (port.type.shape, port.type.dtype) for port in sides[1]
        ]:
            raise UsageError(
                "the models have other inputs",
                reason="; ".join(", ".join(str(port.type) for port in side) for side in sides),
                where=models[1],
            )
        chosen = samples(sides[0], inputs, models[0])
        found: list[OutputChange] = []
        for number, sample in enumerate(chosen):
            progress(counted("input", number + 1, len(chosen)))
            results = []
            for one, ports in zip(pair, sides, strict=True):
                one.reset_all_variables()
                # Each as its own quantization says.
                values = sample.read(ports, rule)
                results.append(
                    one.run({port.name: x for port, x in zip(ports, values, strict=True)})
                )
            if len(results[0]) != len(results[1]):
                counts = " and ".join(str(len(item)) for item in results)
                raise UsageError(f"the models have {counts} outputs", where=models[1])
            for (name, old), new in zip(results[0].items(), results[1].values(), strict=True):
                differs = deviation(name, new, old, tolerance)
                if differs is not None:
                    found.append(OutputChange(sample.name, differs))
        return len(chosen), tuple(found)
