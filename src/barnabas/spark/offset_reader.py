"""What the driver asks the cluster: which partitions there are, and where they begin and end."""

from __future__ import annotations

import time
from collections.abc import Iterable

from barnabas.client.consumer.consumer import Consumer
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.errors import OptionError
from barnabas.spark.offsets import EARLIEST, LATEST, OffsetLimit, Offsets, to_json
from barnabas.spark.options import SourceOptions

#: How long an answer is reused. Spark asks an idle query about 94 times a second; more often than this helps nobody.
CACHE_SECONDS = 0.02


class OffsetReader:
    """Reads partitions and offsets through one consumer that joins no group."""

    def __init__(self, options: SourceOptions) -> None:
        """Nothing is connected before the first question."""
        self._options = options
        self._strategy = options.strategy()
        self._consumer: Consumer | None = None
        self._latest: Offsets = {}
        self._latest_at = float("-inf")

    def close(self) -> None:
        """Let go of the connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def partitions(self) -> list[TopicPartition]:
        """The partitions that the query's strategy selects at this moment; topics that do not exist have none."""
        consumer = self._connected()
        if self._strategy.topics is None:
            infos = consumer.list_topics()
        else:
            infos = {topic: consumer.partitions_for(topic) or [] for topic in sorted(self._strategy.topics)}
        return self._strategy.partitions({topic: [info.partition for info in found] for topic, found in infos.items()})

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset of each partition."""
        wanted = list(partitions)
        return dict(self._connected().beginning_offsets(wanted)) if wanted else {}

    def latest(self, *, fresh: bool = False) -> Offsets:
        """The end of every selected partition: the next offset, or with read_committed the last stable one."""
        now = time.monotonic()
        if fresh or now - self._latest_at > CACHE_SECONDS:
            partitions = self.partitions()
            self._latest = dict(self._connected().end_offsets(partitions)) if partitions else {}
            self._latest_at = time.monotonic()
        return dict(self._latest)

    def resolve(self, limit: OffsetLimit) -> Offsets:
        """Turn `startingOffsets` or `endingOffsets` into one offset for every selected partition.

        Raises OptionError when specific offsets do not name exactly the selected partitions.
        """
        if limit.everywhere == EARLIEST:
            return self.earliest(self.partitions())
        latest = self.latest(fresh=True)
        if limit.everywhere == LATEST:
            return latest
        if set(limit.specific) != set(latest):
            raise OptionError(
                f"option {limit.option} must name every partition that is read, and no other (-1 is latest, "
                f"-2 earliest): it names {to_json(limit.specific)}, and {self._strategy!r} selects "
                f"{[str(partition) for partition in sorted(latest)]}"
            )
        earliest = self.earliest([partition for partition, offset in limit.specific.items() if offset == EARLIEST])
        found = {LATEST: latest, EARLIEST: earliest}
        return {
            partition: found[offset][partition] if offset in found else offset
            for partition, offset in limit.specific.items()
        }

    def _connected(self) -> Consumer:
        if self._consumer is None:
            settings = {name: value for name, value in self._options.client.items() if name != "group.id"}
            self._consumer = Consumer({"allow.auto.create.topics": "false", **settings})
        return self._consumer
