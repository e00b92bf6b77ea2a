"""Pages of conformance: CPU programs beside LiteRT, compiled models beside their sources."""

from __future__ import annotations

from benchmarks.conformance import OPERATORS, explanation
from benchmarks.markdown import NOTICE, Json, machine_line, table
from benchmarks.simulator_conformance import explanation as simulator_explanation


def conformance(results: Json) -> str:
    """The page of differences."""
    entries = [entry for entry in results["models"] if "policy" in entry]
    others = [entry for entry in results["models"] if "policy" not in entry]
    text = NOTICE + "# Conformance\n\n"
    text += (
        "Whether compiled programs for CPUs compute the same as their models: for users who want "
        "evidence. Every source model of the corpus is compiled and run on the ExecuTorch "
        "runtime. Its outputs are compared with LiteRT with its XNNPACK delegate, with the oracle "
        "(FitzRoy's model of the runtime), and with the reference semantics of the imported "
        "graph. `python -m benchmarks --only conformance` measures the figures and writes this "
        "page.\n\n"
        "- *Differences* are the largest one in units of the last place (LSB) and the share of "
        "differing output elements. 0 means equal bit by bit.\n"
        "- *Inputs*: the first number counts random inputs, the second pictures and their crops.\n"
        "- *Top-1* is the share of pictures (of random inputs, if the model takes no pictures) for "
        "which both rank the same class first.\n"
        "- *Cut* models end before their custom operators.\n"
        "- The policy `fast` rescales some weights on purpose, so it need not equal the reference "
        "semantics.\n\n"
    )
    identical = sum(1 for entry in entries if not _differs(entry))
    text += (
        f"{identical} of {len(entries)} combinations of model and policy equal LiteRT bit by "
        f"bit; in {sum(1 for e in entries if e['oracle']['largest'] == 0)} the oracle equals "
        f"the runtime.\n\n"
    )
    text += "## Models that differ from LiteRT\n\n"
    header = ("model", "policy", "inputs", "random", "pictures", "top-1", "oracle", "reference")
    rows = [(*_row(entry), _why(entry)) for entry in entries if _differs(entry)]
    text += table((*header, "why"), rows)
    text += "\n## Models that equal LiteRT\n\n"
    text += table(header, _merged([_row(entry) for entry in entries if not _differs(entry)]))
    text += "\n## Operators that LiteRT computes differently\n\n"
    text += table(("operator", "here", "LiteRT"), [*OPERATORS])
    for entry in others:
        reason = entry.get("skipped") or entry.get("failure")
        text += f"\n`{entry['model']}` is not compared: {reason}.\n"
    return text + f"\n{machine_line(results)}\n"


