"""What people are told while a program is made."""

from __future__ import annotations

from tests.compiler.edgetpu.test_convolution import chain, grow

from fitzroy.base.progress import listening
from fitzroy.base.types import DType
from fitzroy.compiler.targets.edgetpu.fitting import milestones
from fitzroy.compiler.targets.edgetpu.program.lower import lower


def test_the_share_grows_through_all_stages() -> None:
    graph = chain(DType.INT8, (12, 12, 8))
    for _ in range(3):
        grow(graph, "conv_2d", 16, (3, 3))
    told: list[tuple[str, float]] = []
    with listening(lambda what, share: told.append((what, share))):
        lower(graph)
    names = [what for what, _ in told]
    assert names == sorted(names, key=["memory", "instructions"].index)
    shares = dict.fromkeys(share for _, share in told)
    assert {0.0, milestones.PATCHES, milestones.STAGING, milestones.INSTRUCTIONS[0]} <= {*shares}
    # Layers are gone through several times, and stages come one after the other.
    assert max(s for what, s in told if what == "memory") == milestones.STAGING
    assert min(s for what, s in told if what == "instructions") == milestones.INSTRUCTIONS[0]
    assert max(shares) < milestones.INSTRUCTIONS[1]
