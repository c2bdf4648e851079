"""`guarantee=exactly-once`: each micro-batch once for readers of committed records. `docs/exactly-once.md` says how."""
