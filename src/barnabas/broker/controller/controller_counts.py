"""What a controller has done since its process began, as numbers (QuorumControllerMetrics, ControllerStats)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.protocol.message import Message


class ControllerCounts:
    """Counts operations, elections of leaders by this controller, and controllers that it saw become active."""

    __slots__ = (
        "elections_from_eligible",
        "loaded_snapshots",
        "metadata_errors",
        "new_active_controllers",
        "operations",
        "timed_out_heartbeats",
        "unclean_elections",
    )

    def __init__(self) -> None:
        self.operations = 0
        self.new_active_controllers = 0
        #: Brokers that were fenced because nothing was heard of them for a session.
        self.timed_out_heartbeats = 0
        self.loaded_snapshots = 0
        #: Faults of this program in what it made of the metadata.
        self.metadata_errors = 0
        self.unclean_elections = 0
        self.elections_from_eligible = 0

    def take_in(self, image: MetadataImage, records: Iterable[Message]) -> None:
        """Count the elections that this controller's records tell of; `image` is what held before them."""
        for record in records:
            if not isinstance(record, PartitionChangeRecord) or record.leader < 0:
                continue
            topic = image.topics.get(record.topic_id)
            before = None if topic is None else topic.partitions.get(record.partition_id)
            if before is None or record.leader == before.leader or record.leader in before.isr:
                continue
            if record.leader in before.elr:
                self.elections_from_eligible += 1
            else:
                self.unclean_elections += 1
