"""ONNX models to graphs.

`reader` gives checked protocol buffers, `model` walks their nodes, and one module per family of
operators says what each becomes, through `builder`, which keeps a layout for every value.
"""
