"""`Sampler`: looks at the whole cluster every few seconds, while a stream is open, and remembers how it was."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.admin import GroupListing, OffsetSpec
from barnabas.client.admin.quorum import CONTROLLER_ANSWERS_WITHIN, ActiveController, active_controller
from barnabas.console.lag_clock import Delay, LagClock
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.admin import ClusterDescription, GroupOffsets, TopicDescription
    from barnabas.aio import AdminClient
    from barnabas.console.live import Hub

log = logging.getLogger("barnabas.console")

INTERVAL = 5.0
#: A sample may take at most this share of the time; with a large cluster they come less often.
SHARE = 0.1
#: An hour, at the usual interval.
REMEMBERED = 720
MOST_GROUPS = 500
DIRECTORIES_EVERY = 6
#: A lag's trend is that of so long at most.
TREND_MS = 60_000
#: Partitions in one ListOffsets: a broker that opens logs when they are first asked for answers others in between.
OFFSETS_AT_ONCE = 250


class Disk(NamedTuple):
    """A log directory of a broker; sizes in bytes, -1 where the broker does not know, `error` where it is out."""

    broker: int
    path: str
    used: int
    total: int
    usable: int
    error: str | None


class GroupSample(NamedTuple):
    """A group, and by partition how far it has committed; `lag` in records, `delay` of the oldest of them in time.

    `reads` are records a second by topic that it has committed since the sample before, `trend` those by which the lag
    has grown within the last minute; None while there is nothing to compare with.
    """

    listing: GroupListing
    committed: Mapping[TopicPartition, int]
    lag: int
    delay: Delay | None
    reads: Mapping[str, float] = {}
    trend: float | None = None


class Sample(NamedTuple):
    """The cluster at one time (epoch milliseconds): `ends` are the end offsets, `took` the seconds that this took.

    `rates` are records a second by topic since the sample before; of topics that got none there is no entry.
    """

    at_ms: int
    took: float
    cluster: ClusterDescription
    controller: ActiveController
    topics: Mapping[str, TopicDescription]
    ends: Mapping[TopicPartition, int]
    rates: Mapping[str, float]
    groups: Mapping[str, GroupSample]
    disks: tuple[Disk, ...]


class Point(NamedTuple):
    """What is remembered of a sample: records a second into the cluster, each group's lag, and its delay in ms."""

    at_ms: int
    rate: float
    lags: Mapping[str, int]
    delays: Mapping[str, int]


