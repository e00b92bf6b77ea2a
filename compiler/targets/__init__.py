"""One library per target: legality, legalization, lowering."""
