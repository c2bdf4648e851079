"""The vocabulary: what parts of barnabas tell of themselves, one named tuple each.

`client` is a client id; `core` tells its NetworkClients apart, of which a consumer has two; nodes are broker ids,
negative for bootstrap servers. Times are not in the events: the `Recorder` notes when they came. A batch has a number
of its own while it lives (`Recorder.number_of`).
"""

from typing import NamedTuple

# --- producer: from the accumulator to the acknowledgement


class SerializersChosen(NamedTuple):
    """What `send` does with each record before it is appended: `key` and `value` name the serializers.

    `partitioner` names the class that chooses the partition where a record has none. An empty text stands for bytes
    that stay as they are, and for the built-in partitioner.
    """

    client: str
    key: str
    value: str
    partitioner: str


class StickyPartition(NamedTuple):
    """The built-in partitioner drew the partition that records without a key go to, until batch.size bytes went there.

    `bytes` went to the one before.
    """

    client: str
    topic: str
    partition: int
    bytes: int


class BatchOpened(NamedTuple):
    """A new `ProducerBatch` at the tail of a partition's deque."""

    client: str
    batch: int
    topic: str
    partition: int


class BatchDrained(NamedTuple):
    """The Sender took a batch from the head of its deque; it has its final bytes now.

    `waited_ms` since it was opened; `attempt` counts from 0; `sequence` is -1 without idempotence. `reason` is full,
    linger, memory, flush, closing, transaction, retry, or along: others of its node had to go.
    """

    client: str
    batch: int
    topic: str
    partition: int
    node: int
    records: int
    size: int
    waited_ms: float
    attempt: int
    sequence: int
    reason: str = ""


class BatchRequeued(NamedTuple):
    """A batch that failed for a passing reason is back at the head of its deque, for `backoff_ms`."""

    client: str
    batch: int
    error: str
    backoff_ms: float


class BatchSplit(NamedTuple):
    """A batch that was too large for the broker became smaller ones, which are opened next."""

    client: str
    batch: int
    parts: int


class BatchEnded(NamedTuple):
    """A batch has its result: `outcome` is succeeded, failed or aborted; `offset` that of its first record, or -1."""

    batch: int
    outcome: str
    offset: int
    error: str


class BatchFilled(NamedTuple):
    """How full the last batch of a partition's deque is, looked at now and then; `limit` is batch.size in bytes."""

    client: str
    batch: int
    records: int
    size: int
    limit: int


class MemoryUsed(NamedTuple):
    """How much of buffer.memory is free, in bytes, and how many threads wait for some; looked at with the batches."""

    client: str
    free: int
    total: int
    waiting: int


# --- network: every client


class RequestUnsent(NamedTuple):
    """The consumer put a request into `ConsumerNetworkClient.unsent`; nothing is transmitted yet."""

    client: str
    core: int
    node: int
    api: str
    correlation: int


class RequestInFlight(NamedTuple):
    """`NetworkClient` gave a request to its `Selector`: it is in `inFlightRequests` until it is answered.

    `port` is the client's end of the connection, which the broker sees, too; 0 where there is none.
    """

    client: str
    core: int
    node: int
    api: str
    correlation: int
    size: int
    port: int = 0


class RequestAnswered(NamedTuple):
    """A request left `inFlightRequests`; `error` is empty for an answer, else why there is none."""

    client: str
    core: int
    node: int
    api: str
    correlation: int
    error: str


class RequestCompleted(NamedTuple):
    """`firePendingCompletedRequests` completed the future of a request, and ran its listeners."""

    client: str
    core: int
    correlation: int


class NodeConnected(NamedTuple):
    """The connection to a node is ready for requests."""

    client: str
    core: int
    node: int


class NodeDisconnected(NamedTuple):
    """The connection to a node ended; why is in what its requests are answered with."""

    client: str
    core: int
    node: int


# --- network: a broker or controller; `client`, `port` and `correlation` say which request of a client it is


class RequestReceived(NamedTuple):
    """A node took a request up: its bytes are there, and its handler begins."""

    broker: int
    client: str
    port: int
    api: str
    correlation: int
    size: int


class RequestParked(NamedTuple):
    """A request waits in a node's purgatory: for data, for replicas, for a group, for a commit of the metadata."""

    broker: int
    client: str
    port: int
    api: str
    correlation: int


