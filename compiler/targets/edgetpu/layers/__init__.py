"""What a layer is, how nodes become layers, and what all layers share."""
