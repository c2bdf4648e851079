"""State stores: what a task remembers, as bytes of Kafka's, in memory or on disk.

Rules of the room
-----------------
1. A store knows no clock, socket, broker or Spark. What it needs of the record that is being processed, and the default
   serdes, it takes from a `StoreContext`.
2. Each change of a store that is logged is a record of its changelog topic, in Kafka's bytes: `changes()` returns those
   since the last call, in order. `restore(records)` takes such records; a store after it equals the store before.
3. What is too old is not kept: windows by segments, as RocksDB's stores have them, versions by their history. A record
   that comes too late is counted as dropped. A store's time is the greatest it has seen, and is part of its state.
4. Order is that of the bytes, as in Kafka, and the same in memory and on disk. An iterator on disk sees the entries of
   the moment when it was made; one of a key-value store in memory the keys of that moment, and deletions since; one of
   windows or sessions in memory all that changes, but for the entry that it gives next.
5. Bytes lie in a `Backend`: `memory` keeps dicts with an index that is sorted when a caller asks for a range; `disk`
   keeps a batch's changes whole or not at all, with the task's metadata. What a store keeps beside its entries is in
   `times()`, part of that metadata. Stores that a topology wants in memory are restored from their changelogs always.
6. Where a batch is one transaction, the last change of a key is all that its changelog gets (`last_change_counts`; not
   so for histories of versions, and stores of users): none can read the changelog half way.

Files: `store` (what all have in common), `key_value`, `window`, `in_memory_window`, `session`, `in_memory_session`,
`versioned`, `join_list` (outer joins), `time_ordered_buffer` (suppress, joins with grace), `segments`, `memory`,
`skip_list_map`, `disk`, `disk_map`, `sorted_entries` (what goes to disk, in order), `packed_entries` (their C),
`store_factory` (from a topology's description to a store), `read_only` (global stores, queries).

Sources: Kafka's package `state.internals`; KIP-258, KIP-328, KIP-889, KIP-923.
"""
