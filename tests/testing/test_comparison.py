"""What changed between two models, and how it is told."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.report.documents import VERSIONS
from fitzroy.testing import tables
from fitzroy.testing.comparison import Change, Comparison, OutputChange, compared
from fitzroy.testing.expected import Deviation
from fitzroy.testing.figures import FIGURES, LayerCost, ModelFigures, accuracy
from fitzroy.testing.reading import document_figures


def model(
    name: str,
    values: dict[str, float],
    *layers: tuple[str, float] | tuple[str, float, str, str],
    host: dict[str, int] | None = None,
) -> ModelFigures:
    return ModelFigures(name, values, tuple(LayerCost(*layer) for layer in layers), host)


def test_figures_side_by_side() -> None:
    old = model("a", {"cycles": 100, "streamed_bytes": 0, "cached_bytes": 8, "model_bytes": 5})
    new = model("b", {"cycles": 110, "streamed_bytes": 4, "cached_bytes": 8, "programs": 1})
    found = {item.name: item for item in compared(old, new).figures}
    assert (found["cycles"].percent, found["cycles"].regression) == (10, 10)
    assert found["streamed_bytes"].percent == math.inf
    assert found["cached_bytes"].same
    assert (found["model_bytes"].new, found["programs"].old) == (None, None)
    assert found["programs"].percent is None
    comparison = compared(old, new)
    assert [item.name for item in comparison.regressions(9)] == ["cycles", "streamed_bytes"]
    assert [item.name for item in comparison.regressions(9, ["cycles"])] == ["cycles"]
    assert [item.name for item in comparison.regressions(10)] == ["streamed_bytes"]


def test_figures_that_were_zero_have_no_percentage() -> None:
    old, new = (model(name, {"streamed_bytes": size}) for name, size in (("a", 0), ("b", 4096)))
    (item,) = compared(old, new).figures
    assert tables.change(item) == "was 0"
    assert tables.worse(item) == "from 0 B to 4,096 B"
    assert "got worse from 0 B to 4,096 B" in tables.markdown(compared(old, new), [item], 5)


def test_more_may_be_better() -> None:
    names = ("mapped_operators", accuracy("images top-1"))
    old, new = (dict.fromkeys(names, value) for value in (4.0, 3.0))
    for item in compared(model("a", old), model("b", new)).figures:
        assert item.regression == 25
    assert compared(model("a", new), model("b", old)).regressions(0) == ()


def test_layers_that_belong_together() -> None:
    old = [("a", 1.0), ("b", 2.0), ("b", 3.0), ("c", 4.0), ("z", 9.0)]
    new = [("a", 1.0), ("b", 2.5), ("b", 3.0), ("x", 7.0), ("z", 8.0)]
    found = compared(model("o", {}, *old), model("n", {}, *new)).layers
    assert found is not None
    assert [(item.name, item.old, item.new) for item in found] == [
        ("b", 2.0, 2.5),
        ("c", 4.0, None),
        ("x", None, 7.0),
        ("z", 9.0, 8.0),
    ]
    assert compared(model("o", {}, *old), model("n", {})).layers is None
    assert compared(model("o", {}, *old), model("n", {}, *old)).layers == ()


def layer(name: str, does: str, cycles: float) -> tuple[str, float, str, str]:
    return f"{name}: {does}" if name else does, cycles, name, does


def changes(
    old: list[tuple[str, float, str, str]], new: list[tuple[str, float, str, str]]
) -> list[tuple[str, float | None, float | None]]:
    found = compared(model("o", {}, *old), model("n", {}, *new)).layers
    assert found is not None
    return [(item.name, item.old, item.new) for item in found]


def test_a_layer_that_is_done_in_another_way_is_the_same_layer() -> None:
    old = [layer("x", "conv", 5.0), layer("y", "conv", 4.0), layer("z", "dense", 2.0)]
    new = [layer("x", "conv", 5.0), layer("y", "mac", 3.0), layer("y", "halo", 1.0)]
    assert changes(old, new) == [
        ("y: mac (was conv)", 4.0, 3.0),
        ("z: dense", 2.0, None),
        ("y: halo", None, 1.0),
    ]


def test_layers_without_names_belong_to_those_that_do_the_same() -> None:
    old = [layer("image", "input", 9.0), layer("x", "conv", 5.0), layer("y", "output", 3.0)]
    new = [layer("", "input", 8.0), layer("", "mac", 5.0), layer("", "output", 4.0)]
    expected = [
        ("image: input", 9.0, 8.0),
        ("x: conv", 5.0, None),
        ("mac", None, 5.0),
        ("y: output", 3.0, 4.0),
    ]
    assert changes(old, new) == expected
    assert [(name, b, a) for name, a, b in changes(new, old) if a and b] == [
        ("image: input", 9.0, 8.0),
        ("y: output", 3.0, 4.0),
    ]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=12),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=12),
)
def test_no_layer_is_lost(old: list[tuple[str, int]], new: list[tuple[str, int]]) -> None:
    sides = [model("m", {}, *((name, float(n)) for name, n in side)) for side in (old, new)]
    if not old or not new:
        return
    found = compared(sides[0], sides[1]).layers
    assert found is not None
    # What is gone, what came and what grew explains the difference of the sums.
    grown = sum((item.new or 0) - (item.old or 0) for item in found)
    assert grown == sum(n for _, n in new) - sum(n for _, n in old)
    count = sum(item.old is None for item in found) - sum(item.new is None for item in found)
    assert count == len(new) - len(old)


def test_many_layers_take_no_quadratic_time() -> None:
    old = model("o", {}, *((f"a{n}", 1.0) for n in range(5000)))
    new = model("n", {}, *((f"b{n}", 1.0) for n in range(5000)))
    assert len(compared(old, new).layers or ()) == 10_000


def test_operators_that_moved() -> None:
    old = model("a", {}, host={"SOFTMAX": 1, "CONV_2D": 2})
    new = model("b", {}, host={"SOFTMAX": 1, "GELU": 3})
    found = compared(old, new)
    assert found.host == {"CONV_2D": (2, 0), "GELU": (0, 3)}
    assert [*tables.moved(found)] == [
        "0 CONV_2D on the host, 2 before",
        "3 GELU on the host, 0 before",
    ]
    assert compared(old, model("b", {})).host == {}


def changed() -> tuple[Comparison, tuple[Change, ...]]:
    old = model(
        "old|<b>.tflite", {"latency_us": 100, "cycles": 1000, "programs": 1}, ("conv | `x`", 500)
    )
    new = model(
        "new\n.tflite", {"latency_us": 120, "cycles": 1000, "programs": 1}, ("conv | `x`", 700)
    )
    outputs = [OutputChange("four", Deviation("y<script>", "3 of 10 elements differ", 3, 2.0))]
    found = compared(old, new, 2, outputs)
    return found, found.regressions(5)


def test_markdown() -> None:
    found, worse = changed()
    text = tables.markdown(found, worse, 5)
    assert text.splitlines()[:9] == [
        "### old\\|&lt;b&gt;.tflite → new .tflite",
        "",
        "**predicted latency got worse by 20.0 %**, ",
        "at most 5 % are allowed.",
        "",
        "| figure | before | after | change |",
        "|---|---:|---:|---:|",
        "| predicted latency | 100.0 µs | 120.0 µs | +20.0 % |",
        "| cycles of the chip | 1,000 | 1,000 | same |",
    ]
    assert "1 more figures are the same." in text
    assert "Outputs differ on 1 of 2 inputs." in text
    assert "- four, y&lt;script&gt;: 3 of 10 elements differ" in text
    assert "| conv \\| \\`x\\` | 500 | 700 | +40.0 % |" in text
    assert "No figure got worse by more than 30 %." in tables.markdown(found, (), 30)


def test_markdown_fits_a_comment() -> None:
    layers = [("l" * 500 + str(n), float(n)) for n in range(3000)]
    new = [(name, cycles + 1) for name, cycles in layers]
    found = compared(model("a" * 9999, {}, *layers), model("b", {}, *new))
    text = tables.markdown(found, (), None)
    assert len(text) < 65_536
    assert "3000 layers changed, the 20 that changed most" in text


def test_csv() -> None:
    found, _ = changed()
    rows = [*csv.reader(io.StringIO(tables.table(found)))]
    assert rows == [
        ["kind", "name", "unit", "old", "new", "percent"],
        ["figure", "latency_us", "µs", "100", "120", "20"],
        ["figure", "cycles", "", "1000", "1000", "0"],
        ["figure", "programs", "", "1", "1", "0"],
        ["layer", "conv | `x`", "cycles", "500", "700", "40"],
        ["output", "four: y<script>", "elements", "0", "3", ""],
    ]
    formula = compared(model("a", {}, ("=1+1", 1)), model("b", {}, ("=1+1", 2)))
    assert "layer,'=1+1,cycles" in tables.table(formula)


# --- documents -----------------------------------------------------------------------------------


def read(document: object) -> ModelFigures:
    return document_figures(json.dumps(document).encode(), "d.json")


BENCH: dict[str, Any] = {
    "schema": "fitzroy-bench",
    "schema_version": VERSIONS["bench"],
    "first_seconds": 0.5,
    "seconds": {"p50": 0.001, "p90": 0.002, "p99": 0.003},
    "predicted": {"seconds": 0.0005, "host_seconds": 0, "cached_bytes": 7},
}


def test_figures_of_documents() -> None:
    assert read(BENCH).values == {
        "latency_us": 500,
        "host_us": 0,
        "measured_us": 1000,
        "measured_p90_us": 2000,
        "measured_p99_us": 3000,
        "first_us": 500_000,
        "cached_bytes": 7,
    }
    assert "latency_us" not in read(BENCH | {"predicted": None}).values


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ([], "it is no document"),
        ({}, "has no figures; those of fitzroy-compile "),
        ({"schema": "fitzroy-run", "schema_version": 1}, "has no figures"),
        (BENCH | {"schema_version": 99}, "has no figures"),
        (BENCH | {"seconds": 3}, "an object is wanted"),
        (BENCH | {"first_seconds": "1"}, "a number is wanted"),
        (BENCH | {"first_seconds": True}, "a number is wanted"),
        (BENCH | {"first_seconds": 10**30}, "a number is wanted"),
        ({"schema": "fitzroy-compile", "schema_version": VERSIONS["compile"]}, "a list of objects"),
        ({"schema": "fitzroy-test", "schema_version": VERSIONS["test"], "reports": [3]}, "objects"),
    ],
)
def test_documents_that_are_none(document: object, what: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(document)
    assert what in caught.value.what


def test_layers_of_documents_have_names_of_the_source_and_what_is_done() -> None:
    long = "convolution Net/block_1/Relu6;StatefulPartitionedCall/Net/block_1/Relu6"
    document = {
        "schema": "fitzroy-test",
        "schema_version": VERSIONS["test"],
        "reports": [
            {
                "file": "m.toml",
                "figures": {},
                "checks": [],
                "host_operators": None,
                "layers": [
                    {"name": "conv.1: mac of 36 terms", "cycles": 8},
                    {"name": long, "cycles": 3},
                    {"name": "input", "layer": "a;b", "cycles": 2},
                ],
            }
        ],
    }
    assert read(document).layers == (
        LayerCost("conv.1: mac of 36 terms", 8, "conv.1", "mac of 36 terms"),
        LayerCost("convolution Net/block_1/Relu6", 3),
        LayerCost("a: input", 2, "a;b", "input"),
    )


def test_documents_of_several_models() -> None:
    for schema, key in (("compile", "models"), ("test", "reports")):
        with pytest.raises(UsageError, match="a document of 2"):
            read({"schema": f"fitzroy-{schema}", "schema_version": VERSIONS[schema], key: [{}, {}]})


def test_broken_documents() -> None:
    for data in (b"{", b"{" * 60_000, b'{"a": NaN, "b": 1e999}', b"\xff"):
        with pytest.raises(FormatError):
            document_figures(data, "d.json")


def test_every_figure_has_a_title() -> None:
    assert len({item.title for item in FIGURES.values()}) == len(FIGURES)
