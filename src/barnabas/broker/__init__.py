"""The broker: partitions, groups, transactions and their administration behind Kafka's protocol.

`BrokerNode` (`node.py`) puts one together: no socket, no clock. `network/` has the connections, `RequestDispatcher`
(KafkaApis) takes each request to the one file in `handlers/` that serves its API, `ReplicaManager` finds the
`Partition`, `log/` keeps the records, `metadata/` the topics and settings; `groups/` and `transactions/` are
coordinators on `coordinator/`. `runner.py` is the process around it, `embedded.py` a broker for users' tests.

Rule 1. **One thread owns all state**: the event loop's. `SocketServer`, a test or the simulator drives `node.core`:
bytes go to a `ClientConnection`, `settle(instant)` answers what they set off, `tick(instant)` does what is due when
`next_deadline()` has come. There are no locks.

Rule 2. **Time is an `Instant`, an argument.** Randomness is injected. Nothing behind `node.core` reads a clock.

Rule 3. **A connection works on one request at a time**, as in Kafka, so answers leave in order. A request's frame is
valid until its handler returns: what is kept longer is copied.

Rule 4. **A handler answers or parks.** It returns a message, None (acks=0), or a `DelayedOperation` that waits in the
`Purgatory`: for data (`DelayedFetch`), for records to be committed (`DelayedProduce`), for a group, for a commit of
the metadata. It is answered once: by `complete`, by `try_complete` after one of its keys was marked, or at its
deadline. The code that changes something marks its key; the purgatory looks at the end of the turn.

Rule 5. **Only the request that needs the disk waits.** Beside the loop, through the `Storage` port, are: all flushes
that a request waits for (of `flush.messages` and `flush.ms`, of rolled segments, coordinators' records, leader epochs);
all commits of the metadata that a request makes (one in flight at a time: `BrokerState.in_turn`, `piecewise.turn_of`);
what opening a log reads, and the files of a new one, whether a request, a coordinator, the controller or the start asks
for it (`log_opening.py`, `log/assigned_logs.py`, `log/log_preparation.py`); reads of fetches, searches by time and
coordinators that load, where the system's cache lacks them (`cold_fetch.py`, `cold_search.py`; `preadv2` with
RWF_NOWAIT tells); what recovery after a crash reads and flushes (`log/disk_steps.py`); what a follower cuts and flushes
(`log/truncation.py`). On the loop are: what the cache answers, and brings to the disk later (writes, renames, other
reads): at most ten operations for each partition of a request. What was read for a recovery, or for the producers of a
log that was cut, is worked on there, 4 MB in a turn. `tests/unit/broker/test_loop_and_disk.py` counts for every API.

Rule 6. **`Partition` decides, the log carries out**: leader epoch, high watermark, what is committed, who may ask. With
other replicas it does so by `replication/`; how far the cluster is built stands in docs/internals/cluster.md.

Rule 7. **An error is an answer.** Handlers turn `KafkaError` into error codes. `CloseConnection` is for a client that
cannot be told otherwise; any other exception ends one connection and is reported as a fault. In deferred work it ends
that of one connection, operation or partition (`faults.py`), or one request to another node (`guarded_requester.py`):
who waits is answered with an error, a log or a coordinator's partition that may be half changed is read anew, and all
other work goes on. A failing disk costs the requests that need it: a partition out of service has no leader in
Metadata, is one line in the log, and comes back by itself (see `log`).

Rule 8. **Everything a client can make the broker keep has a bound** (`tests/unit/broker/test_bounds.py`).

Rule 9. **Short ways only decide whether all is plain** (`log/plain_append.py`, `handlers/plain_produce.py`): what is
not goes the general way, untouched. A change that adds a check to the general way makes the short one refuse where it
would matter; `tests/property/broker/test_plain_produce.py` holds both against each other.

To serve another API: a module in `handlers/`. To let another setting change at run time: `dynamic_broker_config.py`.
"""
