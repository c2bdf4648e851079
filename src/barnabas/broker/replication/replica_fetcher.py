"""Copies partitions from one leader (AbstractFetcherThread, ReplicaFetcherThread), as a state machine.

The connection's owner asks `next_request(now)`, sends it, and hands over what comes (`receive`, or `disconnected`).
One request is in flight at a time. Truncation rests on Fetch (versions 12 and later): the leader tells where the
follower's last epoch ends with it, and the follower cuts there, and asks again (KIP-595, with KIP-279's rules).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas import errors
from barnabas.broker.faults import OnFault, raise_fault
from barnabas.broker.log.leader_epoch_file_cache import UNDEFINED_EPOCH
from barnabas.broker.replication.replica_fetch_session import ReplicaFetchSession
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest
from barnabas.protocol.messages.fetch_request import ReplicaState as FetchReplicaState
from barnabas.protocol.messages.fetch_response import FetchResponse
from barnabas.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.list_offsets_response import ListOffsetsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from barnabas.broker.instant import Instant
    from barnabas.broker.log.leader_epoch_file_cache import EpochEntry
    from barnabas.broker.replication.replication_quota import ReplicationQuota
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.fetch_response import PartitionData
    from barnabas.protocol.topic_partition import TopicPartition

LATEST, EARLIEST = -1, -2
_FENCED = errors.FencedLeaderEpochError.code
_OUT_OF_RANGE = errors.OffsetOutOfRangeError.code


#: A partition that is throttled is left out for so long, in seconds, before the quota is looked at again.
_THROTTLED_FOR = 0.1
#: So long, in seconds, a Fetch waits at the leader while the disk has to do with a partition that it leaves out.
_WAIT_BESIDE_DISK = 0.01


class FetcherSettings(NamedTuple):
    """`replica.fetch.*`: sizes in bytes, times in seconds."""

    max_wait: float = 0.5
    min_bytes: int = 1
    partition_max_bytes: int = 1 << 20
    max_bytes: int = 10 << 20
    backoff: float = 1.0


class FollowerLogs(Protocol):
    """What a fetcher does to the follower's logs."""

    def log_start_offset(self, name: TopicPartition) -> int:
        """Where the log begins."""

    def log_end_offset(self, name: TopicPartition) -> int:
        """Where the log ends."""

    def high_watermark(self, name: TopicPartition) -> int:
        """Return what the follower knows to be committed."""

    def latest_epoch(self, name: TopicPartition) -> int:
        """Return the epoch of the last record, -1 without one."""

    def end_offset_for_epoch(self, name: TopicPartition, epoch: int) -> EpochEntry:
        """Return the largest epoch not above the one given, and where it ends; -1 for both if unknown."""

    def append(self, name: TopicPartition, data: PartitionData, leader_epoch: int, now_ms: int) -> None:
        """Append the records of a response, take over high watermark and log start. Raises `KafkaError`."""

    def flush(self, name: TopicPartition, now_ms: int, done: Callable[[], None]) -> bool:
        """Begin to flush the log if its settings ask for that; whether they do. `done` is called when it is over."""

    def truncate_to(
        self,
        offsets: Mapping[TopicPartition, int],
        now_ms: int,
        done: Callable[[Mapping[TopicPartition, Exception]], None],
        is_wanted: Callable[[TopicPartition], bool],
        *,
        fully: bool = False,
    ) -> None:
        """Cut logs, or begin them anew (`fully`); `done` gets what has failed when the disk has it.

        A log that is not wanted any more stays as it is.
        """

    def truncate_now(self, offsets: Mapping[TopicPartition, int], now_ms: int) -> Mapping[TopicPartition, Exception]:
        """Cut logs and wait for the disk; gives what has failed."""


class PartitionFetchState:
    """How far one partition is; `leader_end_offset` is set while it is looked up where an offset out of range goes."""

    __slots__ = (
        "delayed_until",
        "fetch_offset",
        "is_in_sync",
        "is_out_of_range",
        "lag",
        "last_fetched_epoch",
        "leader_end_offset",
        "leader_epoch",
        "topic_id",
    )

    def __init__(self, topic_id: bytes, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int) -> None:
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.delayed_until = -inf
        self.is_out_of_range = False
        self.is_in_sync = False
        self.lag = 0
        self.leader_end_offset: int | None = None


