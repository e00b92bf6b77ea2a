"""What it costs that parameters do not fit the chip, and what would fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fitzroy.hw_models.chips.hosts import Host
from fitzroy.report import units


def streaming_document(
    cached: int, remaining: int, streamed: int, host: tuple[str, Host] | None
) -> dict[str, Any] | None:
    """What streaming costs, fit for JSON; None if nothing is streamed.

    The multiplier is an estimate: parameters of convolutions go with the square of the width.

    Args:
        cached: bytes of parameters that stay on the chip.
        remaining: bytes that are free for more.
        streamed: bytes of parameters that come with every inference.
        host: name and constants of the host that sends them, None if it is not known.
    """
    if not streamed:
        return None
    room, total = cached + remaining, cached + streamed
    spent = None
    if host is not None:
        spent = streamed / host[1].stream + host[1].prepare * streamed / 1000
    return {
        "bytes": streamed,
        "host": None if host is None else host[0],
        "us": spent,
        "width_multiplier": math.floor(100 * math.sqrt(room / total)) / 100,
        "chips": None if room <= 0 else math.ceil(total / room),
    }


def streaming_text(found: Mapping[str, Any]) -> str:
    """The same for people."""
    cost = f"{units.size(found['bytes'])} with every inference"
    if found["us"] is not None:
        cost += f", {units.time(found['us'])} on {found['host']}"
    cost += f"; {found['width_multiplier']:.2f} of the channels would fit one chip"
    if found["chips"] is not None:
        cost += f", and the model {found['chips']} chips: --num-segments {found['chips']}"
    return cost
