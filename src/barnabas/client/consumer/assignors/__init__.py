"""Assignors: how the leader of a classic group deals partitions out to its members."""
