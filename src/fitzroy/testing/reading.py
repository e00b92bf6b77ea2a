"""Figures of models out of the JSON documents that verbs print."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.execution.estimate import Conditions
from fitzroy.formats.json_document import read_json
from fitzroy.report.documents import PREFIX, VERSIONS
from fitzroy.report.phases import short_name
from fitzroy.testing.figures import FIGURES, LayerCost, ModelFigures, accuracy, model_figures

Document = Mapping[str, Any]

_MOST_BYTES = 64 << 20
_MOST_LAYERS = 1 << 16
_MOST = 1e18


def figures_of(path: str, conditions: Conditions | None = None) -> ModelFigures:
    """Figures of a compiled model, or those that a document says of one.

    Args:
        path: a model, package or executable; or what ``fitzroy compile``, ``sim``, ``bench`` or
            ``test`` printed with ``--json``.
        conditions: clock, host and driver for models; documents say their own.

    Raises:
        UsageError: it cannot be read, is not compiled, or is a document of several models.
        FormatError: it is malformed.
        UnsupportedError: a package for a later runtime, or for several chips.
    """
    data = read_file(path)
    if data.lstrip()[:1] == b"{":
        return document_figures(data, path)
    return model_figures(data, path, conditions)


def document_figures(data: bytes, path: str = "") -> ModelFigures:
    """Figures that a document says; errors as those of `figures_of`.

    Args:
        data: the document.
        path: its name.
    """
    found = read_json(data, path, "a document", _MOST_BYTES)
    if not isinstance(found, dict):
        raise FormatError("it is no document", path=path)
    name = str(found.get("schema"))[:80]
    reader = _READERS.get(name.removeprefix(PREFIX))
    version = str(found.get("schema_version"))[:20]
    if reader is None or found.get("schema_version") != VERSIONS[name.removeprefix(PREFIX)]:
        known = ", ".join(f"{PREFIX}{key} {VERSIONS[key]}" for key in _READERS)
        raise FormatError(
            f"a document of the schema {name!r} {version} has no figures; those of {known} have",
            path=path,
        )
    return reader(_Reader(found, path, ""))


class _Reader:
    """An object of a document that is read field by field.

    Args:
        values: what it has.
        path: the file.
        place: where in it.
    """

    def __init__(self, values: Document, path: str, place: str) -> None:
        self.values = values
        self.path = path
        self.place = place

    def fault(self, key: str, wanted: str) -> FormatError:
        """The error for a field that is not what is wanted."""
        return FormatError(f"{wanted} is wanted", path=self.path, table=f"{self.place}{key}"[:200])

    def number(self, key: str) -> float:
        """A finite number."""
        value = self.values.get(key)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not abs(value) <= _MOST
            or not math.isfinite(value)
        ):
            raise self.fault(key, "a number")
        return float(value)

    def text(self, key: str) -> str:
        """A text."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.fault(key, "a text")
        return value

    def object(self, key: str) -> _Reader:
        """An object."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self.fault(key, "an object")
        return _Reader(value, self.path, f"{self.place}{key}.")

    def maybe(self, key: str) -> _Reader | None:
        """An object, if there is one."""
        return None if self.values.get(key) is None else self.object(key)

    def objects(self, key: str) -> list[_Reader]:
        """A list of objects."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fault(key, "a list of objects")
        return [
            _Reader(item, self.path, f"{self.place}{key}[{number}].")
            for number, item in enumerate(value)
        ]

    def numbers(self, key: str) -> dict[str, float]:
        """Numbers by name."""
        found = self.object(key)
        return {name: found.number(name) for name in found.values}

    def only(self, key: str, what: str) -> _Reader:
        """The only object of a list.

        Raises:
            UsageError: there are more, or none.
        """
        found = self.objects(key)
        if len(found) != 1:
            raise UsageError(
                f"a document of {len(found)} {what}s, one is compared", where=self.path
            )
        return found[0]

    def layers(self, key: str) -> Iterator[LayerCost]:
        """Layers with their cycles."""
        found = self.objects(key)
        if len(found) > _MOST_LAYERS:
            raise FormatError(f"{len(found)} layers, of at most {_MOST_LAYERS}", path=self.path)
        return (item.layer() for item in found)

    def layer(self) -> LayerCost:
        """A layer or phase, named after the source's layer if that is known."""
        cycles, name = self.number("cycles"), self.text("name")
        if self.values.get("layer"):
            layer = self.text("layer")
            return LayerCost(f"{short_name(layer)}: {name}", cycles, layer, name)
        # Documents of tests have titles, in which what is done stands after the layer.
        layer, colon, does = name.rpartition(": ")
        if colon:
            return LayerCost(name, cycles, layer, does)
        return LayerCost(short_name(name), cycles)


