"""The pure scheduling core: a snapshot goes in, a plan comes out.

No Django, no I/O, no clock, no randomness. The server, the simulator and the tests run this same code.
"""
