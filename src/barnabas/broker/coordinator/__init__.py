"""What every coordinator is made of: groups, transactions, and those that are to come (share groups, streams groups).

A coordinator keeps state under ids (group ids, transactional ids) in memory, and the history of that state as records
in the partitions of an internal topic. Kafka's name for this room is coordinator-common.

Rule 1. **One act.** A change of state and its records are one `Draft`. `CoordinatorLog.commit` writes the records, all
or none, and only then makes the change; when the write fails nothing has changed. No other call writes records.

Rule 2. **The log is the state.** `Loader` reads a partition back through the coordinator's `replay`, a piece at a time;
replaying all records of a partition gives the state that the commits made. A partition that cannot be read whole is
forgotten whole. One whose log was offline is read again (`reload`): an append that failed may have left its records
there.

Rule 3. **A partition is served by election.** `Loader.elect(partition, leader_epoch)` and `resign` are Kafka's
onElection and onResignation; an epoch that is not newer changes nothing. A request for an id asks `Loader.check` first:
NOT_COORDINATOR for a partition of another broker, COORDINATOR_LOAD_IN_PROGRESS until it is loaded. `forget(partition)`
answers parked requests, ends timers and drops the state. A broker that has no cluster elects itself for all.

Rule 4. **No clock, no disk, no socket.** Time is an `Instant` argument; records pass through `PartitionStorage`, of
which `BatchStorage` is the one adapter (record batches of an `InternalTopic`). The broker calls `startup` once, `tick`
whenever `next_deadline` has come, `close` at its end.

Rule 5. **Background work is done in pieces.** Loading, and the `Sweep` over everything that may have expired, take a
budget per tick. Deadlines of single ids are timers in a `TimerQueue`, one per key; pushing one back costs no heap
operation. While a partition is being loaded nothing of it is swept or timed out.

Rule 6. **Errors are translated once.** `coordinator_errors` says what a client is told when records could not be
written, in the errors that clients expect from a coordinator.

To build another coordinator: a store with `replay(partition, record)` and `forget(partition)`, a `Loader` on both, and
`LazyCoordinator` around it in `broker/node.py`, so that a broker without such groups never imports it. In a
cluster an append is not yet committed: `broker/membership` holds every answer back until all that its partition had
then is, and `PartitionStorage.after_commit` tells what must not begin before (the markers of a decision).
"""
