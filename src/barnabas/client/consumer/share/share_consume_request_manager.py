"""Fetches records of a share group from the brokers, and tells them what became of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client.consumer.share.acknowledge_request import AcknowledgeRequest, CommitResult
from barnabas.client.consumer.share.acknowledgements import RELEASE, Acknowledgements, Run
from barnabas.client.consumer.share.outcomes import locks_are_gone
from barnabas.client.consumer.share.share_completed_fetch import AcquisitionLock, ShareCompletedFetch
from barnabas.client.consumer.share.share_fetch_buffer import ShareFetchBuffer
from barnabas.client.consumer.share.share_requests import RENEW_FROM, ShareMember, share_acknowledge, share_fetch
from barnabas.client.consumer.share.share_session_handler import ShareSessionHandler
from barnabas.errors import (
    NONE,
    CorruptRecordError,
    DisconnectError,
    FencedLeaderEpochError,
    InvalidRecordStateError,
    KafkaError,
    KafkaTimeoutError,
    NotLeaderOrFollowerError,
    TopicAuthorizationError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from barnabas.network.log_context import client_logger
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.topic_partition import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.fetching.fetch_config import FetchConfig
    from barnabas.client.consumer.share.assignment_by_leader import AssignmentByLeader
    from barnabas.client.consumer.share.outcomes import Outcomes
    from barnabas.client.consumer.share.share_fetch import NodeAcknowledgements
    from barnabas.network.client_request import ClientResponse
    from barnabas.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
    from barnabas.protocol.messages.share_fetch_response import ShareFetchResponse

log = client_logger("barnabas.consumer")

_FETCH: Final = "fetch"
_LONG_LOCK_MS: Final = 30_000
# Where trying again cannot help: the locks are gone with the leader, or the topic is.
_MOVED: Final = (NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownTopicOrPartitionError, UnknownTopicIdError)
_NOT_LIMITED: Final = "share.acquire.mode=record_limit needs brokers of Apache Kafka 4.2 or later: "
_NOT_RENEWED: Final = "Locks can be renewed by brokers of Apache Kafka 4.2 or later: "
_NOT_ANSWERED: Final = "The broker's answer says nothing of these records"


class _Node:
    """What is to be said to one broker, and what is on its way there: one request at a time."""

    __slots__ = ("commits", "connection", "in_flight", "piggyback", "retry_at", "session")

    def __init__(self, node_id: int) -> None:
        self.session = ShareSessionHandler(node_id)
        #: Goes with the next fetch.
        self.piggyback: dict[TopicIdPartition, Acknowledgements] = {}
        self.commits: deque[AcknowledgeRequest] = deque()
        #: None, or the request that is not answered: `_FETCH`, or the first of `commits`.
        self.in_flight: str | AcknowledgeRequest | None = None
        self.retry_at = 0.0
        #: What stands for the connection of the session, with which it ends.
        self.connection: object = None

    @property
    def has_session(self) -> bool:
        """Whether the broker holds a session, or is about to begin one."""
        return self.in_flight == _FETCH or not self.session.is_new


class Patience(NamedTuple):
    """When what failed is tried again, and for how long, in seconds."""

    retry_backoff: float
    api_timeout: float


class _Sent(NamedTuple):
    """A fetch in flight."""

    node_id: int
    acknowledgements: dict[TopicIdPartition, Acknowledgements]
    sent_at: float
    #: Of the session.
    number: int
    beginning: int
    is_ahead: bool
    wants_records: bool


class ShareConsumeRequestManager:
    """Keeps a share session with each broker that leads an assigned partition: fetches, acknowledgements, the end.

    Belongs to the application's thread, and sends only in its calls. To each broker one request is in flight.
    Acknowledgements go with the next fetch or, where none is to be sent, together by themselves (`piggyback`); those of
    commits go alone. What brokers said of them waits in `answered`.
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        assignment: AssignmentByLeader,
        member: ShareMember,
        config: FetchConfig,
        outcomes: Outcomes,
        patience: Patience,
    ) -> None:
        self._client = client
        self._assignment = assignment
        self._metadata = assignment.metadata
        self._member = member
        self._config = config
        self._outcomes = outcomes
        #: What was counted, and what brokers said of acknowledgements.
        self.metrics = outcomes.metrics
        self.answered = outcomes.answered
        self._retry_backoff, self._api_timeout = patience
        self._nodes: dict[int, _Node] = {}
        # Counts the times that everything on its way was dropped: answers of before are ignored.
        self._beginning = 0
        self.buffer = ShareFetchBuffer(assignment, self._is_held)
        #: What brokers said that trying again does not cure; for the next call to raise.
        self.errors: deque[KafkaError] = deque()
        self.acquisition_lock_timeout_ms: int | None = None
        #: Whether the last fetch ahead of the application brought nothing: the next one waits at the broker.
        self.has_read_all = False
        client.on_torn.append(self.begin_anew)

    def begin_anew(self) -> None:
        """Drop all records and sessions; what was to be said of records is answered with an error."""
        self._beginning += 1
        nodes, self._nodes = self._nodes, {}
        self.buffer.take_all()
        self._assignment.begin_anew()
        for node in nodes.values():
            for request in node.commits:
                self._outcomes.fail(
                    request, DisconnectError("The acknowledgements were given up: the call was interrupted")
                )
            self._outcomes.answer_all(node.piggyback, locks_are_gone())

    # --- what is to be said

    def check_renewal(self, node_id: int) -> None:
        """Raise `UnsupportedVersionError` where a node cannot renew locks."""
        known = self._client.client.api_versions(node_id)
        if known is None:
            return
        try:
            known.latest_usable_version(ApiKey.SHARE_ACKNOWLEDGE, RENEW_FROM, RENEW_FROM)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{_NOT_RENEWED}{error}") from None

    def piggyback(self, acknowledgements: NodeAcknowledgements) -> None:
        """Say these with the next fetch of each node."""
        for node_id, said in self._by_node(acknowledgements, None).items():
            waiting = self._node(node_id).piggyback
            for partition, one in said.items():
                if partition in waiting:
                    waiting[partition].merge(one)
                else:
                    waiting[partition] = one

    def commit_async(self, acknowledgements: NodeAcknowledgements, deadline: float) -> None:
        """Say these as soon as each node can take a request."""
        for node_id, said in self._by_node(acknowledgements, None).items():
            commits = self._node(node_id).commits
            if commits and commits[-1].takes_more:
                commits[-1].merge(said)
            else:
                commits.append(AcknowledgeRequest(said, deadline))

    def commit_sync(self, acknowledgements: NodeAcknowledgements, deadline: float) -> CommitResult:
        """Say these, and what waits for a fetch; the result is to be waited for."""
        result = CommitResult(len(acknowledgements))
        for node_id, said in self._by_node(acknowledgements, result).items():
            self._node(node_id).commits.append(AcknowledgeRequest(said, deadline, result))
        return result

    def close(self, acknowledgements: NodeAcknowledgements, deadline: float) -> None:
        """Say these and what waits, and have every session end, by which the rest is released."""
        self.piggyback(acknowledgements)
        for node in self._nodes.values():
            said, node.piggyback = node.piggyback, {}
            if node.has_session:
                node.commits.append(AcknowledgeRequest(said, deadline, is_close=True))
            else:
                self._outcomes.answer_all(said, locks_are_gone())

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits to be said or answered."""
        return not any(node.commits or node.piggyback for node in self._nodes.values())

    @property
    def awaits_answers(self) -> bool:
        """Whether a broker has yet to answer."""
        return any(node.in_flight is not None for node in self._nodes.values())

    def give_back(self, now: float, *, everything: bool = False) -> None:
        """Part with what waits here and is not to be handed out, or `everything`."""
        fetches = self.buffer.part(now) if self.buffer.fetches else []
        if everything:
            fetches += self.buffer.take_all()
        for fetch in fetches:
            runs = [Run(first, last, RELEASE) for first, last in fetch.acquired]
            self.piggyback({fetch.partition: (fetch.lock.node_id, Acknowledgements(runs, fetch.acquired))})

    def _is_held(self, lock: AcquisitionLock) -> bool:
        node = self._nodes.get(lock.node_id)
        if node is None:
            return False
        self._note_end_of_connection(lock.node_id, node)
        return node.session.number == lock.session

    def _note_end_of_connection(self, node_id: int, state: _Node) -> None:
        """End the session whose connection has ended: the broker has released the records."""
        if state.session.is_new:
            return
        # None: it ended in the turn that read the session's first answer.
        if state.connection is None or self._client.client.api_versions(node_id) is not state.connection:
            log.info("The connection to node %s has ended, and the share session with it", node_id)
            state.session.handle_error()

    def _by_node(
        self, acknowledgements: NodeAcknowledgements, result: CommitResult | None
    ) -> dict[int, dict[TopicIdPartition, Acknowledgements]]:
        """Sort by node; what its node cannot take any more is answered."""
        found: dict[int, dict[TopicIdPartition, Acknowledgements]] = {}
        for partition, (node_id, said) in acknowledgements.items():
            node = self._nodes.get(node_id)
            if node is None or not node.has_session or self._assignment.has_moved(partition, node_id):
                self._outcomes.answer(partition, said, locks_are_gone(), result)
            else:
                found.setdefault(node_id, {})[partition] = said
        return found

    # --- sending

    def tick(self, now: float, *, polls: int, is_ahead: bool = False) -> None:
        """Send what can be sent: to each node what is to be said, or a fetch of records for so many `polls`.

        What `is_ahead` of the application is answered at once, also with nothing.
        """
        leaders = self._assignment.by_leader()
        wanted = leaders if polls else {}
        cluster = self._metadata.fetch()
        for node_id in [*self._nodes, *(new for new in wanted if new not in self._nodes)]:
            node, state = cluster.node(node_id), self._node(node_id)
            self._expire(state, now)
            self._note_end_of_connection(node_id, state)
            if now < state.retry_at or not self._can_send(state):
                continue
            if node is None or self._client.is_unavailable(node, now):
                self._give_up_on(state, node, now)
                continue
            if not polls and state.piggyback and not state.commits:
                said, state.piggyback = state.piggyback, {}
                state.commits.append(AcknowledgeRequest(said, now + self._api_timeout))
            if not self._send_commit(node, state, now) and polls and not state.commits:
                # The broker holds a session with all that it leads; together they bring so much.
                of_node = max(1, polls // max(1, len(leaders)))
                self._send_fetch(node, state, leaders.get(node_id, ()), now, polls=of_node, is_ahead=is_ahead)

    def time_to_next(self, now: float) -> float:
        """Seconds until `tick` has something to do, answers apart."""
        times = [state.retry_at for state in self._nodes.values() if state.retry_at > now]
        times += [state.commits[0].retry_at for state in self._nodes.values() if state.commits]
        return min((at - now for at in times if at > now), default=inf)

    def _node(self, node_id: int) -> _Node:
        state = self._nodes.get(node_id)
        if state is None:
            state = self._nodes[node_id] = _Node(node_id)
        return state

    @staticmethod
    def _can_send(state: _Node) -> bool:
        if state.in_flight is None:
            return True
        # What ends the session is read behind the fetch, which waits at the broker.
        return state.in_flight == _FETCH and bool(state.commits) and state.commits[0].is_close

    def _send_fetch(
        self,
        node: Node,
        state: _Node,
        wanted: Collection[TopicIdPartition],
        now: float,
        *,
        polls: int,
        is_ahead: bool,
    ) -> None:
        said, state.piggyback = state.piggyback, {}
        if state.session.is_new and said:
            self._outcomes.answer_all(said, locks_are_gone())
            said = {}
        wants_records = bool(wanted) and self._assignment.may_ask(node.id)
        if not wants_records and not said and not state.session.needs_change(wanted):
            return
        change = state.session.build(wanted, said)
        asked = polls if wants_records else 0
        request = share_fetch(self._member, change, said, self._config, polls=asked, waits=not is_ahead)
        state.in_flight = _FETCH
        self.metrics.sent(sum(map(len, said.values())), now)
        sent = _Sent(node.id, said, now, state.session.number, self._beginning, is_ahead, wants_records)
        self._client.send(node, request, now).add_listener(
            partial(self._on_fetched, sent), partial(self._on_fetch_failed, sent)
        )

    def _send_commit(self, node: Node, state: _Node, now: float) -> bool:
        """Send the first of what is to be said; False when there is nothing."""
        while state.commits:
            request = state.commits[0]
            if now < request.retry_at:
                return True
            if not state.has_session:
                state.commits.popleft()
                self._outcomes.fail(request, locks_are_gone())
                continue
            if request.is_close:
                state.session.close()
            message = share_acknowledge(self._member, state.session.epoch, request.acknowledgements)
            request.attempts += 1
            state.in_flight = request
            self.metrics.sent(sum(map(len, request.acknowledgements.values())), now)
            self._client.send(node, message, now).add_listener(
                partial(self._on_acknowledged, node.id, request, self._beginning),
                partial(self._on_acknowledge_failed, node.id, request, self._beginning),
            )
            return True
        return False

    def _expire(self, state: _Node, now: float) -> None:
        while state.commits and state.commits[0] is not state.in_flight and now > state.commits[0].deadline:
            self._outcomes.fail(state.commits.popleft(), KafkaTimeoutError("The broker did not answer in time"))

    def _give_up_on(self, state: _Node, node: Node | None, now: float) -> None:
        """Answer what waits for a fetch of a node that is gone: the end of a connection releases the records."""
        said, state.piggyback = state.piggyback, {}
        self._outcomes.answer_all(said, locks_are_gone())
        if node is None and not state.commits:
            state.session.handle_error()
        self._metadata.request_update(reset_equivalent_backoff=False)

    # --- answers

    def _on_fetched(self, sent: _Sent, response: ClientResponse) -> None:
        if sent.beginning != self._beginning:
            return
        state, message = self._done(sent.node_id, _FETCH), response.message
        if sent.wants_records:
            self._assignment.answered(sent.node_id)
        self.metrics.on_fetched(response.latency, message, response.received_at)
        if state.session.is_new:
            # Each connection has an answer of its own; none when it has ended already.
            state.connection = self._client.client.api_versions(sent.node_id)
        if not state.session.handle_response(message.error_code):
            self._on_refused(sent, state, for_code(message.error_code, message.error_message))
            return
        self._note_lock(message)
        waiting = len(self.buffer.fetches)
        known = _by_key(sent.acknowledgements)
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in message.responses:
            for found in topic.partitions:
                key = topic.topic_id, found.partition_index
                partition = known.get(key) or state.session.find(*key)
                if partition is None:
                    log.warning("Node %s sent records of a partition that was not asked for", sent.node_id)
                    continue
                self._take_answer(sent, partition, found)
                self._take_partition(sent, state, partition, found)
                if found.error_code != NONE and found.current_leader.leader_id >= 0:
                    leaders[partition.topic_partition] = (
                        found.current_leader.leader_id, found.current_leader.leader_epoch,
                    )  # fmt: skip
        self.has_read_all = sent.is_ahead and len(self.buffer.fetches) == waiting
        self._outcomes.answer_all(sent.acknowledgements, InvalidRecordStateError(_NOT_ANSWERED))
        self._note_leaders(leaders, message.node_endpoints)

    def _take_answer(self, sent: _Sent, partition: TopicIdPartition, found: Any) -> None:
        said = sent.acknowledgements.pop(partition, None)
        if said is not None:
            code = found.acknowledge_error_code
            self._outcomes.answer(partition, said, for_code(code, found.acknowledge_error_message) if code else None)

    def _take_partition(self, sent: _Sent, state: _Node, partition: TopicIdPartition, found: Any) -> None:
        if found.error_code != NONE:
            self._on_partition_error(state, partition, for_code(found.error_code, found.error_message))
        elif found.acquired_records:
            # The broker has locked them no earlier than it was asked.
            seconds = (self.acquisition_lock_timeout_ms or _LONG_LOCK_MS) / 1000
            ends_at = sent.sent_at + seconds
            # What is ahead of an application that became slow would leave it too little time.
            stale_at = ends_at - seconds / 2 if sent.is_ahead else ends_at
            lock = AcquisitionLock(sent.node_id, sent.number, ends_at, stale_at)
            self.buffer.fetches.append(ShareCompletedFetch(partition, lock, found, self._config))

    def _on_partition_error(self, state: _Node, partition: TopicIdPartition, error: KafkaError) -> None:
        log.info("A share fetch of %s failed: %s", partition, error)
        state.retry_at = self._client.now + self._retry_backoff
        if isinstance(error, TopicAuthorizationError):
            self.errors.append(TopicAuthorizationError(f"Not authorized to read topic {partition.topic!r}"))
        elif not error.retriable and not isinstance(error, UnknownServerError):
            is_corrupt = isinstance(error, CorruptRecordError)
            self.errors.append(CorruptRecordError(f"{partition} cannot be read: {error}") if is_corrupt else error)
        self._metadata.request_update(reset_equivalent_backoff=False)

    def _on_refused(self, sent: _Sent, state: _Node, error: KafkaError) -> None:
        """Take note that the broker refused the whole fetch."""
        state.session.forget_partitions()
        state.retry_at = self._client.now + self._retry_backoff
        if not error.retriable and not isinstance(error, UnknownServerError):
            self.errors.append(error)
        self._metadata.request_update(reset_equivalent_backoff=False)
        self._outcomes.answer_all(sent.acknowledgements, error)

    def _on_fetch_failed(self, sent: _Sent, error: KafkaError) -> None:
        if sent.beginning != self._beginning:
            return
        log.info("A share fetch from node %s failed: %s", sent.node_id, error)
        state = self._done(sent.node_id, _FETCH)
        if sent.wants_records:
            self._assignment.answered(sent.node_id)
        state.session.handle_error()
        state.retry_at = self._client.now + self._retry_backoff
        if isinstance(error, UnsupportedVersionError):
            self.errors.append(UnsupportedVersionError(f"{_NOT_LIMITED if self._member.is_limited else ''}{error}"))
        self._metadata.request_update(reset_equivalent_backoff=False)
        self._outcomes.answer_all(sent.acknowledgements, error)

    def _on_acknowledged(
        self, node_id: int, request: AcknowledgeRequest, beginning: int, response: ClientResponse
    ) -> None:
        if beginning != self._beginning:
            return
        state, message = self._done(node_id, request), response.message
        if not request.is_close and not state.session.handle_response(message.error_code):
            self._retry_or_fail(state, request, for_code(message.error_code, message.error_message))
            return
        self._note_lock(message)
        known = _by_key(request.acknowledgements)
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        retried: dict[TopicIdPartition, Acknowledgements] = {}
        for topic in message.responses:
            for found in topic.partitions:
                partition = known.pop((topic.topic_id, found.partition_index), None)
                if partition is None:
                    continue
                said = request.acknowledgements.pop(partition)
                error = for_code(found.error_code, found.error_message) if found.error_code else None
                if error is not None and error.retriable and not isinstance(error, _MOVED) and not request.is_close:
                    retried[partition] = said
                else:
                    self._outcomes.answer(partition, said, error, request.result)
                if error is not None and found.current_leader.leader_id >= 0:
                    leader = found.current_leader
                    leaders[partition.topic_partition] = leader.leader_id, leader.leader_epoch
        self._outcomes.answer_all(request.acknowledgements, InvalidRecordStateError(_NOT_ANSWERED), request.result)
        request.acknowledgements = retried
        if retried:
            request.retry_at = self._client.now + self._retry_backoff
        else:
            self._finish(node_id, state, request)
        self._note_leaders(leaders, message.node_endpoints)

    def _retry_or_fail(self, state: _Node, request: AcknowledgeRequest, error: KafkaError) -> None:
        if error.retriable and self._client.now < request.deadline:
            request.retry_at = self._client.now + self._retry_backoff
            return
        state.commits.popleft()
        self._outcomes.fail(request, error)

    def _on_acknowledge_failed(
        self, node_id: int, request: AcknowledgeRequest, beginning: int, error: KafkaError
    ) -> None:
        if beginning != self._beginning:
            return
        log.info("Acknowledgements were not answered by node %s: %s", node_id, error)
        state = self._done(node_id, request)
        state.session.handle_error()
        self._outcomes.fail(request, error)
        self._finish(node_id, state, request)

    def _done(self, node_id: int, request: str | AcknowledgeRequest) -> _Node:
        state = self._node(node_id)
        if state.in_flight is request:
            state.in_flight = None
        return state

    def _finish(self, node_id: int, state: _Node, request: AcknowledgeRequest) -> None:
        state.commits.popleft()
        if request.is_close:
            del self._nodes[node_id]

    def _note_lock(self, message: ShareFetchResponse | ShareAcknowledgeResponse) -> None:
        if message.acquisition_lock_timeout_ms > 0:
            self.acquisition_lock_timeout_ms = message.acquisition_lock_timeout_ms

    def _note_leaders(self, leaders: dict[TopicPartition, tuple[int, int]], endpoints: Any) -> None:
        """Learn the new leaders that an answer names along with an error (KIP-951)."""
        if leaders:
            nodes = [Node(node.node_id, node.host, node.port, node.rack) for node in endpoints]
            self._metadata.update_partition_leadership(leaders, nodes)


def _by_key(acknowledgements: Mapping[TopicIdPartition, object]) -> dict[tuple[bytes, int], TopicIdPartition]:
    return {(partition.topic_id, partition.partition): partition for partition in acknowledgements}