class Sampler:
    """Takes samples while `hub` is watched, and publishes what `views` make of them.

    `now_ms` gives epoch milliseconds, `monotonic` seconds; `turns` bounds how many samplers look at the same time.
    """

    def __init__(
        self,
        admin: AdminClient,
        hub: Hub,
        clocks: tuple[Callable[[], int], Callable[[], float]],
        views: Mapping[str, Callable[[Sample, deque[Point]], object]],
        turns: asyncio.Semaphore | None = None,
    ) -> None:
        self._admin = admin
        self._hub = hub
        self._now_ms, self._monotonic = clocks
        self._views = views
        self._turns = asyncio.Semaphore() if turns is None else turns
        self.last: Sample | None = None
        self.points: deque[Point] = deque(maxlen=REMEMBERED)
        self.lag_clock = LagClock()
        self._taken = 0

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await self._hub.watched()
            took = await self._look()
            await asyncio.sleep(max(INTERVAL, took / SHARE) - took)

    async def _look(self) -> float:
        async with self._turns:
            began = self._monotonic()
            try:
                await self.sample()
            except KafkaError as problem:
                self._hub.publish("trouble", {"error": type(problem).__name__, "message": str(problem)})
            except Exception:
                log.exception("a sample of the cluster failed; the next one is taken as usual")
                self._hub.publish("trouble", {"error": "Fault", "message": "the console's log says how it failed"})
            return self._monotonic() - began

    async def sample(self) -> Sample:
        """Take one sample, remember it, and publish its views. Raises `KafkaError`."""
        began = self._monotonic()
        admin = self._admin
        cluster = await admin.describe_cluster()
        controller = await self._controller(cluster)
        names = await admin.list_topics(include_internal=True)
        topics = await admin.describe_topics(names, raise_errors=False) if names else {}
        described = {str(name): topic for name, topic in topics.items()}
        disks = self.last.disks if self.last is not None else ()
        if self._taken % DIRECTORIES_EVERY == 0:
            disks = await log_directories(admin, [node.id for node in cluster.nodes])
        if self.last is None:
            # Whether all is well is known before the offsets of many partitions are.
            took = self._monotonic() - began
            self._publish(Sample(self._now_ms(), took, cluster, controller, described, {}, {}, {}, disks))
        led = [
            TopicPartition(name, partition.partition)
            for name, topic in described.items()
            for partition in topic.partitions
            if partition.leader is not None
        ]
        ends = await self._ends(led)
        at_ms = self._now_ms()
        self._taken += 1
        groups = await self._groups(ends, at_ms)
        took = self._monotonic() - began
        rates = rates_between(self.last, ends, at_ms)
        sample = Sample(at_ms, took, cluster, controller, described, ends, rates, groups, disks)
        self._remember(sample)
        return sample

    async def _controller(self, cluster: ClusterDescription) -> ActiveController:
        try:
            quorum = await self._admin.describe_metadata_quorum(timeout=CONTROLLER_ANSWERS_WITHIN)
            return active_controller(cluster, quorum)
        except KafkaError as error:
            return active_controller(cluster, error)

    async def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for first in range(0, len(partitions), OFFSETS_AT_ONCE):
            asked = dict.fromkeys(partitions[first : first + OFFSETS_AT_ONCE], OffsetSpec.LATEST)
            listed = await self._admin.list_offsets(asked, raise_errors=False)
            ends.update((partition, found.offset) for partition, found in listed.items())
        return ends

    def _remember(self, sample: Sample) -> None:
        self.last = sample
        lags = {name: group.lag for name, group in sample.groups.items()}
        delays = {name: group.delay.ms for name, group in sample.groups.items() if group.delay is not None}
        self.points.append(Point(sample.at_ms, sum(sample.rates.values()), lags, delays))
        self._publish(sample)
        self._hub.publish("trouble", None)

    def _publish(self, sample: Sample) -> None:
        for kind, view in self._views.items():
            self._hub.publish(kind, view(sample, self.points))

    def _reads(self, name: str, committed: Mapping[TopicPartition, int], at_ms: int) -> Mapping[str, float]:
        before = None if self.last is None else self.last.groups.get(name)
        if self.last is None or before is None:
            return {}
        return _speeds(before.committed, committed, (at_ms - self.last.at_ms) / 1000)

    async def _groups(self, ends: Mapping[TopicPartition, int], at_ms: int) -> dict[str, GroupSample]:
        listings = await self._admin.list_groups(raise_errors=False)
        asked = dict.fromkeys([name for name, group in listings.items() if has_offsets(group)][:MOST_GROUPS])
        offsets: Mapping[str, GroupOffsets] = {}
        if asked:
            offsets = await self._admin.list_offsets_of_groups(asked, raise_errors=False)
        committed = {name: {p: known.offset for p, known in found.items()} for name, found in offsets.items()}
        self.lag_clock.saw(at_ms, ends, {partition for found in committed.values() for partition in found})
        found = {}
        since = next((point for point in self.points if point.at_ms >= at_ms - TREND_MS), None)
        for name, listing in listings.items():
            own = committed.get(name, {})
            delay, reads = self.lag_clock.longest(own, at_ms), self._reads(name, own, at_ms)
            lag = lag_of(own, ends)
            found[name] = GroupSample(listing, own, lag, delay, reads, trend_of(since, name, lag, at_ms))
        return found


def has_offsets(group: GroupListing) -> bool:
    """Whether a group commits offsets: those of consumers do, of either protocol, and those of streams."""
    return group.protocol_type in ("consumer", "", "streams") and (group.type is None or group.type.name != "SHARE")


def lag_of(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Return how many records lie after the committed offsets."""
    return sum(max(0, ends[partition] - offset) for partition, offset in committed.items() if partition in ends)


def trend_of(since: Point | None, group: str, lag: int, at_ms: int) -> float | None:
    """Return by how many records a second a group's lag has grown since a time; None where it is not known of then."""
    if since is None or group not in since.lags or at_ms <= since.at_ms:
        return None
    return (lag - since.lags[group]) * 1000 / (at_ms - since.at_ms)


def rates_between(before: Sample | None, ends: Mapping[TopicPartition, int], at_ms: int) -> dict[str, float]:
    """Return records a second by topic since a sample."""
    return {} if before is None else _speeds(before.ends, ends, (at_ms - before.at_ms) / 1000)


def _speeds(
    before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int], seconds: float
) -> dict[str, float]:
    added: dict[str, int] = {}
    for partition, offset in now.items():
        more = offset - before.get(partition, offset)
        if more > 0:
            added[partition.topic] = added.get(partition.topic, 0) + more
    return {topic: records / seconds for topic, records in added.items()} if seconds > 0 else {}


async def log_directories(admin: AdminClient, brokers: list[int]) -> tuple[Disk, ...]:
    """Return the log directories of brokers; those of a broker that does not tell are left out."""
    described = await admin.describe_log_dirs(brokers, raise_errors=False)
    return tuple(
        Disk(
            broker,
            path,
            sum(replica.size for replica in found.replica_infos.values()),
            found.total_bytes,
            found.usable_bytes,
            None if found.error is None else str(found.error),
        )
        for broker, directories in described.items()
        for path, found in directories.items()
    )
