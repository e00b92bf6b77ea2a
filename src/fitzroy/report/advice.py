"""What to do first to make a compiled model faster: from the figures of its compilation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from fitzroy.report import units
from fitzroy.report.phases import short_name
from fitzroy.report.streaming import streaming_text

_MUCH = 0.2
"""Share of an inference from which a part of it is worth a remark."""

_WAYS = {
    "op": "It is bound by arithmetic: fewer channels or a smaller picture help",
    "ring": "It is bound by data and weights on the ring: fewer channels help, fewer products do "
    "not",
    "mesh": "It is bound by borders between tiles: smaller windows or a larger stride help",
    "conversion": "It is bound by moves between memories: fewer and larger layers help",
    "infeed": "It is bound by what comes from the host: smaller inputs or parameters help",
    "host": "It waits for the host: a faster host or link helps",
    "fence": "Its tiles wait for each other: fewer and larger layers help",
    "scalar": "It is bound by the dispatch of instructions: fewer and larger layers help",
}
"""What helps a layer, by what bounds it."""


def advice(document: Mapping[str, Any]) -> list[str]:
    """What to do, what helps most first.

    Args:
        document: what the compiler did, in full, see `fitzroy.compilation.documents`.
    """
    return [
        *_streamed(document),
        *_overhead(document),
        *borders(document),
        *_slowest(document),
        *_on_host(document),
    ]


def borders(document: Mapping[str, Any]) -> Iterator[str]:
    """What a caller can do instead of the model, where the host takes much of an inference.

    Args:
        document: what the compiler did; it need not be in full.
    """
    if document["border_passes"] and is_held_up(document):
        yield (
            "the host converts or reorders what callers could give or take as the chip has it: "
            f"compile with --passes {','.join(document['border_passes'])}"
        )


def is_held_up(document: Mapping[str, Any]) -> bool:
    """Whether operators on the host take much of an inference.

    Args:
        document: what the compiler did; it need not be in full.
    """
    whole = document["inference"]
    return bool(whole) and whole["host_us"] > _MUCH * whole["total_us"]


def _on_host(document: Mapping[str, Any]) -> Iterator[str]:
    """Hints of operators on the host, those of several operators once."""
    found: dict[str, list[str]] = {}
    for item in document["explanation"]:
        if item["subgraph"] is None:
            for reason in item["reasons"]:
                if reason["hint"]:
                    found.setdefault(reason["hint"], []).append(item["operator"])
    for text, operators in found.items():
        kinds = ", ".join(dict.fromkeys(operators))
        yield f"{kinds} on the host: {text}"


def _streamed(document: Mapping[str, Any]) -> Iterator[str]:
    if document["streaming"]:
        yield f"parameters do not fit, and are streamed: {streaming_text(document['streaming'])}"


def _overhead(document: Mapping[str, Any]) -> Iterator[str]:
    whole = document["inference"]
    if not whole or not whole["total_us"]:
        return
    chip = sum(part["estimate"]["chip_us"] for part in document["subgraphs"])
    if is_held_up(document):
        yield (
            f"operators on the host take {units.time(whole['host_us'])} of "
            f"{units.time(whole['total_us'])}; the table of operators says why each is there"
        )
    elif chip < _MUCH * whole["total_us"]:
        yield (
            f"the program runs for {units.time(chip)} of {units.time(whole['total_us'])}; the rest "
            "is the host and its transfers: a larger model costs little more, and a smaller one "
            "gains little"
        )


def _slowest(document: Mapping[str, Any]) -> Iterator[str]:
    """The operator, or the transfer, whose layers take the most cycles: strips run them often."""
    cycles: Counter[str] = Counter()
    bounds: dict[str, Counter[str]] = {}
    names = {item["index"]: _name(item) for item in document["explanation"]}
    for layer in (layer for part in document["subgraphs"] for layer in part["layers"]):
        name = names.get(layer["operator"]) or _transfer(short_name(layer["name"]))
        cycles[name] += layer["cycles"]
        bounds.setdefault(name, Counter())[layer["bound"]] += layer["cycles"]
    total = cycles.total()
    if not total:
        return
    ((worst, most),) = cycles.most_common(1)
    way = _WAYS.get(max(bounds[worst], key=bounds[worst].__getitem__))
    if way and most > _MUCH / 4 * total:
        yield f"{worst} takes {units.share(most / total)} of the chip's time. {way}"


def _transfer(layer: str) -> str:
    """A transfer as the subject of a sentence."""
    verb, _, tensor = layer.partition(" ")
    known = {"receive": "receiving", "send": "sending"}
    return f"{known[verb]} {tensor}" if verb in known else layer


def _name(item: Mapping[str, Any]) -> str:
    return f"{item['operator']} {short_name(item['name'])}"
