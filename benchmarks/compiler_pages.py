"""Figures of the page of the compiler for the Edge TPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.markdown import table

Json = Mapping[str, Any]


def compiler_figures(results: Json) -> str:
    """All of them: models, Google's compiler, random models, time and memory."""
    return (
        _models(results["models"])
        + _against_google(results)
        + _estimates(results["models"])
        + _random_models(results["random"])
        + _time_and_memory(results["apart"], results["bounds"])
    )


# --- models --------------------------------------------------------------------------------------


def _models(models: Sequence[Json]) -> str:
    ran = [entry for entry in models if not entry["failure"]]
    equal = [entry for entry in ran if entry["bytes"] and not entry["differing"]]
    exact = [entry for entry in equal if not entry["faults"]]
    header = (
        "model", "operators on the chip", "parts", "bytes compared", "differing", "largest",
        "over USB", "chunks", "instructions", "cached", "streamed", "compile time",
    )  # fmt: skip
    reasons = [
        (f"`{entry['model']}`", str(count), reason)
        for entry in ran
        for reason, count in entry["reasons"].items()
    ]
    failures = [
        f"\n`{entry['model']}` fails: {fault}\n"
        for entry in models
        for fault in (entry["failure"], *entry["faults"])
        if fault
    ]
    return (
        f"\n**{len(models)} models: {len(ran)} compile, {len(exact)} give no differing byte; over "
        f"USB, {sum(entry['usb_differing'] for entry in ran):,} of "
        f"{sum(entry['usb_bytes'] for entry in ran):,} bytes differ.**\n\n"
        + table(header, [_model(entry) for entry in ran])
        + "\nOperators that stay on the host, and why:\n\n"
        + table(("model", "operators", "reason"), reasons)
        + "".join(failures)
    )


def _model(entry: Json) -> tuple[str, ...]:
    return (
        f"`{entry['model']}`",
        f"{entry['mapped']} of {entry['operators']}",
        str(entry["segments"]),
        f"{entry['bytes']:,}",
        f"{entry['differing']:,}",
        str(entry["largest"]),
        f"{entry['usb_differing']:,} of {entry['usb_bytes']:,}",
        str(entry["chunks"]),
        f"{entry['ours']['instructions']:,} B" if entry["ours"] else "",
        f"{entry['cached']:,} B",
        f"{entry['streamed']:,} B",
        f"{entry['seconds']:.2f} s",
    )


# --- Google's compiler ---------------------------------------------------------------------------


def _against_google(results: Json) -> str:
    bounds, ratios = results["bounds"], results["ratios"]
    both = [entry for entry in results["models"] if entry["ours"] and entry["google"]]
    cycles = (
        "model", "operators", "cycles", "Google's", "ratio", "bound", "of the bound",
        "after the input", "Google's", "ratio", "op engine steps", "Google's", "ratio",
        "instructions", "Google's", "parameters", "Google's",
    )  # fmt: skip
    links = list(results["inferences"])
    inferences = [
        "model",
        *(part for link in links for part in (link, "Google's", "ratio", "host alone")),
    ]
    return (
        f"\n### Against Google's compiler\n\n**Geometric mean of the cycles: {results['mean']:.3f} "
        f"of Google's (bound {bounds['mean']:g}), {len(ratios)} models, the worst "
        f"{max(ratios.values(), default=0):.3f} (bound {bounds['most']:g}). After the input: "
        f"{results['computing_mean']:.3f}.**\n\n"
        + table(cycles, [_cycles(entry) for entry in both])
        + "\n### Whole inferences\n\n"
        + "".join(_means(results["inferences"]))
        + "\n"
        + table(tuple(inferences), [_inference(entry, links) for entry in both])
    )


def _means(inferences: Json) -> Iterator[str]:
    for link, row in inferences.items():
        yield (
            f"- {link}: geometric mean **{row['mean']:.3f}** of Google's times, the worst "
            f"{row['most']:.3f}. Programs without any compute time would reach "
            f"{row['floor']:.3f}. In [short chunks](codegen.md#what-overlaps), which need a device "
            f"that confirmed them and everything else in these programs: {row['paced']:.3f}.\n"
        )


_REPEATED = "pointwise"
"""A kind of layer of which two models have about 500 equal ones."""


