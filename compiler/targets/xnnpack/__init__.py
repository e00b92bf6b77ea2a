"""CPU target: XNNPACK subgraphs inside ExecuTorch programs."""
