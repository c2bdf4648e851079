"""Producers at random, with crashes, time-outs, fencing and lost answers, against a model of what they decided."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas import errors
from barnabas.broker.log.append_origin import CLIENT, COORDINATOR
from barnabas.broker.log.log_append_info import LogAppendInfo
from barnabas.broker.partition import Partition
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, CoreClient, create
from tests.unit.broker.transactions.wire import READ_UNCOMMITTED, WireProducer, committed, latest, read

PARTITIONS = 3
GROUP, OFFSETS_OF = "g", "in"
TIMEOUT_MS = 20_000

partitions = st.integers(0, PARTITIONS - 1)
slots = st.integers(0, 2)


class ModelProducer:
    """A producer and what it has written in its open transaction."""

    def __init__(self, client: CoreClient, transactional_id: str, *, second: bool):
        self.wire = WireProducer(client, transactional_id, second=second)
        self.open: list[tuple[int, bytes]] = []
        self.offset: int | None = None
        #: Nothing it does succeeds any more; somebody else may have its transactional id.
        self.fenced = True

    @property
    def began(self) -> bool:
        return bool(self.open) or self.offset is not None


class Transactions(RuleBasedStateMachine):
    """Checks after every step what readers of committed records see."""

    @initialize(seconds=st.lists(st.booleans(), min_size=3, max_size=3))
    def start(self, seconds: list[bool]) -> None:
        self.broker = CoreBroker()
        self.client = self.broker.connect()
        self.client.request(create("t", PARTITIONS), 7)
        self.client.request(create(OFFSETS_OF, 1), 7)
        self.producers = [
            ModelProducer(self.client, f"tx{number}", second=second) for number, second in enumerate(seconds)
        ]
        self.values = (b"%d" % number for number in itertools.count())
        self.offsets = itertools.count(1)
        self.visible: list[set[bytes]] = [set() for _ in range(PARTITIONS)]
        self.committed_offset = -1
        self.seen: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    @rule(slot=slots)
    def init(self, slot: int) -> None:
        """A new instance takes the transactional id over; what the old one left open is aborted."""
        old = self.producers[slot]
        producer = ModelProducer(self.client, old.wire.transactional_id, second=old.wire.second)
        code = producer.wire.init(TIMEOUT_MS)
        for _ in range(3):
            if code == 0:
                break
            assert code in (errors.ConcurrentTransactionsError.code, errors.CoordinatorLoadInProgressError.code)
            self.broker.advance(1)
            code = producer.wire.init(TIMEOUT_MS)
        assert code == 0
        producer.fenced = False
        self.producers[slot] = producer

    @rule(slot=slots, partition=partitions, count=st.integers(1, 3))
    def produce(self, slot: int, partition: int, count: int) -> None:
        producer = self.producers[slot]
        if producer.wire.producer_id < 0:
            return
        if not producer.wire.second and producer.wire.add(("t", partition)) != 0:
            producer.fenced = True
            return
        values = [next(self.values) for _ in range(count)]
        answer = producer.wire.send("t", *values, partition=partition)
        if answer.error_code == 0:
            assert not producer.fenced
            producer.open += [(partition, value) for value in values]
        else:
            assert producer.fenced

    @rule(slot=slots)
    def commit_offset(self, slot: int) -> None:
        producer = self.producers[slot]
        if producer.wire.producer_id < 0:
            return
        offset = next(self.offsets)
        if producer.wire.commit_offset(GROUP, OFFSETS_OF, offset) == 0:
            assert not producer.fenced
            producer.offset = offset
        else:
            assert producer.fenced

    @rule(slot=slots, commit=st.booleans(), twice=st.booleans(), crash=st.booleans(), markers_fail=st.booleans())
    def end(self, slot: int, commit: bool, twice: bool, crash: bool, markers_fail: bool) -> None:
        producer = self.producers[slot]
        if producer.wire.producer_id < 0 or not producer.began:
            return
        identity = (producer.wire.producer_id, producer.wire.epoch)
        if markers_fail:
            self.let_markers_fail()
        code = producer.wire.end(commit=commit)
        assert (code == 0) == (not producer.fenced)
        if code == 0 and commit:
            for partition, value in producer.open:
                self.visible[partition].add(value)
            if producer.offset is not None:
                # Of two transactions the offset that is later in the log wins, which is the larger one here.
                self.committed_offset = max(self.committed_offset, producer.offset)
        producer.open, producer.offset = [], None
        if crash or markers_fail:
            # What was decided is carried out by the next broker.
            self.crash()
        if twice and code == 0:
            # Its answer was lost: the same request again has the same outcome.
            following = (producer.wire.producer_id, producer.wire.epoch)
            producer.wire.producer_id, producer.wire.epoch = identity
            assert producer.wire.end(commit=commit) == 0
            assert (producer.wire.producer_id, producer.wire.epoch) == following

    def let_markers_fail(self) -> None:
        """The disk takes no marker any more, so that a broker dies between a decision and its effect."""
        manager = self.broker.state.replica_manager
        append = manager.append

        def append_or_fail(partition: Partition, records: bytes, now_ms: int, origin: int = CLIENT) -> LogAppendInfo:
            if origin == COORDINATOR and next(read_batches(records)).is_control:
                raise errors.KafkaStorageError("no space left")
            return append(partition, records, now_ms, origin)

        manager.append = append_or_fail

    @rule()
    def crash(self) -> None:
        before = self.broker.now
        self.broker = self.broker.crashed()
        self.client = self.broker.connect()
        for producer in self.producers:
            producer.wire.client = self.client
        # Its clocks begin anew, but time does not run backwards.
        self.broker.advance(before - self.broker.now + 1)

    @precondition(lambda self: any(producer.began for producer in self.producers))
    @rule()
    def time_out(self) -> None:
        """Everything that is open is aborted, and its producers are shut out."""
        self.broker.advance(TIMEOUT_MS / 1000 + 40)
        for producer in self.producers:
            if producer.began:
                producer.fenced = True
                producer.open, producer.offset = [], None

    @invariant()
    def readers_see_what_was_committed(self) -> None:
        if not hasattr(self, "broker"):
            return
        undecided = {partition for producer in self.producers for partition, _ in producer.open}
        for partition in range(PARTITIONS):
            found = read(self.client, "t", partition)
            assert found[: len(self.seen[partition])] == self.seen[partition], "what was read changed"
            self.seen[partition] = found
            assert len(set(found)) == len(found)
            assert set(found) <= self.visible[partition], "an aborted or open record is visible"
            # Each producer's numbers grow, so a reader sees them in the order they were sent in.
            if partition not in undecided:
                assert set(found) == self.visible[partition], "a committed record is missing"
                end = latest(self.client, "t", partition, isolation=READ_UNCOMMITTED)
                assert latest(self.client, "t", partition) == end

    @invariant()
    def the_last_stable_offset_stops_at_open_transactions(self) -> None:
        if not hasattr(self, "broker"):
            return
        everything = [read(self.client, "t", index, isolation=READ_UNCOMMITTED) for index in range(PARTITIONS)]
        for producer in self.producers:
            for partition, value in producer.open:
                assert value in everything[partition], "an acknowledged record of an open transaction is gone"
                assert value not in self.seen[partition]

    @invariant()
    def offsets_are_committed_with_the_records(self) -> None:
        if not hasattr(self, "broker"):
            return
        pending = any(producer.offset is not None for producer in self.producers)
        offset, code = committed(self.client, GROUP, OFFSETS_OF)
        if pending:
            assert code == errors.UnstableOffsetCommitError.code
        else:
            assert (offset, code) == (self.committed_offset, 0)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
