"""Fetch: reads record batches, waits for them, remembers what a client reads (KIP-74, KIP-227, KIP-320, KIP-516).

Versions 4-18. v5 log start offset. v6 KAFKA_STORAGE_ERROR (KIP-112). v7 fetch sessions (KIP-227). v8 throttled after
the response (KIP-219). v9 current leader epoch (KIP-320). v10 zstd (KIP-110). v11 rack, preferred read replica
(KIP-392). v12 flexible, last fetched epoch and diverging epoch (KIP-595). v13 topics by id (KIP-516). v14
OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405). v15 replica state in place of the replica id (KIP-903). v16 endpoints of
current leaders (KIP-951). v17 directory id of the replica (KIP-853). v18 high watermark of the replica (KIP-1166).
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING, cast

from barnabas import errors
from barnabas.broker.cold_fetch import ColdFetch
from barnabas.broker.delayed_fetch import DelayedFetch, Fetched, FetchLimits, is_throttled, read_targets
from barnabas.broker.fetch_session import FetchSession
from barnabas.broker.fetch_target import FetchingReplica, FetchKey, FetchTarget, PartitionRead
from barnabas.broker.log.unified_log import LOG_END
from barnabas.broker.log_opening import when_open
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.replication.awaited_followers import Patience
from barnabas.broker.replication.replica_selector import LEADER, RackAwareReplicaSelector
from barnabas.config.quota_config import FETCH
from barnabas.protocol.codec import MAX_ELEMENTS
from barnabas.protocol.epochs import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from barnabas.protocol.kinds import AclOperation, ResourceType, isolation_level
from barnabas.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.thresholds import FETCH_TOPIC_IDS_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.log.cold_range import ColdRange
    from barnabas.broker.replication.quiet_partitions import QuietPartitions
    from barnabas.broker.replication.replication_quota import ReplicationQuota
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.fetch_request import FetchRequest

API = 1
VERSIONS = (4, 18)

_SESSIONS_FROM = 7
#: From these versions on a consumer may read from a follower (KIP-392), a follower tells its broker epoch (KIP-903).
_FOLLOWER_FETCH_FROM, _REPLICA_STATE_FROM = 11, 15
_NO_HIGH_WATERMARK = 2**63 - 1
#: A follower that lacks a high watermark is told it with the next records, or after so many seconds: by itself at once
#: it would cost a Fetch more for each record, while the producer's answer waits (KAFKA-9731, where half as many came).
_HIGH_WATERMARK_WAIT = 0.01
#: About what a partition takes in a response beside its records, in bytes.
_PARTITION_OVERHEAD = 50
#: Clients that do not take what they fetched may make the broker hold about so much. Beyond that a fetch still brings
#: so much, a partition's usual share, so that the others do not suffer.
_MOST_UNSENT = 64 << 20
_LEAST_ROOM = 1 << 20


def handle(broker: BrokerState, context: RequestContext, request: FetchRequest) -> FetchResponse | DelayedOperation:
    """Answer at once if there is enough, an error or nothing to wait for; else when there is, or at max_wait_ms."""
    now = context.now
    try:
        session, targets = _take_up(broker, context, request)
    except errors.KafkaError as problem:
        return FetchResponse(error_code=problem.code)

    is_full = request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH) or context.api_version < _SESSIONS_FROM

    def finish(fetched: Fetched, now: float) -> FetchResponse:
        if broker.client_quotas.enabled and _is_throttled(broker, context, fetched, now):
            return FetchResponse(session_id=NO_SESSION if is_full or session is None else session.id)
        if replica is not None and quota is not None:
            _record_throttled(quota, replica, fetched, now)
        fetched.reads += denied
        for one in fetched.reads:
            partition = one.target.partition
            if partition is not None and replica is None:
                partition.bytes_out += len(one.records)
            elif partition is not None:
                partition.bytes_to_followers += len(one.records)
        response = _full_response(session, fetched) if is_full or session is None else _changes(session, fetched)
        if quiet is not None:
            for one in fetched.reads:
                quiet.took(one)
        return response

    max_bytes = min(request.max_bytes, broker.config.get_int("fetch.max.bytes"))
    if broker.client_quotas.enabled:
        max_bytes = int(min(max_bytes, broker.client_quotas.most_at_once(context, FETCH, now)))
    replica, quota = _replica(context, request), broker.replica_manager.leader_quota
    limits = FetchLimits(
        min(request.min_bytes, max_bytes),
        max_bytes,
        isolation_level(request.isolation_level) if replica is None else LOG_END,
        replica,
        only_leader=context.api_version < _FOLLOWER_FETCH_FROM,
        selector=_selector(broker, context, request) if replica is None else None,
        quota=None if replica is None else quota,
        allowance=inf if replica is None or quota is None else quota.left(now),
    )
    quiet = _quiet(broker, session, replica, is_new=is_full)
    asked, denied = _allowed(broker, context, replica, targets if quiet is None else quiet.active)

    def read(*, only_cached: bool = False) -> Fetched:
        room = max(_LEAST_ROOM, _MOST_UNSENT - broker.unsent_bytes)
        wanted = asked if quiet is None else list(quiet.active.values())
        return read_targets(broker.replica_manager, wanted, limits, room, only_cached=only_cached)

    def look() -> list[ColdRange]:
        return read(only_cached=True).cold

    deadline = now + _longest_wait(broker, session, replica, request, now)

    def answer() -> FetchResponse | DelayedOperation:
        fetched = read(only_cached=True)
        if fetched.cold:
            return ColdFetch(broker.replica_manager, fetched.cold, look, lambda now: finish(read(), now))
        if fetched.available >= limits.min_bytes or fetched.urgent or deadline <= now or not targets or denied:
            return finish(fetched, now)
        until = min(deadline, now + _HIGH_WATERMARK_WAIT) if fetched.lags else deadline
        return DelayedFetch(asked, limits, fetched.available, until, read, finish, quiet=quiet)

    return when_open(broker, ((one.topic, one.index) for one in asked if one.partition is None), answer)


def _quiet(
    broker: BrokerState, session: FetchSession | None, replica: FetchingReplica | None, *, is_new: bool
) -> QuietPartitions | None:
    """Return what knows the partitions of a follower's session that need not be looked at; None for a consumer."""
    if session is None or replica is None:
        return None
    if session.quiet is None or is_new:
        from barnabas.broker.replication.quiet_partitions import QuietPartitions

        session.quiet = QuietPartitions(broker.purgatory, replica, session.targets)
    else:
        session.quiet.begin(replica)
    return session.quiet


