"""Makes the record of a partition's change: ISR, ELR, replicas, and who leads then (PartitionChangeBuilder)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.partition_reassignment import PartitionReassignmentReplicas
from barnabas.broker.metadata.metadata_delta import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.metadata.partition_registration import MIGRATING_DIRECTORY, NO_LEADER, RECOVERING
from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.controller.partition_indexes import TopicIdPartition
    from barnabas.broker.controller.unclean_recovery import UncleanRecovery
    from barnabas.broker.metadata.metadata_version import MetadataVersion
    from barnabas.broker.metadata.partition_registration import PartitionRegistration


class Election(Enum):
    """How a leader is chosen.

    The first replica if it may, any of ISR or ELR, or (UNCLEAN) at last any that is alive.
    """

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class PartitionRules(NamedTuple):
    """What holds for a partition's change.

    `is_acceptable_leader` says who is alive, with the replica's directory; `default_directory` where a new replica
    lies. `min_isr` is min.insync.replicas, at most the number of replicas. `use_last_known_leader`: where ISR and ELR
    are empty the last leader may lead, or who has the longest log by `recovery` (KIP-966's balanced recovery).
    """

    is_acceptable_leader: Callable[[int], bool]
    default_directory: Callable[[int], bytes]
    version: MetadataVersion
    min_isr: int
    is_elr_enabled: bool
    use_last_known_leader: bool = True
    recovery: UncleanRecovery | None = None


class PartitionChangeBuilder:
    """The change of one partition: set the targets, then `build`."""

    def __init__(self, whose: TopicIdPartition, partition: PartitionRegistration, rules: PartitionRules) -> None:
        self._whose = whose
        self._partition = partition
        self._rules = rules
        self.election = Election.ONLINE
        self.isr: Sequence[int] = partition.isr
        self.replicas: Sequence[int] = partition.replicas
        self.adding: Sequence[int] = partition.adding_replicas
        self.removing: Sequence[int] = partition.removing_replicas
        self.unclean_shutdown: Sequence[int] = ()
        self.leader_recovery_state = partition.leader_recovery_state
        self._elr: Sequence[int] = partition.elr
        self._last_known_elr: Sequence[int] = partition.last_known_elr
        #: Who led last, where that is kept in the place of the last known ELR.
        self._last_leader: Sequence[int] = partition.last_known_elr
        self._directories = dict(zip(partition.replicas, partition.directories, strict=False))

    def set_directory(self, broker_id: int, directory: bytes) -> None:
        """Put the replica of a broker into a directory."""
        self._directories[broker_id] = directory

    def begin_anew(self, broker_id: int) -> None:
        """Take in that a replica has an empty log: another one leads in its place, with what that has.

        Apache Kafka goes on waiting for who led last, elects it with its empty log, and the others follow.
        """
        heir = self._heir(broker_id)
        if heir is None or self._partition.leader != NO_LEADER:
            return
        if self._rules.is_elr_enabled and tuple(self._last_leader) == (broker_id,):
            self._last_leader = (heir,)
        elif not self._rules.is_elr_enabled and tuple(self.isr) == (broker_id,):
            self.isr, self.leader_recovery_state = (heir,), RECOVERING

    def _heir(self, broker_id: int) -> int | None:
        """Return one of the ELR, else of those that are alive, of all others, and at last of those that come new.

        One that does not tell where its log ends stands behind those that may: it would lead at once, where another one
        leads only if no log is longer.
        """
        partition = self._partition
        added = [replica for replica in partition.adding_replicas if replica != broker_id]
        others = [replica for replica in partition.replicas if replica not in (broker_id, *added)]
        eligible = [replica for replica in others if replica in self._elr]
        alive = [replica for replica in others if self._rules.is_acceptable_leader(replica)]
        compared = [replica for replica in (*alive, *others) if self._is_compared(replica)]
        return next(iter([*eligible, *compared, *alive, *others, *added]), None)

    def _is_compared(self, replica: int) -> bool:
        recovery = self._rules.recovery
        return self._rules.is_elr_enabled and recovery is not None and not recovery.is_silent(replica)

    def build(self) -> ApiMessageAndVersion | None:
        """Return the record; None when nothing changes."""
        record = PartitionChangeRecord(partition_id=self._whose.partition, topic_id=self._whose.topic_id)
        self._complete_reassignment()
        self._populate_elr()
        self._elect(record)
        if not set(self._partition.replicas) <= set(self.replicas):
            self._bump_leader_epoch(record)
        self._set_elr(record)
        isr_may_change = record.isr is None and (self.isr or self._rules.is_elr_enabled)
        if isr_may_change and tuple(self.isr) != self._partition.isr:
            record.isr = list(self.isr)
        shrinks = record.isr is not None and not set(self._partition.isr) <= set(record.isr)
        if shrinks and self._rules.version.is_leader_epoch_bump_required_on_isr_shrink:
            self._bump_leader_epoch(record)
        self._set_last_known_leader(record)
        self._set_assignment(record)
        if self.leader_recovery_state != self._partition.leader_recovery_state:
            record.leader_recovery_state = self.leader_recovery_state
        if _is_no_op(record):
            return None
        return ApiMessageAndVersion(record, self._rules.version.partition_record_version)

    def _bump_leader_epoch(self, record: PartitionChangeRecord) -> None:
        # A record that names the leader begins an epoch, also when it is the same one.
        if record.leader == NO_LEADER_CHANGE:
            record.leader = self._partition.leader

    # -- reassignment ------------------------------------------------------------------------------------------------

    def _complete_reassignment(self) -> None:
        found = PartitionReassignmentReplicas(list(self.replicas), list(self.adding), list(self.removing))
        completed = found.completed(self.isr)
        if completed is not None:
            self.isr, self.replicas = completed.isr, completed.replicas
            self.adding = self.removing = ()

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        partition = self._partition
        if self.replicas:
            if self._rules.version.is_directory_assignment_supported:
                directories = [self._directory(replica) for replica in self.replicas]
                if tuple(directories) != partition.directories:
                    record.directories = directories
            if tuple(self.replicas) != partition.replicas:
                record.replicas = list(self.replicas)
        if tuple(self.removing) != partition.removing_replicas:
            record.removing_replicas = list(self.removing)
        if tuple(self.adding) != partition.adding_replicas:
            record.adding_replicas = list(self.adding)

    def _directory(self, replica: int) -> bytes:
        if replica in self._directories:
            return self._directories[replica]
        if replica in self._partition.replicas:
            return MIGRATING_DIRECTORY
        return self._rules.default_directory(replica)

    # -- eligible leader replicas (KIP-966) --------------------------------------------------------------------------

    def _populate_elr(self) -> None:
        """Keep those that leave an ISR below min.insync.replicas: they have all that is committed."""
        if not self._rules.is_elr_enabled:
            return
        if len(self.isr) >= self._rules.min_isr:
            self._elr = self._last_known_elr = ()
            return
        # Apache Kafka keeps one that was reassigned away, and has it lead with an empty log when it is added again.
        added = set(self.replicas) - set(self._partition.replicas)
        candidates = {*self._elr, *self._partition.isr} - added
        elr = sorted(candidates - set(self.isr) - set(self.unclean_shutdown))
        known = {*candidates, *self._last_known_elr}
        self._elr, self._last_known_elr = elr, sorted(known - set(self.isr) - set(elr))

    def _set_elr(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self._rules.is_elr_enabled:
            # An unclean election has set the ISR: the eligible replicas may lack what the new leader has.
            self._elr = self._last_known_elr = ()
        if tuple(self._elr) != self._partition.elr:
            record.eligible_leader_replicas = list(self._elr)
        if not self._rules.use_last_known_leader and tuple(self._last_known_elr) != self._partition.last_known_elr:
            record.last_known_elr = list(self._last_known_elr)

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        """Remember who led last, in the place of the last known ELR, while there is no leader."""
        if not (self._rules.use_last_known_leader and self._rules.is_elr_enabled):
            return
        known = self._partition.last_known_elr
        if record.leader == NO_LEADER and not known:
            record.last_known_elr = [self._partition.leader]
        elif record.leader >= 0 and known:
            record.last_known_elr = []
        elif tuple(self._last_leader) != known:
            record.last_known_elr = list(self._last_leader)

    # -- election ----------------------------------------------------------------------------------------------------

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, is_unclean = self._new_leader()
        if leader == self._partition.leader:
            return
        if leader in self._elr:
            self.isr = [leader]
            self._elr = [replica for replica in self._elr if replica != leader]
        record.leader = leader
        if is_unclean:
            record.isr = [leader]
            if self._partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _new_leader(self) -> tuple[int, bool]:
        """Return who leads, and whether that may lose records."""
        order = [self._partition.leader, *self.replicas]
        if self.election is Election.PREFERRED and self.replicas:
            order.insert(0, self.replicas[0])
        for replica in order:
            if self._may_lead(replica):
                return replica, False
        recovered = self._recovered_leader()
        if recovered is not None:
            return recovered, True
        if self.election is Election.UNCLEAN:
            for replica in self._longest_first():
                if self._rules.is_acceptable_leader(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_lead(self, replica: int) -> bool:
        is_in_sync = replica in self.isr or (not self.isr and replica in self._elr)
        return is_in_sync and self._rules.is_acceptable_leader(replica)

    def _recovered_leader(self) -> int | None:
        """Return who leads where none is known to have all that is committed."""
        rules, known = self._rules, self._last_leader
        if not (rules.is_elr_enabled and rules.use_last_known_leader) or self.isr or len(known) != 1:
            return None
        # Apache Kafka waits for one of the ELR also where none of them is a replica any more.
        if set(self._elr) & set(self.replicas):
            return None
        if rules.recovery is not None:
            accepts = rules.is_acceptable_leader
            return rules.recovery.leader(self._whose, self._partition, known[0], rules.min_isr, accepts)
        return known[0] if rules.is_acceptable_leader(known[0]) else None

    def _longest_first(self) -> Sequence[int]:
        if self._rules.recovery is None or not self.replicas:
            return self.replicas
        known = self._rules.recovery.order(self._whose, self._partition)
        return sorted(self.replicas, key=lambda id: known.index(id) if id in known else len(known))


def _is_no_op(record: PartitionChangeRecord) -> bool:
    changes = (
        record.isr,
        record.eligible_leader_replicas,
        record.last_known_elr,
        record.replicas,
        record.removing_replicas,
        record.adding_replicas,
        record.directories,
    )
    is_unchanged = record.leader == NO_LEADER_CHANGE and record.leader_recovery_state == NO_RECOVERY_CHANGE
    return is_unchanged and all(change is None for change in changes)
