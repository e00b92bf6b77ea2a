"""Pages on what published programs do: the envelope, and probes for what they leave open."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from docs.markdown_parts import NOTICE, evidence_levels, table

from fitzroy.driver.probe.probe import Risk
from fitzroy.driver.probe.suite import suite
from fitzroy.hw_models.edgetpu.envelope import PROPERTIES, published, range_text

FOLDER = Path(__file__).parent


_ENVELOPE = """\
How far a program is from programs that real chips are known to execute: for users who judge the
risk of a first run. A simulator only has the limits that it was told about. A chip may have others:
a latency, the depth of a queue, an address that wraps. Published programs respect these limits, so
what they never do indicates where a limit may be.

The envelope is a list of properties of programs (`hw_models/edgetpu/envelope`). Each property has a
function that measures it and a range, taken from published programs. **A value outside the range
proves nothing.** It only means that no chip is known to have executed a program with that value.
The risk combines two judgements: how likely the value is to matter to a chip, and how bad the
effect would be. High risk means that a wrong result or a hang is plausible, and that many models
would be affected.

```console
fitzroy compile model.tflite                       # names what is outside with medium risk or more
fitzroy compile model.tflite --conservative        # does not leave the envelope
fitzroy inspect model_edgetpu.tflite --envelope    # all properties of a program, and the places
```

`python -m benchmarks.envelope PACKAGES...` measures the ranges again, from compiled models.

- With `--conservative`, an operator whose program would leave the envelope stays on the host, with
  the reason. If no operator is at fault, the compilation fails.
- The [verifier](verifier.md) also has a rule for the envelope.
- Properties that depend on the order of events are measured along the path of the scalar core,
  without data. If the path depends on data, the program is followed up to that point."""


_ENVELOPE_LIMITS = """\
- Buffer addresses count as 0. In a program that a simulator ran they are filled in, so its offsets
  are meaningless.
- A published LSTM with data-dependent control flow keeps pieces of 24 bytes one after the other in
  the host's scratch buffer. The properties of descriptor offsets and sizes therefore cover outputs
  only.
- The number of instructions waiting at the engines of tiles is not a property. Published programs
  have thousands, so these queues must block the scalar core when they are full.
- Fields, modes and levels of instructions are a separate subject:
  [instruction_forms.md](instruction_forms.md)."""


def envelope() -> str:
    """The envelope of published programs, and programs of the code generator in it."""
    results = json.loads((FOLDER.parent / "benchmarks" / "results" / "envelope.json").read_text())
    own, ranges = results["properties"], published()
    lines = [
        NOTICE + "# Envelope of published programs\n",
        _ENVELOPE,
        "## Ranges\n",
        "*Published* has the values in the compiled models from which the ranges were measured,",
        "with the number of places and programs. If a bound is wider than these values, it comes",
        "from a survey of 318 published programs of runtime versions 10 to 14. *FitzRoy* has the",
        f"values in programs of FitzRoy's code generator in default mode: {results['programs']}",
        f"programs, for the {results['sources']} quantized models of the corpus and",
        f"{results['random_models']} random models.\n",
        *table(
            (
                "property",
                "bound",
                "published",
                "places",
                "FitzRoy",
                "places",
                "outside",
                "risk",
                "evidence",
            ),
            (
                (
                    f"`{slug}`",
                    range_text(item, ranges.get(slug)),
                    _values(ranges[slug].lowest, ranges[slug].highest),
                    _places(ranges[slug].occurrences, ranges[slug].programs),
                    _values(own[slug]["lowest"], own[slug]["highest"]) if slug in own else "",
                    _places(own[slug]["occurrences"], own[slug]["programs"]) if slug in own else "",
                    _places(own[slug]["outside"], own[slug]["leaving"]) if slug in own else "",
                    item.risk.value,
                    item.evidence.name,
                )
                for slug, item in PROPERTIES.items()
            ),
        ),
        "## What the properties guard against\n",
        *table(
            (
                "property",
                "what is measured",
                "possible reason in the chip",
                "remedy",
            ),
            (
                (f"`{slug}`", f"{item.title} ({item.unit})", item.guards, item.remedy)
                for slug, item in PROPERTIES.items()
            ),
        ),
        "## Limits\n",
        _ENVELOPE_LIMITS,
        *evidence_levels(item.evidence for item in PROPERTIES.values()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _values(lowest: int, highest: int) -> str:
    return f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"


def _places(places: int, programs: int) -> str:
    if not places:
        return "0"
    return f"{places:,} in {programs:,} {'programs' if programs > 1 else 'program'}"


def probes() -> str:
    """The programs of ``fitzroy probe``."""
    own = [one for one in suite() if not one.slug.startswith(_FORM_PREFIX)]
    forms = Counter(one.form.split(" ")[0] for one in suite() if one.slug.startswith(_FORM_PREFIX))
    lines = [
        NOTICE + "# Probes\n",
        "The question that each program of `fitzroy probe` answers: for users who run it, and",
        "for users who want to know what is still uncertain. [probe.md](probe.md) explains how",
        "to run it.\n",
    ]
    for risk in Risk:
        chosen = [one for one in own if one.risk is risk]
        lines.append(f"## {_RISKS[risk]}\n")
        lines += table(
            ("probe", "exercises", "question", "outside of", "known other answers"),
            [
                (
                    f"`{one.slug}`",
                    one.title,
                    one.settles,
                    ", ".join(f"`{name}`" for name in one.properties),
                    "; ".join(one.alternatives),
                )
                for one in chosen
            ],
        )
    lines += [
        "## Forms that no published program has\n",
        "One probe each, named after the opcode and a digest of the form.\n",
        *table(
            ("opcode", "probes"), [(f"`{name}`", number) for name, number in sorted(forms.items())]
        ),
    ]
    return "\n".join(lines)


_FORM_PREFIX = "form-"


_RISKS = {
    Risk.CONTROL: "Controls: published forms only, which must pass",
    Risk.LOW: "Low risk",
    Risk.MEDIUM: "Medium risk",
    Risk.HIGH: "High risk: a device may hang",
}
