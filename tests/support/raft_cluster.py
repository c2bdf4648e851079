"""Voters and observers of a quorum on virtual time, over a network and disks that fail, held to Raft's promises.

Election safety: an epoch has one leader. Leader completeness: a leader has all that was committed before. State machine
safety: nothing else is ever committed at an offset. Log matching: what two logs have at an offset in one epoch is
equal, and so is all before it. One change: voters that follow each other differ by one at most.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from barnabas.broker.instant import Instant
from barnabas.broker.log.truncation import done_beside
from barnabas.broker.raft.control_records import build_control_batch
from barnabas.broker.raft.errors import RaftError
from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch, OffsetAndEpoch
from barnabas.broker.raft.raft_config import RaftConfig
from barnabas.broker.raft.replica import InboundRequest, OutboundRequest
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.broker.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID
from barnabas.broker.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.errors import CorruptRecordError
from barnabas.network.node import Node
from barnabas.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from barnabas.protocol.messages.add_raft_voter_request import Listener as AddListener
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from barnabas.protocol.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from barnabas.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from tests.support.raft_log import DelayedStorage, FileDisk, MemoryDisk, batches_in, values_in_snapshot
from tests.support.raft_waits import endless_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.raft.raft_client import Batch, SnapshotReader
    from barnabas.broker.raft.replica import OutboundResponse
    from barnabas.protocol.message import Message

CLUSTER_ID = "cluster"


class BrokenPromiseError(AssertionError):
    """One of Raft's properties does not hold."""


def directory_of(node_id: int, generation: int = 0) -> bytes:
    """Return the id of a node's directory."""
    return bytes([node_id + 1, generation]) + bytes(14)


def endpoints_of(node_id: int) -> tuple[Endpoint, ...]:
    """Return where a node listens."""
    return (Endpoint("CONTROLLER", f"n{node_id}", 9093),)


def voter_set(ids: Iterable[int], *, directories: bool) -> VoterSet:
    """Return voters by their ids."""
    return VoterSet(
        VoterNode(ReplicaKey(i, directory_of(i)) if directories else ReplicaKey(i), endpoints_of(i), 0, 1) for i in ids
    )


def content_of(values: Iterable[bytes], before: int = 0) -> int:
    """Return a digest of values, however they lie in batches, behind others."""
    for value in values:
        before = hash((before, value))
    return before


class StateMachine:
    """A listener: the values in order, as a digest of all before each offset."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.next_offset = 0
        self.digest = 0
        self.content = content_of(())
        self.epoch = 0
        self.values: list[bytes] = []
        self.leader = LeaderAndEpoch(None, -1)

    def handle_commit(self, batches: Iterable[Batch]) -> None:
        """Apply, and compare with what others have applied."""
        for batch in batches:
            self.member.check(batch.base_offset == self.next_offset, f"gap before {batch.base_offset}")
            self.values += batch.values
            self.content = content_of(batch.values, self.content)
            self.digest = hash((self.digest, batch.base_offset, batch.epoch, tuple(batch.values)))
            self.next_offset, self.epoch = batch.last_offset + 1, batch.epoch
            self.member.cluster.applied(self)

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """Begin anew."""
        self.next_offset, self.epoch = reader.snapshot_id
        self.values = [value for batch in reader.batches() for value in batch.values]
        self.content = content_of(self.values)
        self.digest = self.member.cluster.digest_at(self.next_offset)
        self.member.cluster.applied(self)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Check that epochs grow."""
        known = self.leader
        is_new = leader.epoch > known.epoch or (leader.epoch == known.epoch and known.leader_id is None)
        self.member.check(is_new, f"{leader} behind {known}")
        self.leader = leader

    def begin_shutdown(self) -> None:
        """See `Listener`."""