def _estimates(models: Sequence[Json]) -> str:
    """How well layers were estimated."""
    kinds: dict[str, list[Json]] = {}
    for entry in models:
        for kind, found in entry["layers"].items():
            kinds.setdefault(kind, []).append(found)
    rows = [
        (kind, *(sum(one[key] for one in some) for key in ("count", "close", "expected", "timed")))
        for kind, some in sorted(kinds.items())
    ]
    shares = [
        f"{close:,} of {count:,} ({100 * close / count:.1f} %)"
        for some in (rows, [row for row in rows if row[0] != _REPEATED])
        for count, close in [[sum(row[column] for row in some) for column in (1, 2)]]
    ]
    return (
        "\n### Estimates\n\nThe code generator decides by estimates of the cycles of layers. "
        f"**{shares[0]} are within 10 % of the timing model** on its default host; without "
        f"{_REPEATED} layers, most of which are in two models of equal ones, {shares[1]}. Those of "
        "inputs and outputs include the time in which they wait for the link, or for a host that "
        "still reads outputs of steps before. Layers that run in one phase count as one.\n\n"
        + table(
            ("layers", "number", "within 10 %", "estimated cycles", "timed cycles"),
            [(row[0], *(f"{value:,.0f}" for value in row[1:])) for row in rows],
        )
    )


def _cycles(entry: Json) -> tuple[str, ...]:
    ours, google, bound = entry["ours"], entry["google"], entry["bound"]
    same = ours["operators"] == google["operators"]
    ratio = f"{ours['cycles'] / google['cycles']:.3f}"
    return (
        f"`{entry['model']}`",
        str(ours["operators"]) if same else f"{ours['operators']}, Google's {google['operators']}",
        f"{ours['cycles']:,.0f}",
        f"{google['cycles']:,.0f}",
        ratio if entry["comparable"] else f"({ratio})",
        f"{bound:,.0f}",
        f"{ours['cycles'] / bound:.1f}",
        f"{ours['computing']:,.0f}",
        f"{google['computing']:,.0f}",
        f"{ours['computing'] / google['computing']:.3f}",
        f"{ours['steps']:,}",
        f"{google['steps']:,}",
        f"{ours['steps'] / google['steps']:.3f}" if google["steps"] else "",
        f"{ours['instructions']:,} B",
        f"{google['instructions']:,} B",
        f"{ours['parameters']:,} B",
        f"{google['parameters']:,} B",
    )


def _inference(entry: Json, links: Sequence[str]) -> tuple[str, ...]:
    row = [f"`{entry['model']}`"]
    for link in links:
        ours, google = (entry[who]["milliseconds"][link] for who in ("ours", "google"))
        ratio = f"{ours / google:.3f}"
        row += [
            f"{ours:.3f} ms",
            f"{google:.3f} ms",
            ratio if entry["comparable"] else f"({ratio})",
            f"{entry['least'][link]:.3f} ms",
        ]
    return tuple(row)


# --- random models, time and memory --------------------------------------------------------------


def _random_models(tally: Json) -> str:
    mapped = sum(tally["mapped"].values())
    text = (
        f"\n### Random models\n\n{tally['models']:,} models, {tally['segments']:,} parts with "
        f"{mapped:,} operators of {len(tally['mapped'])} kinds, {tally['bytes']:,} bytes compared: "
        f"**{len(tally['failures'])} parts fail or differ**; the verifier rejects "
        f"{len({seed for seed, _ in tally['unordered']})} more.\n\n"
    )
    operators = [(f"`{name}`", f"{count:,}") for name, count in sorted(tally["mapped"].items())]
    text += table(("operator", "on the chip"), operators)
    if tally["refused"]:
        refused = [(str(count), reason) for reason, count in sorted(tally["refused"].items())]
        text += "\nOperators on the host:\n\n" + table(("number", "reason"), refused)
    if tally["failures"]:
        failures = [(str(seed), fault) for seed, fault in tally["failures"]]
        text += "\n" + table(("seed", "fault"), failures)
    return text


def _time_and_memory(apart: Json, bounds: Json) -> str:
    runs = apart["runs"]
    digests = {digest for run in runs for digest in run["digest"].split()}
    return (
        f"\n### Time and memory\n\n`{apart['model']}` in {len(runs)} separate processes, each with "
        f"another hash seed, without imports: "
        f"{min(run['seconds'] for run in runs):.2f} s for the first compilation (bound "
        f"{bounds['seconds']:g} s), {min(run['again'] for run in runs):.2f} s for the second; the "
        f"process takes {max(run['peak'] for run in runs) / 1e6:.0f} MB at its peak (bound "
        f"{bounds['bytes'] / 1e6:.0f} MB), including "
        f"{max(run['baseline'] for run in runs) / 1e6:.0f} MB before the first compilation. "
        f"{2 * len(runs)} compilations gave "
        f"{f'{len(digests)} different results' if len(digests) > 1 else 'equal bytes'}.\n"
    )
