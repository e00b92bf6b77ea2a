"""Chips as data: what there is of what, how fast, and how well each number is known.

`facts` ties a value to its evidence, `chip` says what describes a chip, `usb` declares what goes
over its USB port, `beagle` holds the numbers, and `catalog` finds a chip by name.
"""
