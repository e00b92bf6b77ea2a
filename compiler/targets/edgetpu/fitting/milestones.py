"""Progress at which the stages of a compilation begin, as shares of its time.

Measured on PoseNet and BodyPix. Other models differ: the choice of strips takes 22 % for DeepLab,
and MobileNet v2 reaches the staging of weights at 14 %.
"""

from __future__ import annotations

STRIPS = 0.01, 0.17
"""Where the choice of strips begins and ends."""

PATCHES = 0.17
"""Where the choice of patches begins."""

STAGING = 0.33
"""Where the choice of how weights are staged begins."""

INSTRUCTIONS = 0.53, 0.99
"""Where instructions begin and end."""
