"""Values for symbols: addresses, rows of wide memory, parameter placement."""
