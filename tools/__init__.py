"""Commands of the repository, run by `./run`, and what tests and benchmarks share."""
