"""What the targets are: facts first, behaviour second."""
