"""All that can happen to three voters within bounds: every order of messages, losses, doubles, timeouts and crashes.

A step is one message that arrives, one timer that runs out, one crash with all that is not on the disk lost, or one
append; in drawn orders also what a disk is done with. Steps of a state are tried all (`explore`), or drawn (`walk`,
which goes deeper). A message that is never delivered is lost; clocks are each node's own and count for nothing else, so
states that differ in them only are one.
"""

from __future__ import annotations

import pickle
from collections import deque
from random import Random
from typing import NamedTuple

from barnabas.broker.instant import Instant
from barnabas.broker.raft.epoch_states import CandidateState, FollowerState, ProspectiveState
from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.raft_config import RaftConfig
from barnabas.broker.raft.replica import InboundRequest, OutboundRequest
from barnabas.protocol.message import Message
from tests.support.raft_cluster import BrokenPromiseError, directory_of, endpoints_of, voter_set
from tests.support.raft_log import MemoryLog, MemoryStore
from tests.support.raft_waits import endless_wait
from tests.support.slow_storage import SlowStorage

_VOTERS = (0, 1, 2)


class Letter(NamedTuple):
    """A request on its way, or a response (`request_id` is 0 then, and None for no answer)."""

    sender: int
    receiver: int
    correlation_id: int
    is_request: bool
    message: Message


class Bounds(NamedTuple):
    """How much may happen in one history."""

    epochs: int = 2
    crashes: int = 1
    appends: int = 1
    doubles: int = 1
    letters: int = 8


