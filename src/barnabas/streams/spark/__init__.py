"""Kafka Streams on Spark: the engine's tasks between the source and the exactly-once sink of `barnabas.spark`.

Rules of the room
-----------------
1. Only this part of `barnabas.streams` knows Spark. A task of the topology is a task of Spark: the source plans one for
   each co-partition (`coPartitions`), and its rows stay in it up to the sink.
2. A micro-batch is the set of records that wait, and a commit. Its time lies in its planned offsets, so a batch that is
   repeated sees the same time.
3. Output, repartition and changelog records are rows of one exactly-once batch, and the decision on it is on the state
   of each task, too: `state_protocol` says when a task may compute and from which state, as steps without I/O.

Files: `state_protocol`.
"""
