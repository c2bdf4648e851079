"""What a level of metadata.version allows in the metadata log (MetadataVersion, KIP-778)."""

from __future__ import annotations

from typing import NamedTuple

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"

#: Level → its name, in order; Apache Kafka 4 begins with 3.3-IV3.
NAMES: dict[int, str] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
#: Levels that changed the records: below one of them, records of before would lose what it brought.
_CHANGED_RECORDS = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30))
#: The newest level that Apache Kafka 4.3 is released with.
LATEST = 30


class MetadataVersion(NamedTuple):
    """A finalized level of metadata.version; what the controller writes goes by it."""

    level: int

    @property
    def name(self) -> str:
        """The level as releases call it, such as 4.3-IV0."""
        return NAMES.get(self.level, f"level {self.level}")

    @property
    def is_scram_supported(self) -> bool:
        """Whether users of SCRAM may be in the metadata (KIP-900)."""
        return self.level >= 11

    @property
    def is_leader_epoch_bump_required_on_isr_shrink(self) -> bool:
        """Whether brokers that need a new leader epoch with a smaller ISR may be there (KAFKA-15021)."""
        return self.level < 12

    @property
    def is_metadata_transaction_supported(self) -> bool:
        """Whether records may be in transactions of the controller (KIP-868)."""
        return self.level >= 13

    @property
    def is_delegation_token_supported(self) -> bool:
        """Whether delegation tokens may be in the metadata (KIP-900)."""
        return self.level >= 14

    @property
    def is_controller_registration_supported(self) -> bool:
        """Whether controllers register (KIP-919)."""
        return self.level >= 15

    @property
    def is_directory_assignment_supported(self) -> bool:
        """Whether partitions know the log directories of their replicas (KIP-858)."""
        return self.level >= 17

    @property
    def is_elr_supported(self) -> bool:
        """Whether partitions may have eligible leader replicas (KIP-966)."""
        return self.level >= 23

    @property
    def is_cordoned_log_dirs_supported(self) -> bool:
        """Whether brokers may close log directories for new replicas (KIP-1066)."""
        return self.level >= 30

    @property
    def register_broker_record_version(self) -> int:
        """The version of RegisterBrokerRecord to write."""
        if self.is_cordoned_log_dirs_supported:
            return 4
        if self.is_directory_assignment_supported:
            return 3
        return 2 if self.level >= 8 else 1

    @property
    def partition_record_version(self) -> int:
        """The version of PartitionRecord and of PartitionChangeRecord to write."""
        if self.is_elr_supported:
            return 2
        return 1 if self.is_directory_assignment_supported else 0

    def has_changed_records(self, other: MetadataVersion) -> bool:
        """Whether records differ between two levels, so that going down may lose something."""
        low, high = sorted((self.level, other.level))
        return any(level in _CHANGED_RECORDS for level in range(low + 1, high + 1))
