"""ExecuTorch methods: partitioned graphs to delegate and kernel calls."""
