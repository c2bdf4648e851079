"""Whatever is written, cleaned and cut short, a compacted log tells every reader the latest value of every key."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem, ProcessDiedError
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.protocol.kinds import ControlRecordType, IsolationLevel
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from barnabas.records.batch_header import scan_batches
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker
from barnabas.records.decoder import RecordsDecoder
from tests.support.sole_replica import append

ABORT, COMMIT = ControlRecordType

NAME = TopicPartition("t", 0)
START = 1_700_000_000_000
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": 700,
    "index.interval.bytes": 100,
    "min.cleanable.dirty.ratio": 0.01,
    "delete.retention.ms": 60_000,
    "file.delete.delay.ms": 30_000,
    "log.cleaner.io.buffer.size": 400,
    "log.cleaner.backoff.ms": 1000,
    # Room for 16 keys at least: the map runs full now and then.
    "log.cleaner.dedupe.buffer.size": 400,
}
CODECS = ("none", "none", "gzip", "zstd")


class Entry(NamedTuple):
    key: bytes
    value: bytes | None
    timestamp: int


class Model:
    """What was acknowledged: every record by its offset, and which of them count."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.committed: set[int] = set()
        self.open: dict[int, list[int]] = {}
        self.sequences: dict[int, int] = {}

    def latest(self, start: int, end: int) -> dict[bytes, int]:
        """The latest offset of each key among the committed records of a range."""
        return {self.entries[at].key: at for at in sorted(self.committed) if start <= at < end}


