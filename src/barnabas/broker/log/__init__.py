"""The log: records of partitions on disk, in Apache Kafka's files to the byte.

`LogManager` has all logs of one data directory (`LogDirectories` those of several), a `UnifiedLog` each: validation,
producers and leader epochs on a `LocalLog` of `LogSegment`s, each a file of record batches (`FileRecords`) with its
indexes. `LogLoader` opens and recovers, `LogCleaner` compacts, `BackgroundWork` flushes, checkpoints, and deletes after
`file.delete.delay.ms`. The names are Kafka's.

Rule 1. **Two promises.** What `append` returned survives the end of the process; what a flush covered survives the
loss of power (`flush.messages`, `flush.ms`, a rolled segment soon after, a clean end). The recovery point is where that
ends.

Rule 2. **An append is one write or nothing.** It is checked whole before: checksums, records, timestamps, sequence
numbers, transactions. When the write fails, what it left is cut; memory has not changed.

Rule 3. **The log does not decide what is committed.** The partition moves the high watermark
(`update_high_watermark`), and gives the leader epoch. Readers see whole batches below it, or below the last stable
offset.

A follower's log takes offsets and epochs from its leader (`append_as_follower`), its end may be cut off
(`LogTruncation` in `truncation.py`: the checkpoint of the recovery point goes back first, then the segments, on
the disk, then the epochs), and its high watermark comes from `replication-offset-checkpoint` when it is opened.

Rule 4. **All files are touched through the port `FileSystem`** (`filesystem.py`; the system's is `os_filesystem.py`),
and every operation there may fail with `OSError`; the log turns it into `KafkaStorageError`. `memory_filesystem.py` is
a disk that tears writes, fills up, fails at any operation and loses power. Flushes are prepared here
(`prepare_flush`); `Storage` runs them.

Rule 5. **A failure costs what it must.** One that leaves the files as they were costs the call, and reading goes on
while writing fails. One that leaves them unknown takes the log offline; `LogManager` opens it anew, recovering, as soon
as the disk allows all that an append needs (`prove_writing`), and waits longer before each further try
(`LogReopening`). Only a failed flush waits for a restart: the system may have dropped the pages. `troubles` says what
fails at present; the first of a kind, and its end once it has stayed away for a minute, are one line in the log each.
`LogManager.offline` names what is out of service. Of several directories one that fails for good (a flush has failed,
or nothing can be written there twice in a row) goes out of service alone, until a restart.

Rule 6. **Recovery cuts at the first batch that is not whole and sound**, with everything behind it, and names file,
position and size; sound batches behind the gap make it an error. It reads only what lies beyond the recovery point. A
damaged batch before that stays, and its reader gets `CorruptRecordError`.

Rule 7. **A log is opened when it is asked for**, the others step by step; what takes more than `OPEN_BYTES` answers
NOT_LEADER_OR_FOLLOWER meanwhile. Index entries are kept in memory until flush, roll or close; an index that does not
fit is made anew from the batches.

Rule 8. **Everything in the background is a step**: `LogManager.step(budget, now_ms)` does so many units (a log looked
at, a file deleted) and a piece of compaction. A log in which nothing happened is not looked at: it tells when something
did (`LocalLog.touch`), and `DueLogs` knows when its records or producers will be too old. Retention leaves a log alone
while it is cleaned. With little room on the disk deleted files go at once.

How compaction works: `LogCleanerManager` chooses the dirtiest log that is due (`LogToClean`); `Cleaner`, a generator,
fills an offset map (`offset_map.py`, compiled: 24 bytes a key) and copies what `RecordFilter` and
`CleanedTransactionMetadata` keep; `replace_segments` is decided by renaming to `.swap`, which the next start completes.

`plain_append.py` is the short way in for what most clients send. The formats: docs/internals/data-format.md.
"""
