"""What inputs and outputs of kinds of models mean."""
