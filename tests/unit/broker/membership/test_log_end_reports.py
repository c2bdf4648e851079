"""A broker tells where its logs end, of partitions that none can lead without loss."""

from __future__ import annotations

from barnabas.broker.membership.log_end_reports import LogEndReports
from barnabas.broker.metadata.metadata_image import MetadataImage, TopicImage
from barnabas.broker.metadata.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.broker.metadata.replica_log_end import ReplicaLogEnd
from barnabas.protocol.topic_partition import TopicPartition

_ID = b"t" * 16
_NAME = TopicPartition("flights", 0)


def image(*, leader: int = NO_LEADER, epoch: int = 4, **given: tuple[int, ...]) -> MetadataImage:
    partition = PartitionRegistration(given.pop("replicas", (1, 2)), given.pop("isr", ()), leader, epoch, 9, **given)
    topic = TopicImage("flights", _ID, {0: partition})
    return MetadataImage()._replace(topics={_ID: topic}, topic_ids={"flights": _ID})


class Told:
    """The reports of broker 1, whose log ends where a test says."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, tuple[int, int] | None] = {_NAME: (3, 17)}
        self.reports = LogEndReports(1, self.ends.get)
        self.image = MetadataImage()

    def publish(self, new: MetadataImage) -> list[ReplicaLogEnd]:
        self.reports.published(self.image, new)
        self.image = new
        return self.reports.take()


def test_it_tells_of_a_partition_without_any_eligible_replica() -> None:
    told = Told()
    assert told.publish(image()) == [ReplicaLogEnd(_ID, 0, 4, 3, 17)]
    assert told.publish(image(leader=2, isr=(2,), epoch=5)) == [], "it has a leader again"


def test_it_tells_of_no_other() -> None:
    told = Told()
    assert told.publish(image(isr=(2,))) == [], "2 is in sync"
    assert told.publish(image(elr=(2,))) == [], "2 is eligible"
    assert told.publish(image(replicas=(2, 3))) == [], "the replicas are others'"
    assert told.publish(image(elr=(5,))) != [], "5 is eligible, and no replica any more"
    assert told.publish(MetadataImage()) == [], "the topic is gone"


def test_what_cannot_be_told_yet_is_told_with_a_later_heartbeat() -> None:
    told = Told()
    told.ends[_NAME] = None
    assert told.publish(image()) == []
    told.ends[_NAME] = -1, 0
    assert told.reports.take() == [ReplicaLogEnd(_ID, 0, 4, -1, 0)]


def test_there_is_news_until_a_heartbeat_told_of_that_leader_epoch() -> None:
    told = Told()
    told.reports.published(told.image, image())
    assert told.reports.has_news
    told.reports.take()
    assert not told.reports.has_news
    told.reports.published(image(), image(epoch=5))
    assert told.reports.has_news
