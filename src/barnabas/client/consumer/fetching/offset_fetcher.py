"""Finds positions: resets those that are missing or out of range, and has new leaders confirm the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.client.consumer.auto_offset_reset_strategy import LATEST, LATEST_TIMESTAMP, AutoOffsetResetStrategy
from barnabas.client.consumer.fetching.list_offsets import CONSUMER_REPLICA_ID, ListOffsetsResult, send_list_offsets
from barnabas.client.consumer.offsets import EpochEndOffset, FetchPosition, LeaderAndEpoch, LogTruncation
from barnabas.errors import (
    NONE,
    KafkaError,
    LogTruncationError,
    TopicAuthorizationError,
    UnsupportedVersionError,
    for_code,
)
from barnabas.network.log_context import client_logger
from barnabas.protocol.kinds import IsolationLevel
from barnabas.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.network.client_request import ClientResponse
    from barnabas.network.node import Node

log = client_logger("barnabas.consumer")

#: For so many seconds metadata may be older than what a position follows: no broker is cut off for longer, and of an
#: epoch that none has by then another log is to be thought, as of a topic that was created again.
_OLD_METADATA = 60.0


class TruncatedLogError(LogTruncationError):
    """Partitions whose logs lost records that were consumed, and what is known of the place to go on from.

    `positions` has where the consumer stood, `divergent_offsets` where the logs parted from what it had consumed; a
    partition whose leader cannot tell is missing there.
    """

    def __init__(self, message: str, truncated: Mapping[TopicPartition, LogTruncation]) -> None:
        super().__init__(message)
        self.partitions = tuple(truncated)
        self.positions = {name: position.offset for name, (position, _) in truncated.items()}
        self.divergent_offsets = {name: at for name, (_, at) in truncated.items() if at is not None}


class OffsetFetcher:
    """Sends ListOffsets and OffsetForLeaderEpoch for partitions that wait for a position. Application's thread."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        metadata: ConsumerMetadata,
        subscriptions: SubscriptionState,
        *,
        isolation_level: int,
        retry_backoff: float,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._isolation_level = isolation_level
        self._retry_backoff = retry_backoff
        self._wall_clock_ms = wall_clock_ms
        self._error: KafkaError | None = None
        self._validated: object = None
        self._checked: object = None
        self._topic_ids: dict[TopicPartition, bytes | None] = {}
        #: Since when the metadata have been older than what a position follows.
        self._outdated: dict[TopicPartition, float] = {}

    # --- reset

    def reset_positions_if_needed(self, now: float) -> None:
        """Look up the positions that wait for a reset; raises an error of an earlier look-up that does not pass."""
        self._raise_error()
        by_leader: dict[Node, dict[TopicPartition, tuple[int, int]]] = {}
        strategies: dict[TopicPartition, AutoOffsetResetStrategy] = {}
        for name in self._subscriptions.partitions_needing_reset(now):
            strategy = self._subscriptions.reset_strategy(name)
            leader, epoch = self._metadata.current_leader(name)
            if leader is None or strategy is None:
                self._metadata.request_update(reset_equivalent_backoff=False)
                continue
            strategies[name] = strategy
            by_leader.setdefault(leader, {})[name] = (strategy.timestamp(self._wall_clock_ms()), epoch)
        for node, timestamps in by_leader.items():
            self._subscriptions.set_next_allowed_retry(timestamps, now + self._client.request_timeout)
            future = send_list_offsets(self._client, node, timestamps, self._isolation_level, now)
            chosen = {name: strategies[name] for name in timestamps}
            future.add_listener(partial(self._reset, chosen), partial(self._on_failed, set(timestamps)))

    def _reset(self, strategies: dict[TopicPartition, AutoOffsetResetStrategy], result: ListOffsetsResult) -> None:
        if result.to_retry:
            self._try_again(set(result.to_retry))
        for name, found in result.found.items():
            strategy = strategies[name]
            if found is None:
                # No record is as young as the duration allows: begin with the next one that comes.
                if self._subscriptions.is_assigned(name) and self._subscriptions.reset_strategy(name) == strategy:
                    self._subscriptions.request_offset_reset(name, LATEST)
                continue
            if found.leader_epoch >= 0:
                self._metadata.update_last_seen_epoch_if_newer(name, found.leader_epoch)
            log.info("Resetting %s to offset %s (%s)", name, found.offset, strategy.name)
            position = FetchPosition(found.offset, -1, self._metadata.leader_and_epoch(name))
            self._subscriptions.maybe_seek_unvalidated(name, position, strategy)

    # --- lag

    def request_end_offset(self, name: TopicPartition, now: float) -> None:
        """Ask for the end of a partition, once, where no fetch has told it yet; the next `poll` sends the question."""
        leader, epoch = self._metadata.current_leader(name)
        if leader is None or not self._subscriptions.request_end_offset(name):
            return
        asked = {name: (LATEST_TIMESTAMP, epoch)}
        send_list_offsets(self._client, leader, asked, self._isolation_level, now).add_listener(
            partial(self._on_end_found, name), lambda error: self._subscriptions.end_offset_not_found(name)
        )

    def _on_end_found(self, name: TopicPartition, result: ListOffsetsResult) -> None:
        found = result.found.get(name)
        if found is None:
            self._subscriptions.end_offset_not_found(name)
        elif self._isolation_level == IsolationLevel.READ_COMMITTED:
            self._subscriptions.update_log_offsets(name, -1, -1, found.offset)
        else:
            self._subscriptions.update_log_offsets(name, found.offset, -1, -1)

    # --- topics that were deleted and created again

    def reset_positions_of_recreated_topics(self) -> None:
        """After new metadata, start anew where a topic has another id than when its partitions were assigned.

        Unlike in Kafka's consumer: a position in the old topic means nothing in the new one, where it would skip the
        records before it. Without a reset policy nothing is done, as there.
        """
        cluster = self._metadata.fetch()
        if self._checked == (cluster, len(self._subscriptions)):
            return
        self._checked = (cluster, len(self._subscriptions))
        before, self._topic_ids = self._topic_ids, {}
        for name in self._subscriptions.assigned_partitions:
            known = before.get(name)
            found = self._topic_ids[name] = cluster.topic_id(name.topic) or known
            if known is not None and found != known and self._subscriptions.has_default_offset_reset_policy:
                log.warning("Topic %s was deleted and created again; starting anew in %s", name.topic, name)
                self._subscriptions.request_offset_reset(name)

    # --- validation (KIP-320)

    def validate_positions_if_needed(self, now: float) -> None:
        """After new metadata, have new leaders confirm the positions.

        Raises `LogTruncationError` where records that were consumed are gone from the log and no reset policy
        says what to do.
        """
        self._raise_error()
        cluster = self._metadata.fetch()
        if self._validated != (cluster, len(self._subscriptions)):
            self._validated = (cluster, len(self._subscriptions))
            for name in self._subscriptions.assigned_partitions:
                self._subscriptions.maybe_validate_position(name, self._metadata.leader_and_epoch(name))
        waiting = self._subscriptions.partitions_needing_validation(now)
        by_leader: dict[int, dict[TopicPartition, FetchPosition]] = {}
        self._outdated = {name: since for name, since in self._outdated.items() if name in waiting}
        for name in waiting:
            if self._may_be_asked_for(name, now) and (position := self._subscriptions.position(name)) is not None:
                by_leader.setdefault(position.current_leader.leader_id, {})[name] = position
        for node_id, positions in by_leader.items():
            node = cluster.node(node_id)
            if node is None:
                self._metadata.request_update(reset_equivalent_backoff=False)
                continue
            self._subscriptions.set_next_allowed_retry(positions, now + self._client.request_timeout)
            self._client.send(node, _epoch_request(positions), now).add_listener(
                partial(self._on_validation_answered, positions), partial(self._on_validation_failed, positions)
            )

    def _may_be_asked_for(self, name: TopicPartition, now: float) -> bool:
        """Whether the leader that is known can confirm the position: none can that leads in an earlier epoch.

        Kafka's consumer asks it all the same where it had no metadata when it got the position, and begins anew; where
        it had some, it waits for ever.
        """
        position, known = self._subscriptions.position(name), self._metadata.fetch().partition(name)
        if position is None or known is None or not 0 <= known.leader_epoch < position.offset_epoch:
            return True
        since = self._outdated.setdefault(name, now)
        if now < since + _OLD_METADATA:
            self._metadata.update_last_seen_epoch_if_newer(name, position.offset_epoch)
            self._metadata.request_update(reset_equivalent_backoff=False)
            return False
        if self._metadata.last_seen_leader_epoch(name) != known.leader_epoch:
            log.warning(
                "%s: the position, %d, follows leader epoch %d, and for %d s no broker has known one after %d",
                *(name, position.offset, position.offset_epoch, _OLD_METADATA, known.leader_epoch),
            )
            self._metadata.forget_epoch(name)
            self._subscriptions.maybe_validate_position(name, self._metadata.leader_and_epoch(name))
        return True

    def _on_validation_failed(self, positions: dict[TopicPartition, FetchPosition], error: KafkaError) -> None:
        if not isinstance(error, UnsupportedVersionError):
            self._on_failed(set(positions), error)
            return
        # An old broker that cannot confirm positions: go on without.
        for name, position in positions.items():
            if self._subscriptions.is_assigned(name) and self._subscriptions.position(name) == position:
                self._subscriptions.seek_validated(name, position)

    def _on_validation_answered(self, positions: dict[TopicPartition, FetchPosition], response: ClientResponse) -> None:
        to_retry: set[TopicPartition] = set()
        truncated: dict[TopicPartition, LogTruncation] = {}
        for topic in response.message.topics:
            for found in topic.partitions:
                name = TopicPartition(topic.topic, found.partition)
                if found.error_code == TopicAuthorizationError.code:
                    error = TopicAuthorizationError(f"Not authorized to read topic {name.topic!r}")
                    error.resources = (name.topic,)
                    self._error = error
                elif found.error_code != NONE:
                    log.debug("Confirming the position in %s failed: %s", name, for_code(found.error_code))
                    to_retry.add(name)
                elif name in positions:
                    end = EpochEndOffset(found.leader_epoch, found.end_offset)
                    truncation = self._subscriptions.maybe_complete_validation(name, positions[name], end)
                    if truncation is not None:
                        truncated[name] = truncation
        if truncated:
            self._error = self._truncated(truncated)
        if to_retry:
            self._try_again(to_retry)

    def _truncated(self, found: dict[TopicPartition, LogTruncation]) -> TruncatedLogError:
        places = []
        for name, (position, divergent) in found.items():
            where = "an unknown offset" if divergent is None else f"offset {divergent.offset}"
            places.append(
                f"{name} was truncated: the consumer stands at offset {position.offset} (epoch "
                f"{position.offset_epoch}), but the log parted from what was consumed at {where}"
            )
        message = f"{'; '.join(places)}. auto.offset.reset is none, so seek() to where to go on"
        return TruncatedLogError(message, found)

    # --- failures

    def _on_failed(self, names: set[TopicPartition], error: KafkaError) -> None:
        self._try_again(names)
        if not error.retriable and self._error is None:
            self._error = error

    def _try_again(self, names: set[TopicPartition]) -> None:
        self._subscriptions.set_next_allowed_retry(names, self._client.now + self._retry_backoff)
        self._metadata.request_update(reset_equivalent_backoff=False)

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


def _epoch_request(positions: dict[TopicPartition, FetchPosition]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic, partition), position in positions.items():
        leader: LeaderAndEpoch = position.current_leader
        topics.setdefault(topic, OffsetForLeaderTopic(topic=topic)).partitions.append(
            OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=leader.epoch, leader_epoch=position.offset_epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))
