"""Post-training quantization: a float32 graph becomes an int8 graph with the same meaning.

Facts: TensorFlow Lite's 8-bit quantization specification. Activations are int8 with one scale and
zero point per tensor, and their range contains 0; filters are int8 with one scale per output
channel, zero point 0, and values in [-127, 127]; biases are int32 with the scale of the input
times that of the filter. Operators that copy elements have one quantization for all operands and
results, and some functions have a result quantization that the specification fixes.

The steps, each a module: what can be quantized (`rules`), what values are like (`statistics`),
channels of equal reach (`equalization`), a range for every value (`ranges`), a scheme of scales
(`scheme`), filters and biases (`parameters`, `correction`), the new graph (`rewrite`), and what it
cost (`report`). `pipeline` puts them together.
"""
