"""The cluster's metadata: topics, settings, quotas, features, ids; an image in memory, and where it is kept.

`ClusterMetadata` is the image that the broker reads, and the changes that it makes. A `MetadataStore` is a home for
records (dicts that JSON can hold) under keys like `topics/flights`: `SqliteStore` for a broker, `MemoryStore` for tests
and the simulator.

Rule 1. **All or nothing, and durable.** An `apply` is one transaction: it makes the next version, and every record
knows the version that last changed it. What the home cannot write raises `KafkaStorageError`, and nothing has changed.

Rule 2. **The image follows the store.** A change is written, then published to the image, which notifies replica
manager, quotas and settings (`on_topics_changed`, ...). These may not raise: the change is made.

Rule 3. **One change at a time.** `write` may wait for the disk in a thread, `publish` runs on the loop. Requests that
change the metadata plan on the image when no other change is in flight (`BrokerState.in_turn`); a change that cannot
wait lets the loop wait for the one in flight.

Rule 4. **Topics change here first; logs follow.** The ids of deleted topics stay here until a start has found all logs
opened and theirs gone. A log that no record names is left alone.

Rule 5. **Topics can be deleted on a full disk.** `SqliteStore` keeps a reserve for commits that make room.

Rule 6. **The metadata of a cluster are Kafka's records** (`metadata_records.py`). `MetadataDelta` replays them upon a
`MetadataImage`, which never changes: what two images have in common they share, so they are compared by identity.
"""
