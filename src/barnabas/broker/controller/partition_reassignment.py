"""Replicas while they are reassigned (PartitionReassignmentReplicas, PartitionReassignmentRevert; KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import InvalidReplicaAssignmentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.metadata.partition_registration import PartitionRegistration


class CompletedReassignment(NamedTuple):
    """The replicas and the ISR once nothing more is to be added or removed."""

    replicas: list[int]
    isr: list[int]


class PartitionReassignmentReplicas(NamedTuple):
    """All replicas during a reassignment, with those that come and those that go."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @classmethod
    def between(cls, current: Sequence[int], target: Sequence[int]) -> PartitionReassignmentReplicas:
        """Return the way from one assignment to another: the target's replicas, then those that will go."""
        removing = sorted(set(current) - set(target))
        adding = sorted(set(target) - set(current))
        return cls([*target, *removing], adding, removing)

    def completed(self, isr: Sequence[int]) -> CompletedReassignment | None:
        """Return what is left when the ISR allows to end the reassignment; None while it does not.

        Added replicas must be in sync. When the number of replicas shrinks, all that stay must be: else the ISR would
        become smaller than it needs to.
        """
        if not self.adding and not self.removing:
            return None
        new_isr = [replica for replica in isr if replica not in self.removing]
        new_replicas = [replica for replica in self.replicas if replica not in self.removing]
        if self.removing and not (new_isr and new_replicas):
            return None
        if not set(self.adding) <= set(new_isr):
            return None
        if len(self.adding) < len(self.removing) and not set(new_replicas) <= set(new_isr):
            return None
        return CompletedReassignment(new_replicas, new_isr)


class PartitionReassignmentRevert(NamedTuple):
    """What a cancelled reassignment goes back to; `is_unclean`: no replica of the ISR stays."""

    replicas: list[int]
    isr: list[int]
    is_unclean: bool

    @classmethod
    def of(cls, partition: PartitionRegistration) -> PartitionReassignmentRevert:
        """Take out what was being added. Raises `InvalidReplicaAssignmentError` if nothing would be left."""
        replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
        isr = [replica for replica in partition.isr if replica not in partition.adding_replicas]
        if isr:
            return cls(replicas, isr, False)
        if not replicas:
            raise InvalidReplicaAssignmentError("Invalid replica assignment: addingReplicas contains all replicas.")
        return cls(replicas, replicas[:1], True)
