"""What the controller says of one partition (PartitionRegistration)."""

from __future__ import annotations

from typing import NamedTuple

NO_LEADER = -1
#: Directory ids that stand for none (KIP-858): not known in this version, not chosen yet, offline.
MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY = (number.to_bytes(16, "big") for number in range(3))
_RESERVED_DIRECTORIES = 100
RECOVERED, RECOVERING = 0, 1


class PartitionRegistration(NamedTuple):
    """Where a partition lies and who leads it; immutable, a change is another one.

    `leader_epoch` grows with every election, `partition_epoch` with every change at all (in ZooKeeper mode the version
    of the znode). `isr` are the replicas in sync, `elr` those that may lead without loss although they left the ISR
    (KIP-966). `adding_replicas` and `removing_replicas` are there while the partition is reassigned. `directories` has
    a directory id for each replica (KIP-858), or is empty.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    leader_recovery_state: int = RECOVERED

    @property
    def has_preferred_leader(self) -> bool:
        """Whether the first replica leads."""
        return bool(self.replicas) and self.leader == self.replicas[0]

    @property
    def awaits_recovery(self) -> bool:
        """Whether no replica is known to have all that is committed (KIP-966)."""
        return self.leader == NO_LEADER and not self.isr and not set(self.elr) & set(self.replicas)

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or removed (KIP-455)."""
        return bool(self.adding_replicas or self.removing_replicas)

    def directory(self, replica: int) -> bytes:
        """Return the directory of a replica; that of an unknown place if the partition names none."""
        if replica not in self.replicas or not self.directories:
            return MIGRATING_DIRECTORY
        return self.directories[self.replicas.index(replica)]


def is_reserved_directory(directory: bytes) -> bool:
    """Whether an id stands for no directory."""
    return int.from_bytes(directory, "big") < _RESERVED_DIRECTORIES
