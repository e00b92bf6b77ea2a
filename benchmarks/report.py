"""Pages of docs/ made from the results: figures live in the JSON files only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.driver.fault_campaign import tables

from benchmarks.compiler_pages import compiler_figures
from benchmarks.conformance_pages import conformance, simulator_conformance
from benchmarks.detection_pages import floors_table, measures_tables, trained_table
from benchmarks.detector_pages import detectors_tables, trained_models_table
from benchmarks.first_minutes import page as first_minutes_page
from benchmarks.form_pages import instruction_forms
from benchmarks.html_pages import pages_table
from benchmarks.markdown import DOCS, NOTICE, Json, machine_line, renewed, table
from benchmarks.model_pages import models_tables
from benchmarks.onnx_pages import nodes_table, rules_table
from benchmarks.pipeline_pages import over_usb_table, pipelines_table, pipelines_text
from benchmarks.quantization_pages import accuracy_table, cost_text, score_table
from benchmarks.support import read_results, results_path
from benchmarks.timing_pages import hosts, timing
from benchmarks.twin_pages import proofs, refusals, speeds


def _cost(results: Json) -> str:
    """What compiling for the Edge TPU costs."""
    commands = results["commands"]
    rows = [
        (
            f"`{row['name']}`" if row["name"].endswith(".tflite") else row["name"],
            f"{row['read'] + row['compile'] + row['estimate']:.1f} s",
            "" if row["most_seconds"] is None else f"≤ {row['most_seconds']:g} s",
            f"{row['compile']:.1f} s",
            f"{row['estimate']:.1f} s",
            f"{row['bytes'] / (1 << 20):.0f} MiB",
            "" if row["most_bytes"] is None else f"≤ {row['most_bytes'] / (1 << 20):.0f} MiB",
        )
        for row in results["models"]
    ]
    header = ("model", "CPU time", "aim", "compile", "estimate", "peak of memory", "aim")
    return (
        "## Compile for the Edge TPU\n\n"
        "Seconds of CPU from the file of a model to that of the program, in a process that has "
        "compiled a small model before, and the estimate of an inference on the timing model, "
        "which `fitzroy compile` makes unless `--no-estimate` is given. Memory is all that the "
        "process takes at its peak. Large models do not fit the chip, which then gets most "
        "parameters with every inference.\n\n"
        f"{table(header, rows)}\n"
        f"`fitzroy compile` of the first model takes {commands['compile']:.1f} s of CPU in a new "
        f"process, {commands['command_ratio']:.2f} times as long as here. `fitzroy --version` "
        f"takes {1000 * commands['version']:.0f} ms, an interpreter that does nothing "
        f"{1000 * commands['nothing']:.0f} ms.\n\n{machine_line(results)}\n\n"
    )


def write_pages() -> list[Path]:
    """Write every page whose results are all at hand, and tell where."""
    written = []
    for name, (render, sources) in PAGES.items():
        if all(results_path(source).is_file() for source in sources):
            path = DOCS / name
            path.write_text(render(*(read_results(source) for source in sources)))
            written.append(path)
    return written


def benchmarks(
    compiling: Json, cost: Json, running: Json, memory: Json, edgetpu: Json, simulator: Json
) -> str:
    """The page of times and memory."""
    ours, official = compiling["ours"], compiling["official"]
    text = NOTICE + "# Benchmarks\n\n"
    text += (
        "Time and memory of FitzRoy compared with other tools: for users who compile many models "
        "or simulate a lot. `python -m benchmarks` measures the figures and writes this page.\n\n"
    )
    text += "## Compile\n\n"
    text += (
        "From the file of a quantized MobileNet v2 to the bytes of the program, in a warm "
        "process. The exporter of ExecuTorch starts from a module of torch, so its time is also "
        "given without quantization. Imports are not counted, except for the command.\n\n"
    )
    text += table(
        ("task", "time", "ratio to FitzRoy", "program"),
        [
            (
                f"FitzRoy, `{compiling['model']}`, median of {ours['count']}",
                f"{ours['median_ms']:.1f} ms",
                "1",
                f"{ours['bytes']:,} B",
            ),
            (
                "FitzRoy, `python -m fitzroy compile` in a new process",
                f"{1000 * ours['command_seconds']:.0f} ms",
                "",
                "",
            ),
            (
                "ExecuTorch exporter: export, lower, serialize",
                f"{official['lowering_seconds']:.2f} s",
                f"{compiling['lowering_ratio']:.0f}",
                f"{official['bytes']:,} B",
            ),
            (
                "ExecuTorch exporter, with quantization",
                f"{official['seconds']:.2f} s",
                f"{compiling['ratio']:.0f}",
                "",
            ),
        ],
    )
    text += f"\n{machine_line(compiling)}\n\n{_cost(cost)}## Run\n\n"
    text += (
        "One inference on one thread; both runtimes take turns. Medians of the execution alone, "
        "measured inside the process of the runtime. LiteRT uses its XNNPACK delegate. The ratio "
        "is FitzRoy's time divided by LiteRT's.\n\n"
    )
    text += table(
        ("model", "uint8 policy", "FitzRoy", "LiteRT", "ratio", "target"),
        [
            (
                f"`{case['model']}`",
                case["policy"] if "quant" in case["model"] else "",
                f"{case['ours']['median_ms']:.2f} ms",
                f"{case['litert']['median_ms']:.2f} ms",
                f"{case['ratio']:.3f}",
                "" if case["target"] is None else f"≤ {case['target']:g}",
            )
            for case in running["cases"]
        ],
    )
    text += f"\n{machine_line(running)}\n\n## Memory\n\n"
    text += (
        "Peak memory of a compilation, including the program, minus the memory that the process "
        "used before.\n\n"
    )
    text += table(
        ("model", "size", "resident", "ratio to the model", "traced allocations", "ratio"),
        [
            (
                f"`{memory['model']}`",
                f"{memory['model_bytes'] / 1e6:.1f} MB",
                f"{memory['resident_bytes'] / 1e6:.1f} MB",
                f"{memory['resident_ratio']:.2f}",
                f"{memory['traced_bytes'] / 1e6:.1f} MB",
                f"{memory['traced_ratio']:.2f}",
            )
        ],
    )
    text += f"\n{machine_line(memory)}\n\n## Compiled Edge TPU models\n\n"
    text += (
        "Medians in a warm process; both sides take turns. The ratio is FitzRoy's time divided by "
        "that of the peer. Unless the peer is FitzRoy itself, it is in C: the ratio shows the cost "
        "of Python, and does not compare with another tool for these files.\n\n"
    )
    text += table(
        ("task", "model", "FitzRoy", "bound", "peer", "peer's time", "ratio"),
        [
            (
                case["what"],
                f"`{case['subject']}`",
                _milliseconds(case["ours"]["median_ms"]),
                "" if case["bound_ms"] is None else f"≤ {case['bound_ms']:g} ms",
                case["peer"],
                _milliseconds(case["theirs"]["median_ms"]),
                f"{case['ratio']:.2f}",
            )
            for case in edgetpu["cases"]
        ],
    )
    text += f"\n{machine_line(edgetpu)}\n\n## Simulator\n\n"
    text += (
        "One inference in functional mode: a chip with cached parameters runs the main executable, "
        "from reading the program to the last byte of the outputs. A fixed amount of numpy work "
        "(products and gathers) alternates with the inferences. The ratio is that of the fastest "
        "times; compare it between machines. Bounds are a third of the time of a naive "
        "implementation on a machine like this.\n\n"
    )
    text += table(
        ("model", "median", "fastest", "bound", "numpy work", "ratio"),
        [
            (
                f"`{case['model']}`",
                f"{case['ours']['median_ms'] / 1000:.3f} s",
                f"{case['ours']['fastest_ms'] / 1000:.3f} s",
                "" if case["bound_seconds"] is None else f"≤ {case['bound_seconds']:.3f} s",
                _milliseconds(case["calibration"]["fastest_ms"]),
                f"{case['ratio']:.2f}",
            )
            for case in simulator["cases"]
        ],
    )
    return text + f"\n{machine_line(simulator)}\n"


def _milliseconds(value: float) -> str:
    return f"{value:.0f} ms" if value >= 10 else f"{value:.3g} ms"


def edgetpu_compiler(results: Json) -> str:
    """The page of the compiler for the Edge TPU, with the figures between markers made anew."""
    figures = compiler_figures(results)
    return renewed("edgetpu_compiler.md", f"{figures}\n{machine_line(results)}\n\n")


def driver(results: Json) -> str:
    """The page of the driver, with the figures between markers made anew."""
    bounds = results["bounds"]
    text = "\n"
    text += table(
        ("model", "transfers", "an inference", "per transfer", "bulk write of pyusb", "ratio"),
        [
            (
                f"`{case['model']}`",
                str(case["transfers"]),
                f"{case['microseconds_per_inference']:.0f} us",
                f"{case['microseconds_per_transfer']:.1f} us",
                f"{case['microseconds_of_pyusb_write']:.1f} us",
                f"{case['ratio']:.2f}",
            )
            for case in results["cases"]
        ],
    )
    text += (
        f"\nBounds: {bounds['microseconds_per_transfer']:g} us per transfer, ratio "
        f"{bounds['ratio']:g}. The ratio is that of the fastest of {results['repeats']} "
        "measurements.\n\nOn a device that takes "
        f"{1000 * results['latency']:g} ms for its program, with answers that are copied:\n\n"
    )
    text += table(
        ("model", "transfers", "bytes in", "bytes out", "CPU time of an inference"),
        [
            (
                f"`{case['model']}`",
                str(case["transfers"]),
                f"{case['bytes_in']:,}",
                f"{case['bytes_out']:,}",
                f"{case['microseconds_per_inference']:.0f} us",
            )
            for case in results["late"]
        ],
    )
    text += f"\n{machine_line(results)}\n\n"
    return renewed("driver.md", text)


def fault_campaign(results: Json) -> str:
    """The page of the fault campaign: its text, with the tables between markers made anew."""
    one = results["single"]
    count = sum(sum(row["endings"].values()) for row in one["rows"])
    bad = len(results["failures"]) + len(one["failures"])
    text = (
        f"\n{results['sessions']:,} sessions of seed {results['seed']}, "
        f"{results['transfers']:,} transfers, and {count:,} sessions with one fault, at every "
        f"fifth transfer of a session; together {results['cpu_seconds']:,} s of CPU time. "
        f"**{bad} of them ended in a way that must not happen.** Nothing ended "
        f"more than {results['latest_seconds']:.2f} s of simulated time after its deadline.\n\n"
    )
    text += tables(results) + tables(one)
    return renewed("fault_campaign.md", f"{text}{machine_line(results)}\n\n")


def modules(results: Json) -> str:
    """The page of bytecode modules, with the figures between markers made anew."""
    bounds, inference = results["bounds"], results["inference"]
    text = "\n"
    text += table(
        ("loop", "instructions a second", "bound"),
        [
            (name, f"{rate / 1e6:.1f} M", f"≥ {bounds['instructions_per_second'] / 1e6:g} M")
            for name, rate in results["instructions_per_second"].items()
        ],
    )
    text += (
        f"\nThe host program of the digits model executes {inference['instructions']} "
        f"instructions, which take {inference['share']:.2%} of an inference of "
        f"{1000 * inference['seconds']:.0f} ms on the simulated chip (bound "
        f"{bounds['share']:.0%}). Medians of {results['repeats']}. {machine_line(results)}\n\n"
    )
    return renewed("modules.md", text)


def robustness(fuzz: Json) -> str:
    """The page of robustness, with the table of fuzzing made anew."""
    rows: list[tuple[str, ...]] = [
        (
            f"`{run['target']}`",
            f"{run['cases']:,}",
            f"{run['outcomes'].get('accepted', 0):,}",
            str(run["failure_count"]),
            f"{run['seconds']:,.0f} s",
            f"{run['slowest_case_seconds']:.2f} s",
            _mebibytes(run.get("peak_resident_growth_bytes", run["peak_traced_bytes"])),
            str(run["date"]),
        )
        for run in fuzz["runs"]
    ]
    header = (
        "target", "cases", "accepted", "failures", "time", "slowest case", "greatest memory", "date"
    )  # fmt: skip
    return renewed("robustness.md", "\n" + table(header, rows) + "\n", "fuzzing")


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def models(results: Json) -> str:
    """The page of real models on every target."""
    return _with_tables("models.md", models_tables(results), results)


def detectors(results: Json, trained: Json) -> str:
    """The page of detectors at the sizes that they are used at."""
    path = DOCS / "detectors.md"
    text = f"\n{table(*trained_models_table(trained))}\n{machine_line(trained)}\n\n"
    path.write_text(renewed(path.name, text, "trained"))
    return _with_tables(path.name, detectors_tables(results), results)


def _with_tables(
    name: str, tables: Sequence[tuple[tuple[str, ...], Sequence[tuple[str, ...]]]], results: Json
) -> str:
    """A page with other tables, and what they were measured with."""
    text = "\n".join(table(*one) for one in tables)
    return renewed(name, f"\n{text}\n{machine_line(results)}\n\n")


def onnx(nodes: Json) -> str:
    """The page of the ONNX frontend with its tables."""
    path = DOCS / "onnx.md"
    path.write_text(renewed("onnx.md", rules_table(), "rules"))
    return renewed("onnx.md", nodes_table(nodes), "nodes")


def quantization(results: Json) -> str:
    """The figures of the page of quantization."""
    figures = f"\n{table(*accuracy_table(results))}\n{table(*score_table(results))}\n"
    return renewed("quantization.md", f"{figures}{cost_text(results)}\n{machine_line(results)}\n\n")


def twin(results: Json) -> str:
    """The figures of the twin on the page of the simulator."""
    first = results["proof"]["first_seed"]
    text = (
        f"\n{table(*speeds(results))}\n{machine_line(results)}\n\n"
        "Output bytes of the twin, compared with those of the simulated chip and of the\n"
        f"operators' numpy semantics (random models from seed {first:,}):\n\n"
        f"{table(*proofs(results))}\n"
        f"{refusals(results)}\n"
    )
    return renewed("simulator.md", text, "twin")


def pipelines(results: Json) -> str:
    """The figures of models that are cut for several chips."""
    tables = f"\n{table(*pipelines_table(results))}\n{table(*over_usb_table(results))}\n"
    return renewed(
        "pipelines.md", f"{tables}{pipelines_text(results)}\n{machine_line(results)}\n\n"
    )


def evaluation(results: Json) -> str:
    """The figures of the page of evaluations."""
    header = ("who computes", "seconds", "pictures a second", "the same report")
    count = results["examples"]
    rows = [
        (
            row["way"],
            f"{row['seconds']:.1f}",
            f"{count / row['seconds']:,.0f}",
            "yes" if row["same"] else "no",
        )
        for row in results["rows"]
    ]
    figures = ", ".join(f"{name} {value:.4f}" for name, value in results["figures"].items())
    text = f"\n{table(header, rows)}\n{count:,} pictures: {figures}.\n\n{machine_line(results)}\n\n"
    return renewed("evaluate.md", text, "evaluation")


def reports(results: Json) -> str:
    """The figures of the page of reports."""
    text = f"\n{table(*pages_table(results))}\n{machine_line(results)}\n\n"
    return renewed("reports.md", text, "pages")


def detections(results: Json, trained: Json, floors: Json) -> str:
    """The figures of the page of detections."""
    path = DOCS / "detections.md"
    found = {
        "trained": (trained_table(trained), trained),
        "floors": (floors_table(floors), floors),
        "figures": (measures_tables(results), results),
    }
    for part, (text, source) in found.items():
        path.write_text(renewed(path.name, f"{text}{machine_line(source)}\n\n", part))
    return path.read_text()


def first_minutes(results: Json) -> str:
    """The page of what a new user sees."""
    # Packages are those of the clone, which begins with none.
    return NOTICE + first_minutes_page(results, machine_line(results).partition(";")[0] + ".")


PAGES: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "benchmarks.md": (
        benchmarks,
        ("compile", "compile_cost", "run", "memory", "edgetpu", "simulator"),
    ),
    "conformance.md": (conformance, ("conformance",)),
    "simulator_conformance.md": (simulator_conformance, ("simulator_conformance",)),
    "simulator.md": (twin, ("twin",)),
    "pipelines.md": (pipelines, ("cuts",)),
    "evaluate.md": (evaluation, ("evaluation",)),
    "timing.md": (timing, ("timing",)),
    "hosts.md": (hosts, ("hosts",)),
    "edgetpu_compiler.md": (edgetpu_compiler, ("edgetpu_compiler",)),
    "instruction_forms.md": (instruction_forms, ("forms",)),
    "driver.md": (driver, ("driver",)),
    "fault_campaign.md": (fault_campaign, ("faults",)),
    "modules.md": (modules, ("modules",)),
    "detections.md": (detections, ("detections", "trained", "floors")),
    "models.md": (models, ("models",)),
    "detectors.md": (detectors, ("detectors", "trained")),
    "onnx.md": (onnx, ("onnx_nodes",)),
    "quantization.md": (quantization, ("quantization",)),
    "robustness.md": (robustness, ("fuzz",)),
    "first_minutes.md": (first_minutes, ("first_minutes",)),
    "reports.md": (reports, ("html_pages",)),
}
"""How each page is rendered, and from which results."""
