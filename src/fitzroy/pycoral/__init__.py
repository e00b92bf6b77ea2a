"""PyCoral's interface on FitzRoy: scripts run after changing ``pycoral`` to ``fitzroy.pycoral``.

Covered are the interpreter, and the adapters for classification, detection and segmentation; not
covered are pipelines over several devices and learning on the device.

Facts: PyCoral's published API documentation.
"""
