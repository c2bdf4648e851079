"""Writes `barnabas.errors` and `barnabas.protocol.messages` from the schema in `src/barnabas/protocol/schema`.

`python -m codegen` writes the files; `python -m codegen --check` writes nothing, and fails when a file is stale.

- `schema.py` reads `messages.json` (Kafka 4.3), `messages-3.9.json` (what 4.0 dropped, for clusters under ZooKeeper),
  `messages-metadata.json` (the records of the metadata log) and `errors.json` into small objects, resolving every
  implicit rule.
- `messages.py` writes one module per message.
- `errors.py` writes `errors.py`.
- `handlers.py` writes the table of the APIs that the broker serves, from its handlers.
- `settings.py` writes the typed settings of the clients, from `src/barnabas/config/*.json`.
"""
