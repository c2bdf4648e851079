"""The controller of a cluster: who leads what, on which brokers, with which settings (KIP-500, KIP-631).

`QuorumController` stands over the log of the quorum (`barnabas.broker.raft`). A request is an operation of a manager:
it reads `ControllerState` and gives a `ControllerResult`, records and a response. Names and records are those of Apache
Kafka 4.3; `ReplicationControlManager` is several classes here (topics, ISRs, reassignments, leaders).

Rule 1. **Records are the only way to change anything.** A manager changes no state. What is said in no record (who was
heard of when, who is shutting down) is in `BrokerHeartbeatManager`, and lost with the leadership.

Rule 2. **The state is the image that brokers replay too** (`barnabas.broker.metadata`), by the same code. Beside it
stand only `registration_offsets` and `PartitionIndexes`, which are made of the image.

Rule 3. **A record is replayed before it is written**, so one that does not fit never reaches the log. The next request
goes by it at once; a response leaves when all that it rests on is committed.

Rule 4. **A controller that loses its leadership drops what is not committed.** Images never change, so each batch in
flight keeps the one that it made, and going back is one assignment. If some of it was committed after all, it comes by
the log as for every other standby. Responses that wait become NOT_CONTROLLER: what became of their records is unknown.

Rule 5. **An unexpected error costs the leadership**, not the cluster: memory may not be trusted then, the log
may. What a client can do wrong is a `KafkaError`, which costs nothing.

Rule 6. **Readers see what is committed** (`committed_image`), and of a transaction (KIP-868) nothing before its end.

Rule 7. **Nothing here knows a socket, a clock or chance**: `ControllerEnvironment` has them, `RaftClient` is a port.
"""
