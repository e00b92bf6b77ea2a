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
        "Whether compiled programs for CPUs compute what the model says: for those who trust "
        "figures only. Every source model of the corpus is compiled, run on the ExecuTorch "
        "runtime, and compared with LiteRT with its XNNPACK delegate, with the oracle (our model "
        "of the runtime), and with the reference semantics of the imported graph. "
        "`python -m benchmarks --only "
        "conformance` measures and writes this page.\n\n"
        "Differences are given as the largest one in units of the last place (LSB) and the share "
        "of differing output elements; 0 means equal bit by bit. The first number of inputs is "
        "that of random ones, the second that of pictures and their crops. Top-1 is the share of "
        "pictures (of random inputs for a model that takes none) for which both rank the same "
        "class first. *Cut* models end before their custom operators. The policy `fast` "
        "rescales some weights on purpose, so it need not equal the reference semantics.\n\n"
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
    text += "\n## Operators that LiteRT computes in another way\n\n"
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
        "Whether the simulated chip computes what models say: for those who ask why to believe it. "
        "Every compiled model of the corpus that comes with its source runs on the simulated "
        "chip, and is compared with LiteRT with its XNNPACK delegate and with the reference "
        "semantics of the source model, which compute in the arithmetic of XNNPACK. "
        "`python -m benchmarks --only "
        "simulator_conformance` measures and writes this page.\n\n"
        "Given are how many bytes of the outputs differ and the largest difference in units of "
        "the last place (LSB); 0 means equal bit by bit. The first number of inputs is that of "
        "random ones, the second that of pictures. Outputs are those of the Edge TPU operator; "
        "operators that run on the CPU are cut off, and states of an LSTM are zero. The time is "
        "the median of an inference on the simulator.\n\n"
        "What differs from the reference is computed again with what compiled programs are known "
        "to do in another way: first requantization by the *reciprocal* of the output scale, then "
        "*as compiled*: also with the scales and zero points of outputs that the package has, "
        "and with the sums of LSTM gates stored in 8 bits. A 0 there proves that nothing else "
        "differs. Programs of Google's compiler also compute LOGISTIC by polynomials that are the "
        "same for every layer and miss 256 times the sigmoid by up to 0.0076; codes that close to "
        "a tie come out different by one, 38 of 32,768 in YOLOv8n and YOLOv5nu, and the "
        "difference grows through the network. The reference *as compiled* takes the polynomials "
        "from the program. Programs of this compiler have polynomials fitted to the quantization "
        "of the layer and are exact. A constant that is added or subtracted is rounded to whole "
        "steps of the other operand, which matters in MoveNet, where it is 127.5 steps. Where the "
        "reference is equal and LiteRT is not, LiteRT runs an operator outside of XNNPACK; "
        "[conformance.md](conformance.md) has the same.\n\n"
    )
    equal = [entry for entry in entries if not _simulator_differs(entry)]
    exact = sum(1 for entry in entries if not entry["reference"]["differing"])
    known = sum(1 for entry in entries if not entry["compiled"]["differing"])
    text += (
        f"Of {len(entries)} models {len(equal)} equal LiteRT in every byte, {exact} the reference "
        f"semantics of the source, {known} those as compiled.\n\n"
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
        text += "\nOutputs whose scale or zero point is not that of the source:\n\n"
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
