"""Kafka Streams on Spark, which plans and starts the engine's tasks; the records pass it by.

Rules of the room
-----------------
1. Only this part of `barnabas.streams` knows Spark. The source plans a task for each co-partition (`coPartitions`). A
   process of its own, which Spark has placed and which outlives the batches, reads, computes and writes; the driver
   tells it each batch and decides on what it reports. A batch starts no job of Spark's.
2. A micro-batch is the set of records that wait, and a commit. Its time lies in its planned offsets, so a batch that is
   repeated sees the same time.
3. Output, repartition and changelog records are one batch of `barnabas.spark.exactly_once`, and the decision on it is
   on the state of each task, too: `state_protocol` says when a task may compute and from which state, without I/O. The
   changelogs get the last change of each key in a batch, which is what Kafka's get behind its record caches.
4. A repartition topic is a topic, as in Kafka, with Kafka's content. The tasks of a batch come in stages, and read
   there what the reports of the stages before name, before it is committed: `run_protocol`, `batch_stages`. With
   `repartition.within.batch` false what one batch writes the next one reads, and each step costs the latency of a
   batch. The option may be switched at each start: where a reader stands is told by decisions alone
   (`read_positions`), never by Spark's offsets.
5. What travels to the tasks is `Application`, by value; what a process holds of a task is only a cache of what the
   changelogs and the decision log say. Stores lie on the executor's disk, below `state.dir` (`state_directory`); what
   is kept there is decided, and goes on from the changelogs' offsets that are kept with it.
6. State is its store's, not its sub-topology's: after a change of the topology a task goes on from the tasks that had
   its changelogs before. A change that would lose or misread state is refused before anything is written.

Files: `kafka_streams` (the application's life), `query_plan` (a topology as options of source and sink),
`internal_topics` (how many partitions, and making them), `starting_offsets`, `pattern_topics` (topics that appear),
`group_offsets` (where a query stands, for others), `repartition_levels` (which topics a batch goes through at once),
`left_records` (what lies there from before), `local_checkpoint` (how Spark writes its logs), `application`,
`data_source` and `wall_clocks` (plan a batch), `batch_commits` (the driver's part of a batch), `run_protocol` (what a
run does for each batch), `batch_stages` (which tasks there are, and what they read), `batch_protocol` (which attempt of
a task counts), `topology_shape`, `topology_changes` and `topology_memory` (which changes keep the state),
`task_dispatcher` (the driver's connections to the tasks' processes), `task_channel` and `task_measures` (what is sent
there), `streams_metrics`, `slow_starts`, `store_sizes` (for `barnabas streams state`); in a task `task_processes` (its
process, from batch to batch), `task_manager` (takes the steps, runs the engine), `restorable_task` (its stores, and how
they are restored), `moved_states` (which states it goes on from), `state_directory` (the directory of a task), `rows`
(Arrow to records and back), `send_errors` and `row_spool` (records that cannot be sent); `state_protocol`.
"""