class Driver:
    """One log through its lives."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = MemoryFileSystem(Random(seed))
        self.model = Model()
        self.now_ms = START
        self.open()

    def open(self) -> None:
        self.manager = LogManager("/data", self.disk, SETTINGS, random_bytes=self.disk.random.randbytes)
        self.manager.start(now_ms=self.now_ms)
        self.log = self.manager.get_log(NAME) or self.manager.create_log(NAME, bytes(16))

    def write(self, producer: int, count: int, keys: int) -> None:
        """Append a batch: of no producer (0), of an idempotent one (1, 2), or in a transaction (3, 4)."""
        builder = RecordBatchBuilder(1 << 20, self.random.choice(CODECS))
        entries = []
        for _ in range(count):
            key = b"key-%d" % self.random.randrange(keys)
            value = None if self.random.random() < 0.25 else self.random.randbytes(self.random.randrange(30))
            entries.append(Entry(key, value, self.now_ms - self.random.randrange(1000)))
            builder.try_append(entries[-1].timestamp, key, value, [("h", b"x")])
        model = self.model
        if producer:
            sequence = model.sequences.get(producer, 0)
            builder.set_producer_state(producer, 0, sequence, transactional=producer > 2)
            model.sequences[producer] = sequence + count
        info = append(self.log, builder.close(), now_ms=self.now_ms)
        offsets = range(info.first_offset, info.last_offset + 1)
        model.entries.update(zip(offsets, entries, strict=True))
        if producer > 2:
            model.open.setdefault(producer, []).extend(offsets)
        else:
            model.committed.update(offsets)

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        marker = EndTxnMarker(COMMIT if commit else ABORT, 1)
        batch = build_end_txn_marker(marker, producer_id=producer, producer_epoch=0, timestamp_ms=self.now_ms)
        append(self.log, batch, now_ms=self.now_ms, origin=COORDINATOR)
        offsets = self.model.open.pop(producer, [])
        if commit:
            self.model.committed.update(offsets)

    def clean(self) -> None:
        for _ in range(10_000):
            if not self.manager.step(1, self.now_ms):
                break

    def read(self, start: int, isolation: int, max_bytes: int = 500) -> dict[int, Entry]:
        found: dict[int, Entry] = {}
        offset = start
        while True:
            info = self.log.read(offset, max_bytes, isolation=isolation)
            if not info.records:
                return found
            aborted = info.aborted_transactions
            pairs = None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted]
            decoder = RecordsDecoder(info.records, "t", 0, offset, aborted_transactions=pairs)
            for record in decoder.take(10_000):
                found[record.offset] = Entry(record.key, record.value, record.timestamp)
            offset = scan_batches(info.records)[-1].next_offset

    def check(self, *, cut_short: bool = False) -> None:
        """Compare every kind of reader with the model; a cleaning that was cut short has not said how far it came."""
        log, model = self.log, self.model
        stable = log.last_stable_offset
        for start in {log.log_start_offset, self.random.randint(log.log_start_offset, log.log_end_offset)}:
            seen = self.read(start, IsolationLevel.READ_COMMITTED)
            for offset, entry in seen.items():
                assert model.entries[offset] == entry
                assert offset in model.committed
            latest = model.latest(start, stable)
            for key, offset in latest.items():
                # A tombstone may be gone, after a while; then nothing else of the key is left.
                if model.entries[offset].value is None and offset not in seen:
                    assert not [at for at, entry in seen.items() if entry.key == key]
                else:
                    assert offset in seen
        clean_up_to = self.manager.cleaner.manager.first_dirty_offset(log)
        if cut_short:
            clean_up_to = log.local_log.segments.active.base_offset
        everything = self.read(log.log_start_offset, 0)
        assert {at for at in model.entries if at >= clean_up_to} <= set(everything)
        assert all(model.entries[at] == entry for at, entry in everything.items())
        assert not self.manager.cleaner.uncleanable
        for producer, sequence in model.sequences.items():
            assert log.producer_state.producers[producer].last_sequence == sequence - 1

    def die_and_return(self, *, power_loss: bool = False) -> None:
        if power_loss:
            self.disk.power_loss()
        else:
            self.disk.crash()
        self.open()


producers = st.integers(0, 4)
actions = st.one_of(
    st.tuples(st.just("write"), producers, st.integers(1, 6), st.sampled_from([2, 10, 200])),
    st.tuples(st.just("end"), st.integers(3, 4), st.booleans()),
    st.tuples(st.just("pass"), st.sampled_from([1000, 5000, 100_000])),
    st.tuples(st.just("clean")),
    st.tuples(st.just("restart"), st.booleans()),
)


def apply(driver: Driver, action: tuple[object, ...]) -> None:
    kind, *rest = action
    if kind == "write":
        driver.write(*rest)  # type: ignore[arg-type]  # as drawn
    elif kind == "end":
        producer, commit = rest
        driver.end_transaction(int(str(producer)), commit=bool(commit))
    elif kind == "pass":
        driver.now_ms += int(str(rest[0]))
    elif kind == "clean":
        driver.clean()
    elif rest[0]:
        driver.manager.close()
        driver.open()
    else:
        driver.die_and_return()


@settings(max_examples=80, deadline=None)
@given(st.lists(actions, min_size=20, max_size=100), st.integers(0, 2**32))
def test_every_reader_sees_the_latest_state(plan: list[tuple[object, ...]], seed: int) -> None:
    driver = Driver(seed)
    for action in plan:
        apply(driver, action)
        driver.check()
    driver.now_ms += 100_000
    driver.clean()
    driver.check()


writes = st.lists(st.tuples(producers, st.integers(1, 6), st.sampled_from([2, 10])), min_size=10, max_size=40)


def filled(plan: list[tuple[int, int, int]], seed: int) -> Driver:
    driver = Driver(seed)
    for at, (producer, count, keys) in enumerate(plan):
        driver.write(producer, count, keys)
        if producer > 2 and at % 3:
            driver.end_transaction(producer, commit=at % 2 == 0)
    for producer in list(driver.model.open):
        driver.end_transaction(producer, commit=False)
    driver.log.roll()
    driver.now_ms += 2000
    return driver


@settings(max_examples=25, deadline=None)
@given(writes, st.integers(0, 2**32), st.booleans())
def test_a_crash_at_any_operation_of_a_cleaning_harms_nothing(
    plan: list[tuple[int, int, int]], seed: int, power_loss: bool
) -> None:
    whole = filled(plan, seed)
    before = whole.disk.changes
    whole.clean()
    changes = whole.disk.changes - before
    assert whole.manager.cleaner.cleanings >= 1
    for die_after in sorted(Random(seed).sample(range(changes), min(changes, 12))):
        driver = filled(plan, seed)
        if power_loss:
            driver.log.flush()
        driver.disk.die_after = die_after
        try:
            driver.clean()
        except ProcessDiedError:
            pass
        driver.die_and_return(power_loss=power_loss)
        driver.check(cut_short=True)
        assert not [name for name in names(driver.log, driver.disk) if name.endswith((".cleaned", ".swap"))]
        driver.now_ms += 100_000
        driver.clean()
        driver.check()


def names(log: UnifiedLog, disk: MemoryFileSystem) -> list[str]:
    return [entry.name for entry in disk.list_directory(log.directory)]
