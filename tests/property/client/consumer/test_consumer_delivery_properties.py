"""Through any sequence of a user's calls every record is delivered, in order, and none that was not asked for."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas import TopicPartition
from tests.support.scripted_cluster import ScriptedCluster

PARTITIONS = [TopicPartition("t", number) for number in range(2)]

STEP = st.one_of(
    st.tuples(st.just("poll"), st.integers(1, 5)),
    st.tuples(st.just("iterate"), st.integers(1, 5)),
    st.tuples(st.just("seek"), st.sampled_from(PARTITIONS), st.integers(0, 12)),
    st.tuples(st.just("pause"), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("resume"), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("append"), st.sampled_from(PARTITIONS), st.integers(1, 4)),
    st.tuples(st.just("arrow")),
)


class Reader:
    """A consumer, and the position that it must have in each partition."""

    def __init__(self) -> None:
        self.cluster = ScriptedCluster()
        for partition in PARTITIONS:
            self.append(partition, 4)
            self.append(partition, 3)
        self.consumer = self.cluster.consumer(auto_offset_reset="earliest", group_id="g", enable_auto_commit=False)
        self.consumer.assign(PARTITIONS)
        self.expected = dict.fromkeys(PARTITIONS, 0)
        self.paused: set[TopicPartition] = set()

    def append(self, partition: TopicPartition, count: int) -> None:
        log = self.cluster.logs.get(partition, [])
        start = log[-1][1] if log else 0
        self.cluster.append("t", partition.partition, *(b"%d" % (start + number) for number in range(count)))

    def end(self, partition: TopicPartition) -> int:
        return self.cluster.logs[partition][-1][1]

    def take(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        assert partition not in self.paused
        assert offset == self.expected[partition]
        assert value == b"%d" % offset
        self.expected[partition] = offset + 1

    def do(self, step: tuple[object, ...]) -> None:
        kind, *arguments = step
        getattr(self, f"do_{kind}")(*arguments)
        for partition, offset in self.expected.items():
            assert self.consumer.position(partition) == offset

    def do_poll(self, max_records: int) -> None:
        for record in self.consumer.poll(0.3, max_records):
            self.take(TopicPartition(record.topic, record.partition), record.offset, record.value)

    def do_iterate(self, count: int) -> None:
        if all(self.expected[p] >= self.end(p) for p in PARTITIONS if p not in self.paused):
            return
        left = sum(self.end(p) - self.expected[p] for p in PARTITIONS if p not in self.paused)
        for number, record in enumerate(self.consumer, 1):
            self.take(TopicPartition(record.topic, record.partition), record.offset, record.value)
            if number == min(count, left):
                break

    def do_arrow(self) -> None:
        batch = self.consumer.poll_arrow(0.3)
        for row in batch.to_pylist() if batch is not None else ():
            self.take(TopicPartition(row["topic"], row["partition"]), row["offset"], row["value"])

    def do_seek(self, partition: TopicPartition, offset: int) -> None:
        offset = min(offset, self.end(partition))
        self.consumer.seek(partition, offset)
        self.expected[partition] = offset

    def do_pause(self, partition: TopicPartition) -> None:
        self.consumer.pause(partition)
        self.paused.add(partition)

    def do_resume(self, partition: TopicPartition) -> None:
        self.consumer.resume(partition)
        self.paused.discard(partition)

    def do_append(self, partition: TopicPartition, count: int) -> None:
        self.append(partition, count)


@settings(max_examples=80, deadline=None)
@example(steps=[("iterate", 2), ("pause", PARTITIONS[0]), ("pause", PARTITIONS[1]), ("iterate", 2)])
@example(steps=[("iterate", 2), ("pause", PARTITIONS[0]), ("iterate", 9), ("resume", PARTITIONS[0]), ("iterate", 9)])
@given(steps=st.lists(STEP, max_size=25))
def test_every_record_is_delivered_once_for_each_time_its_offset_is_passed(steps: list[tuple[object, ...]]) -> None:
    reader = Reader()

    for step in steps:
        reader.do(step)
    for partition in PARTITIONS:
        reader.do(("resume", partition))
    for _ in range(100):
        reader.do(("poll", 10))
        if all(reader.expected[partition] == reader.end(partition) for partition in PARTITIONS):
            break

    assert reader.expected == {partition: reader.end(partition) for partition in PARTITIONS}
    reader.consumer.commit()
    assert {p: found[0] for p, found in reader.cluster.committed.items()} == reader.expected
