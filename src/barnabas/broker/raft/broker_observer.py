"""Fetches the metadata log from the controllers (KafkaRaftClient, as an observer), as a state machine."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from barnabas import anatomy, errors
from barnabas.broker.raft.observed_log import ObservedLog
from barnabas.broker.raft.raft_messages import MAX_FETCH_BYTES, METADATA_TOPIC, METADATA_TOPIC_ID
from barnabas.network.node import Node
from barnabas.protocol.kinds import EndpointType
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.protocol.messages.describe_cluster_response import DescribeClusterResponse
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.fetch_response import FetchResponse
from barnabas.protocol.messages.fetch_snapshot_request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from barnabas.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from barnabas.records import read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.instant import Instant
    from barnabas.broker.raft.observed_log import CommittedBatch
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.fetch_response import PartitionData
    from barnabas.protocol.messages.fetch_snapshot_response import PartitionSnapshot as FetchedSnapshot

_MAX_WAIT_MS = 500
_LONGEST_RETRY = 60.0
#: What an answer can say that is settled by asking the leader that it names, or another controller.
_WRONG_LEADER = frozenset(
    error.code
    for error in (
        errors.NotLeaderOrFollowerError,
        errors.FencedLeaderEpochError,
        errors.UnknownLeaderEpochError,
        errors.BrokerNotAvailableError,
    )
)
_SNAPSHOT_GONE = (errors.SnapshotNotFoundError.code, errors.PositionOutOfRangeError.code)


class MetadataListener(Protocol):
    """Who makes something of the log."""

    def load_snapshot(self, end_offset: int, epoch: int, values: list[bytes]) -> None:
        """Begin anew with all that a snapshot says, which ends before `end_offset`."""

    def load_batches(self, batches: Sequence[CommittedBatch]) -> None:
        """Go on with committed batches."""

    def begin_anew(self) -> None:
        """Forget all: the log is read from its beginning, or its snapshot, again."""

    def caught_up(self) -> None:
        """Go by what was read anew: it is all that is committed."""


class Retries:
    """When the log is read anew after faults of this program: ever later, and soon again once it was read."""

    def __init__(self) -> None:
        #: How many faults there were (`metadata-load-error-count`).
        self.count = 0
        self._in_a_row = 0

    def next_after(self) -> float:
        """Return in how many seconds to read anew, after another fault."""
        self.count += 1
        self._in_a_row += 1
        return min(_LONGEST_RETRY, 2.0 ** (self._in_a_row - 1))

    def succeeded(self) -> None:
        """Take note that all was read."""
        self._in_a_row = 0


class _Download:
    """A snapshot on its way."""

    def __init__(self, end_offset: int, epoch: int) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.data = bytearray()


class MetadataLogObserver:
    """Follows the log of the quorum; a `Requester`.

    `bootstrap` are controllers to ask while it is not known who leads; they are asked for the cluster's id first, where
    the data directory does not tell it. `report` gets one line for what an operator should know. `on_leader_changed`
    is called when another controller leads, or none is known to. While the listener raises (`problem`), the broker is
    not to be relied on, and all is read anew, after 1 s and then ever later: a fault may be one of that moment, and to
    leave records out would make another cluster of it.
    """

    def __init__(
        self,
        node_id: int,
        bootstrap: Sequence[Node],
        listener: MetadataListener,
        *,
        cluster_id: str | None,
        report: Callable[[str], None],
        backoff: float = 0.1,
    ) -> None:
        self._node_id = node_id
        self._bootstrap = list(bootstrap)
        self._listener = listener
        self.cluster_id = cluster_id
        self._report = report
        self._backoff = backoff
        self._next_bootstrap = 0
        self._delayed_until = -inf
        self._download: _Download | None = None
        self._asked: Node | None = None
        self._has_reported_trouble = False
        self.log = ObservedLog()
        self.leader: Node | None = None
        self.epoch = 0
        self.high_watermark = -1
        self.on_leader_changed: Callable[[], None] = lambda: None
        #: Why the log cannot be followed now.
        self.problem: Exception | None = None
        self.retries = Retries()
        self._anew_at = -inf

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is committed, as far as the leader has said, was given to the listener."""
        return self.high_watermark >= 0 and self.log.committed_end >= self.high_watermark

    # -- requests ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """See `Requester`."""
        return max(self._delayed_until, self._anew_at)

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        if now < self.next_deadline():
            return None
        self._asked = self.leader or self._any_controller()
        if self.cluster_id is None:
            return self._asked, DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
        download = self._download
        if download is not None and self.leader is not None:
            return self._asked, self._fetch_snapshot(download)
        return self._asked, self._fetch()

    def _any_controller(self) -> Node:
        found = self._bootstrap[self._next_bootstrap % len(self._bootstrap)]
        self._next_bootstrap += 1
        return found

    def _fetch(self) -> FetchRequest:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.epoch,
            fetch_offset=self.log.end_offset,
            last_fetched_epoch=self.log.last_epoch,
            partition_max_bytes=MAX_FETCH_BYTES,
            high_watermark=self.high_watermark,
        )
        return FetchRequest(
            cluster_id=self.cluster_id,
            replica_state=ReplicaState(replica_id=self._node_id),
            max_wait_ms=_MAX_WAIT_MS,
            max_bytes=MAX_FETCH_BYTES,
            topics=[FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )

    def _fetch_snapshot(self, download: _Download) -> FetchSnapshotRequest:
        partition = PartitionSnapshot(
            partition=0,
            current_leader_epoch=self.epoch,
            snapshot_id=SnapshotId(end_offset=download.end_offset, epoch=download.epoch),
            position=len(download.data),
        )
        return FetchSnapshotRequest(
            cluster_id=self.cluster_id,
            replica_id=self._node_id,
            max_bytes=MAX_FETCH_BYTES,
            topics=[TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
        )

    # -- responses ---------------------------------------------------------------------------------------------------

    def disconnected(self, now: float) -> None:
        """See `Requester`: the leader may be gone, so another controller is asked."""
        self._delayed_until = now + self._backoff
        if self._asked == self.leader:
            self._set_leader(None, self.epoch)
        elif not self._has_reported_trouble and self._next_bootstrap >= 2 * len(self._bootstrap):
            self._has_reported_trouble = True
            named = ", ".join(f"{node.host}:{node.port}" for node in self._bootstrap)
            self._report(f"no controller can be reached at {named}; this broker tries on")

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        try:
            self._handle_response(response, now)
        except Exception as problem:  # noqa: BLE001 - nothing may follow a fault
            self._failed(problem, now.now)

    def _failed(self, problem: Exception, now: float) -> None:
        is_new = self.problem is None or repr(problem) != repr(self.problem)
        delay = self.retries.next_after()
        self._anew_at = now + delay
        if is_new:
            self._report(
                f"the cluster's metadata cannot be followed behind offset {self.log.committed_end}: {problem!r}. This "
                f"broker takes no part in the cluster before it can; it reads all metadata anew, in {delay:g} s first "
                "and then ever later. Should it not come back, start it with another version"
            )
        self.problem = problem
        self._forget()
        self.on_leader_changed()

    def _forget(self) -> None:
        self.log, self.high_watermark, self._download = ObservedLog(), -1, None
        self._listener.begin_anew()

    def _go_on(self) -> None:
        """Have the listener go by all that was read, if it was read anew."""
        if self.is_caught_up:
            self._listener.caught_up()
            self.retries.succeeded()
            had_problem, self.problem = self.problem is not None, None
            if had_problem:
                self._report("the cluster's metadata were read anew; this broker takes part in the cluster again")
                self.on_leader_changed()

    def _handle_response(self, response: Message, now: Instant) -> None:
        code: int = response.error_code  # type: ignore[attr-defined]  # all three have it
        if code:
            self._refused(code, now.now)
        elif isinstance(response, DescribeClusterResponse):
            self.cluster_id = response.cluster_id
        elif isinstance(response, FetchSnapshotResponse):
            snapshot = response.topics[0].partitions[0]
            if self._note_leader(snapshot.current_leader, response.node_endpoints, snapshot.error_code, now.now):
                self._handle_snapshot(snapshot)
        elif isinstance(response, FetchResponse):
            found = response.responses[0].partitions[0]
            if self._note_leader(found.current_leader, response.node_endpoints, found.error_code, now.now):
                self._handle_records(found)

    def _refused(self, code: int, now: float) -> None:
        self._delayed_until = now + self._backoff
        if code == errors.InconsistentClusterIdError.code:
            self._report(
                f"the controllers belong to another cluster than this data directory ({self.cluster_id}): start "
                "the broker with its own controllers, or with another data directory"
            )

    def _note_leader(self, said: object, endpoints: Sequence[object], code: int, now: float) -> bool:
        """Take in what an answer says of the leader; whether the answer itself counts."""
        leader_id: int = said.leader_id  # type: ignore[attr-defined]  # the same fields in both responses
        epoch: int = said.leader_epoch  # type: ignore[attr-defined]
        named = {node.node_id: Node(node.node_id, node.host, node.port) for node in endpoints}  # type: ignore[attr-defined]
        before = self.leader
        if epoch > self.epoch or (epoch == self.epoch and self.leader is None and leader_id in named):
            self._set_leader(named.get(leader_id), epoch)
        if code in _WRONG_LEADER:
            if self.leader is None or self.leader == self._asked:
                self._set_leader(None, self.epoch)
                self._delayed_until = now + self._backoff
            return False
        if code in _SNAPSHOT_GONE:
            self._download = None
        if code:
            self._delayed_until = now + self._backoff
            return False
        if self.leader is None and before is None and self._asked is not None:
            # It answers as a leader and had no need to say so.
            self._set_leader(self._asked, max(epoch, self.epoch))
        return True

    def _set_leader(self, leader: Node | None, epoch: int) -> None:
        is_other = leader != self.leader
        if is_other and anatomy.active is not None:
            known = -1 if leader is None else leader.id
            anatomy.active.record(anatomy.events.ControllerChanged(self._node_id, known, epoch))
        self.leader, self.epoch = leader, epoch
        if leader is not None:
            self._next_bootstrap, self._has_reported_trouble = 0, False
            self._delayed_until = -inf
        if is_other:
            self.on_leader_changed()

    def _handle_records(self, found: PartitionData) -> None:
        if found.diverging_epoch.epoch >= 0:
            if not self.log.truncate(found.diverging_epoch.epoch, found.diverging_epoch.end_offset):
                self._begin_anew()
            return
        if found.snapshot_id.epoch >= 0:
            self._download = _Download(found.snapshot_id.end_offset, found.snapshot_id.epoch)
            return
        if found.records:
            self.log.append(found.records)
        self.high_watermark = max(self.high_watermark, found.high_watermark)
        batches = self.log.commit(self.high_watermark)
        if batches:
            self._listener.load_batches(batches)
        self._go_on()

    def _begin_anew(self) -> None:
        self._report(
            f"the controllers have lost metadata that were committed, from before offset {self.log.committed_end}; "
            "this broker reads all metadata anew"
        )
        self._forget()

    def _handle_snapshot(self, found: FetchedSnapshot) -> None:
        download = self._download
        if download is None or found.position != len(download.data):
            return
        download.data += found.unaligned_records or b""
        if len(download.data) < found.size:
            return
        self._download = None
        values = [
            bytes(record.value or b"")
            for batch in read_batches(bytes(download.data))
            if not batch.is_control
            for record in batch
        ]
        self.log = ObservedLog(download.end_offset, download.epoch)
        self.high_watermark = max(self.high_watermark, download.end_offset)
        self._listener.load_snapshot(download.end_offset, download.epoch, values)
        self._go_on()
