"""A log that was truncated is the log that never had what was cut, whatever comes between and behind, crashes too.

The leader's history is a list of batches. A follower copies it, is cut back to a point, and copies another history
from there. What it then knows (records, epochs, producers, transactions, indexes, its answers) is held against a log
that has copied the last history alone.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem, ProcessDiedError
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.errors import KafkaStorageError
from barnabas.protocol.kinds import ControlRecordType, IsolationLevel
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.batch_header import assign_offsets
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker

NAME = TopicPartition("topic", 0)
SETTINGS = {"segment.bytes": 700, "index.interval.bytes": 100}
NOW = 1_700_000_000_000
PLAIN, IDEMPOTENT, TRANSACTIONAL, COMMIT, ABORT = range(5)

#: One batch of a leader: what kind, whose, how many records, whether a new epoch begins, how long the values are.
plan = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 3), st.booleans(), st.integers(0, 90)), max_size=16
)
#: Where a history is left, in parts of its length, and how the next one goes on.
detours = st.lists(
    st.tuples(st.floats(0, 1), plan, st.sampled_from(["", "flush", "crash", "power", "close"])), max_size=4
)


class Batch(NamedTuple):
    """A batch as the leader has it."""

    data: bytes
    offset: int
    next_offset: int
    epoch: int


class History:
    """What a leader has written."""

    def __init__(self, batches: list[Batch], epoch: int) -> None:
        self.batches = batches
        self.epoch = epoch

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def branch(self, at: float, epoch: int, steps: list[tuple[int, int, int, bool, int]]) -> History:
        """The history of another leader, the same up to a point."""
        branch = History(self.batches[: round(at * len(self.batches))], epoch)
        for step in steps:
            branch.write(*step)
        return branch

    def write(self, kind: int, producer: int, count: int, next_epoch: bool, size: int) -> None:
        self.epoch += next_epoch
        sequence, opened = self._producer(producer)
        if (kind in (PLAIN, IDEMPOTENT) and opened and kind == IDEMPOTENT) or (kind >= COMMIT and not opened):
            # Not what a producer does: its transaction is open, or there is none to end.
            kind = TRANSACTIONAL if opened else PLAIN
        if kind >= COMMIT:
            end = ControlRecordType.COMMIT if kind == COMMIT else ControlRecordType.ABORT
            data = build_end_txn_marker(
                EndTxnMarker(end, 0), producer_id=producer, producer_epoch=0, timestamp_ms=NOW + self.end
            )
            count = 1
        else:
            builder = RecordBatchBuilder(1 << 20)
            for at in range(count):
                value = f"{self.epoch}/{self.end + at}/".encode().ljust(size, b".")
                builder.try_append(NOW + (self.end + at) * 7 % 50, b"key", value, [])
            if kind != PLAIN:
                builder.set_producer_state(producer, 0, sequence, transactional=kind == TRANSACTIONAL)
            data = builder.close()
        buffer = bytearray(data)
        assign_offsets(buffer, 0, self.end, self.epoch)
        self.batches.append(Batch(bytes(buffer), self.end, self.end + count, self.epoch))

    def _producer(self, producer: int) -> tuple[int, bool]:
        """The next sequence number, and whether a transaction is open."""
        sequence, opened = 0, False
        for found in self.batches:
            batch = next(iter(read_batches(found.data)))
            if batch.producer_id == producer:
                opened = batch.is_transactional and not batch.is_control
                if not batch.is_control:
                    sequence = batch.base_sequence + batch.last_offset - batch.base_offset + 1
        return sequence, opened


def started(disk: MemoryFileSystem) -> LogManager:
    manager = LogManager("/data", disk, SETTINGS, random_bytes=disk.random.randbytes)
    manager.checkpoints.is_replicated = lambda _name: True
    manager.start(now_ms=NOW)
    return manager


def log_of(manager: LogManager) -> UnifiedLog:
    return manager.get_log(NAME) or manager.create_log(NAME, bytes(16))


def follow(log: UnifiedLog, history: History) -> None:
    """Copy what is missing, some batches at a time, with half of it committed."""
    missing = [batch for batch in history.batches if batch.offset >= log.log_end_offset]
    while missing:
        some, missing = missing[:3], missing[3:]
        log.append_as_follower(b"".join(batch.data for batch in some), now_ms=NOW, leader_epoch=history.epoch)
    log.update_high_watermark(max(log.high_watermark, log.log_end_offset // 2))


def common_end(log: UnifiedLog, history: History) -> int:
    """Where a log stops to be the history's, found as a follower does: by its epochs and the leader's (KIP-279)."""
    while log.log_end_offset:
        ours = log.leader_epochs.epoch_for_offset(log.log_end_offset - 1)
        theirs = [(batch.epoch, batch.next_offset) for batch in history.batches if batch.epoch <= ours]
        if not theirs:
            return 0
        epoch, end = theirs[-1]
        if epoch == ours:
            return min(end, log.log_end_offset)
        entry = log.leader_epochs.end_offset_for(epoch, log.log_end_offset)
        if entry.epoch == epoch:
            return min(end, entry.start_offset)
        if entry.epoch < 0 or entry.start_offset >= log.log_end_offset:
            return 0
        return entry.start_offset
    return 0


def state_of(log: UnifiedLog) -> dict[str, object]:
    """Everything that a log tells of itself."""
    end = log.log_end_offset
    log.update_high_watermark(end)
    producers = log.producer_state
    found: dict[str, object] = {"end": end, "lso": log.last_stable_offset, "epochs": log.leader_epochs.entries}
    found["records"] = [
        (record.offset, record.timestamp, record.value)
        for offset in range(end)
        for batch in read_batches(log.read(offset, 1).records)
        for record in batch
        if record.offset == offset
    ]
    found["times"] = [log.offset_for_timestamp(NOW + at) for at in range(0, 50, 3)]
    found["aborted"] = sorted({txn for offset in range(end) for txn in aborted_in(log, offset)})
    found["producers"] = sorted(
        (entry.producer_id, entry.last_sequence, entry.last_data_offset, entry.current_txn_first_offset)
        for entry in producers.producers.values()
    )
    found["ongoing"] = list(producers.ongoing_txns.items())
    return found


def aborted_in(log: UnifiedLog, offset: int) -> list[tuple[int, int, int]]:
    """The aborted transactions that a reader from there is told of and needs: producer, first and last offset.

    Others may be told, too, as far as the next entry of the offset index, which depends on how batches came.
    """
    read = log.read(offset, 1000, isolation=IsolationLevel.READ_COMMITTED)
    end = max((batch.last_offset + 1 for batch in read_batches(read.records)), default=0)
    return [txn[:3] for txn in read.aborted_transactions or () if txn[1] < end]


def freshly_copied(history: History) -> dict[str, object]:
    log = log_of(started(MemoryFileSystem(Random(0))))
    follow(log, history)
    return state_of(log)


def leave(disk: MemoryFileSystem, manager: LogManager, how: str) -> LogManager:
    """End the broker, or only flush, and give the one that goes on."""
    if how == "flush":
        log_of(manager).flush()
        manager.checkpoint_soon()
        manager.step(5, NOW)
        return manager
    if how == "":
        return manager
    if how == "close":
        manager.close()
    elif how == "power":
        disk.power_loss()
    else:
        disk.crash()
    return started(disk)


#: A transaction that is open keeps readers from one that was aborted behind it.
OPEN_BEFORE_ABORTED = [(PLAIN, 0, 1, False, 0), (TRANSACTIONAL, 1, 1, False, 0), (TRANSACTIONAL, 0, 2, False, 0)]
OPEN_BEFORE_ABORTED += [(PLAIN, 0, 1, False, 0)] * 6 + [(ABORT, 0, 1, False, 0)]


@settings(max_examples=80, deadline=None)
@given(plan, detours, st.integers(0, 2**32))
@example([(PLAIN, 0, 1, False, 0)] * 9, [(0.5, OPEN_BEFORE_ABORTED, "")], 0)
def test_a_truncated_log_is_one_that_never_had_what_was_cut(
    first: list[tuple[int, int, int, bool, int]],
    others: list[tuple[float, list[tuple[int, int, int, bool, int]], str]],
    seed: int,
) -> None:
    disk = MemoryFileSystem(Random(seed))
    history = History([], 0).branch(0, 0, first)
    manager = started(disk)
    follow(log_of(manager), history)
    for at, steps, how in others:
        manager = leave(disk, manager, how)
        history = history.branch(at, history.epoch + 1, steps)
        end = common_end(log_of(manager), history)
        assert manager.truncation().truncate_to({NAME: end}, NOW) == {}
        assert log_of(manager).log_end_offset == end
        follow(log_of(manager), history)

    assert state_of(log_of(manager)) == freshly_copied(history)
    manager = leave(disk, manager, "close")
    assert state_of(log_of(manager)) == freshly_copied(history)


@settings(max_examples=100, deadline=None)
@given(plan, detours, st.integers(0, 250), st.integers(0, 2**32), st.booleans())
@example(
    # The power takes the time index's entry for the end of a segment, which was flushed before it was rolled.
    first=[(0, 0, 2, False, 10), (0, 0, 1, False, 24), (0, 0, 3, False, 62)],
    others=[(1.0, [(0, 0, 1, False, 0)] * 3, "flush")],
    die_after=37,
    seed=197,
    power=True,
)
def test_a_follower_that_dies_at_any_operation_comes_to_its_leaders_log(
    first: list[tuple[int, int, int, bool, int]],
    others: list[tuple[float, list[tuple[int, int, int, bool, int]], str]],
    die_after: int,
    seed: int,
    power: bool,
) -> None:
    disk = MemoryFileSystem(Random(seed))
    disk.die_after = die_after
    history = History([], 0).branch(0, 0, first)
    try:
        manager = started(disk)
        follow(log_of(manager), history)
        for at, steps, how in others:
            history = history.branch(at, history.epoch + 1, steps)
            manager = leave(disk, manager, "flush" if how else "")
            manager.truncation().truncate_to({NAME: common_end(log_of(manager), history)}, NOW)
            follow(log_of(manager), history)
    except (ProcessDiedError, KafkaStorageError):
        pass
    disk.power_loss() if power else disk.crash()

    manager = started(disk)
    log = log_of(manager)
    for _ in range(len(others) + 2):
        assert manager.truncation().truncate_to({NAME: common_end(log, history)}, NOW) == {}
    follow(log, history)

    assert state_of(log) == freshly_copied(history)