class Member:
    """A node: its disk, and, while it lives, its process."""

    def __init__(self, cluster: RaftCluster, config: RaftConfig) -> None:
        self.cluster = cluster
        self.config = config
        self.id = config.node_id
        self.disk = MemoryDisk() if not cluster.on_files else FileDisk(cluster.random)
        self.log, self.store = self.disk.open()
        self.life = 0
        self.paused_until = self.disk_stalls_until = 0.0
        #: Whether the machine is gone, and not the process alone: no connection is reset, none refused.
        self.is_silent = False
        self.client: KafkaRaftClient | None = None
        self.machine = StateMachine(self)
        self._wake = 0.0

    def check(self, truth: bool, text: str) -> None:
        """Raise `BrokenPromiseError` unless it is true."""
        if not truth:
            raise BrokenPromiseError(f"node {self.id} at {self.cluster.now:.3f}: {text}")

    def start(self) -> None:
        """Begin a process on the disk."""
        self._wake = 0.0
        self.is_silent = False
        self.client = KafkaRaftClient(self.config, self.log, self.store, Random(self.cluster.random.random()))
        self.storage = self.client.replica.disk.storage = DelayedStorage(self)
        self.machine = StateMachine(self)
        self.client.register(self.machine)
        self.client.initialize(self.cluster.instant)
        self.turn()

    def stop(self, *, power_loss: bool, silent: bool = False) -> None:
        """Kill the process, perhaps with all that the disk does not have; `silent` with its machine."""
        self.client = None
        self.life += 1
        self.is_silent = silent
        if not silent:
            self.cluster.reset_connections(self)
        self.log, self.store = self.disk.crash(self.cluster.random if power_loss else None)

    @property
    def is_up(self) -> bool:
        """Whether the process runs and is not paused."""
        return self.client is not None and self.paused_until <= self.cluster.now

    def turn(self) -> None:
        """Do what is due, send what comes out, and come back when there is more."""
        client = self.client
        if client is None:
            return
        self.cluster.inspect(self)
        wake = client.poll(self.cluster.instant)
        for _ in range(20):
            self.cluster.inspect(self)
            if wake > self.cluster.now:
                break
            wake = client.poll(self.cluster.instant)
        self.check(wake > self.cluster.now, f"spins as {client.replica.quorum.state.name}")
        problem = endless_wait(client, wake, self.cluster.now, is_disk_at_work=self.storage.in_flight > 0)
        self.check(problem is None, str(problem))
        self.cluster.send_all(self, client.take_outbound())
        if wake < self._wake or self._wake <= self.cluster.now:
            self._wake = max(wake, self.cluster.now + 0.0005)
            life, when = self.life, self._wake
            self.cluster.at(when, lambda: self._woken(life, when))

    def _woken(self, life: int, when: float) -> None:
        if life == self.life and when == self._wake:
            if self.paused_until > self.cluster.now:
                self.cluster.at(self.paused_until, lambda: life == self.life and self.turn())
            else:
                self.turn()

    @property
    def leader_state(self) -> LeaderState | None:
        """What it knows as the leader, None if it is not."""
        state = self.client.replica.quorum.state if self.client is not None else None
        return state if isinstance(state, LeaderState) else None


