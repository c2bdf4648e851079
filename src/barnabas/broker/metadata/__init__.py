"""The cluster's metadata: topics, settings, quotas, features, client metrics.

Rule 1. **`MetadataStore` is the truth**: records (dicts) under keys like `topics/flights`.
`read(version=0) -> Changes`, `apply(operations, expected_versions) -> version` (all or nothing, durable when it
returns; `VersionConflictError`), `subscribe(listener)`. Homes: SQLite (rollback journal, synchronous=EXTRA), memory.

Rule 2. **`ClusterMetadata` is the image that the broker reads**; it changes only by the store's notifications.

Rule 3. **Topics change in the metadata first.** Logs of deleted topics are noted there until they are gone; logs that
no record names are left alone.
"""
