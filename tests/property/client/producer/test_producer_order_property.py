"""Whatever network and broker do: order per partition, each record completed once, no duplicate, memory back."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas import errors
from barnabas.records import read_batches
from tests.unit.client.producer.harness import TOPIC, Harness, produce_response

PARTITIONS = 3
OUT_OF_ORDER, DUPLICATE_WINDOW, TOO_LARGE, NOT_LEADER = 45, 5, 10, 6


class Stored(NamedTuple):
    """What a log knows of a batch: whose it is, its numbers, and where its records are."""

    producer: tuple[int, int]
    first_sequence: int
    last_sequence: int
    offset: int


class Log:
    """One partition as a broker keeps it: checks sequence numbers as Kafka does, remembers the last five batches."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.batches: list[Stored] = []
        #: What a loss of power took.
        self.lost: set[bytes] = set()

    def append(self, batch: Any, max_records: int) -> tuple[int, int]:
        """Error code and base offset."""
        producer, last = (batch.producer_id, batch.producer_epoch), batch.base_sequence + batch.record_count - 1
        # A broker that has no state of any producer takes any number, as Kafka's does.
        expected = 0 if self.batches else batch.base_sequence
        if self.batches and self.batches[-1].producer == producer:
            for known in self.batches[-DUPLICATE_WINDOW:]:
                if known[:3] == (producer, batch.base_sequence, last):
                    return 0, known.offset
            expected = self.batches[-1].last_sequence + 1
        if batch.record_count > max_records:
            return TOO_LARGE, -1
        if batch.base_sequence != expected:
            return OUT_OF_ORDER, -1
        offset = len(self.values)
        self.values += [record.value for record in batch]
        self.batches.append(Stored(producer, batch.base_sequence, last, offset))
        return 0, offset

    def lose(self, kept: int) -> None:
        """Keep so many of the batches, and know only what they tell of their producers."""
        end = self.batches[kept].offset if kept < len(self.batches) else len(self.values)
        self.lost.update(self.values[end:])
        del self.values[end:], self.batches[kept:]


class ProducerAgainstFaults(RuleBasedStateMachine):
    """Requests are answered, refused, or lost before or after the broker stored them, in any mixture."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.WARNING)
        self.harness = Harness(
            partitions=PARTITIONS,
            batch_size=150,
            linger_ms=5,
            request_timeout_ms=30_000,
            delivery_timeout_ms=10_000_000,
        )
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.completed: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.futures: list[tuple[int, bytes, Any]] = []
        self.max_records = 1000

    @rule(partition=st.integers(0, PARTITIONS - 1), size=st.integers(0, 120))
    def send(self, partition: int, size: int) -> None:
        value = b"%d:" % len(self.sent[partition]) + b"x" * size

        def on_delivery(_: object, error: object) -> None:
            assert error is None
            self.completed[partition].append(value)

        self.futures.append((partition, value, self.harness.send(value, partition, on_delivery=on_delivery)))
        self.sent[partition].append(value)

    @rule(seconds=st.sampled_from([0.0, 0.005, 0.15]))
    def turn(self, seconds: float) -> None:
        self.harness.turn(seconds, times=3)

    @precondition(lambda self: self.harness.waiting())
    @rule()
    def answer(self) -> None:
        request = self.harness.waiting()[0]
        response = produce_response(request)
        self._store(request, response)
        self.harness.selector.respond(1, response)
        self.harness.turn()

    def _store(self, request: Any, response: Any) -> None:
        for asked, told in zip(request.topic_data, response.responses, strict=True):
            for data, answer in zip(asked.partition_data, told.partition_responses, strict=True):
                (batch,) = read_batches(data.records)
                answer.error_code, answer.base_offset = self.logs[data.index].append(batch, self.max_records)

    @precondition(lambda self: self.harness.waiting())
    @rule()
    def refuse(self) -> None:
        self.harness.respond(NOT_LEADER)

    @precondition(lambda self: self.harness.waiting())
    @rule(stored=st.integers(0, 5))
    def lose_the_connection(self, stored: int) -> None:
        for request in self.harness.waiting()[:stored]:
            self._store(request, produce_response(request))
        self.harness.selector.break_connection(1)
        self.harness.turn()

    @rule(records=st.sampled_from([1, 2, 1000]))
    def broker_takes_other_sizes(self, records: int) -> None:
        self.max_records = records

    @invariant()
    def nothing_is_out_of_order_or_twice(self) -> None:
        for log, sent, completed in zip(self.logs, self.sent, self.completed, strict=True):
            assert log.values == sent[: len(log.values)]
            assert completed == sent[: len(completed)]
            assert len(completed) <= len(log.values)

    def teardown(self) -> None:
        logging.disable(logging.NOTSET)
        for _ in range(400):
            if not self.harness.accumulator.has_incomplete():
                break
            self.harness.turn(0.2, times=3)
            while self.harness.waiting():
                self.answer()
        assert self.completed == self.sent
        assert self.harness.pool.available_memory == self.harness.pool.total_memory
        assert not self.harness.accumulator.has_undrained()
        assert errors.for_code(NOT_LEADER).retriable
        self.check_stored()

    def check_stored(self) -> None:
        assert [log.values for log in self.logs] == self.sent
        for partition, value, future in self.futures:
            metadata = future.result(0)
            assert (metadata.topic, metadata.partition) == (TOPIC, partition)
            if metadata.offset >= 0:
                assert self.logs[partition].values[metadata.offset] == value


class ProducerAgainstLossOfPower(ProducerAgainstFaults):
    """The broker also loses its power, with ends of its logs and all that it knew from them of the producer."""

    @rule(kept=st.lists(st.integers(0, 3), min_size=PARTITIONS, max_size=PARTITIONS))
    def lose_the_power(self, kept: list[int]) -> None:
        self.harness.selector.break_connection(1)
        for log, batches in zip(self.logs, kept, strict=True):
            log.lose(batches)
        # Several batches of a partition are ready when the broker is back: what it answers to each decides their order.
        for partition in (0, 0, 0):
            self.send(partition, 120)
        self.harness.turn(0.15, times=12)

    @invariant()
    def nothing_is_out_of_order_or_twice(self) -> None:
        for log, sent, completed in zip(self.logs, self.sent, self.completed, strict=True):
            numbers = [int(value.partition(b":")[0]) for value in log.values]
            assert numbers == sorted(set(numbers))
            assert completed == sent[: len(completed)]
            assert log.lost.union(log.values).issuperset(completed)

    def check_stored(self) -> None:
        for log, sent in zip(self.logs, self.sent, strict=True):
            assert log.lost.union(log.values) == set(sent)


_EXAMPLES = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestProducerAgainstFaults = ProducerAgainstFaults.TestCase
TestProducerAgainstFaults.settings = _EXAMPLES
TestProducerAgainstLossOfPower = ProducerAgainstLossOfPower.TestCase
TestProducerAgainstLossOfPower.settings = _EXAMPLES