def simulator_conformance(results: Json) -> str:
    """The page of differences between the simulator and source models."""
    entries = [entry for entry in results["models"] if "bytes" in entry]
    text = NOTICE + "# Conformance of the simulator\n\n"
    text += (
        "Whether the simulated chip computes the same as source models: for users who decide "
        "whether to trust the simulator. Every compiled model of the corpus with a known source "
        "runs on the simulated chip. Its outputs are compared with LiteRT with its XNNPACK "
        "delegate, and with the reference semantics of the source model in the arithmetic of "
        "XNNPACK. `python -m benchmarks --only simulator_conformance` measures the figures and "
        "writes this page.\n\n"
        "The tables show how many output bytes differ and the largest difference in units of the "
        "last place (LSB). 0 means equal bit by bit. The first number of inputs counts random "
        "inputs, the second pictures. Outputs are those of the Edge TPU operator: operators on "
        "the CPU are cut off, and states of an LSTM are zero. The time is the median of an "
        "inference on the simulator.\n\n"
        "If a model differs from the reference, it is compared again with references that include "
        "known differences of compiled programs. A 0 there proves that nothing else differs.\n\n"
        "- *reciprocal*: requantization multiplies by the reciprocal of the output scale.\n"
        "- *as compiled*: also uses the scales and zero points of outputs in the package, stores "
        "the sums of LSTM gates in 8 bits, and takes the polynomials of LOGISTIC from the "
        "program.\n\n"
        "Known differences:\n\n"
        "- Programs of Google's compiler compute LOGISTIC with polynomials that are the same for "
        "every layer. They deviate from 256 times the sigmoid by up to 0.0076. Codes that close "
        "to a tie differ by one: 38 of 32,768 in YOLOv8n and YOLOv5nu. The difference grows "
        "through the network. Programs of FitzRoy's compiler have polynomials fitted to the "
        "quantization of the layer and are exact.\n"
        "- A constant that is added or subtracted is rounded to whole steps of the other operand. "
        "This matters in MoveNet, where it is 127.5 steps.\n"
        "- If the reference is equal and LiteRT is not, LiteRT runs an operator outside of "
        "XNNPACK; see also [conformance.md](conformance.md).\n\n"
    )
    equal = [entry for entry in entries if not _simulator_differs(entry)]
    exact = sum(1 for entry in entries if not entry["reference"]["differing"])
    known = sum(1 for entry in entries if not entry["compiled"]["differing"])
    text += (
        f"Of {len(entries)} models, {len(equal)} equal LiteRT in every byte, {exact} equal the "
        f"reference semantics of the source, and {known} equal the reference *as compiled*.\n\n"
    )
    text += "## Models that differ\n\n"
    text += table(
        (
            "model",
            "inputs",
            "bytes",
            "LiteRT",
            "reference",
            "reciprocal",
            "as compiled",
            "time",
            "why",
        ),
        [
            (
                *_compared(entry),
                *(
                    _bytes(entry[peer])
                    for peer in ("litert", "reference", "reciprocal", "compiled")
                ),
                f"{entry['seconds']:.2f} s",
                simulator_explanation(entry),
            )
            for entry in entries
            if _simulator_differs(entry)
        ],
    )
    scales: list[tuple[str, ...]] = [
        (f"`{entry['model']}`", f"`{name}`", f"{scale:.9g}", str(zero), f"{other:.9g}", str(place))
        for entry in entries
        for name, (scale, zero, other, place) in entry["scales"].items()
    ]
    if scales:
        text += "\nOutputs with a scale or zero point other than in the source:\n\n"
        text += table(
            ("model", "output", "source's scale", "zero point", "package's scale", "zero point"),
            scales,
        )
    text += "\n## Models that equal LiteRT and the reference\n\n"
    text += table(
        ("model", "inputs", "bytes", "differing", "time"),
        [(*_compared(entry), "0", f"{entry['seconds']:.2f} s") for entry in equal],
    )
    skipped = [f"`{entry['model']}`" for entry in results["models"] if "skipped" in entry]
    if skipped:
        text += f"\nWithout a source in the corpus, so not compared: {', '.join(skipped)}.\n"
    for entry in results["models"]:
        if "failure" in entry:
            text += f"\n`{entry['model']}` failed: {entry['failure']}.\n"
    return text + f"\n{machine_line(results)}\n"


def _simulator_differs(entry: Json) -> bool:
    return bool(entry["litert"]["differing"] or entry["reference"]["differing"])


def _compared(entry: Json) -> tuple[str, ...]:
    inputs = f"{entry['inputs']}" + (f" + {entry['pictures']}" if entry["pictures"] else "")
    return f"`{entry['model']}`", inputs, f"{entry['bytes']:,}"


def _bytes(figures: Json) -> str:
    if not figures["differing"]:
        return "0"
    return f"{figures['differing']:,} B, {figures['largest']} LSB"


def _differs(entry: Json) -> bool:
    pictures = entry.get("litert_pictures")
    return bool(entry["litert"]["largest"] or (pictures and pictures["largest"]))


def _why(entry: Json) -> str:
    return explanation(entry["model"], entry["policy"])


def _row(entry: Json) -> tuple[str, ...]:
    pictures = entry.get("litert_pictures")
    ranked = pictures or entry["litert"]
    inputs = f"{entry['litert']['inputs']}" + (f" + {pictures['inputs']}" if pictures else "")
    return (
        f"`{entry['model']}`" + (" (cut)" if entry["cut"] else ""),
        entry["policy"],
        inputs,
        _difference(entry["litert"]),
        _difference(pictures),
        f"{100 * ranked['top1']:.0f} %" if "top1" in ranked else "",
        _difference(entry["oracle"]),
        _difference(entry["reference"]),
    )


def _difference(figures: Json | None) -> str:
    if figures is None:
        return ""
    if not figures["largest"]:
        return "0"
    return f"{figures['largest']:g} LSB, {100 * figures['differing']:.2g} %"


def _merged(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows of one model that differ in nothing but the policy become one."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for model, policy, *rest in rows:
        merged.setdefault((model, *rest), []).append(policy)
    return [(key[0], ", ".join(names), *key[1:]) for key, names in merged.items()]
