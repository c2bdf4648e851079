"""The DSL's own graph: one node for each operator, rewritten by the optimizer, then written to a topology."""
