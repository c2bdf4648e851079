"""The log: Kafka's files, to the byte, under Kafka's names.

Rule 1. **Two promises.** What `append` returned survives the end of the process; what was flushed (`flush.messages`,
`flush.ms`, a rolled segment soon after) survives the loss of power.

Rule 2. **An append writes all of its batches with one call, or nothing.** Memory changes after the file.

Rule 3. **Recovery reads what lies beyond the recovery point and cuts at the first batch that is not whole and sound**,
with all that follows, as Apache Kafka does; it names file, position and size. A damaged batch before the recovery point
is left, and its reader gets `CorruptRecordError`.

Rule 4. **`filesystem` is the only file I/O**; `memory_filesystem` is a disk that tears writes, fills up and loses
power. Everything takes the time as an argument.

Rule 5. **Background work in pieces.** `LogManager.step(budget, now_ms) -> bool` does flushes, retention, deletions,
checkpoints and a piece of compaction, a unit at a time; True means that more is due at once. A log is opened, and
recovered, when it is asked for, the others step by step (`unopened_logs`).

Rule 6. **A log has one owner, the loop's thread**, and while it is cleaned no retention touches it. Files outlive the
reads that use them.

From the top: `log_manager` (all logs of a directory) → `unified_log` (validation, producers, epochs, transactions) →
`local_log` (segments) → `log_segment` → `file_records` and the indexes; `log_loader` opens and recovers.
`UnifiedLog.append(data, *, now_ms, origin, leader_epoch) -> LogAppendInfo` takes a read-only buffer;
`read(offset, max_bytes, *, ...) -> FetchDataInfo` gives whole batches only. `plain_append` is the short way.

Compaction: `LogCleaner.step` does pieces of one cleaning (`Cleaner`, a generator) of the dirtiest log that is due;
`BatchFilter` says what stays of a batch, by the compiled offset map (24 bytes a key) and `CleanedTransactionMetadata`.
`meta.properties` and its version: docs/internals/data-format.md.
"""
