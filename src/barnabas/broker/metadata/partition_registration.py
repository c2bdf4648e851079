"""What the controller says of one partition (PartitionRegistration)."""

from __future__ import annotations

from typing import NamedTuple

NO_LEADER = -1
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
