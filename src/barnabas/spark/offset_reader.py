"""What the driver asks the cluster: which partitions there are, where they begin and end, what a group committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.config.config_def import known_to
from barnabas.errors import RetriableError, UnknownTopicOrPartitionError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.errors import OptionError
from barnabas.spark.offset_limit import OffsetLimit
from barnabas.spark.offsets import EARLIEST, LATEST, Offsets, to_json
from barnabas.spark.options import SourceOptions

#: How long an answer is reused. Spark asks an idle query about 94 times a second, which need not reach the brokers.
CACHE_SECONDS = 0.02

#: How long a commit may hold the query up.
COMMIT_SECONDS = 10.0

R = TypeVar("R")


class OffsetReader:
    """Reads partitions and offsets through an AdminClient; it joins no group."""

    def __init__(self, options: SourceOptions) -> None:
        """Nothing is connected before the first question."""
        self._options = options
        self._strategy = options.strategy()
        self._admin: AdminClient | None = None
        self._latest: Offsets = {}
        self._latest_at = float("-inf")
        self._partitions: list[TopicPartition] = []
        self._partitions_at: float | None = None
        #: The ids of the selected topics as of the last look at the partitions.
        self.topic_ids: dict[str, bytes | None] = {}

    def close(self) -> None:
        """Let go of the connections."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def partitions(self, *, fresh: bool = True, must_exist: bool = False) -> list[TopicPartition]:
        """Return the partitions that the query selects; topics that do not exist have none, unless they must.

        Unless `fresh`, an answer holds for partitionDiscoveryIntervalMs (-1: for ever).
        """
        interval = self._options.discovery_interval_ms / 1000
        now = time.monotonic()
        is_known = self._partitions_at is not None and (interval < 0 or now - self._partitions_at < interval)
        if fresh or not is_known:
            self._partitions = self._retried(self._discover_existing if must_exist else self._discover)
            self._partitions_at = now
        return list(self._partitions)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each partition."""
        return self._look_up(dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))

    def latest(self, *, fresh: bool = False) -> Offsets:
        """Return the end of every selected partition: the next offset, or with read_committed the last stable one."""
        now = time.monotonic()
        if fresh or now - self._latest_at > CACHE_SECONDS:
            self._latest = self._ends(self.partitions(fresh=fresh))
            self._latest_at = time.monotonic()
        return dict(self._latest)

    def resolve(self, limit: OffsetLimit) -> Offsets:
        """Turn `startingOffsets`, `endingTimestamp` and their like into one offset for every selected partition.

        Raises OptionError when the option does not name exactly the selected partitions, or when a time has no match,
        UnknownTopicOrPartitionError when a topic that the query names does not exist.
        """
        partitions = self.partitions(must_exist=True)
        if limit.everywhere == EARLIEST:
            return self.earliest(partitions)
        if limit.from_group:
            return self._committed(partitions)
        if limit.timestamp is not None:
            return self._at_times(limit, dict.fromkeys(partitions, limit.timestamp))
        latest = self._ends(partitions)
        if limit.everywhere == LATEST:
            return latest
        self._check_names(limit, latest)
        if limit.timestamps:
            return self._at_times(limit, limit.timestamps)
        earliest = self.earliest([partition for partition, offset in limit.specific.items() if offset == EARLIEST])
        found = {LATEST: latest, EARLIEST: earliest}
        return {
            partition: found[offset][partition] if offset in found else offset
            for partition, offset in limit.specific.items()
        }

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset of a record of that time (epoch milliseconds) or later, None if there is none."""
        found = self._look_up(times)
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to the query's group, which must have no members; raises what the brokers say."""
        assert self._options.group_id is not None
        self._connected().alter_consumer_group_offsets(self._options.group_id, offsets, timeout=COMMIT_SECONDS)

    def _committed(self, partitions: list[TopicPartition]) -> Offsets:
        """Return what the group has committed.

        A partition without a commit is read from its beginning, losing nothing.
        """
        group = self._options.group_id
        assert group is not None
        found = self._retried(lambda: self._connected().list_consumer_group_offsets(group, partitions))
        committed = {partition: offset.offset for partition, offset in found.items()}
        return {**self.earliest(set(partitions) - set(committed)), **committed}

    def _at_times(self, limit: OffsetLimit, times: Mapping[TopicPartition, int]) -> Offsets:
        found = self.offsets_for_times(times)
        without = sorted(str(partition) for partition, offset in found.items() if offset is None)
        if without and not limit.latest_without_match:
            raise OptionError(
                f"option {limit.option}={limit!r}: {', '.join(without)} has no record of that time or later; "
                "startingOffsetsByTimestampStrategy=latest would begin at its end"
            )
        ends = self._ends([partition for partition, offset in found.items() if offset is None])
        return {partition: ends[partition] if offset is None else offset for partition, offset in found.items()}

    def _check_names(self, limit: OffsetLimit, selected: Offsets) -> None:
        named = limit.timestamps or limit.specific
        if set(named) != set(selected):
            raise OptionError(
                f"option {limit.option} must name every partition that is read, and no other (-1 is latest, "
                f"-2 earliest): it names {to_json(named)}, and {self._strategy!r} selects "
                f"{[str(partition) for partition in sorted(selected)]}"
            )

    def _discover(self) -> list[TopicPartition]:
        admin = self._connected()
        names = self._strategy.topics
        if names is None:
            names = frozenset(name for name in admin.list_topics() if self._strategy.may_select(name))
        found = admin.describe_topics(sorted(names), raise_errors=False) if names else None
        if found is None:
            return []
        for error in found.errors.values():
            if not isinstance(error, UnknownTopicOrPartitionError):
                raise error
        self.topic_ids = {str(name): topic.topic_id for name, topic in found.items()}
        cluster = {str(name): [info.partition for info in topic.partitions] for name, topic in found.items()}
        return self._strategy.partitions(cluster)

    def _discover_existing(self) -> list[TopicPartition]:
        partitions = self._discover()
        if missing := sorted((self._strategy.topics or frozenset()) - set(self.topic_ids)):
            raise UnknownTopicOrPartitionError(
                f"option {self._strategy!r}: {', '.join(missing)} does not exist on the brokers "
                f"{self._options.client['bootstrap.servers']}; check the name, or create the topic first"
            )
        return partitions

    def _ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._look_up(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))

    def _look_up(self, specs: Mapping[TopicPartition, int]) -> Offsets:
        if not specs:
            return {}
        isolation = self._options.client.get("isolation.level", "read_uncommitted").lower()
        found = self._retried(lambda: self._connected().list_offsets(specs, isolation_level=isolation))
        return {partition: listed.offset for partition, listed in found.items()}

    def _retried(self, ask: Callable[[], R]) -> R:
        """Ask again after fetchOffset.retryIntervalMs, at most fetchOffset.numRetries times."""
        for left in range(self._options.fetch_offset_retries, -1, -1):
            try:
                return ask()
            except RetriableError:
                if left == 0:
                    raise
                time.sleep(self._options.fetch_offset_retry_interval)
        raise AssertionError("unreachable")

    def _connected(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(known_to("admin", self._options.client))
        return self._admin