class World:
    """Three voters, their disks, and what is on its way."""

    def __init__(self, bounds: Bounds, *, waits_for_disks: bool = False) -> None:
        self.bounds = bounds
        #: None: nothing waits for a disk.
        self.disks: list[SlowStorage] | None = [SlowStorage() for _ in _VOTERS] if waits_for_disks else None
        self.logs = [MemoryLog() for _ in _VOTERS]
        self.stores = [MemoryStore() for _ in _VOTERS]
        self.now = [0.0] * len(_VOTERS)
        self.lives = [0] * len(_VOTERS)
        self.letters: list[Letter] = []
        self.crashes = self.appends = self.doubles = 0
        self.leaders: dict[int, int] = {}
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.committed_epoch = 0
        self._waiting: dict[int, tuple[int, int]] = {}
        self._request_id = 0
        self.clients = [self._client(i) for i in _VOTERS]

    def _client(self, i: int) -> KafkaRaftClient:
        config = RaftConfig(
            node_id=i,
            directory_id=directory_of(i),
            cluster_id="cluster",
            listeners=endpoints_of(i),
            static_voters=voter_set(_VOTERS, directories=False),
            append_linger=0.0,
            request_timeout=1e9,
            fetch_max_wait=0.0,
        )
        client = KafkaRaftClient(config, self.logs[i], self.stores[i], Random(i))
        if self.disks is not None:
            client.replica.disk.storage = self.disks[i]
        client.initialize(Instant(self.now[i], 0))
        return client

    # -- steps -------------------------------------------------------------------------------------------------------

    def steps(self) -> list[tuple[str, int]]:
        """Return what may happen next."""
        found = [("deliver", position) for position in range(len(self.letters))]
        if self.doubles < self.bounds.doubles:
            found += [("double", position) for position in range(len(self.letters))]
        for i in _VOTERS:
            if self.disks is not None and self.disks[i].in_flight:
                found.append(("disk", i))
            state = self.clients[i].replica.quorum.state
            if isinstance(state, LeaderState):
                if self.appends < self.bounds.appends:
                    found.append(("append", i))
            elif state.epoch < self.bounds.epochs or isinstance(state, FollowerState):
                found.append(("time out", i))
            if self.crashes < self.bounds.crashes:
                found.append(("crash", i))
        return found

    def take(self, step: tuple[str, int]) -> None:
        """Let one thing happen. Raises `BrokenPromiseError`."""
        what, which = step
        if what == "deliver":
            self._deliver(self.letters.pop(which))
        elif what == "double":
            self.doubles += 1
            self._deliver(self.letters[which])
        elif what == "append":
            self.appends += 1
            client = self.clients[which]
            client.prepare_values(client.leader_and_epoch.epoch, [b"%d" % self.appends])
            client.schedule_prepared_append()
            self._turn(which)
        elif what == "time out":
            self._time_out(which)
        elif what == "disk":
            assert self.disks is not None
            self.disks[which].step()
            self._turn(which)
        else:
            self.crashes += 1
            self.lives[which] += 1
            if self.disks is not None:
                self.disks[which] = SlowStorage()
            log = self.logs[which]
            while log.end_offset > log.flushed:
                log.end_offset = log.batches.pop().base_offset
            log.reopen()
            self.letters = [one for one in self.letters if one.is_request or one.receiver != which]
            self.clients[which] = self._client(which)
            self._turn(which)

    def is_at_risk(self, what: str, i: int) -> bool:
        """Say whether a crash would take what the disk is at."""
        return what == "crash" and self.disks is not None and bool(self.disks[i].in_flight)

    def _time_out(self, i: int) -> None:
        state = self.clients[i].replica.quorum.state
        if isinstance(state, FollowerState):
            deadline = state.fetch_deadline
        elif isinstance(state, CandidateState) and state.backoff_deadline is not None:
            deadline = state.backoff_deadline
        else:
            deadline = state.election_deadline  # type: ignore[union-attr]  # the leader was asked before
        self.now[i] = max(self.now[i], deadline)
        self._turn(i)

    def _deliver(self, letter: Letter) -> None:
        i = letter.receiver
        instant = Instant(self.now[i], 0)
        if letter.is_request:
            self._request_id += 1
            self._waiting[self._request_id] = letter.sender, letter.correlation_id
            self.clients[i].handle_request(InboundRequest(self._request_id, letter.message, "CONTROLLER"), instant)
        else:
            self.clients[i].handle_response(letter.sender, letter.correlation_id, letter.message, instant)
        self._turn(i)

    def _turn(self, i: int) -> None:
        client = self.clients[i]
        wake = self.now[i]
        for _ in range(10):
            self._inspect(i)
            wake = client.poll(Instant(self.now[i], 0))
            if wake > self.now[i]:
                break
        self._inspect(i)
        is_at_work = self.disks is not None and bool(self.disks[i].in_flight)
        problem = endless_wait(client, wake, self.now[i], is_disk_at_work=is_at_work)
        if problem is not None:
            raise BrokenPromiseError(f"voter {i} {problem}")
        for one in client.take_outbound():
            if isinstance(one, OutboundRequest):
                receiver = int(one.destination.host[1:])
                self._post(Letter(i, receiver, one.correlation_id + 1000 * self.lives[i], True, one.message))
            else:
                asker, correlation_id = self._waiting.pop(one.request_id)
                if correlation_id // 1000 == self.lives[asker]:
                    self._post(Letter(i, asker, correlation_id % 1000, False, one.message))

    def _post(self, letter: Letter) -> None:
        self.letters.append(letter)
        if len(self.letters) > self.bounds.letters:
            del self.letters[0]  # the oldest is lost

    # -- what must hold ----------------------------------------------------------------------------------------------

    def _inspect(self, i: int) -> None:
        state, log = self.clients[i].replica.quorum.state, self.logs[i]
        if not isinstance(state, LeaderState):
            return
        if self.leaders.setdefault(state.epoch, i) != i:
            raise BrokenPromiseError(f"epoch {state.epoch} has two leaders")
        batches = {batch.base_offset: (batch.epoch, batch.data) for batch in log.batches}
        if state.epoch > self.committed_epoch:
            for offset, known in self.committed.items():
                if batches.get(offset) != known:
                    raise BrokenPromiseError(f"leader {i} of epoch {state.epoch} lacks what was committed at {offset}")
        for offset, found in batches.items():
            if offset < (state.high_watermark or 0):
                if self.committed.setdefault(offset, found) != found:
                    raise BrokenPromiseError(f"something else is committed at {offset}")
                self.committed_epoch = max(self.committed_epoch, state.epoch)
        self._check_matching()

    def _check_matching(self) -> None:
        for one in _VOTERS:
            for other in range(one):
                pairs = list(zip(self.logs[one].batches, self.logs[other].batches, strict=False))
                last = max((at for at, (a, b) in enumerate(pairs) if a[:3] == b[:3]), default=-1)
                if any(a != b for a, b in pairs[: last + 1]):
                    raise BrokenPromiseError(f"the logs of {one} and {other} part, and meet again")

    # -- states ------------------------------------------------------------------------------------------------------

    def fingerprint(self) -> int:
        """Return what makes this state differ from others: everything but clocks and numbers of requests."""
        nodes = []
        for i in _VOTERS:
            replica = self.clients[i].replica
            state = replica.quorum.state
            extra: object = None
            if isinstance(state, LeaderState):
                extra = tuple((v.key.id, v.end_offset, v.has_acknowledged) for v in state.voters.values())
            elif isinstance(state, CandidateState | ProspectiveState):
                extra = tuple(state.votes.votes.values()), getattr(state, "backoff_deadline", None) is None
            elif isinstance(state, FollowerState):
                extra = state.has_fetched
            in_flight = tuple(
                sorted(key for key, one in replica.connections._connections.items() if one.correlation_id is not None)
            )
            log = tuple((batch.base_offset, batch.epoch, batch.data) for batch in self.logs[i].batches)
            node = state.name, state.election, state.high_watermark, extra, in_flight
            nodes.append((node, log, self.logs[i].flushed))
        letters = sorted(
            (
                one.sender,
                one.receiver,
                repr(one.message),
                one.is_request
                or self.clients[one.receiver].replica.connections.is_expected(one.sender, one.correlation_id),
            )
            for one in self.letters
        )
        counts = (self.crashes, self.appends, self.doubles, tuple(sorted(self.leaders.items())))
        return hash((tuple(nodes), tuple(letters), counts, tuple(sorted(self.committed.items()))))


def explore(bounds: Bounds, most_states: int) -> int:
    """Try every step of every state, nearest first, and return how many states there were."""
    first = World(bounds)
    known = {first.fingerprint()}
    waiting = deque([pickle.dumps(first)])
    while waiting and len(known) < most_states:
        frozen = waiting.popleft()
        for step in pickle.loads(frozen).steps():
            world: World = pickle.loads(frozen)
            world.take(step)
            fingerprint = world.fingerprint()
            if fingerprint not in known:
                known.add(fingerprint)
                waiting.append(pickle.dumps(world))
    return len(known)


def walk(seed: int, bounds: Bounds, steps: int = 150) -> None:
    """Draw steps, those of the disks too; rare ones less often."""
    random = Random(seed)
    world = World(bounds, waits_for_disks=random.random() < 0.6)
    weights = {"deliver": 8.0, "double": 0.3, "append": 2.0, "time out": random.choice([0.5, 2.0, 4.0])}
    weights["crash"] = random.choice([0.03, 0.1] if world.disks is not None else [0.3, 1.5])
    slow = random.choice([*_VOTERS, -1])
    for _ in range(steps if world.disks is None else 3 * steps):
        possible = world.steps()
        if not possible:
            return
        chances = [
            (0.2 if which == slow else 16.0)
            if what == "disk"
            else weights[what] * (1 + 4 * world.is_at_risk(what, which))
            for what, which in possible
        ]
        world.take(random.choices(possible, chances)[0])
