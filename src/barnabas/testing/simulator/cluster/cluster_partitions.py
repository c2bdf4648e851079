"""All partitions of a cluster, as its control plane has decided on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.metadata.metadata_image import MetadataImage

#: Every partition, in an order that does not depend on its topic's random id.
Partitions = Sequence[tuple[TopicPartition, PartitionRegistration]]


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
    """Yield every partition, in an order that does not depend on its topic's random id."""
    for topic in sorted(image.topics.values(), key=lambda found: found.name):
        for index, registration in sorted(topic.partitions.items()):
            yield TopicPartition(topic.name, index), registration
