"""From a quantized graph to a relocatable object, stage by stage."""
