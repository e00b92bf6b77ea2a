"""From a model to an object: IR, operators, frontends, passes, targets."""
