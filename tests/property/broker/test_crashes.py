"""The broker dies at any write, or the disk fails, as often as it likes: an idempotent producer that retries loses
nothing, doubles nothing, and every topic that was acknowledged is there."""

from __future__ import annotations

import errno
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas import errors
from barnabas.broker.log.memory_filesystem import ProcessDiedError
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce

SEGMENTS = {"log.segment.bytes": 1 << 20, "log.roll.ms": 50}


class Life:
    """A broker that is started again whenever it dies, and the client that goes on."""

    def __init__(self, seed: int, lives: list[int] | None = None) -> None:
        self.lives = lives or []
        self.random = random.Random(seed)
        self.broker = CoreBroker(SEGMENTS)
        self.client = self.broker.connect()
        self.deaths = 0

    def request(self, message: Any, version: int) -> Any:
        """The response, however many brokers it takes."""
        while True:
            try:
                answer = self.client.request(message, version)
            except ProcessDiedError:
                self.deaths += 1
                self.start_again()
                continue
            if answer is not None:
                return answer

    def start_again(self) -> None:
        while True:
            try:
                filesystem = self.broker.filesystem_after_crash()
                filesystem.die_after = self.lives.pop() if self.lives else None
                self.broker = CoreBroker(SEGMENTS, filesystem, self.broker.store, seed=self.deaths)
                self.client: CoreClient = self.broker.connect()
                return
            except ProcessDiedError:
                self.deaths += 1

    def stored(self, topic: str) -> list[bytes | None]:
        values: list[bytes | None] = []
        while True:
            partition = self.request(fetch(topic, len(values)), 12).responses[0].partitions[0]
            found = [record for stored in read_batches(partition.records) for record in stored]
            if not found:
                return values
            values += [record.value for record in found if record.offset >= len(values)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_death_at_any_write(seed: int, lives: list[int]) -> None:
    life = Life(seed, lives)
    assert life.request(create("t"), 7).topics[0].error_code in (0, errors.TopicExistsError.code)
    for number in range(60):
        if lives and life.broker.filesystem.die_after is None:
            life.broker.filesystem.die_after = lives.pop()
        records = batch(b"%d" % number, producer=(7, 0, number), now_ms=life.broker.now_ms)
        answer = life.request(produce("t", records), 12).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, number)
        if number % 7 == 0:
            try:
                life.broker.advance(0.06)
            except ProcessDiedError:
                life.deaths += 1
                life.start_again()
    lives.clear()
    life.broker.filesystem.die_after = None
    assert life.stored("t") == [b"%d" % number for number in range(60)]
    assert [topic.name for topic in life.request(MetadataRequest(topics=None), 12).topics] == ["t"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.05, 0.5))
def test_a_disk_that_fails_now_and_then(seed: int, share: float) -> None:
    life = Life(seed)
    life.request(create("t"), 7)
    life.request(produce("t", batch(b"0", producer=(7, 0, 0))), 12)

    def fail(operation: str, path: str) -> OSError | None:
        ours = path.startswith("/data/t-0") and operation == "write"
        return OSError(errno.ENOSPC, "No space left on device", path) if ours and life.random.random() < share else None

    refused = 0
    for number in range(1, 40):
        records = batch(b"%d" % number, producer=(7, 0, number))
        while True:
            life.broker.filesystem.fail = fail
            answer = life.request(produce("t", records), 12).responses[0].partition_responses[0]
            life.broker.filesystem.fail = None
            if answer.error_code == 0:
                break
            assert answer.error_code == errors.KafkaStorageError.code
            refused += 1
            if refused % 5 == 0:
                life.start_again()
        assert answer.base_offset == number
    assert life.stored("t") == [b"%d" % number for number in range(40)]