class ReplicaFetcher:
    """The partitions that one broker copies from one leader."""

    def __init__(
        self,
        me: int,
        logs: FollowerLogs,
        broker_epoch: Callable[[], int],
        settings: FetcherSettings | None = None,
        quota: ReplicationQuota | None = None,
    ) -> None:
        self._me = me
        self._logs = logs
        self._broker_epoch = broker_epoch
        self._settings = settings or FetcherSettings()
        self._quota = quota
        self._states: dict[TopicPartition, PartitionFetchState] = {}
        self._session = ReplicaFetchSession()
        #: What the leader was asked for: by Fetch, as long as the session lasts, and by ListOffsets.
        self._asked: dict[TopicPartition, tuple[int, int]] = {}
        self._asked_offsets: dict[TopicPartition, tuple[int, int]] = {}
        #: Partitions that may have to be asked for otherwise than before, and those that are asked for no more.
        self._changed: dict[TopicPartition, None] = {}
        self._gone: dict[TopicPartition, None] = {}
        self._delayed: dict[TopicPartition, None] = {}
        self._lost: dict[TopicPartition, None] = {}
        self._request: Message | None = None
        #: How many requests were sent, and how many bytes of records came.
        self.requests = self.bytes_in = 0
        self.failed: dict[TopicPartition, Exception | None] = {}
        """Partitions that are left alone until they are added again: fenced, or something is wrong with what came."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called when the disk has done what a partition waited for, so that `next_request` may have more."""
        self.on_fault: OnFault = raise_fault
        """Gets what is raised by a fault of this program, and where."""

    # -- partitions --------------------------------------------------------------------------------------------------

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._states

    def __len__(self) -> int:
        return len(self._states)

    def fetch_offset(self, name: TopicPartition) -> int:
        """Return the next offset that is fetched."""
        return self._states[name].fetch_offset

    def lags(self) -> Iterable[tuple[TopicPartition, int]]:
        """Return how many committed records each partition lacks, as far as is known."""
        return ((name, state.lag) for name, state in self._states.items())

    def add_partition(self, name: TopicPartition, topic_id: bytes, leader_epoch: int, now_ms: int) -> None:
        """Copy a partition from now on, from the end of its log; one without epochs from its high watermark.

        Raises `KafkaStorageError`.
        """
        self.failed.pop(name, None)
        known = self._states.get(name)
        if known is not None and known.leader_epoch == leader_epoch and known.topic_id == topic_id:
            return
        logs = self._logs
        epoch, offset = logs.latest_epoch(name), logs.log_end_offset(name)
        self.remove_partition(name)
        self._states[name] = PartitionFetchState(topic_id, leader_epoch, offset, epoch)
        self._changed[name] = None
        if epoch == UNDEFINED_EPOCH and logs.high_watermark(name) < offset:
            # Of an old format: nothing else says what may be kept.
            for problem in logs.truncate_now({name: logs.high_watermark(name)}, now_ms).values():
                self.remove_partition(name)
                raise problem
            self._states[name].fetch_offset = logs.log_end_offset(name)
        try:
            # What the process had in memory when it was killed; a fetch says that this replica has it.
            self._begin_flush(name, self._states[name], now_ms)
        except errors.KafkaStorageError:
            self.remove_partition(name)
            raise

    def remove_partition(self, name: TopicPartition) -> None:
        """Copy a partition no more."""
        self.failed.pop(name, None)
        if self._states.pop(name, None) is not None:
            for names in (self._changed, self._delayed, self._lost):
                names.pop(name, None)
            self._gone[name] = None

    def look_at(self, name: TopicPartition) -> None:
        """Have the next Fetch say how the partition is: the start of its log has moved."""
        if name in self._states and name not in self._delayed:
            self._changed[name] = None

    # -- requests ----------------------------------------------------------------------------------------------------

    def next_request(self, now: float) -> Message | None:
        """Return the next request, None as long as one is in flight, or nothing is due."""
        if self._request is not None:
            return None
        for name in [name for name in self._delayed if self._states[name].delayed_until <= now]:
            del self._delayed[name]
            self._changed[name] = None
        if self._quota is not None and self._quota.is_exceeded(now):
            self._hold_back(self._quota, now)
        lost = {name: self._states[name] for name in self._lost if name not in self._delayed}
        self._request = self._list_offsets(lost) if lost else self._fetch(now)
        self.requests += self._request is not None
        return self._request

    def _hold_back(self, quota: ReplicationQuota, now: float) -> None:
        """Leave out what is throttled and not in sync, for a moment."""
        for name, state in self._states.items():
            if not state.is_in_sync and name not in self._delayed and quota.is_throttled(*name):
                self._put_off(name, state, now + _THROTTLED_FOR)

    def _put_off(self, name: TopicPartition, state: PartitionFetchState, until: float) -> None:
        state.delayed_until = until
        self._delayed[name] = self._gone[name] = None
        self._changed.pop(name, None)

    def next_deadline(self) -> float:
        """When `next_request` may give something that it does not give now."""
        if self._request is not None:
            return inf
        if len(self._states) > len(self._delayed):
            return -inf
        return min((self._states[name].delayed_until for name in self._delayed), default=inf)

    def _names_to_look_at(self) -> Iterable[TopicPartition]:
        """Return what may have changed since the leader was told; of a new session, everything that is not delayed."""
        if self._session.is_new:
            self._asked = {}
            return [name for name in self._states if name not in self._delayed]
        return self._changed

    def _allowance(self, names: Iterable[TopicPartition], now: float) -> dict[TopicPartition, int]:
        """Return how many bytes of the throttled partitions among `names` may come, so that the rate is kept."""
        quota, most = self._quota, self._settings.partition_max_bytes
        if quota is None or quota.limit is None:
            return {}
        throttled = [name for name in names if not self._states[name].is_in_sync and quota.is_throttled(*name)]
        share = int(min(most, max(1, quota.left(now) / max(1, len(throttled)))))
        return dict.fromkeys(throttled, share)

    def _fetch(self, now: float) -> FetchRequest | None:
        logs, settings = self._logs, self._settings
        wanted: dict[TopicPartition, tuple[bytes, FetchPartition]] = {}
        names = self._names_to_look_at()
        allowance = self._allowance(names, now)
        for name in names:
            state = self._states[name]
            wanted[name] = (
                state.topic_id,
                FetchPartition(
                    partition=name.partition,
                    current_leader_epoch=state.leader_epoch,
                    fetch_offset=state.fetch_offset,
                    last_fetched_epoch=state.last_fetched_epoch,
                    log_start_offset=logs.log_start_offset(name),
                    partition_max_bytes=allowance.get(name, settings.partition_max_bytes),
                    high_watermark=logs.high_watermark(name),
                ),
            )
        # What the disk is done with meanwhile is acknowledged by the next Fetch only.
        waits_for_disk = any(self._states[name].delayed_until == inf for name in self._delayed)
        max_wait = min(_WAIT_BESIDE_DISK, settings.max_wait) if waits_for_disk else settings.max_wait
        request = FetchRequest(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            replica_state=FetchReplicaState(replica_id=self._me, replica_epoch=self._broker_epoch()),
        )
        if not self._session.fill(request, wanted, self._gone):
            return None
        for name in self._gone:
            self._asked.pop(name, None)
        for name in wanted:
            self._asked[name] = self._states[name].leader_epoch, self._states[name].fetch_offset
        self._changed, self._gone = {}, {}
        return request

    def _list_offsets(self, lost: Mapping[TopicPartition, PartitionFetchState]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, state in lost.items():
            topic = topics.setdefault(name.topic, ListOffsetsTopic(name=name.topic))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=name.partition,
                    current_leader_epoch=state.leader_epoch,
                    timestamp=LATEST if state.leader_end_offset is None else EARLIEST,
                )
            )
        self._asked_offsets = {name: (state.leader_epoch, state.fetch_offset) for name, state in lost.items()}
        return ListOffsetsRequest(replica_id=self._me, topics=list(topics.values()))

    # -- responses ---------------------------------------------------------------------------------------------------

    def receive(self, response: Message, now: Instant) -> None:
        """Take in the response to the request in flight."""
        self._request = None
        if isinstance(response, FetchResponse):
            self._handle_fetch(response, now)
        elif isinstance(response, ListOffsetsResponse):
            self._handle_list_offsets(response, now)

    def disconnected(self, now: float) -> None:
        """Give the request in flight up; all that it asked for waits a while."""
        given_up, self._request = self._request, None
        self._session.reset()
        self._delay(self._asked_offsets if isinstance(given_up, ListOffsetsRequest) else self._asked, now)

    def _delay(self, names: Mapping[TopicPartition, object], now: float) -> None:
        for name in names:
            state = self._states.get(name)
            if state is not None:
                self._put_off(name, state, now + self._settings.backoff)

    def _asked_state(
        self, name: TopicPartition, asked: Mapping[TopicPartition, tuple[int, int]]
    ) -> PartitionFetchState | None:
        """Return the state of a partition, if it is still that in which it was asked for."""
        state = self._states.get(name)
        if state is None or asked.get(name) != (state.leader_epoch, state.fetch_offset):
            return None
        return state

    def _handle_fetch(self, response: FetchResponse, now: Instant) -> None:
        found = self._session.handle_response(response)
        if found is None:
            self._delay(self._asked if response.error_code else {}, now.now)
            return
        cuts: dict[TopicPartition, int] = {}
        for name, data in found.items():
            state = self._asked_state(name, self._asked)
            if state is None or state.is_out_of_range:
                continue
            self._changed[name] = None
            try:
                if data.error_code:
                    self._handle_error(name, state, data.error_code, now.now)
                elif data.diverging_epoch.epoch >= 0:
                    diverging = data.diverging_epoch
                    cuts[name] = self._truncation_offset(name, diverging.epoch, diverging.end_offset)
                else:
                    self._append(name, state, data, now)
            except Exception as problem:  # noqa: BLE001 - a fault in one partition must not keep the others
                self._failed(name, problem, now)
        if cuts:
            self._truncate(cuts, now)

    def _failed(self, name: TopicPartition, problem: Exception, now: Instant) -> None:
        """Fetch a partition again after a pause, from where its log ends: it may have taken what came."""
        self.on_fault(f"copying {name}", problem)
        state = self._states.get(name)
        if state is not None:
            logs = self._logs
            state.fetch_offset, state.last_fetched_epoch = logs.log_end_offset(name), logs.latest_epoch(name)
            self._put_off(name, state, now.now + self._settings.backoff)

    def _handle_error(self, name: TopicPartition, state: PartitionFetchState, code: int, now: float) -> None:
        if code == _OUT_OF_RANGE:
            state.is_out_of_range, state.leader_end_offset = True, None
            self._lost[name] = None
        elif code == _FENCED:
            # The leader knows a later epoch: the metadata that tell of it are on their way.
            self._fail(name, None)
        else:
            self._put_off(name, state, now + self._settings.backoff)

    def _fail(self, name: TopicPartition, problem: Exception | None) -> None:
        self.remove_partition(name)
        self.failed[name] = problem

    def _append(self, name: TopicPartition, state: PartitionFetchState, data: PartitionData, now: Instant) -> None:
        logs = self._logs
        if logs.log_end_offset(name) != state.fetch_offset:
            self._fail(name, errors.IllegalStateError(f"{name} was changed while it was fetched"))
            return
        try:
            logs.append(name, data, state.leader_epoch, now.now_ms)
        except (errors.CorruptRecordError, errors.InvalidRecordError, errors.KafkaStorageError):
            # Damaged on the way, or a disk that may be mended: another try tells.
            self._put_off(name, state, now.now + self._settings.backoff)
        except errors.KafkaError as problem:
            self._fail(name, problem)
            return
        self.bytes_in += len(data.records or b"")
        quota = self._quota
        if quota is not None and quota.limit is not None and not state.is_in_sync and quota.is_throttled(*name):
            quota.record(len(data.records or b""), now.now)
        end = logs.log_end_offset(name)
        state.is_in_sync = end >= data.high_watermark
        state.lag = max(0, data.high_watermark - end)
        if end != state.fetch_offset:
            # Without new records the last epoch stays what it was (KAFKA-15510).
            state.fetch_offset, state.last_fetched_epoch = end, logs.latest_epoch(name)
            self._flush(name, state, now)

    def _flush(self, name: TopicPartition, state: PartitionFetchState, now: Instant) -> None:
        """Fetch on when what was fetched is on the disk, if the log's settings ask for that."""
        try:
            self._begin_flush(name, state, now.now_ms)
        except errors.KafkaError:
            self._put_off(name, state, now.now + self._settings.backoff)

    def _begin_flush(self, name: TopicPartition, state: PartitionFetchState, now_ms: int) -> None:
        waiting = [name]

        def done() -> None:
            waiting.clear()
            state.delayed_until = -inf
            self.on_ready()

        if self._logs.flush(name, now_ms, done) and waiting:
            self._put_off(name, state, inf)

    # -- truncating --------------------------------------------------------------------------------------------------

    def _truncation_offset(self, name: TopicPartition, leader_epoch: int, leader_end_offset: int) -> int:
        """Return where to cut, of what the leader says of the follower's last epoch (KIP-279).

        Where the follower has that epoch too, at the end of the shorter one. Else at the end of its largest epoch that
        is smaller: the leader is asked of that next.
        """
        logs = self._logs
        end = logs.log_end_offset(name)
        ours = logs.end_offset_for_epoch(name, leader_epoch)
        if ours.epoch == UNDEFINED_EPOCH or leader_epoch == UNDEFINED_EPOCH:
            return min(leader_end_offset, end)
        if ours.epoch != leader_epoch:
            return min(ours.start_offset, end)
        return min(ours.start_offset, leader_end_offset, end)

    def _truncate(self, offsets: Mapping[TopicPartition, int], now: Instant, *, fully: bool = False) -> None:
        states = {name: self._states[name] for name in offsets}
        for name, state in states.items():
            self._put_off(name, state, inf)

        def is_wanted(name: TopicPartition) -> bool:
            return self._states.get(name) is states[name]

        def done(failed: Mapping[TopicPartition, Exception]) -> None:
            for name, state in states.items():
                if name in failed:
                    # The leader will say the same again.
                    state.delayed_until = now.now + self._settings.backoff
                elif is_wanted(name):
                    state.fetch_offset = self._logs.log_end_offset(name)
                    state.last_fetched_epoch = self._logs.latest_epoch(name)
                    if state.is_out_of_range:
                        self._found(name, state)
                    state.delayed_until = -inf
            self.on_ready()

        self._logs.truncate_to(offsets, now.now_ms, done, is_wanted, fully=fully)

    def _handle_list_offsets(self, response: ListOffsetsResponse, now: Instant) -> None:
        from barnabas.protocol.topic_partition import TopicPartition

        for topic in response.topics:
            for found in topic.partitions:
                name = TopicPartition(topic.name, found.partition_index)
                state = self._asked_state(name, self._asked_offsets)
                if state is None or not state.is_out_of_range:
                    continue
                if found.error_code:
                    self._handle_error(name, state, found.error_code, now.now)
                    if name in self._states and found.error_code == _OUT_OF_RANGE:
                        self._put_off(name, state, now.now + self._settings.backoff)
                elif state.leader_end_offset is None and found.offset >= self._logs.log_end_offset(name):
                    # Not too long: perhaps it ends before the leader begins.
                    state.leader_end_offset = found.offset
                elif state.leader_end_offset is None:
                    self._truncate({name: found.offset}, now)
                else:
                    self._start_at(name, state, found.offset, now)

    def _start_at(self, name: TopicPartition, state: PartitionFetchState, leader_start: int, now: Instant) -> None:
        state.leader_end_offset = None
        if leader_start > self._logs.log_end_offset(name):
            self._truncate({name: leader_start}, now, fully=True)
        else:
            self._found(name, state)

    def _found(self, name: TopicPartition, state: PartitionFetchState) -> None:
        """Fetch again what was out of range."""
        state.is_out_of_range = False
        del self._lost[name]
        self._changed[name] = None
