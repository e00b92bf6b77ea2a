"""Test files: what they ask, and what is wrong with them."""

from __future__ import annotations

import pytest

from fitzroy.base.errors import FormatError
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.testing.spec import Spec, parse_spec

FULL = """
model = "m_edgetpu.tflite"
labels = "labels.txt"
device = "sim"
mean = 127.5
std = [1, 2.5, 3]
keep_layout = true
shapes = { images = [1, 3, 8, 8], 1 = [] }
values = { sr = 16000, sizes = [[1, 2], [3, 4]] }
runs = 7
compile = { search = true }
[predict]
clock = "high"
driver = "fitzroy"
[limits]
cycles = 1000
latency_us = 12.5
mapped_operators = 3
[operators]
on_chip = ["CONV_2D"]
on_host = []
[[case]]
input = { left = "a.npy", right = "b.npy" }
expect = "y.npy"
tolerance = 2
[[case]]
name = "one"
input = "x.png"
top = "cat"
[[case]]
name = "two"
input = ["x.png", "y.png"]
top = 3
sha256 = { y = "%s" }
[[accuracy]]
data = "images"
names = "digit_{class}_"
top1 = 0.9
top5 = 1
samples = 10
""" % ("0a" * 32)


def parsed(text: str) -> Spec:
    return parse_spec(text.encode(), "folder/t.toml")


def test_everything_that_a_file_can_ask() -> None:
    spec = parsed(FULL)
    assert (spec.model, spec.labels, spec.device, spec.runs) == (
        "m_edgetpu.tflite",
        "labels.txt",
        "sim",
        7,
    )
    assert spec.file(spec.model) == "folder/m_edgetpu.tflite"
    assert spec.options == {"search": True}
    assert spec.how == Reading(
        shapes={"images": (1, 3, 8, 8), "1": ()},
        values={"sr": 16000, "sizes": [[1, 2], [3, 4]]},
        keep_layout=True,
    )
    assert spec.rule is not None
    assert (spec.rule.mean, spec.rule.std) == ((127.5,), (1.0, 2.5, 3.0))
    assert (spec.conditions.clock, spec.conditions.driver) == ("high", "fitzroy")
    assert spec.limits == {"cycles": 1000, "latency_us": 12.5, "mapped_operators": 3}
    assert spec.operators.on_chip == ("CONV_2D",)
    assert spec.operators.on_host == ()
    first, second, third = spec.cases
    assert (first.name, first.inputs) == ("a.npy", ("left=a.npy", "right=b.npy"))
    assert (first.expect, first.tolerance, first.top) == ("y.npy", 2, None)
    assert (second.name, second.inputs, second.top) == ("one", ("x.png",), "cat")
    assert (third.inputs, third.top) == (("x.png", "y.png"), 3)
    assert third.sha256 == {"y": "0a" * 32}
    (accuracy,) = spec.accuracies
    assert (accuracy.data, accuracy.name, accuracy.names) == ("images", "images", ("digit_", "_"))
    assert (accuracy.floors, accuracy.most) == ({1: 0.9, 5: 1.0}, 10)


def test_a_model_is_enough() -> None:
    spec = parsed('model = "m.tflite"')
    assert spec.device == "sim:direct"
    assert (spec.rule, spec.limits, spec.cases, spec.accuracies) == (None, {}, (), ())
    assert spec.operators.on_host is None
    assert spec.how == PLAINLY


CASE = 'model = "m"\n[[case]]\ninput = "x"\n'
ACCURACY = 'model = "m"\n[[accuracy]]\ndata = "d"\n'


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("", "model", "it is missing"),
        ("model = 3", "model", "a text is wanted, not '3'"),
        ('model = ""', "model", "a text is wanted"),
        ('model = "a\\u0000"', "model", "a text is wanted"),
        ('model = "m"\nmodell = 1', "modell", "no such key; there are accuracy, case, compile"),
        ('model = "m"\n[limits]\ncycle = 1', "limits.cycle", "there are cached_bytes, cycles"),
        ('model = "m"\n[limits]\ncycles = -1', "limits.cycles", "a number from 0"),
        ('model = "m"\n[limits]\ncycles = inf', "limits.cycles", "a number from 0"),
        ('model = "m"\n[limits]\ncycles = nan', "limits.cycles", "a number from 0"),
        ('model = "m"\n[limits]\ncycles = true', "limits.cycles", "a number from 0"),
        ('model = "m"\nlimits = 3', "limits", "a table is wanted"),
        ('model = "m"\nkeep_layout = 1', "keep_layout", "true or false is wanted"),
        ('model = "m"\nshapes = { x = [1, -1] }', "shapes.x", "a list of extents"),
        ('model = "m"\nshapes = { x = 3 }', "shapes.x", "a list of extents"),
        ('model = "m"\nvalues = { x = "3" }', "values.x", "a number, or lists of numbers"),
        ('model = "m"\nruns = 0', "runs", "a count is wanted"),
        ('model = "m"\nruns = 1.5', "runs", "a count is wanted"),
        ('model = "m"\nmean = "x"', "mean", "a number, or one per channel"),
        ('model = "m"\nmean = []', "mean", "a number, or one per channel"),
        ('model = "m"\nstd = 0', "mean", "--std must not be 0"),
        ('model = "m"\n[predict]\nspeed = 1', "predict.speed", "there are clock, driver, host"),
        ('model = "m"\n[operators]\non_chip = "CONV_2D"', "operators.on_chip", "a list"),
        ('model = "m"\ncase = 1', "case", "[[case]]"),
        ('model = "m"\n[[case]]\ntop = 1', "case 0.input", "it is missing"),
        (CASE, "case 0", "a case expects something"),
        (CASE + "top = 1.5", "case 0.top", "a class is wanted"),
        (CASE + "top = true", "case 0.top", "a class is wanted"),
        (CASE + "top = 1\ntolerance = 1", "case 0.tolerance", "it goes with expect"),
        (CASE + 'sha256 = "0"', "case 0.sha256", "64 hexadecimal digits"),
        (CASE + "top = 1\nfoo = 1", "case 0.foo", "no such key"),
        (CASE + "top = 1\n" + CASE.partition("\n")[2] + "top = 1", "case", "two of the name 'x'"),
        (ACCURACY, "accuracy 0", "a floor of at most 1"),
        (ACCURACY + "top1 = 1.1", "accuracy 0", "a floor of at most 1"),
        (ACCURACY + 'top1 = 1\nnames = "a"', "accuracy 0.names", "{class} is missing"),
        (ACCURACY + "top1 = 1\nsamples = 0", "accuracy 0.samples", "a count is wanted"),
        ("a = [", "", "it is no TOML"),
        ("\x00", "", "it is no TOML"),
        ("a." * 100_000 + "b = 1", "", "a name of many parts: 'a.a."),
        ('"x y" . ' * 16 + "b = 1", "", "a name of many parts"),
        ("a = " + "[" * 100_000, "", "it is no TOML"),
    ],
)  # fmt: skip
def test_faults_name_the_key_and_what_is_wanted(text: str, place: str, what: str) -> None:
    with pytest.raises(FormatError) as caught:
        parsed(text)
    assert caught.value.path == "folder/t.toml"
    assert caught.value.table == place
    assert what in caught.value.what


def test_files_are_limited() -> None:
    with pytest.raises(FormatError, match="262145 bytes, of at most 262144 of a test file"):
        parse_spec(b"#" * ((1 << 18) + 1), "t.toml")
    with pytest.raises(FormatError, match="it is no TOML"):
        parse_spec(b"\xff", "t.toml")
