"""Commits offsets and asks for committed ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from barnabas.client.consumer.membership.commit_errors import COMMIT_FAILED, REBALANCING
from barnabas.client.consumer.membership.group_requests import offset_commit, offset_fetch
from barnabas.client.consumer.membership.messages import (
    CommitOffsets,
    Event,
    FetchOffsets,
    Generation,
    OffsetsCommitted,
    OffsetsFetched,
)
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import (
    NONE,
    CommitFailedError,
    CoordinatorNotAvailableError,
    FencedMemberEpochError,
    GroupAuthorizationError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    TopicAuthorizationError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    for_code,
)
from barnabas.protocol.messages.offset_fetch_response import OffsetFetchResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.membership.coordinator_lookup import CoordinatorLookup
    from barnabas.client.consumer.membership.group_membership import GroupMembership
    from barnabas.client.consumer.membership.group_requests import GroupIdentity
    from barnabas.network.node import Node
    from barnabas.protocol.messages.offset_commit_response import OffsetCommitResponse

_OUT_OF_GROUP: Final = (UnknownMemberIdError, IllegalGenerationError, FencedMemberEpochError)


class _Pending:
    """A command that has not been answered yet."""

    __slots__ = ("attempts", "command", "may_retry", "retry_at", "sent_as")

    def __init__(self, command: CommitOffsets | FetchOffsets) -> None:
        self.command = command
        # The generation that a commit went out in; an epoch may be newer than the one it was asked for in.
        self.sent_as: Generation | None = None
        # Whether the last answer allows another try, although its error is one that does not pass by itself.
        self.may_retry = False
        self.attempts = 0
        self.retry_at = 0.0


class CommitRequestManager:
    """Sends commits and questions about commits, in the order they were asked for. Belongs to the membership core."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        membership: GroupMembership,
        group: GroupIdentity,
        backoff: Callable[[int], float],
        post: Callable[[Event], object],
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._membership = membership
        self._group = group
        self._backoff = backoff
        self._post = post
        self._waiting: deque[_Pending] = deque()
        # In the order they were asked for.
        self._unanswered: dict[int, _Pending] = {}
        self._in_flight = 0

    def add(self, command: CommitOffsets | FetchOffsets) -> None:
        """Queue a command."""
        self._unanswered[command.id] = pending = _Pending(command)
        self._waiting.append(pending)

    def abandon(self, error: KafkaError) -> None:
        """Answer everything that was asked for with this error."""
        for pending in list(self._unanswered.values()):
            self._answer(pending, error)
        self._waiting.clear()
        self._in_flight = 0

    @property
    def is_idle(self) -> bool:
        """Whether everything asked for has been answered."""
        return not self._waiting and not self._in_flight

    def tick(self, now: float) -> None:
        """Send what can be sent, and give up what has waited too long."""
        waiting = self._waiting
        while waiting and now >= waiting[0].retry_at:
            node = self._lookup.ensure(now)
            pending = waiting[0]
            if node is not None:
                waiting.popleft()
                self._send(pending, node, now)
            elif now >= pending.command.deadline:
                waiting.popleft()
                self._answer(pending, CoordinatorNotAvailableError("The group's coordinator was not found in time"))
            else:
                return

    def time_to_next_tick(self, now: float) -> float:
        """Seconds until `tick` has something to do, answers apart."""
        if not self._waiting:
            return inf
        first = self._waiting[0]
        if self._lookup.coordinator(now) is not None:
            return max(0.0, first.retry_at - now)
        return max(0.0, min(first.command.deadline - now, max(first.retry_at - now, self._lookup.time_to_retry(now))))

    def _send(self, pending: _Pending, node: Node, now: float) -> None:
        command = pending.command
        if isinstance(command, CommitOffsets):
            try:
                asked = command.generation
                pending.sent_as = None if asked is None else self._membership.commit_as(asked)
            except KafkaError as refusal:
                self._answer(pending, refusal)
                return
            request = offset_commit(self._group, pending.sent_as, command.offsets)
        else:
            request = offset_fetch(self._group, command.partitions)
        self._in_flight += 1
        self._client.send(node, request, now).add_listener(
            lambda response: self._on_answered(pending, response.message),
            lambda error: self._on_failed(pending, error),
        )

    # --- answers

    def _on_answered(self, pending: _Pending, message: OffsetCommitResponse | OffsetFetchResponse) -> None:
        command = pending.command
        if command.id not in self._unanswered:
            return
        if isinstance(message, OffsetFetchResponse):
            self._on_offsets_fetched(pending, message)
            return
        error = self._commit_error(pending, message)
        if error is None:
            self._in_flight -= 1
            self._answer(pending, None)
        else:
            self._on_failed(pending, error)

    def _commit_error(self, pending: _Pending, message: OffsetCommitResponse) -> KafkaError | None:
        """Return the first error that concerns the commit as a whole, or all topics that may not be committed to."""
        forbidden: list[str] = []
        for topic in message.topics:
            for partition in topic.partitions:
                code = partition.error_code
                if code == TopicAuthorizationError.code:
                    forbidden.append(topic.name)
                elif code != NONE:
                    return self._commit_refused(
                        pending, for_code(code), TopicPartition(topic.name, partition.partition_index)
                    )
        return _forbidden_topics(forbidden)

    def _commit_refused(self, pending: _Pending, error: KafkaError, partition: TopicPartition) -> KafkaError:
        if isinstance(error, (*_OUT_OF_GROUP, RebalanceInProgressError, StaleMemberEpochError)):
            sent = pending.sent_as
            pending.may_retry = sent is not None and self._membership.commit_refused(sent, error)
            if isinstance(error, RebalanceInProgressError):
                return RebalanceInProgressError(REBALANCING)
            return error if pending.may_retry and not pending.command.retry else CommitFailedError(COMMIT_FAILED)
        if isinstance(error, GroupAuthorizationError):
            return GroupAuthorizationError(f"Not authorized to commit offsets of group {self._group.group_id!r}")
        return for_code(error.code, f"The offset of {partition} was not committed: {error}")

    def _on_offsets_fetched(self, pending: _Pending, message: OffsetFetchResponse) -> None:
        found = message.groups[0] if message.groups else message
        error = for_code(found.error_code) if found.error_code != NONE else None
        offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
        forbidden: list[str] = []
        for topic in found.topics:
            for partition in topic.partitions:
                name = TopicPartition(topic.name, partition.partition_index)
                code = partition.error_code
                if code == TopicAuthorizationError.code:
                    forbidden.append(topic.name)
                elif code != NONE:
                    error = error or for_code(code, f"The committed offset of {name} cannot be told: {for_code(code)}")
                elif partition.committed_offset < 0:
                    offsets[name] = None
                else:
                    offsets[name] = OffsetAndMetadata(
                        partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                    )
        error = error or _forbidden_topics(forbidden)
        if error is not None:
            self._on_failed(pending, error)
            return
        self._in_flight -= 1
        self._unanswered.pop(pending.command.id, None)
        self._post(OffsetsFetched(pending.command.id, offsets, None))

    def _on_failed(self, pending: _Pending, error: KafkaError) -> None:
        if pending.command.id not in self._unanswered:
            return
        self._in_flight -= 1
        # A broker that cannot store the commit in time may not be the coordinator any longer.
        self._lookup.note_error(error)
        if isinstance(error, KafkaTimeoutError):
            self._lookup.mark_unknown(disconnect=True)
        retry_at = self._client.now + self._backoff(pending.attempts)
        may_pass = error.retriable or pending.may_retry
        if isinstance(error, UnknownTopicOrPartitionError) and isinstance(pending.command, CommitOffsets):
            may_pass = not pending.command.needs_topics
        pending.may_retry = False
        if not may_pass or not pending.command.retry or retry_at >= pending.command.deadline:
            self._answer(pending, error)
            return
        pending.attempts += 1
        pending.retry_at = retry_at
        self._waiting.appendleft(pending)

    def _answer(self, pending: _Pending, error: KafkaError | None) -> None:
        command = pending.command
        self._unanswered.pop(command.id, None)
        if isinstance(command, CommitOffsets):
            self._post(OffsetsCommitted(command.id, error))
        else:
            self._post(OffsetsFetched(command.id, {}, error or UnstableOffsetCommitError()))


def _forbidden_topics(topics: list[str]) -> KafkaError | None:
    if not topics:
        return None
    error = TopicAuthorizationError(f"Not authorized for topics {', '.join(sorted(set(topics)))}")
    error.resources = tuple(sorted(set(topics)))
    return error
