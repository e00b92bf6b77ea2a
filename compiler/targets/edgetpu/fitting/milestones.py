"""How far a program is when its stages begin: shares of the time of a program, as measured.

They are those of PoseNet and BodyPix. DeepLab takes 22 % for strips; MobileNet v2 begins to stage
weights at 14 %.
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