def _longest_wait(
    broker: BrokerState,
    session: FetchSession | None,
    replica: FetchingReplica | None,
    request: FetchRequest,
    now: float,
) -> float:
    longest = request.max_wait_ms / 1000
    if session is None or replica is None:
        return longest
    if session.patience is None:
        session.patience = Patience()
    return min(longest, session.patience.left(broker.replica_manager.awaited.times(replica.broker_id), now))


def _record_throttled(quota: ReplicationQuota, replica: FetchingReplica, fetched: Fetched, now: float) -> None:
    for read in fetched.reads:
        partition = read.target.partition
        if len(read.records) and partition is not None and is_throttled(partition, replica.broker_id, quota):
            quota.record(len(read.records), now)


def _selector(broker: BrokerState, context: RequestContext, request: FetchRequest) -> RackAwareReplicaSelector | None:
    """Return what may send a consumer to another replica: where the settings ask for that, and it tells its rack."""
    if not request.rack_id or not broker.config["replica.selector.class"]:
        return None
    return RackAwareReplicaSelector(broker.view, context.connection.listener, request.rack_id)


def _replica(context: RequestContext, request: FetchRequest) -> FetchingReplica | None:
    """Return the follower that asks; None for a consumer."""
    broker_id, broker_epoch = request.replica_id, -1
    if context.api_version >= _REPLICA_STATE_FROM:
        broker_id, broker_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    return FetchingReplica(broker_id, broker_epoch, context.now_ms) if broker_id >= 0 else None


def _allowed(
    broker: BrokerState,
    context: RequestContext,
    replica: FetchingReplica | None,
    targets: OrderedDict[FetchKey, FetchTarget],
) -> tuple[list[FetchTarget], list[PartitionRead]]:
    """Return what is to be read, and what its principal may not read: a right may be gone since a session began."""
    everything, authorization = list(targets.values()), broker.authorization
    if authorization is None or replica is not None:
        return everything, []
    allowed, denied = [], []
    for target in everything:
        name: str | None = target.topic if isinstance(target.topic, str) else None
        if isinstance(target.topic, bytes):
            topic = broker.metadata.topic_by_id(target.topic)
            name = None if topic is None else topic.name
        if name is None or authorization.allows(context, AclOperation.READ, ResourceType.TOPIC, name):
            allowed.append(target)
        else:
            code = errors.TopicAuthorizationError.code
            denied.append(PartitionRead(target, code, -1, -1, -1, b"", 0, None, None))
    return allowed, denied


def _is_throttled(broker: BrokerState, context: RequestContext, fetched: Fetched, now: float) -> bool:
    """Count what is about to be sent; what would be too much is not sent, nor counted, until the client has waited."""
    quotas = broker.client_quotas
    size = fetched.size + _PARTITION_OVERHEAD * len(fetched.reads)
    context.throttle = quotas.use(context, FETCH, size, now)
    if context.throttle <= 0:
        return False
    quotas.give_back(context, FETCH, size, now)
    return True