class RaftCluster:
    """The nodes `0 .. nodes - 1`, of which `voters` vote; `directories` makes it kraft.version 1."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        nodes: int | None = None,
        directories: bool = False,
        auto_join: bool = False,
        on_files: bool = False,
    ) -> None:
        self.on_files = on_files
        self.random = Random(seed)
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._sequence = count()
        self._request_ids = count(1)
        self._waiting: dict[int, tuple[Member, int, int, int, Member]] = {}
        self.loss = self.duplication = self.lateness = 0.0
        #: How long the disk takes at most, in seconds; 0: nothing waits for it.
        self.disk_delay = 0.0
        self.cut: set[tuple[int, int]] = set()
        #: Pairs (asker, asked) whose connections are refused: the asker hears at once that there is no answer.
        self.refused: set[tuple[int, int]] = set()
        self.leaders: dict[int, int] = {}
        #: Offset → the digest of all that was committed before it; the records themselves by their last offset.
        self.digests: dict[int, int] = {0: 0}
        #: Offset → the digest of the values before it, which is also what a snapshot there has to say.
        self.contents: dict[int, int] = {}
        self.committed: list[tuple[int, int, bytes]] = []
        self.committed_end = self.committed_epoch = 0
        self.voter_sets: dict[int, VoterSet] = {}
        self.answers: dict[int, Message] = {}
        first = voter_set(range(voters), directories=directories)
        self.members = [self._member(i, first, directories, auto_join) for i in range(nodes or voters)]
        if directories:
            for member in self.members[:voters]:
                self._bootstrap(member, first)
        for member in self.members:
            member.start()

    def _member(self, node_id: int, first: VoterSet, directories: bool, auto_join: bool) -> Member:
        bootstrap = tuple(Node(-2 - i, f"n{i}", 9093) for i in range(len(first)))
        config = RaftConfig(
            node_id=node_id,
            directory_id=directory_of(node_id),
            cluster_id=CLUSTER_ID,
            listeners=endpoints_of(node_id),
            static_voters=VoterSet() if directories else first,
            bootstrap=bootstrap,
            append_linger=0.005,
            auto_join=auto_join,
        )
        return Member(self, config)

    @staticmethod
    def _bootstrap(member: Member, voters: VoterSet) -> None:
        messages: list[Message] = [SnapshotHeaderRecord(), KRaftVersionRecord(0, 1), voters.to_record()]
        writer = member.log.create_snapshot(BOOTSTRAP_SNAPSHOT_ID)
        assert writer is not None
        writer.append(build_control_batch(messages, base_offset=0, epoch=0, timestamp_ms=0))
        for work in writer.freeze():
            member.disk.run(work)

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def instant(self) -> Instant:
        """Both clocks."""
        return Instant(self.now, 1_700_000_000_000 + int(self.now * 1000))

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Do something later."""
        heappush(self._events, (when, next(self._sequence), action))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, action = heappop(self._events)
            action()
        self.now = end

    def run_until(self, condition: Callable[[], bool], seconds: float = 60.0, step: float = 0.05) -> None:
        """Let time pass until something is so. Raises `BrokenPromiseError` if it does not become so."""
        end = self.now + seconds
        while not condition():
            if self.now >= end:
                raise BrokenPromiseError(f"no progress within {seconds} s: {self.describe()}")
            self.run(step)

    def describe(self) -> str:
        """Say where everybody stands."""
        found = []
        for member in self.members:
            if member.client is None:
                found.append(f"{member.id}: down")
            else:
                quorum = member.client.replica.quorum
                found.append(
                    f"{member.id}: {quorum.state.name} {quorum.epoch} end {member.log.end_offset} "
                    f"hw {quorum.state.high_watermark}"
                )
        return "; ".join(found)

    # -- the network -------------------------------------------------------------------------------------------------

    def send_all(self, sender: Member, outbound: list[OutboundRequest | OutboundResponse]) -> None:
        """Bring requests and responses on their way."""
        for one in outbound:
            if isinstance(one, OutboundRequest):
                self._send_request(sender, one)
            elif one.request_id in self._waiting:
                asker, life, source, correlation_id, _ = self._waiting.pop(one.request_id)
                self._respond(sender, asker, life, source, correlation_id, one.message)
            else:
                self.answers[one.request_id] = one.message

    def _send_request(self, sender: Member, request: OutboundRequest) -> None:
        receiver = self.members[int(request.destination.host[1:])]
        life, source, correlation_id = sender.life, request.destination.id, request.correlation_id
        for delay in self._delays(sender, receiver):
            request_id = next(self._request_ids)

            def arrive(request_id: int = request_id) -> None:
                if receiver.is_silent:
                    return
                if receiver.client is None or (sender.id, receiver.id) in self.refused:
                    self._respond(receiver, sender, life, source, correlation_id, None)
                    return
                if receiver.paused_until > self.now:
                    self.at(receiver.paused_until, arrive)
                    return
                if isinstance(request.message, ApiVersionsRequest):
                    features = [SupportedFeatureKey("kraft.version", 0, 1)]
                    answer = ApiVersionsResponse(supported_features=features)
                    self._respond(receiver, sender, life, source, correlation_id, answer)
                    return
                self._waiting[request_id] = (sender, life, source, correlation_id, receiver)
                receiver.client.handle_request(InboundRequest(request_id, request.message, "CONTROLLER"), self.instant)
                receiver.turn()

            self.at(self.now + delay, arrive)

    def _respond(
        self, sender: Member, asker: Member, life: int, source: int, correlation_id: int, message: Message | None
    ) -> None:
        def arrive() -> None:
            if asker.life != life or asker.client is None:
                return
            if asker.paused_until > self.now:
                self.at(asker.paused_until, arrive)
                return
            asker.client.handle_response(source, correlation_id, message, self.instant)
            asker.turn()

        for delay in self._delays(sender, asker):
            self.at(self.now + delay, arrive)

    def reset_connections(self, member: Member) -> None:
        """Tell all who wait for a response of a process that there will be none."""
        for request_id, (asker, life, source, correlation_id, asked) in list(self._waiting.items()):
            if asked is member:
                del self._waiting[request_id]
                self._respond(member, asker, life, source, correlation_id, None)

    def _delays(self, sender: Member, receiver: Member) -> list[float]:
        """Return after how long a message arrives, once or twice; none for one that is lost."""
        random = self.random
        if (sender.id, receiver.id) in self.cut or random.random() < self.loss:
            return []
        times = 2 if random.random() < self.duplication else 1
        return [
            random.uniform(0.1, 5.0) if random.random() < self.lateness else random.uniform(0.0005, 0.01)
            for _ in range(times)
        ]

    # -- what must hold ----------------------------------------------------------------------------------------------

    def inspect(self, member: Member) -> None:
        """Hold a node to the promises."""
        state = member.leader_state
        if state is None:
            return
        known = self.leaders.setdefault(state.epoch, member.id)
        if known != member.id:
            raise BrokenPromiseError(f"epoch {state.epoch} has two leaders, {known} and {member.id}")
        if state.epoch > self.committed_epoch:
            self._check_completeness(member)
        if state.high_watermark is not None:
            self._commit(member, state.high_watermark, state.epoch)

    def _check_completeness(self, leader: Member) -> None:
        log = leader.log
        if log.end_offset < self.committed_end:
            raise BrokenPromiseError(
                f"leader {leader.id} ends at {log.end_offset}; {self.committed_end} was committed: {self.describe()}"
            )
        self._compare(leader, self.committed_end)

    def _compare(self, member: Member, end: int) -> None:
        if not self.committed:
            return
        known = {base: (epoch, data) for base, epoch, data in self.committed[-200:]}
        oldest = self.committed[-200:][0][0]
        for batch in reversed(batches_in(member.log)):
            if batch.base_offset < oldest:
                return
            if batch.base_offset < end and known.get(batch.base_offset) != (batch.epoch, batch.data):
                raise BrokenPromiseError(f"node {member.id} has something else at {batch.base_offset} than committed")

    def _commit(self, leader: Member, high_watermark: int, epoch: int) -> None:
        if high_watermark <= self.committed_end:
            return
        self.committed_epoch = epoch
        for batch in batches_in(leader.log):
            if self.committed_end <= batch.base_offset < high_watermark:
                self.committed.append((batch.base_offset, batch.epoch, batch.data))
        self.committed_end = high_watermark
        self._check_voters(leader, high_watermark)

    def _check_voters(self, leader: Member, high_watermark: int) -> None:
        assert leader.client is not None
        entry = leader.client.replica.partition_state.last_voter_set_entry
        if entry is None or not 0 <= entry.offset < high_watermark:
            return
        earlier = [offset for offset in self.voter_sets if offset < entry.offset]
        if earlier and not self.voter_sets[max(earlier)].has_overlapping_majority(entry.value):
            raise BrokenPromiseError(f"two changes of voters at once: {self.voter_sets} and then {entry}")
        if self.voter_sets.setdefault(entry.offset, entry.value) != entry.value:
            raise BrokenPromiseError(f"two sets of voters at {entry.offset}")

    def applied(self, machine: StateMachine) -> None:
        """Compare what a state machine has applied with what others had at that offset."""
        if self.digests.setdefault(machine.next_offset, machine.digest) != machine.digest:
            raise BrokenPromiseError(f"node {machine.member.id} applied something else before {machine.next_offset}")
        if self.contents.setdefault(machine.next_offset, machine.content) != machine.content:
            raise BrokenPromiseError(f"node {machine.member.id} has other values before {machine.next_offset}")

    def digest_at(self, offset: int) -> int:
        """Return the digest of what a snapshot stands for: some state machine made it."""
        if offset not in self.digests:
            raise BrokenPromiseError(f"a snapshot ends at {offset}, where nobody has been")
        return self.digests[offset]

    def check_logs(self) -> None:
        """Check log matching between all pairs of nodes, and that each snapshot says all that was committed."""
        for member in self.members:
            self._check_snapshot(member)
        for one in self.members:
            for other in self.members[: one.id]:
                theirs = {batch.base_offset: batch for batch in batches_in(other.log)}
                equal = True
                for batch in reversed(batches_in(one.log)):
                    match = theirs.get(batch.base_offset)
                    if match is None or batch.base_offset < max(one.log.start_offset, other.log.start_offset):
                        continue
                    if match.epoch == batch.epoch:
                        equal = equal and match.data == batch.data
                        if not equal:
                            raise BrokenPromiseError(
                                f"nodes {one.id} and {other.id} differ at {batch.base_offset} in epoch {batch.epoch}"
                            )

    def _check_snapshot(self, member: Member) -> None:
        found = member.log.latest_snapshot_id
        if found is None or found == BOOTSTRAP_SNAPSHOT_ID:
            return
        try:
            content = content_of(values_in_snapshot(member.log, found))
        except CorruptRecordError as error:
            raise BrokenPromiseError(f"node {member.id}: {error}") from error
        if content != self.contents.get(found.offset, content):
            raise BrokenPromiseError(f"the snapshot {found} of node {member.id} says something else than was committed")

    # -- what a test does --------------------------------------------------------------------------------------------

    @property
    def leader(self) -> Member | None:
        """The node that leads in the latest epoch, if it knows that it may commit."""
        found = [member for member in self.members if member.leader_state is not None]
        found.sort(key=lambda member: member.leader_state.epoch)  # type: ignore[union-attr]
        return found[-1] if found else None

    def append(self, values: list[bytes], member: Member | None = None) -> bool:
        """Give values to a leader; whether it took them."""
        member = member or self.leader
        state = member.leader_state if member is not None else None
        if member is None or state is None or member.client is None or not member.is_up:
            return False
        try:
            member.client.prepare_values(state.epoch, values)
            member.client.schedule_prepared_append()
        except RaftError:
            return False
        member.turn()
        return True

    def snapshot(self, member: Member, *, delete: bool) -> None:
        """Let a node make a snapshot of all that it has applied, and perhaps drop the log before it."""
        machine, client = member.machine, member.client
        if client is None or machine.next_offset == 0:
            return
        snapshot_id = OffsetAndEpoch(machine.next_offset, machine.epoch)
        if snapshot_id.offset > member.log.high_watermark:
            return
        writer = client.create_snapshot(snapshot_id, 0)
        if writer is not None:
            writer.append_values(machine.values)  # type: ignore[attr-defined]

            def written(_: None) -> None:
                if delete and member.client is client:
                    member.log.delete_before_snapshot(snapshot_id)

            done_beside(writer.freeze(), member.storage, written)

    def change_voters(self, node_id: int, *, add: bool) -> int:
        """Ask the leader for another voter, or one less; the number under which its answer will be."""
        request: Message
        if add:
            listeners = [AddListener(*endpoint) for endpoint in endpoints_of(node_id)]
            request = AddRaftVoterRequest(CLUSTER_ID, 5000, node_id, directory_of(node_id), listeners)
        else:
            request = RemoveRaftVoterRequest(CLUSTER_ID, node_id, directory_of(node_id))
        return self.ask(request)

    def ask(self, request: Message) -> int:
        """Send a client's request to the leader; the number under which its answer will be."""
        leader, request_id = self.leader, next(self._request_ids)
        if leader is not None and leader.client is not None and leader.is_up:
            leader.client.handle_request(InboundRequest(request_id, request, "CONTROLLER"), self.instant)
            leader.turn()
        return request_id

    def heal(self) -> None:
        """End all faults."""
        self.cut.clear()
        self.refused.clear()
        self.loss = self.duplication = self.lateness = 0.0
        for member in self.members:
            member.paused_until = member.disk_stalls_until = 0.0
            if member.client is None:
                member.start()
            else:
                member.turn()
