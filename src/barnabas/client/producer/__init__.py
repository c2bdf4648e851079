"""The producer: records into batches on the application's thread, batches to brokers on the Sender's.

The way of a record: `Producer.send` → `SendPath` (metadata, serializers, partition, size) → `RecordAccumulator` (a
deque of `ProducerBatch` per partition) → `Sender` in the `SenderThread` → one ProduceRequest per node →
`ProduceRequestResult` → the records' `FutureRecordMetadata` and callbacks.

Rule 1. **What runs once per record is compiled, in `append.py`, and makes no object that outlives the call** but the
future. What runs once per batch is plain Python. A call that cannot go on without waiting (a new batch, a custom
partitioner, unknown metadata, no memory) leaves the short way and goes on in steps.

Rule 2. **Owners.** Deques and open batches: the accumulator's lock, held for one append or one drain; compiled, an
append to an open batch that finds the lock free runs no Python code, so the interpreter's lock makes it atomic.
Drained batches, sequences and partitions in flight: the Sender's thread. Futures are completed by the Sender.

Rule 3. **A record that `send()` took gets one result**, however the producer ends: stored, failed, or failed with the
reason why the Sender died. A refused record raises in `send()`. Whether records are taken is one field, changed and
read under the accumulator's lock.

Rule 4. **Time is an argument.** Clock, wall clock and randomness come from the `Environment`.

Rule 5. **A batch keeps no future for `on_delivery`**, only what its metadata needs, packed (`DeliveryCallbacks`). What
a batch of 16 KB takes beside its bytes stays below 10%; `benchmarks/client_memory.py` and a test hold it there.

Ours, not Kafka's: until one batch of a partition is acknowledged under the present epoch, and while one is retried, no
other new batch of it is in flight; a split batch's parts are at most half as large; only partitions that hold batches
are looked at; at the process's end unsent records get ten seconds.

`send_table` fills builders by `records.table_encoder`, a batch at a time. Transactions and idempotence:
`transactions/`. Where threads meet (`BufferPool`, `ProduceRequestResult`), tests/support/line_scheduler.py drives
them line by line.
"""
