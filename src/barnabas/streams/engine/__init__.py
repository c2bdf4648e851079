"""The engine: a task runs the nodes of a sub-topology for one partition, record by record, as Kafka Streams does.

Rules of the room
-----------------
1. The engine knows no clock, socket, disk, broker or Spark. Records and the wall clock's time come in with
   `Task.process(records, now_ms)`; outputs, repartition and changelog records come out, in the order in which they were
   sent.
2. A batch is the set of records that wait: of those of several partitions the one with the least timestamp comes next,
   as in Kafka's PartitionGroup; ties come out as they do there.
3. Stream time is the task's, and each operator with a time of its own keeps that. All of it is part of the state
   (`Task.metadata()`), so that results do not depend on where batches end.
4. `forward` goes depth first, in the order in which children were added. The current record's context (timestamp,
   topic, partition, offset, headers) follows what is forwarded, and is restored afterwards.
5. An exception of user code goes to the exception handler of its kind, with the node's name; what the handler lets pass
   is counted as dropped, and may be written to a dead-letter queue (KIP-1034). Errors name processor, topic, partition
   and offset.
6. What measures a task is a class of its own (`measured_task`), made at the levels DEBUG and TRACE alone: at INFO
   nothing asks a clock or counts a call. A task knows no window of time; `sensor_statistics` makes rates of its counts.
7. A task is not thread-safe and is used again after an error only by restoring it: its stores hold half a record.

Files: `task` (a task, and what it sends), `measured_task`, `measured_store`, `measuring` (its sensors), `global_task`
(global stores), `context` (what processors see), `nodes` (the nodes of a task), `partition_group` (whose record comes
next), `record_deserializer` (records that cannot be read), `punctuation`, `record_collector` (serializes what is sent),
`exception_handlers`, `timestamp_extractors`, `processors/` (Kafka's processor classes).

Sources: Kafka's packages `processor.internals` and `kstream.internals`; KIP-138, KIP-353, KIP-1033, KIP-1034.
"""