class ResponseSent(NamedTuple):
    """A node has answered a request; its response of `size` bytes is on its way, or 0 where the client wants none."""

    broker: int
    client: str
    port: int
    api: str
    correlation: int
    size: int


class ConnectionEnded(NamedTuple):
    """A node has lost a connection, with what was parked there."""

    broker: int
    port: int


# --- consumer


class PollEntered(NamedTuple):
    """The application called `poll`."""

    client: str


class PollLeft(NamedTuple):
    """`poll` returned so many records."""

    client: str
    records: int


class FetchCompleted(NamedTuple):
    """A partition's data went into `completedFetches`; `offset` was asked for."""

    client: str
    node: int
    topic: str
    partition: int
    offset: int
    size: int


class FetchDrained(NamedTuple):
    """All data of a completed fetch was handed out, or dropped; the position stands at `position`."""

    client: str
    topic: str
    partition: int
    offset: int
    position: int


class PositionMoved(NamedTuple):
    """Records before `position` were handed out to the application."""

    client: str
    topic: str
    partition: int
    position: int


class OffsetCommitted(NamedTuple):
    """The coordinator acknowledged a committed offset."""

    client: str
    topic: str
    partition: int
    offset: int


# --- group: the members' side and the coordinator's


class MemberState(NamedTuple):
    """A consumer's membership changed its state."""

    client: str
    group: str
    member: str
    state: str
    epoch: int


class MemberAssigned(NamedTuple):
    """A consumer took over its assignment; `partitions` is `topic-partition`, separated by commas."""

    client: str
    partitions: str


class GroupState(NamedTuple):
    """The coordinator changed a group's state; `epoch` is the generation in the classic protocol.

    `leader` is the member that computes the assignment there; in the consumer protocol the coordinator does.
    """

    group: str
    state: str
    epoch: int
    members: int
    leader: str = ""


class GroupMemberJoined(NamedTuple):
    """The coordinator has a new member in a group; `instance` is the group.instance.id of a static one, else empty."""

    group: str
    member: str
    client: str
    instance: str = ""


class GroupMemberLeft(NamedTuple):
    """A member is not in the group any more."""

    group: str
    member: str


# --- log


class LogMoved(NamedTuple):
    """A log grew, or consumers may read more of it: its offsets now, and base offset and size of the active segment."""

    topic: str
    partition: int
    start_offset: int
    last_stable_offset: int
    high_watermark: int
    end_offset: int
    segment: int
    size: int


class LogRead(NamedTuple):
    """A fetch from `offset` was found in a segment, and `size` bytes of batches come of it.

    `entry` is the index's last offset at or before it, found by binary search, and `position` where its batch lies in
    the file; both are -1 where the place was remembered from the last fetch. `aborted` transactions are told to a
    reader of committed records.
    """

    topic: str
    partition: int
    offset: int
    segment: int
    entry: int
    position: int
    size: int
    aborted: int


class SegmentRolled(NamedTuple):
    """A log began a new active segment."""

    topic: str
    partition: int
    base_offset: int


class SegmentsDeleted(NamedTuple):
    """Retention took the oldest segments out; the log begins at `start_offset`."""

    topic: str
    partition: int
    start_offset: int
    segments: int
    reason: str


class SegmentsReplaced(NamedTuple):
    """Compaction put one segment of `size` bytes in the place of those from `base_offset` up to `end_offset`."""

    topic: str
    partition: int
    base_offset: int
    end_offset: int
    size: int


class LogCleaned(NamedTuple):
    """Compaction made a log clean up to `end_offset`: `bytes_before` became `bytes_after`, `keys` were dirty."""

    topic: str
    partition: int
    end_offset: int
    bytes_before: int
    bytes_after: int
    keys: int


# --- cluster: replicas of a partition, and who controls


class ReplicaRole(NamedTuple):
    """A broker took a role of a partition (leader or follower), or goes on in it with other replicas.

    `leader` is -1 where there is none; `isr` and `replicas` are broker ids, separated by commas.
    """

    broker: int
    topic: str
    partition: int
    role: str
    leader: int
    epoch: int
    isr: str
    replicas: str


class IsrChanged(NamedTuple):
    """The controller accepted the ISR that a partition's leader had proposed."""

    broker: int
    topic: str
    partition: int
    epoch: int
    isr: str


