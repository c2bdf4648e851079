"""A group coordinator on virtual time, with its records in memory; a test is a member, or many."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.broker.coordinator.partition_storage import StoredRecord
from barnabas.broker.groups.group_coordinator import GroupCoordinator
from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.request_context import Connection, RequestContext
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group_request import MemberIdentity
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.messages.request_header import RequestHeader
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.producer_identity import ProducerIdAndEpoch
from tests.unit.broker.coordinator.coordinator_harness import CoordinatorHarness

GROUP = "g"
MEMBER_ID_REQUIRED = errors.MemberIdRequiredError.code


def code(error: type[errors.KafkaError]) -> int:
    return error.code


class MemoryStorage:
    """`__consumer_offsets` as lists of records."""

    name = "__consumer_offsets"

    def __init__(self, partition_count: int = 50) -> None:
        self.partition_count = partition_count
        self.logs: dict[int, list[StoredRecord]] = {}
        self.exists = False
        #: What the next appends raise.
        self.failure: errors.KafkaError | None = None
        self.read_size = 7

    def ensure(self, now_ms: int) -> None:
        self.exists = True

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        now_ms: int,
        producer: ProducerIdAndEpoch | None = None,
    ) -> int:
        assert self.exists
        assert 0 <= partition < self.partition_count
        if self.failure is not None:
            raise self.failure
        log = self.logs.setdefault(partition, [])
        base = self.end_offset(partition)
        producer_id = producer.producer_id if producer is not None else -1
        log.extend(StoredRecord(base + index, key, value, producer_id) for index, (key, value) in enumerate(records))
        return base

    def append_stored(self, partition: int, key: bytes, value: bytes | None, **kind: Any) -> None:
        self.exists = True
        self.logs.setdefault(partition, []).append(StoredRecord(self.end_offset(partition), key, value, **kind))

    def read(self, partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        found = [record for record in self.logs.get(partition, []) if record.offset >= offset][: self.read_size]
        return found, found[-1].offset + 1 if found else offset

    def bring_in(self, partition: int, offset: int, done: Callable[[], None]) -> bool:
        return False

    def after_commit(self, partition: int, tell: Callable[[errors.KafkaError | None], None]) -> None:
        tell(None)

    def end_offset(self, partition: int) -> int:
        log = self.logs.get(partition)
        return log[-1].offset + 1 if log else 0

    def may_hold_records(self, partition: int) -> bool:
        return bool(self.logs.get(partition))

    def compact(self) -> None:
        """Keep the last record of each key, as the log cleaner does; tombstones go too."""
        for log in self.logs.values():
            last = {record.key: record for record in log}
            end = log[-1]
            log[:] = [record for record in log if last[record.key] is record and (record.value is not None)]
            if not log or log[-1].offset != end.offset:
                log.append(end)

    @property
    def records(self) -> list[StoredRecord]:
        return [record for partition in sorted(self.logs) for record in self.logs[partition]]


class Harness(CoordinatorHarness):
    """Requests to a coordinator at the harness's own time."""

    coordinator: GroupCoordinator

    def __init__(self, storage: MemoryStorage | None = None, seed: int = 1, **settings: object) -> None:
        self.settings = {"group.initial.rebalance.delay.ms": 0}
        self.settings.update({name.replace("_", "."): value for name, value in settings.items()})
        self.storage = storage or MemoryStorage()
        self.random = random.Random(seed)
        self.warnings: list[str] = []
        self.topics = ClusterMetadata(MemoryStore())
        self.start()

    def start(self) -> None:
        config = BrokerConfig(self.settings)
        self.coordinator = GroupCoordinator(config, self.storage, self.topics, self.random, self.warnings.append)
        self.coordinator.startup(self.at)

    def restart(self, wait_until_loaded: bool = True, **settings: object) -> None:
        """A new coordinator on the same records."""
        self.settings.update({name.replace("_", "."): value for name, value in settings.items()})
        super().restart(wait_until_loaded)

    def context(self, version: int, client_id: str | None = "client") -> RequestContext:
        header = RequestHeader(request_api_key=0, request_api_version=version, correlation_id=1, client_id=client_id)
        return RequestContext(header, Connection(1, "127.0.0.1"), self.at)

    # --- requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        version: int = 9,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        client_id: str | None = "client",
    ) -> Pending:
        names = {"range": b"meta"} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in names.items()],
        )
        return Pending(self.coordinator.join_group(self.context(version, client_id), request))

    def join_dynamic(self, **options: Any) -> Pending:
        """Both joins of a dynamic member: the one that gives it its id, and the one with the id."""
        first = self.join(**options).response
        assert first.error_code == MEMBER_ID_REQUIRED
        return self.join(first.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Pending:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequestAssignment(key, value) for key, value in (assignments or {}).items()],
        )
        return Pending(self.coordinator.sync_group(self.context(5), request))

    def heartbeat(self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.coordinator.heartbeat(self.context(4), request).error_code

    def leave(self, *members: tuple[str, str | None] | str, group: str = GROUP) -> list[int]:
        identities = [
            MemberIdentity(member, None) if isinstance(member, str) else MemberIdentity(*member) for member in members
        ]
        results = self.coordinator.leave_group(self.context(5), group, identities)
        return [result.error_code for result in results]

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = GROUP,
        instance: str | None = None,
        metadata: str | None = "",
        version: int = 9,
        topic_id: bytes = bytes(16),
        retention_time_ms: int = -1,
    ) -> dict[tuple[str, int], int] | int:
        """The error code of each partition, or the one of the whole request."""
        topics = [
            OffsetCommitRequestTopic(topic, topic_id, [OffsetCommitRequestPartition(partition, offset, 3, metadata)])
            for (topic, partition), offset in offsets.items()
        ]
        request = OffsetCommitRequest(group, generation, member_id, instance, retention_time_ms, topics)
        try:
            response = self.coordinator.commit_offsets(self.context(version), request)
        except errors.KafkaError as error:
            return error.code
        return {
            (topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }

    def fetch(
        self, wanted: list[tuple[str, int]] | None = None, *, group: str = GROUP, require_stable: bool = False
    ) -> dict[tuple[str, int], int]:
        """Offsets, or minus the error code where there is one."""
        topics = None
        if wanted is not None:
            topics = [OffsetFetchRequestTopics(topic, partition_indexes=[partition]) for topic, partition in wanted]
        request = OffsetFetchRequestGroup(group_id=group, topics=topics)
        response = self.coordinator.fetch_offsets(request, require_stable)
        assert not response.error_code
        return {
            (topic.name, part.partition_index): -part.error_code if part.error_code else part.committed_offset
            for topic in response.topics
            for part in topic.partitions
        }

    # --- whole groups

    def stable(self, *instances: str | None, **options: Any) -> list[Member]:
        """A stable group with these members (group.instance.id or None); the first one leads."""
        first = self.join_one(instances[0], **options)
        joined = [first] + [self.join_one(instance, **options) for instance in instances[1:]]
        if len(joined) > 1:
            leader_id = joined[0].response.member_id
            joined[0] = self.join(leader_id, instance=instances[0], **options)
        members = [
            Member(pending.response.member_id, pending.response.generation_id, instance)
            for pending, instance in zip(joined, instances, strict=True)
        ]
        self.sync_all(members, options.get("group", GROUP))
        return members

    def join_one(self, instance: str | None, **options: Any) -> Pending:
        return self.join_dynamic(**options) if instance is None else self.join(instance=instance, **options)

    def sync_all(self, members: list[Member], group: str = GROUP) -> None:
        """Everybody syncs, the leader (the first) last; each is assigned its own id as bytes."""
        assignments = {member.id: member.id.encode() for member in members}
        waiting = [
            self.sync(
                member.id,
                member.generation,
                assignments if member is members[0] else None,
                group=group,
                instance=member.instance,
            )
            for member in [*members[1:], members[0]]
        ]
        assert [pending.response.error_code for pending in waiting] == [0] * len(members)

    def state(self, group: str = GROUP) -> str:
        return self.coordinator.describe_group(group, 6).group_state

    def member_ids(self, group: str = GROUP) -> list[str]:
        return [member.member_id for member in self.coordinator.describe_group(group, 6).members]


class Member:
    """What a client knows about its own membership."""

    def __init__(self, id: str, generation: int, instance: str | None = None) -> None:
        self.id = id
        self.generation = generation
        self.instance = instance

    def __repr__(self) -> str:
        return f"<{self.id} in generation {self.generation}>"


class Pending:
    """The answer to a request, or the wait for it."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    @property
    def waits(self) -> bool:
        return isinstance(self._answer, DelayedOperation) and not self._answer.done

    @property
    def response(self) -> Any:
        assert not self.waits, "not answered yet"
        return self._answer.result if isinstance(self._answer, DelayedOperation) else self._answer

    @property
    def error(self) -> int:
        return self.response.error_code