def _compile(root: _Reader) -> ModelFigures:
    """Figures of a compilation."""
    model = root.only("models", "model") if "models" in root.values else root
    parts = model.objects("subgraphs")
    files = model.objects("files")
    whole = model.maybe("inference")
    times = {} if whole is None else {"latency_us": whole.number("total_us")}
    times |= {} if whole is None else {"host_us": whole.number("host_us")}
    values = {
        **times,
        **_sums("cycles", "cycles", parts),
        "instruction_bytes": sum(part.number("instruction_bytes") for part in parts),
        "streamed_bytes": model.number("streamed_bytes"),
        "cached_bytes": model.number("cached_bytes"),
        "narrow_bytes": max((part.number("narrow_bytes") for part in parts), default=0.0),
        **({"model_bytes": files[0].number("bytes")} if len(files) == 1 else {}),
        "programs": len(parts),
        "host_operators": model.number("operators") - model.number("mapped"),
        "mapped_operators": model.number("mapped"),
    }
    layers = [layer for part in parts if "layers" in part.values for layer in part.layers("layers")]
    return ModelFigures(root.path, values, tuple(layers))


def _sums(name: str, key: str, parts: list[_Reader]) -> dict[str, float]:
    """A figure of all parts together, if all have it."""
    estimates = [part.maybe("estimate") for part in parts]
    found = [item.number(key) for item in estimates if item is not None]
    return {name: sum(found)} if parts and len(found) == len(parts) else {}


def _sim(root: _Reader) -> ModelFigures:
    """Figures of a simulation."""
    timing = root.maybe("timing")
    if timing is None:
        raise UsageError(
            "a document without times", where=root.path, hint="leave --functional and --stop-at out"
        )
    sent = {
        "instruction_bytes": timing.number("instruction_bytes"),
        "streamed_bytes": timing.number("streamed_bytes"),
        "input_bytes": sum(timing.numbers("inputs").values()),
        "output_bytes": sum(timing.numbers("outputs").values()),
    }
    values = {
        "latency_us": timing.number("total_us"),
        "cycles": timing.number("cycles"),
        **sent,
        "transfer_bytes": sum(sent.values()),
        "cached_bytes": timing.number("cached_bytes"),
    }
    return ModelFigures(root.path, values, tuple(timing.layers("phases")))


def _bench(root: _Reader) -> ModelFigures:
    """Figures of a measurement."""
    seconds, predicted = root.maybe("seconds"), root.maybe("predicted")
    values: dict[str, float] = {}
    if predicted is not None:
        values |= {"latency_us": 1e6 * predicted.number("seconds")}
        values |= {"host_us": 1e6 * predicted.number("host_seconds")}
    if seconds is not None:
        values |= {
            "measured_us": 1e6 * seconds.number("p50"),
            "measured_p90_us": 1e6 * seconds.number("p90"),
            "measured_p99_us": 1e6 * seconds.number("p99"),
            "first_us": 1e6 * root.number("first_seconds"),
        }
    if predicted is not None:
        values |= {"cached_bytes": predicted.number("cached_bytes")}
    return ModelFigures(root.path, values)


def _test(root: _Reader) -> ModelFigures:
    """Figures of a test file's model, and its accuracies."""
    report = root.only("reports", "test file")
    found = report.object("figures")
    values = {name: found.number(name) for name in FIGURES if name in found.values}
    for check in report.objects("checks"):
        if check.text("kind") == "accuracy" and check.values.get("found") is not None:
            values[accuracy(check.text("name"))] = check.number("found")
    host = report.maybe("host_operators")
    counts = None if host is None else {name: int(host.number(name)) for name in host.values}
    source = f"{report.text('file')} in {root.path}"
    return ModelFigures(source, values, tuple(report.layers("layers")), counts)


_READERS = {"compile": _compile, "sim": _sim, "bench": _bench, "test": _test}
