"""`guarantee=exactly-once`: each micro-batch once for readers of committed records (`docs/guide/exactly-once.md`)."""
