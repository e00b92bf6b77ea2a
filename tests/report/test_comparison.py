from __future__ import annotations

from typing import Any

from tests.report.test_html import HOSTILE, read

from fitzroy.report.comparison import page


def document(**changes: Any) -> dict[str, Any]:
    def figure(name: str, old: float | None, new: float | None, unit: str) -> dict[str, Any]:
        title = f"title of {name}"
        return {
            "name": name,
            "title": title,
            "unit": unit,
            "better": "less",
            "old": old,
            "new": new,
        }

    found: dict[str, Any] = {
        "old": "/a/b/old.tflite",
        "new": "/a/b/new.tflite",
        "figures": [
            figure("latency_us", 2000.0, 1000.0, "µs"),
            figure("cycles", 0, 7, ""),
            figure("output_bytes", 5, 5, "B"),
            figure("other", None, 4, ""),
        ],
        "layers": [
            {"name": "small", "old": 10, "new": 11},
            {"name": "large", "old": 100, "new": None},
        ],
        "layers_known": True,
        "host_operators": {"ARG_MAX": {"old": 0, "new": 2}},
        "samples": 0,
        "outputs": [],
        "regressions": ["cycles"],
    }
    return found | changes


def test_page_says_what_changed() -> None:
    text = page(document())
    read(text)
    assert "<title>old.tflite → new.tflite</title>" in text
    assert "/a/b" not in text
    assert "3 of 4 figures and 2 layers changed" in text
    assert 'class="better">-50.0 %' in text
    assert "operators on the host: ARG_MAX 0 → 2" in text
    assert "title of cycles got worse by more than is allowed" in text
    assert text.index(">large<") < text.index(">small<")


def test_figures_that_changed_stand_at_the_top() -> None:
    figures = [
        {"name": name, "title": f"title of {name}", "unit": "", "better": "less"}
        | {"old": old, "new": new}
        for name, old, new in (
            ("latency_us", 3, 2),
            ("cycles", 3, 3),
            ("transfer_bytes", 5, 5),
            ("model_bytes", 8, 9),
            ("cached_bytes", 1, 2),
            ("programs", 1, 2),
        )
    ]
    top = page(document(figures=figures, regressions=[])).partition("<h2>Figures")[0]
    shown = [figure["name"] for figure in figures if f"title of {figure['name']}" in top]
    assert shown == ["latency_us", "cycles", "model_bytes", "cached_bytes"]


def test_page_of_equal_models() -> None:
    text = page(document(layers=[], samples=3))
    read(text)
    assert "same cycles" in text
    unknown = page(document(layers=[], layers_known=False))
    assert "One side has no layers" in unknown
    assert "3 of 4 figures changed" in unknown
    assert "the same on all 3 inputs" in text


def test_names_are_escaped() -> None:
    layers = [{"name": HOSTILE, "old": 1, "new": 2}]
    outputs = [{"sample": HOSTILE, "output": HOSTILE, "text": HOSTILE}]
    hosts = {HOSTILE: {"old": 1, "new": 0}}
    changed = document(old=HOSTILE, layers=layers, outputs=outputs, host_operators=hosts, samples=1)
    reader = read(page(changed))
    assert [tag for tag, _ in reader.tags].count("script") == 1
    assert not [tag for tag, _ in reader.tags if tag == "img"]