def _take_up(
    broker: BrokerState, context: RequestContext, request: FetchRequest
) -> tuple[FetchSession | None, OrderedDict[FetchKey, FetchTarget]]:
    """Return the session of the request, if it has or gets one, and what is to be read."""
    by_id = context.api_version >= FETCH_TOPIC_IDS_FROM
    if context.api_version < _SESSIONS_FROM:
        return None, _merge(OrderedDict(), request, by_id)
    cache = broker.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            cache.remove(request.session_id)
        targets = _merge(OrderedDict(), request, by_id)
        wants_session = request.session_epoch == INITIAL_EPOCH and targets
        return cache.create(by_id, targets, context.now) if wants_session else None, targets
    session = cache.use(request.session_id, request.session_epoch, by_id, context.now)
    _forget(session, request, by_id)
    _merge(session.targets, request, by_id)
    if session.quiet is not None:
        _rouse(session, session.quiet, request, by_id)
    if len(session.targets) > MAX_ELEMENTS:
        cache.remove(session.id)
        raise errors.FetchSessionIdNotFoundError(f"Fetch session {session.id} has more than {MAX_ELEMENTS} partitions.")
    if not session.targets:
        cache.remove(session.id)
        return None, session.targets
    return session, session.targets


def _merge(
    targets: OrderedDict[FetchKey, FetchTarget], request: FetchRequest, by_id: bool
) -> OrderedDict[FetchKey, FetchTarget]:
    for topic in request.topics:
        name: str | bytes = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            key = (name, asked.partition)
            target = targets.get(key)
            if target is None:
                target = targets[key] = FetchTarget(name, asked.partition)
            target.offset = asked.fetch_offset
            target.max_bytes = asked.partition_max_bytes
            target.leader_epoch = asked.current_leader_epoch
            target.last_fetched_epoch = asked.last_fetched_epoch
            target.log_start_offset = asked.log_start_offset
            target.high_watermark = asked.high_watermark if asked.high_watermark != _NO_HIGH_WATERMARK else -1
    return targets


def _forget(session: FetchSession, request: FetchRequest, by_id: bool) -> None:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            key = (topic.topic_id if by_id else topic.topic, index)
            target = session.targets.pop(key, None)
            if target is not None and session.quiet is not None:
                session.quiet.active.pop(key, None)
                session.quiet.forget(target)


def _rouse(session: FetchSession, quiet: QuietPartitions, request: FetchRequest, by_id: bool) -> None:
    """Look at what a follower has named."""
    for topic in request.topics:
        for asked in topic.partitions:
            quiet.rouse(session.targets[(topic.topic_id if by_id else topic.topic, asked.partition)])


def _full_response(session: FetchSession | None, fetched: Fetched) -> FetchResponse:
    if session is not None:
        for read in fetched.reads:
            _remember(read)
    return _response(session.id if session is not None else NO_SESSION, fetched.reads)


def _changes(session: FetchSession, fetched: Fetched) -> FetchResponse:
    """Only what the client does not know: records, errors, moved watermarks."""
    changed = []
    for read in fetched.reads:
        target = read.target
        if (
            len(read.records)
            or read.error_code
            or read.high_watermark != target.known_high_watermark
            or read.log_start_offset != target.known_log_start_offset
            or read.diverging is not None
            or read.preferred != LEADER
        ):
            changed.append(read)
            _remember(read)
            if len(read.records):
                # To the end of the line, so that full partitions do not starve the others.
                key = (target.topic, target.index)
                if key in session.targets:
                    session.targets.move_to_end(key)
                if session.quiet is not None and key in session.quiet.active:
                    session.quiet.active.move_to_end(key)
    return _response(session.id, changed)


def _remember(read: PartitionRead) -> None:
    # An error is told every time: no watermark is ever -1.
    read.target.known_high_watermark = read.high_watermark
    read.target.known_log_start_offset = read.log_start_offset


def _response(session_id: int, reads: list[PartitionRead]) -> FetchResponse:
    topics: list[FetchableTopicResponse] = []
    name: str | bytes | None = None
    for read in reads:
        if read.target.topic != name:
            name = read.target.topic
            topics.append(
                FetchableTopicResponse(topic_id=name) if isinstance(name, bytes) else FetchableTopicResponse(topic=name)
            )
        topics[-1].partitions.append(_partition_data(read))
    return FetchResponse(session_id=session_id, responses=topics)


def _partition_data(read: PartitionRead) -> PartitionData:
    data = PartitionData(
        partition_index=read.target.index,
        error_code=read.error_code,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=(
            None
            if read.aborted is None
            else [AbortedTransaction(producer_id=t.producer_id, first_offset=t.first_offset) for t in read.aborted]
        ),
        # The codec takes `StoredRecords`, too, which a client never has.
        records=cast("bytes", read.records),
    )
    if read.preferred != LEADER:
        data.preferred_read_replica = read.preferred
    if read.diverging is not None:
        data.diverging_epoch = EpochEndOffset(epoch=read.diverging[0], end_offset=read.diverging[1])
    return data