class ReplicaMoved(NamedTuple):
    """A replica's log grew, or its high watermark moved."""

    broker: int
    topic: str
    partition: int
    high_watermark: int
    end_offset: int


class ControllerChanged(NamedTuple):
    """A node knows of another active controller; -1 for none."""

    node: int
    controller: int
    epoch: int


# --- transactions


class TransactionState(NamedTuple):
    """The coordinator changed a transaction's state.

    `partitions` are how many take part, `names` which: `topic-partition`, separated by commas.
    """

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    partitions: int
    names: str


class MarkerWritten(NamedTuple):
    """The leader of a partition put the end of a transaction into its log; `outcome` is commit or abort.

    `first_offset` is where the transaction's records begin in this log; -1 where it has none.
    """

    topic: str
    partition: int
    producer_id: int
    epoch: int
    outcome: str
    offset: int
    first_offset: int = -1


# --- Spark's source: the driver, which plans micro-batches; `query` is its group, or what it reads


class MicroBatchPlanned(NamedTuple):
    """A micro-batch is to read offsets `start` to `end` of a partition; `batch` counts those of the process."""

    query: str
    batch: int
    topic: str
    partition: int
    start: int
    end: int


class MicroBatchEnded(NamedTuple):
    """Spark has checkpointed that a micro-batch is done, up to `offset` of a partition."""

    query: str
    topic: str
    partition: int
    offset: int


# --- Spark's source: a task's range, its thread and its Handover; `task` is a number of the process's own


class RangeBegun(NamedTuple):
    """A task begins to read offsets `start` to `end` of a partition."""

    task: int
    topic: str
    partition: int
    start: int
    end: int


class HandoverMoved(NamedTuple):
    """The hand-over between `KafkaConsumerThread` and `KafkaFetcher` came to a case.

    `case` is produce_waits (the slot is full), produced, poll_waits (the slot is empty), taken, woken (the batch stays
    in the producer's hand), failed (`error` says how) or closed.
    """

    task: int
    case: str
    error: str


class RowsDecoded(NamedTuple):
    """A task has decoded rows into an Arrow batch for Spark; its position in a partition is `position`."""

    task: int
    topic: str
    partition: int
    rows: int
    position: int


# --- streams on Spark: a task of an application, from batch to batch


class StreamsTaskStep(NamedTuple):
    """A task came to a step of a batch.

    `step` is read_decision, restore, keep, compute, computed, or decided: then there was nothing to compute any more.
    `stream_time` is in milliseconds, -1 where the task has none yet.
    """

    application: str
    task: str
    batch: int
    step: str
    stream_time: int


class StreamsTaskCounted(NamedTuple):
    """What has passed a source or sink node in a batch up to now; `way` is consumed or produced."""

    application: str
    task: str
    way: str
    node: str
    topic: str
    records: int
    size: int


class StoreRestored(NamedTuple):
    """A changelog on its way into a store: `case` is start, batch, end or suspended, as StateRestoreListener says.

    `position` is how far it was read, and `end` how far it is to be.
    """

    application: str
    task: str
    store: str
    case: str
    position: int
    end: int


# --- violations: what a simulator found


class Violation(NamedTuple):
    """The simulator's oracles found something that must not be."""

    what: str


Event = (
    SerializersChosen | StickyPartition | BatchOpened | BatchDrained | BatchRequeued | BatchSplit | BatchEnded |
    BatchFilled | MemoryUsed | RequestUnsent | RequestInFlight | RequestAnswered | RequestCompleted | NodeConnected |
    NodeDisconnected | RequestReceived | RequestParked | ResponseSent | ConnectionEnded | PollEntered |
    PollLeft | FetchCompleted | FetchDrained | PositionMoved | OffsetCommitted | MemberState | MemberAssigned |
    GroupState | GroupMemberJoined | GroupMemberLeft | LogMoved | LogRead | SegmentRolled | SegmentsDeleted |
    SegmentsReplaced | LogCleaned | ReplicaRole | IsrChanged | ReplicaMoved | ControllerChanged |
    TransactionState | MarkerWritten | MicroBatchPlanned | MicroBatchEnded | RangeBegun | HandoverMoved |
    RowsDecoded | StreamsTaskStep | StreamsTaskCounted | StoreRestored | Violation
)  # fmt: skip

#: Name → class of every event, in the order of this page.
EVENTS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__args__}
