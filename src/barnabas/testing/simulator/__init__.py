"""A broker and its clients in one process on virtual time, with faults drawn from a seed.

See docs/internals/simulator.md.
"""
