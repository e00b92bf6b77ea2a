"""Which operators run on the chip, and on which chip."""
